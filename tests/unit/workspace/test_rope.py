"""Rope: every version is the text that plain strings give, and versions share what did not change."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.workspace import rope as module
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span, count_line_ends, occurrences, split_lines, with_line_ending

# Rich in what goes wrong: all LSP line ends, separators that are none, an astral character, repeated lines.
ALPHABET = "ab \n\r\x0c\x85\u2028é\U0001f600"
repeated = st.lists(st.sampled_from(["x\n", "y\n", "\r\n", "z"]), max_size=12).map("".join)
texts = st.text(ALPHABET, max_size=40) | repeated
edits = st.tuples(st.integers(0, 50), st.integers(0, 12), texts)


@pytest.fixture(params=[1, 3, 1024], autouse=True)
def chunk_lines(request, monkeypatch) -> int:
    """Small chunks, so that short texts have edges too."""
    monkeypatch.setattr(module, "CHUNK_LINES", request.param)
    return request.param


def within(plain: str, start: int, length: int, new: str) -> Change:
    """A change that a text can have: no position lies between the two halves of a line end."""
    first = min(start, len(plain))
    first -= plain[first - 1 : first + 1] == "\r\n"
    end = min(len(plain), first + length)
    end += plain[end - 1 : end + 1] == "\r\n"
    return Change(Span(first, end), new)


def versions(text: str, changes: list[tuple[int, int, str]]) -> list[tuple[Rope, str]]:
    """A text and what becomes of it, as ropes and as plain strings."""
    found = [(Rope.of(text), text)]
    for edit in changes:
        rope, plain = found[-1]
        change = within(plain, *edit)
        found.append((rope.changed(change), change.apply(plain)))
    return found


@settings(max_examples=200)
@given(texts, st.lists(edits, max_size=8))
def test_every_version_is_the_plain_text(text: str, changes: list[tuple[int, int, str]]) -> None:
    for rope, plain in versions(text, changes):
        assert list(rope.lines()) == split_lines(plain)
        assert rope[0 : len(plain)] == plain, "before the whole text was asked for"
        assert (str(rope), len(rope), rope.line_count) == (plain, len(plain), len(split_lines(plain)))
        assert rope == Rope.of(plain)


@given(texts, st.lists(edits, max_size=4), texts, st.data())
def test_what_a_text_holds_is_found_as_in_the_plain_one(text: str, changes, other: str, data: st.DataObject) -> None:
    rope, plain = versions(text, changes)[-1]
    start = data.draw(st.integers(0, len(plain)))
    for piece in ("", "a", "\n", other, plain, plain[start : start + data.draw(st.integers(1, 12))]):
        assert list(rope.occurrences(piece)) == list(occurrences(plain, piece))
        assert [rope.has(piece), rope.has(piece)] == [piece in plain] * 2, "asked again, too"
    for same in (plain, other, plain + "a", plain[:start] + "b" + plain[start + 1 :]):
        assert rope.is_text(same) == (plain == same)


@given(texts, st.lists(edits, max_size=4), texts, st.data())
def test_a_digest_is_that_of_the_text_however_it_came_to_be(text: str, changes, other: str, data) -> None:
    rope, plain = versions(text, changes)[-1]
    assert rope.digest == Rope.of(plain).digest
    assert (rope.digest == Rope.of(other).digest) == (plain == other)
    swapped = data.draw(st.permutations(list(plain)).map("".join))
    assert (rope.digest == Rope.of(swapped).digest) == (plain == swapped)


def test_no_two_places_of_a_text_count_the_same() -> None:
    lines = [f"line {number}\n" for number in range(3000)]
    swapped = [lines[1], lines[0], *lines[2:]], [lines[-1], *lines[1:-1], lines[0]], ["\0", *lines], [*lines, "\0"]
    assert len({Rope.of("".join(some)).digest for some in (lines, *swapped)}) == 5


@given(texts, st.lists(st.tuples(edits, st.booleans()), max_size=8))
def test_a_version_counts_line_ends_whether_or_not_the_one_before_did(text: str, changes) -> None:
    rope, plain = Rope.of(text), text
    for change, ask in [*changes, (None, True)]:
        if ask:
            assert rope.line_ends == count_line_ends(plain)
            assert rope.has_returns == ("\r" in plain)
            assert str(rope.plain) == with_line_ending(plain, "\n")
            assert (rope.plain is rope) == ("\r" not in plain)
        if change is not None:
            where = within(plain, *change)
            rope, plain = rope.changed(where), where.apply(plain)


@given(texts, st.lists(edits, max_size=4))
def test_places_and_offsets_lead_to_each_other(text: str, changes: list[tuple[int, int, str]]) -> None:
    rope, plain = versions(text, changes)[-1]
    lines = split_lines(plain)
    for offset in range(len(plain) + 1):
        line, column = rope.place_at(offset)
        assert rope.offset_at((line, column)) == offset == sum(map(len, lines[:line])) + column
        assert rope[offset] == plain[offset : offset + 1]
        assert rope[0:offset] + rope[offset : len(plain)] == plain


@given(texts, st.lists(edits, max_size=4), texts)
def test_changes_lead_from_one_version_to_any_other(text: str, changes: list[tuple[int, int, str]], other) -> None:
    (first, before), *_, (last, after) = [*versions(text, changes), (Rope.of(other), other)]
    related = versions(text, changes)[-1]
    for there, target in ((last, after), related):
        text = before
        assert first.difference(there).apply(before) == target
        steps = first.line_changes(there)
        for earlier, later in pairwise(steps):
            assert earlier.span.end < later.span.start, "changes that touch are one"
        for step in reversed(steps):
            text = step.apply(text)
        assert text == target
        assert (first == there) == (not steps)


def test_a_change_makes_only_the_chunks_where_it_happened(chunk_lines: int) -> None:
    rope = Rope.of("".join(f"line {n}\n" for n in range(50 * chunk_lines)))
    after = rope.replaced((20 * chunk_lines, 0), (20 * chunk_lines, 4), "LINE")
    new = [chunk for chunk in after.chunks if chunk not in rope.chunks]
    assert sum(len(chunk.lines) for chunk in new) <= 2 * chunk_lines + 1
    assert [change.text for change in rope.line_changes(after)] == [f"LINE {20 * chunk_lines}\n"]


def test_chunks_stay_of_a_size_whatever_is_taken_away(chunk_lines: int) -> None:
    rope = Rope.of("x\n" * (40 * chunk_lines))
    while rope.line_count > chunk_lines:
        at = rope.line_count // 3
        rope = rope.replaced((at, 0), (at + max(1, chunk_lines // 3), 0), "")
        assert len(rope.chunks) <= 8 + 8 * rope.line_count // chunk_lines
