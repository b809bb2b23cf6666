"""Coverage: every numbered line of `docs/loop.md` has a test, and every numbered test a line."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPECTED = {*range(1, 75), *range(116, 147), *range(201, 212)}


def numbers(pattern: str, text: str) -> list[int]:
    return [int(number) for number in re.findall(pattern, text, re.MULTILINE)]


def in_the_page() -> list[int]:
    return numbers(r"^- \*\*L(\d{3})\*\* ", (ROOT / "docs" / "loop.md").read_text())


def in_tests() -> set[int]:
    files = sorted((ROOT / "tests" / "contract").glob("test_*_lines.py"))
    return {number for file in files for number in numbers(r"^(?:async )?def test_[lL](\d{3})_", file.read_text())}


def test_the_lines_are_numbered_once_and_complete() -> None:
    assert [number for number, times in Counter(in_the_page()).items() if times > 1] == []
    assert set(in_the_page()) == EXPECTED


def test_no_line_is_without_a_test_and_no_test_without_a_line() -> None:
    assert in_tests() == set(in_the_page())


def test_every_test_of_a_line_says_which() -> None:
    for file in (ROOT / "tests" / "contract").glob("test_*_lines.py"):
        nameless = [
            name for name in re.findall(r"def (test_\w+)", file.read_text()) if not re.match(r"test_l\d{3}_", name)
        ]
        assert not nameless, f"{file.name}: {nameless}"
