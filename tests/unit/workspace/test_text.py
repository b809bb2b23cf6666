"""Text: laws of lines and changes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import difference, is_saved, split_lines, with_line_ending

# Rich in what goes wrong: all LSP line ends, separators that are none, an astral character, repeated lines.
ALPHABET = "ab \n\r\x0c\x85\u2028é\U0001f600"
repeated = st.lists(st.sampled_from(["x\n", "y\n", "\r\n", "z"]), max_size=12).map("".join)
texts = st.text(ALPHABET, max_size=40) | repeated


@given(texts)
def test_lines_joined_are_the_text_and_end_only_where_lsp_says(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert all(line for line in lines)
    for line in lines[:-1]:
        assert re.fullmatch(r"[^\r\n]*(\r\n|\n|\r)", line)


@given(texts, texts)
def test_the_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    change = difference(before, after)
    assert change.apply(before) == after
    if before == after:
        assert change.span.start == change.span.end
        assert change.text == ""


@given(texts, st.sampled_from(["\n", "\r\n", "\r"]))
def test_changed_line_ends_are_all_of_one_kind(text: str, end: str) -> None:
    changed = with_line_ending(text, end)
    assert with_line_ending(changed, "\n") == with_line_ending(text, "\n")
    assert Rope.of(changed).line_ending in (end, "\n")


@pytest.mark.parametrize(("text", "end"), [("", "\n"), ("a", "\n"), ("a\r\nb\n\r\n", "\r\n"), ("a\rb", "\r")])
def test_the_line_ending_is_the_one_used_most(text: str, end: str) -> None:
    assert Rope.of(text).line_ending == end


@pytest.mark.parametrize(
    ("held", "saved", "apart", "same"),
    [
        ("a\n", "a\n", False, True),
        ("a\n", "b\n", True, False),
        ("a\n", None, True, False),
        ("a\nb\n", "a\r\nb\r\n", True, True),
        ("a\nb\n", "a\r\nb\r\n", False, False),
        ("a\nb\n", "a\r\nb\n", True, False),
        ("a\r\nb\n", "a\r\nb\r\n", True, False),
    ],
)
def test_an_editor_that_keeps_line_ends_apart_holds_what_is_saved(held, saved, apart, same) -> None:
    assert is_saved(held, saved, line_ends_apart=apart) is same
