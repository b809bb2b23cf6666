"""Edits: hunks move with typing, conflict only on their own lines, and land by what the text shows."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dsh_lsp.workspace.edits import (
    Absent,
    FileEdit,
    Hunk,
    Landed,
    Snapshot,
    Touched,
    Verdict,
    applied,
    ended,
    followed,
    judge,
    minimal,
    moved,
    plan_hunks,
    with_text,
)
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span


def hunks_of(before: str, after: str) -> list[Hunk]:
    ids = count()
    base = Snapshot(uri="file:///a", path="a", rope=Rope.of(before))
    return plan_hunks(FileEdit(path="a", base=base, new=Rope.of(after)), lambda: f"h{next(ids)}")


def verdicts(before: str, hunks: list[Hunk], after: str) -> dict[str, Verdict]:
    return judge(Rope.of(before), hunks, Rope.of(after))


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


@given(lines, lines)
def test_hunks_that_were_applied_have_landed_and_those_that_were_not_are_absent(before: str, after: str) -> None:
    hunks = hunks_of(before, after)
    assume(hunks)
    assert all(isinstance(verdict, Landed) for verdict in verdicts(before, hunks, after).values())
    assert all(isinstance(verdict, Absent) for verdict in verdicts(before, hunks, before).values())


BEFORE = "one\ntwo\nthree\nfour\nfive\n"


def one(old: str, new: str) -> Hunk:
    start = BEFORE.index(old)
    return Hunk(id="h", span=Span(start, start + len(old)), old=old, new=new)


THREE = one("three\n", "3\n")


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ("one\ntwo\n3\nfour\nfive\n", Landed(Span(8, 10))),
        ("zero\none\ntwo\n3\nfour\nfive\nsix\n", Landed(Span(13, 15))),
        ("one\n2\n3\nfour\n", Landed(Span(6, 8))),
        ("zero\none\ntwo\nthree\nfour\nfive\n", Absent),
        ("one\ntwo!\nthree\nfour\nfive\n", Absent),
        ("one\ntwo\nthree!\nfour\nfive\n", Touched()),
        ("", Touched()),
    ],
    ids=["exact", "with typing around", "with typing beside", "not there, moved", "not there", "own line", "emptied"],
)
def test_the_text_decides_what_became_of_a_hunk(after: str, verdict: object) -> None:
    found = verdicts(BEFORE, [THREE], after)["h"]
    if verdict is Absent:
        assert isinstance(found, Absent)
        assert after[found.hunk.span.start : found.hunk.span.end] == "three\n"
    else:
        assert found == verdict


def test_of_several_hunks_those_that_an_editor_left_out_are_absent() -> None:
    first, second = one("two\n", "2\n"), one("five\n", "5\n")
    second = Hunk(id="h2", span=second.span, old=second.old, new=second.new)
    found = verdicts(BEFORE, [first, second], "one\n2\nthree\nfour\nfive\n")
    assert isinstance(found["h"], Landed)
    assert isinstance(found["h2"], Absent)


def test_a_deletion_lands_when_its_lines_are_gone_and_not_when_they_are_there() -> None:
    deletion = one("three\n", "")
    assert isinstance(verdicts(BEFORE, [deletion], "zero\none\ntwo\nfour\nfive\n")["h"], Landed)
    assert isinstance(verdicts(BEFORE, [deletion], "zero\n" + BEFORE)["h"], Absent)


def test_an_insertion_lands_when_its_text_stands_there_and_not_before() -> None:
    insertion = Hunk(id="h", span=Span(8, 8), old="", new="2.5\n")
    assert isinstance(verdicts(BEFORE, [insertion], "zero\none\ntwo\n2.5\nthree\nfour\nfive\n")["h"], Landed)
    assert isinstance(verdicts(BEFORE, [insertion], "zero\n" + BEFORE)["h"], Absent)


typed = st.builds(
    lambda start, length, text: Change(Span(start, min(start + length, len(BEFORE))), text),
    st.integers(0, len(BEFORE)),
    st.integers(0, 6),
    st.text("ab\n", max_size=5),
)


@given(typed)
def test_a_hunk_moves_exactly_when_its_own_lines_still_stand_whole(change: Change) -> None:
    after = change.apply(BEFORE)
    hunk = moved(THREE, [change], Rope.of(after))
    if hunk is not None:
        assert after[hunk.span.start : hunk.span.end] == "three\n"
        assert hunk.span.start == 0 or after[hunk.span.start - 1] == "\n"
    elif not (change.span.start < THREE.span.end and change.span.end > THREE.span.start):
        assert "\nthree\n" not in "\n" + after, "typing beside the hunk was taken for a conflict"


@pytest.mark.parametrize("at", [4, 8])
def test_another_line_with_the_same_text_is_not_the_place_of_a_line_that_is_gone(at: int) -> None:
    gone = Change(THREE.span, "")
    typed_elsewhere = Change(Span(at, at), "zero\nthree\n")
    after = typed_elsewhere.apply(gone.apply(BEFORE))
    assert followed(THREE, Rope.of(BEFORE), Rope.of(after), [gone, typed_elsewhere]) is None


def test_a_change_of_the_whole_text_that_leaves_a_line_as_it_was_leaves_the_hunk_too() -> None:
    whole = Change(Span(0, len(BEFORE)), "zero\n" + BEFORE)
    hunk = followed(THREE, Rope.of(BEFORE), Rope.of("zero\n" + BEFORE), [whole])
    assert hunk is not None
    assert hunk.span.start == THREE.span.start + len("zero\n")


@given(typed)
def test_typing_is_never_taken_for_the_edit(change: Change) -> None:
    after = change.apply(BEFORE)
    assume("\n3\n" not in after)
    assert not isinstance(verdicts(BEFORE, [THREE], after)["h"], Landed)


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
    assert with_text(one("three\n", own), typed).new == text


def test_a_new_file_is_one_hunk() -> None:
    edit = FileEdit(path="a", base=None, new=Rope.of("x\n"))
    assert [(hunk.old, hunk.new) for hunk in plan_hunks(edit, lambda: "h")] == [("", "x\n")]
    assert edit.kind == "create"


def test_a_change_that_takes_a_part_of_the_hunks_lines_leaves_no_other_place_for_them() -> None:
    text = Rope.of("a\n" * 5)
    hunk = Hunk(id="h", span=Span(4, 8), old="a\na\n", new="b\n")
    for change in (Change(Span(6, 10), ""), Change(Span(2, 6), "")):
        assert followed(hunk, text, text.changed(change), [change]) is None


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
