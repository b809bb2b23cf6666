"""Edits: two texts cut into hunks of whole lines, and what a person puts in the place of one."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.workspace.edits import (
    FileEdit,
    Hunk,
    Snapshot,
    applied,
    ended,
    minimal,
    plan_hunks,
    with_text,
)
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span


def hunks_of(before: str, after: str) -> list[Hunk]:
    ids = count()
    base = Snapshot(uri="file:///a", path="a", rope=Rope.of(before))
    return plan_hunks(FileEdit(path="a", base=base, new=Rope.of(after)), lambda: f"h{next(ids)}")


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "d\n", "\n", "é\n"]), max_size=10).map("".join)


@given(lines, lines)
def test_all_hunks_applied_give_the_new_text(before: str, after: str) -> None:
    hunks = hunks_of(before, after)
    assert str(applied(Rope.of(before), hunks)) == after
    for hunk in hunks:
        assert before[hunk.span.start : hunk.span.end] == hunk.old


@given(lines, lines)
def test_the_smallest_changes_give_the_same_text(before: str, after: str) -> None:
    hunks = hunks_of(before, after)
    text = before
    for hunk in reversed(hunks):
        text = minimal(hunk).apply(text)
    assert text == after


def test_the_smallest_change_never_parts_a_line_end() -> None:
    hunk = Hunk(id="h", span=Span(0, 3), old="a\r\n", new="a\n")
    assert minimal(hunk) == Change(Span(0, 3), "a\n")


@pytest.mark.parametrize(
    ("own", "typed", "text"),
    [
        ("3\n", "4", "4\n"),
        ("3\r\n", "4\r\n5", "4\r\n5\r\n"),
        ("3\n", "4\n", "4\n"),
        ("3\n", "", ""),
        ("", "4", "4\n"),
        ("3", "4", "4"),
    ],
)
def test_other_text_stays_on_lines_of_its_own(own: str, typed: str, text: str) -> None:
    assert with_text(Hunk(id="h", span=Span(0, 6), old="three\n", new=own), typed).new == text


def test_a_new_file_is_one_hunk() -> None:
    edit = FileEdit(path="a", base=None, new=Rope.of("x\n"))
    assert [(hunk.old, hunk.new) for hunk in plan_hunks(edit, lambda: "h")] == [("", "x\n")]
    assert edit.kind == "create"


@pytest.mark.parametrize(
    ("text", "place", "new", "put"),
    [
        ("a\nb\n", (2, 4), "B", "B"),  # nothing follows: the last line may stay without an end
        ("a\nb\nmine", (2, 4), "B", "B\n"),
        ("a\r\nb\r\nmine", (3, 6), "B", "B\r\n"),
        ("a\nmine", (2, 2), "B", "B\n"),
        ("a\n", (2, 2), "B", "B"),
        ("a", (1, 1), "B", "\nB"),
        ("a\nb\nmine", (2, 4), "", ""),
        ("", (0, 0), "B", "B"),
    ],
)
def test_a_hunk_stays_in_lines_of_its_own(text: str, place: tuple[int, int], new: str, put: str) -> None:
    hunk = Hunk(id="h", span=Span(*place), old=text[slice(*place)], new=new)
    assert ended(hunk, Rope.of(text)).new == put
