"""Passage: hunks move with typing, conflict only on their own lines, and land by what the text shows."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dsh_lsp.workspace.edits import Hunk
from dsh_lsp.workspace.passage import Absent, Landed, Passage, Touched, Verdict, judge, moved
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span
from tests.unit.workspace.test_edits import hunks_of, lines


def verdicts(before: str, hunks: list[Hunk], after: str) -> dict[str, Verdict]:
    return judge(Rope.of(before), hunks, Rope.of(after))


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


INSERTION = Hunk(id="h", span=Span(8, 8), old="", new="2.5\n")


@given(typed)
def test_an_insertion_moves_unless_the_lines_beside_it_became_one(change: Change) -> None:
    after = change.apply(BEFORE)
    hunk = moved(INSERTION, [change], Rope.of(after))
    if hunk is not None:
        assert hunk.span.start == 0 or after[hunk.span.start - 1] == "\n"
    else:
        assert change.span.start < INSERTION.span.start <= change.span.end


@pytest.mark.parametrize(
    ("typed", "place"), [("x", 8), ("    ", 8), ("x\n", 10), ("x\ny", 10), ("\n", 9), ("x\ry\r\n", 13)]
)
def test_what_is_typed_where_lines_are_to_be_put_in_is_no_conflict(typed: str, place: int) -> None:
    change = Change(INSERTION.span, typed)
    before = Rope.of(BEFORE)
    hunk = Passage(before, before.changed(change), [change]).follow(INSERTION)
    assert hunk is not None
    assert hunk.span == Span(place, place)


@pytest.mark.parametrize(
    ("after", "place"),
    [
        ("one\ntwo\nTHREE\nfour\nfive\n", 8),
        ("one\nTWO!\nthree\nfour\nfive\n", 9),
        ("one\ntwo\nother\nthree\nfour\nfive\n", 14),
        ("one\ntwo\nfour\nfive\n", 8),
        ("zero\none\nthree\nfour\n", 9),
        ("one\ntwo\nTHREE", 8),
        ("one\r\ntwo\r\nTHREE\r\nfour\r\nfive\r\n", 10),
        ("one\nTWO\nTHREE\nfour\nfive\n", None),
        ("", None),
        ("one\ntwo\n2.5\nTHREE\nfour\nfive\n", None),
    ],
    ids=["below", "above", "between", "below gone", "above gone", "unended", "ends", "both", "all", "made already"],
)
def test_a_text_that_kept_a_line_beside_an_insertion_has_a_place_for_it(after: str, place: int | None) -> None:
    there = Passage(Rope.of(BEFORE), Rope.of(after)).follow(INSERTION)
    assert (there and there.span) == (None if place is None else Span(place, place))
    assert isinstance(verdicts(BEFORE, [INSERTION], after)["h"], Landed if "2.5" in after else Touched)


@pytest.mark.parametrize(
    ("start", "end", "text", "place"),
    [
        (7, 7, "x", 9),
        (8, 8, "x", 8),
        (8, 13, "THREE", 8),
        (7, 7, "\n    ", 13),
        (0, 0, "2.5\n", 12),
        (2, 6, "x", None),
        (8, 8, "2.5\n", None),
        (8, 8, "2.5 and more\n", None),
        (7, 7, "\n2.5", None),
        (0, 24, "one\ntwo\n2.5!\nthree\nfour\nfive\n", None),
    ],
)
def test_lines_that_a_change_may_have_put_in_are_not_called_left_out(start, end, text, place) -> None:
    change = Change(Span(start, end), text)
    before = Rope.of(BEFORE)
    there = Passage(before, before.changed(change), [change]).leaves_out(INSERTION)
    assert (there and there.span) == (None if place is None else Span(place, place))


@pytest.mark.parametrize("at", [4, 8])
def test_another_line_with_the_same_text_is_not_the_place_of_a_line_that_is_gone(at: int) -> None:
    gone = Change(THREE.span, "")
    typed_elsewhere = Change(Span(at, at), "zero\nthree\n")
    after = typed_elsewhere.apply(gone.apply(BEFORE))
    assert Passage(Rope.of(BEFORE), Rope.of(after), [gone, typed_elsewhere]).follow(THREE) is None


def test_a_change_of_the_whole_text_that_leaves_a_line_as_it_was_leaves_the_hunk_too() -> None:
    whole = Change(Span(0, len(BEFORE)), "zero\n" + BEFORE)
    hunk = Passage(Rope.of(BEFORE), Rope.of("zero\n" + BEFORE), [whole]).follow(THREE)
    assert hunk is not None
    assert hunk.span.start == THREE.span.start + len("zero\n")


@given(typed)
def test_typing_is_never_taken_for_the_edit(change: Change) -> None:
    after = change.apply(BEFORE)
    assume("\n3\n" not in after)
    assert not isinstance(verdicts(BEFORE, [THREE], after)["h"], Landed)


def test_a_change_that_takes_a_part_of_the_hunks_lines_leaves_no_other_place_for_them() -> None:
    text = Rope.of("a\n" * 5)
    hunk = Hunk(id="h", span=Span(4, 8), old="a\na\n", new="b\n")
    for change in (Change(Span(6, 10), ""), Change(Span(2, 6), "")):
        assert Passage(text, text.changed(change), [change]).follow(hunk) is None


def test_a_formatter_that_changes_a_long_document_everywhere_leaves_the_hunks_whose_lines_it_left() -> None:
    chance = random.Random(1)
    before = [f"line {number}\n" for number in range(3000)]
    after = list(before)
    for _ in range(120):
        at = chance.randrange(len(after))
        after[at : at + chance.randrange(3)] = [f"other {chance.random()}\n"] * chance.randrange(3)
    old, new = Rope.of("".join(before)), Rope.of("".join(after))
    passage = Passage(old, new, [Change(Span(0, len(old)), str(new))])
    for number in range(0, 3000, 29):
        start, line = old.offset_at((number, 0)), before[number]
        there = passage.follow(Hunk(id="h", span=Span(start, start + len(line)), old=line, new="new\n"))
        assert (there is not None) == (line in after)
        assert there is None or new[there.span.start : there.span.end] == line


@pytest.mark.parametrize("far", [1, 300], ids=["short", "long"])
def test_a_deletion_that_the_user_has_made_among_equal_lines_is_not_made_again(far: int) -> None:
    around = "".join(f"{number}\n" for number in range(far))
    text = Rope.of(around + "x\nx\n" + around)
    hunk = Hunk(id="h", span=Span(len(around), len(around) + 2), old="x\n", new="")
    after = Rope.of("first\n" + around + "x\n" + around + "last\n")
    whole = Change(Span(0, len(text)), str(after))
    assert Passage(text, after, [whole]).follow(hunk) is None
    assert Passage(text, after).follow(hunk) is None


@given(lines, lines, lines)
def test_a_hunk_follows_by_what_is_near_it_as_by_the_whole(before: str, after: str, proposed: str) -> None:
    old, new = Rope.of(before), Rope.of(after)
    for hunk in hunks_of(before, proposed):
        there = Passage(old, new).follow(hunk)
        if isinstance(judge(old, [hunk], new)[hunk.id], Absent):
            assert there is not None
            assert str(new)[there.span.start : there.span.end] == hunk.old
