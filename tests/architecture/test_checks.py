"""Checks: every file of tests runs in one, so that none is written and never run; what is tried again is named."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.__main__ import CHECKS, MAX_RETRIED, PYTEST, Check, run

ROOT = Path(__file__).parents[2]
BY_HAND = "tests/local/"  # needs a model of its own, and is named as not run
OF_OTHERS = "node_modules"
FILES = sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if OF_OTHERS not in path.parts
)


def files_of(check: Check) -> set[str]:
    """The files of tests that a check runs: those it names, and those in the folders it names."""
    ignored = {name for option, name in pairwise(check.arguments) if option == "--ignore"}
    places = {name for name in check.arguments if name.startswith("tests/")} - ignored
    covered = {name for place in places for name in FILES if name == place or name.startswith(f"{place}/")}
    return covered - ignored


def test_every_file_of_tests_runs_in_a_check() -> None:
    covered = set().union(*(files_of(check) for check in CHECKS))
    assert [name for name in FILES if name not in covered and not name.startswith(BY_HAND)] == []


def test_every_file_and_folder_that_a_check_names_exists() -> None:
    named = {name for check in CHECKS for name in check.arguments if name.startswith("tests/")}
    assert {name for name in named if not (ROOT / name).exists()} == set()


TRIED = """
import pathlib, pytest

@pytest.mark.parametrize("name", range({count}))
def test(name):
    tries = pathlib.Path(f"tries-{{name}}")
    tries.write_text((tries.read_text() if tries.exists() else "") + "x")
    assert len(tries.read_text()) >= {passes_at}
"""


@pytest.mark.parametrize(
    ("drives_editor", "count", "passes_at", "code", "flaky", "tries"),
    [
        pytest.param(True, 1, 2, 0, ("test_it.py::test[0]",), 2, id="what passes then is named"),
        pytest.param(True, 1, 3, 1, (), 2, id="there is no third try"),
        pytest.param(True, MAX_RETRIED + 1, 2, 1, (), 1, id="many failures are no chance"),
        pytest.param(False, 1, 2, 1, (), 1, id="our own clock makes no failure"),
    ],
)
def test_a_test_of_an_editor_that_fails_is_tried_once_more(
    tmp_path: Path, drives_editor: bool, count: int, passes_at: int, code: int, flaky: tuple[str, ...], tries: int
) -> None:
    (tmp_path / "test_it.py").write_text(TRIED.format(count=count, passes_at=passes_at))
    long_gone = tmp_path / ".pytest_cache/v/cache/lastfailed"
    long_gone.parent.mkdir(parents=True)
    long_gone.write_text(json.dumps({f"test_it.py::test_{number}": True for number in range(MAX_RETRIED)}))
    bare = (("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"),)  # which starts in a fifth of the time
    result = run(Check("it", (*PYTEST, "test_it.py"), drives_editor=drives_editor, env=bare), tmp_path)
    assert (result.code, result.flaky) == (code, flaky)
    assert ("second try" in str(result), "flaky" in str(result)) == (bool(flaky), bool(flaky))
    assert len((tmp_path / "tries-0").read_text()) == tries
