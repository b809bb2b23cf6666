"""Globs: braces are several globs, within bounds, and no glob takes long."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatchcase
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.globs import MAX_GLOBS, expanded, fitting


@pytest.mark.parametrize(
    ("glob", "several"),
    [
        ("a/{b,c}.{x,y}", ["a/b.x", "a/b.y", "a/c.x", "a/c.y"]),
        ("{a,{b,c}}d", ["ad", "bd", "cd"]),
        ("{a}{,b}", ["a", "ab"]),
        ("plain", ["plain"]),
    ],
)
def test_a_glob_with_braces_is_several(glob: str, several: list[str]) -> None:
    assert sorted(expanded(glob)) == sorted(several)


@pytest.mark.parametrize("glob", ["{a,b}" * 9, "{a,b}" * 200, "{" + "a," * MAX_GLOBS + "b}"])
def test_braces_that_make_too_many_globs_are_refused(glob: str) -> None:
    with pytest.raises(ToolError, match=r"more than|longer than"):
        expanded(glob)
    assert len(expanded("{a,b}" * 8)) == MAX_GLOBS


@given(st.text(alphabet="ab*?", max_size=12), st.text(alphabet="ab", max_size=14))
def test_names_fit_as_the_standard_library_has_it(glob: str, name: str) -> None:
    if glob and name:
        assert fitting(glob)(f"x/{name}") == fnmatchcase(name, glob)


def fits_slowly(glob: str, path: str) -> bool:
    """Whether a path fits a glob with `/` in it: the definition, every split tried."""

    @cache
    def rest(i: int, j: int) -> bool:
        starts = i == 0 or glob[i - 1] == "/"
        if starts and glob.startswith("**/", i):
            return rest(i + 3, j) or any(path[k] == "/" and rest(i + 3, k + 1) for k in range(j, len(path)))
        if starts and i and glob[i:] == "**":
            return j < len(path)
        if i == len(glob):
            return j == len(path)
        if glob[i] == "*":
            return rest(i + 1, j) or (j < len(path) and path[j] != "/" and rest(i, j + 1))
        if j == len(path) or (glob[i] == "?" and path[j] == "/"):
            return False
        return glob[i] in ("?", path[j]) and rest(i + 1, j + 1)

    return rest(0, 0)


@given(
    st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "*a*b", "?", "ab*a", "*a?b*"]), min_size=2, max_size=6),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=6),
)
def test_paths_fit_as_by_trying_every_split(folders: list[str], names: list[str]) -> None:
    glob, path = "/".join(folders), "/".join(names)
    assert fitting(glob)(path) == fits_slowly(glob, path)


LONG = [
    ("*a" * 40 + "b", "a" * 200 + ".py"),
    ("**/*a" * 12 + "/b", "/".join(["a" * 20] * 12) + "c"),
    ("**/" * 60 + "b", "a/" * 200 + "c"),
    ("*a*/" * 30 + "b", ("a" * 60 + "/") * 30 + "c"),
    ("[a]*" * 40 + "b", "a" * 200),
    ("?*" * 40 + "b", "a" * 200),
]


@pytest.mark.parametrize(("glob", "path"), LONG)
def test_no_glob_takes_for_ever(glob: str, path: str) -> None:
    words = [sys.executable, "-c", "import sys; from dsh_lsp.workspace.globs import fitting"]
    words[-1] += "; print(fitting(sys.argv[1])(sys.argv[2]))"
    done = subprocess.run([*words, glob, path], capture_output=True, timeout=20, check=True, text=True)
    assert done.stdout.strip() == "False"
