"""Checks: every file of tests runs in one, so that none is written and never run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tests.__main__ import CHECKS, Check

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
