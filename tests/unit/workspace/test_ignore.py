"""Ignore: what git would ignore is ignored, with git itself as the judge."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsh_lsp.workspace.ignore import ignores, read_patterns, translate, walk
from dsh_lsp.workspace.walk import ignored, list_folder


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def listed(root: Path) -> list[str]:
    return [path for path, kept in walk(root) if kept]


NAMES = ["a", "b", "c.py", "d.log", "build", "x y", "é"]
PATTERNS = [
    *(
        "*.log",
        "build/",
        "/a",
        "a/b",
        "**/b",
        "a/**",
        "!c.py",
        "!build/",
        "*",
        "!*/",
        "?",
        "[ab]",
        "[!a]",
        "b/**/c.py",
        "*.*",
        "*l*d*",
        "**/a/**/*.p*",
        "a*/*b*/?",
    ),
    *("#x", "\\#x", "\\!x", "x\\ y", "d.* ", "/**/b", "a/", "é"),
]


def random_tree(root: Path, seed: int) -> None:
    source = random.Random(seed)
    for _ in range(40):
        parts = [source.choice(NAMES) for _ in range(source.randint(1, 4))]
        folder = root.joinpath(*parts[:-1])
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / parts[-1]).write_text("x")
            if source.random() < 0.3:
                (folder / ".gitignore").write_text("\n".join(source.sample(PATTERNS, source.randint(1, 4))) + "\n")
        except OSError:
            continue  # a file stands where a folder would be
    (root / ".gitignore").write_text("\n".join(source.sample(PATTERNS, 5)) + "\n")


@pytest.mark.parametrize("seed", range(25))
def test_a_folder_without_a_repository_is_walked_as_git_would(seed: int, tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    random_tree(root, seed)
    plain = sorted(listed(root))
    files = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    told = {path for path in files if ignores(root, path)}
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    said = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-coz", "--exclude-standard"], capture_output=True, check=True
    ).stdout.decode()
    wanted = sorted(name for name in said.split("\0") if name)
    assert plain == wanted
    assert sorted(set(files) - told) == wanted
    assert ignored(root, root, files) == told, "git's own answer is the same"


SETS = [
    *(
        "[[:alpha:]]",
        "[![:alpha:]]",
        "[[:digit:]a]",
        "[[:punct:]]",
        "[[:space:]]b",
        "[[:nothing:]]",
        "[[:alpha]",
        "[[:]",
    ),
    *(
        "[]a]",
        "[!]a]",
        "[\\]]",
        "[\\\\]",
        "[\\-]",
        "[a-]",
        "[-a]",
        "[a-c-e]",
        "[b-a]",
        "[!b-a]",
        "[a\\-c]",
        "[+--]",
        "[^^]",
    ),
    *("[[]", "[*]", "[?]", "[a/]", "[!a", "[", "[]", "[!]", "***/b", "/***/b", "d/***", "d/***/b", "d***", "***"),
]


def test_sets_of_characters_and_runs_of_stars_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    root = tmp_path / "w"
    names = [
        "a",
        "b",
        "c",
        "e",
        "1",
        "]",
        "[",
        "\\",
        "-",
        "^",
        "!",
        "*",
        "~",
        ",",
        "+",
        " b",
        "[]",
        "[!]",
        "[!a",
        "d/b",
        "d/e/b",
    ]
    write(root, dict.fromkeys(names, ""))
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for pattern in SETS:
        write(root, {".gitignore": f"{pattern}\n"})
        said = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-oz", "--exclude-standard"], capture_output=True, check=True
        ).stdout.decode()
        assert {name for name in (*names, ".gitignore") if not ignores(root, name)} == {*said.split("\0")} - {""}, (
            pattern
        )


def test_the_listing_is_the_same_with_and_without_a_repository(tmp_path: Path) -> None:
    files = {".gitignore": "*.log\n", "a.py": "", "b.log": "", "d/c.py": "", "node_modules/x.js": ""}
    write(tmp_path / "w", files)
    root = tmp_path / "w"
    plain = [entry.path for entry in list_folder(root, root, limit=9).entries]
    assert plain == [".gitignore", "a.py", "d/c.py"]
    limited = list_folder(root, root, limit=2)
    assert (len(limited.entries), limited.truncated) == (2, True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    assert [entry.path for entry in list_folder(root, root, limit=9).entries] == [*plain, "node_modules/x.js"]
    assert [entry.path for entry in list_folder(root, root / "d", limit=9).entries] == ["d/c.py"]


def test_links_are_listed_and_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"w/a.py": "", "out/secret.py": ""})
    (tmp_path / "w" / "link").symlink_to(tmp_path / "out")
    assert sorted(listed(tmp_path / "w")) == ["a.py", "link"]


@given(st.text(alphabet="ab/*?[]!^\\#. -&~|é\n", max_size=30))
@example("[?--]")
def test_any_text_is_a_list_of_patterns(text: str) -> None:
    for pattern in read_patterns(text):
        pattern.matches("a/b.c")
    translate(text)


@pytest.mark.parametrize("line", ["*a" * 40 + "b", "**/" * 60 + "*a*a*a*b", "[" * 5_000, "a" * 100_000, "\\"])
def test_no_line_of_an_ignore_file_takes_for_ever(tmp_path: Path, line: str) -> None:
    root = tmp_path / "w"
    write(root, {".gitignore": f"{line}\n*.log\n", "a" * 200: "", "a.log": "", "/".join("abc" * 20): ""})
    say = "import sys; from pathlib import Path; from dsh_lsp.workspace.ignore import walk"
    say += "; print(*(path for path, kept in walk(Path(sys.argv[1])) if kept))"
    done = subprocess.run(
        [sys.executable, "-c", say, str(root)], capture_output=True, timeout=20, check=True, text=True
    )
    assert done.stdout.split() == [".gitignore", "/".join("abc" * 20), "a" * 200]
