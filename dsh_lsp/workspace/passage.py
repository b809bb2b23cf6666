"""Passage: from one version of a text to a later one: where hunks are there, and what became of those that were sent.

Rules: a hunk conflicts only when its own lines changed; whether it landed is judged by the text that stands there;
what is worked out for one hunk serves the next, for a formatter may change a whole document in which hundreds wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise, starmap

from dsh_lsp.workspace.edits import Hunk, applied, ended, standing
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span, line_end_of, same_lines, with_line_ending


@dataclass(frozen=True, slots=True)
class Landed:
    """The hunk's new text stands at `span`."""

    span: Span


@dataclass(frozen=True, slots=True)
class Absent:
    """The hunk is not applied; it would go to `hunk.span` now."""

    hunk: Hunk


@dataclass(frozen=True, slots=True)
class Touched:
    """The hunk's own lines hold something else now."""


Verdict = Landed | Absent | Touched

NEAR_LINES = 100  # on either side of a hunk, where a change may be what it proposed


class Passage:
    """The passage from `before` to `after`: by `changes`, one after the other, where they are known."""

    def __init__(self, before: Rope, after: Rope, changes: Sequence[Change] | None = None) -> None:
        self.before = before
        self.after = after
        self.changes = changes

    def follow(self, hunk: Hunk) -> Hunk | None:
        """The hunk in the text after; None if its own lines changed.

        A change that covers the hunk's lines may have left them as they were; one that cuts them has done so only if
        they end or begin where they did. Each is looked at alone: in what several leave behind, another line with the
        same text could be taken for the one that is gone.
        """
        if self.changes is None:
            return self._whole.follow(hunk)
        if (there := moved(hunk, self.changes, self.after)) is not None:
            return there
        place = hunk
        for change, step in zip(self.changes, self._steps, strict=True):
            covers = change.span.start <= place.span.start and place.span.end <= change.span.end
            there = moved(place, [change], step.after) or (
                step.follow(place) if covers else _uncut(place, change, step.after)
            )
            if there is None:
                return None
            place = there
        return place

    def leaves_out(self, hunk: Hunk) -> Hunk | None:
        """Where lines to be put in would go after, if no change looks as if it had put them in; else None."""
        there: Hunk | None = hunk if not hunk.old and line_end_of(hunk.new) else None
        for step in self.steps:
            for change in step.changes or ():
                if there is not None and _may_put_in(there, change, step.before):
                    return None
            there = there and step.follow(there)
        return there

    @property
    def steps(self) -> list[Passage]:
        """The passages of the changes, one after the other."""
        if self.changes is None or len(self.changes) == 1:
            return [self]
        return [
            Passage(step.before, step.after, [change]) for change, step in zip(self.changes, self._steps, strict=True)
        ]

    @cached_property
    def _whole(self) -> _Comparison:
        return _Comparison(self.before, self.after)

    @cached_property
    def _steps(self) -> list[_Comparison]:
        texts = accumulate(self.changes or (), Rope.changed, initial=self.before)
        return list(starmap(_Comparison, pairwise(texts)))


def moved(hunk: Hunk, changes: Sequence[Change], after: Rope) -> Hunk | None:
    """The hunk after changes elsewhere, in the text after all of them; None if one touched the hunk's lines."""
    span = hunk.span
    for change in changes:
        if change.span == span and span.start == span.end:  # typed where lines are to be put in: its line stays below
            span = span.shifted(len(change.text) - len(_begun_line(change.text)))
        elif change.span.end <= span.start:
            span = span.shifted(change.growth)
        elif change.span.start < span.end:
            return None
    starts_line = span.start == 0 or after[span.start - 1] in "\r\n"
    ends_line = hunk.old.endswith(("\r", "\n")) or not hunk.old or span.end == len(after)
    return replace(hunk, span=span) if starts_line and ends_line else None


def _may_put_in(hunk: Hunk, change: Change, before: Rope) -> bool:
    """Whether a change may be what puts lines in at a place, or just before the line end above it.

    What is typed into a line beside the place is not, nor is a line that is opened there.
    """
    reaches = change.span.start <= hunk.span.start <= change.span.end + len("\r\n")
    taken = before[change.span.start : change.span.end]
    if not reaches or not any(end in text for end in "\r\n" for text in (taken, change.text)):
        return False
    return bool(taken or change.text.strip() or not hunk.new.strip())


def _begun_line(text: str) -> str:
    """What a text has of a line that it does not end."""
    return text[max(text.rfind("\n"), text.rfind("\r")) + 1 :]


def _uncut(hunk: Hunk, change: Change, after: Rope) -> Hunk | None:
    """The hunk after a change that began or ended within its lines, if these read as before."""
    there = Span(
        change.span.start, change.span.start + len(change.text)
    )  # what is new; the rest must be the hunk's own
    tail = hunk.span.shifted(change.growth)
    kept = [hunk.span] if hunk.span.start < there.start and hunk.span.end <= there.end else []
    kept += [tail] if change.span.end < hunk.span.end and tail.start >= there.start else []
    for place in kept:
        starts_line = place.start == 0 or (place.start > 0 and after[place.start - 1] in "\r\n")
        ends_line = hunk.old.endswith(("\r", "\n")) or place.end == len(after)
        if starts_line and ends_line and after[place.start : place.end] == hunk.old:
            return replace(hunk, span=place)
    return None


def judge(before: Rope, hunks: Sequence[Hunk], after: Rope) -> dict[str, Verdict]:
    """What became of hunks of `before`, in order, in `after`, which may hold some of them and changes elsewhere.

    Where repeated lines allow both readings, the one that leaves less to explain is right. Editors give what they
    insert the line ends of their buffer: a hunk whose lines stand there with other ends has landed.
    """
    comparison = _Comparison(before, after)
    verdicts = comparison.judge(hunks)
    unclear = [h for h in hunks if isinstance(verdicts[h.id], Touched) and not same_lines(h.old, h.new)]
    if unclear and (before.has_returns or after.has_returns or any("\r" in hunk.new for hunk in unclear)):
        plain = comparison.plain.judge([_plain(hunk, before) for hunk in hunks])
        for hunk in unclear:
            if isinstance(verdict := plain[hunk.id], Landed):
                verdicts[hunk.id] = Landed(_translated(verdict.span, after.plain, after))
    return verdicts


def judge_unsent(before: Rope, hunks: Sequence[Hunk], after: Rope) -> dict[str, Verdict]:
    """As `judge`, of hunks that nobody has been sent: what came in beside a place for lines cannot be those lines."""
    verdicts, changes = judge(before, hunks, after), before.line_changes(after)
    for hunk in hunks:
        match verdicts[hunk.id]:
            case Absent(there):
                verdicts[hunk.id] = Absent(ended(there, after))
            case Touched() if not hunk.old and (span := _between(hunk.span.start, changes, after)) is not None:
                verdicts[hunk.id] = Absent(ended(replace(hunk, span=span), after))
            case _:
                pass
    return verdicts


class _Comparison:
    """Two texts by their lines alone."""

    def __init__(self, before: Rope, after: Rope) -> None:
        self.before = before
        self.after = after

    @cached_property
    def changes(self) -> list[Change]:
        return self.before.line_changes(self.after)

    @cached_property
    def plain(self) -> _Comparison:
        r"""The same texts with `\n` alone."""
        before, after = self.before.plain, self.after.plain
        is_plain = before is self.before and after is self.after
        return self if is_plain else _Comparison(before, after)

    def follow(self, hunk: Hunk) -> Hunk | None:
        """The hunk after, if its lines were left as they were, whatever their ends."""
        if (there := self.left(hunk)) is not None or self.plain is self:
            return there
        there = self.plain.left(_plain(hunk, self.before))
        return there and standing(hunk, self.after, _translated(there.span, self.plain.after, self.after))

    def left(self, hunk: Hunk) -> Hunk | None:
        """The hunk after, if its lines were left as they were, to the character; if it has none, between others."""
        home = _kept_at(hunk.span, self.changes)
        place = home or (_between(hunk.span.start, self.changes, self.after) if not hunk.old else None)
        if place is None:
            return None
        start, near = self._near(hunk.span)
        verdict = near.judge([replace(hunk, span=hunk.span.shifted(-start))])[hunk.id]
        expected = Touched if home is None else Absent
        return replace(hunk, span=place) if isinstance(verdict, expected) else None

    def _near(self, span: Span) -> tuple[int, _Comparison]:
        """The lines around a place that was kept, and where they begin: what differs far away tells nothing of it."""
        line, last = (self.before.place_at(offset)[0] for offset in (span.start, span.end))
        low = self.before.offset_at((max(line - NEAR_LINES, 0), 0))
        high = min(self.before.offset_at((last + NEAR_LINES, 0)), len(self.before))
        shift = growth = 0
        for change in self.changes:
            if change.span.start < low:
                low, shift = max(low, change.span.end), shift + change.growth
            elif change.span.end <= high:
                growth += change.growth
            else:
                high = min(high, change.span.start)
                break
        texts = self.before[low:high], self.after[low + shift : high + shift + growth]
        return low, _Comparison(*map(Rope.of, texts))

    def judge(self, hunks: Sequence[Hunk]) -> dict[str, Verdict]:
        """What became of hunks, in order."""
        with_all = applied(self.before, hunks).line_changes(self.after)
        likely = _weight(with_all) < _weight(self.changes)
        verdicts: dict[str, Verdict] = {}
        growth = 0
        for hunk in hunks:
            start = hunk.span.start + growth
            growth += len(hunk.new) - len(hunk.old)
            place = _kept_at(Span(start, start + len(hunk.new)), with_all)
            home = _kept_at(hunk.span, self.changes)
            if place is not None and (home is None or likely):
                verdicts[hunk.id] = Landed(place)
            elif home is not None:
                verdicts[hunk.id] = Absent(replace(hunk, span=home))
            else:
                verdicts[hunk.id] = Touched()
        return verdicts


def _weight(changes: Sequence[Change]) -> int:
    return sum(len(change.text) + change.span.end - change.span.start for change in changes)


def _kept_at(place: Span, changes: Sequence[Change]) -> Span | None:
    """Where a place is after changes to whole lines; None if they touched it.

    An empty place is touched by what happens exactly there: an undone deletion looks like that.
    """
    empty = place.start == place.end
    growth = 0
    for change in changes:
        if change.span.end < place.start or (change.span.end == place.start and not empty):
            growth += change.growth
        elif change.span.start < place.end or (change.span.start == place.end and empty):
            return None
    return place.shifted(growth)


def _between(place: int, changes: Sequence[Change], after: Rope) -> Span | None:
    """Where a place between two lines is after changes that left one of them; what came in there stays above it."""
    growth = 0
    for change in changes:
        if change.span.end <= place:
            growth += change.growth
        elif change.span.start < place:
            return None
    there = place + growth
    return Span(there, there) if there == 0 or after[there - 1] in "\r\n" else None


def _plain(hunk: Hunk, text: Rope) -> Hunk:
    """A hunk of a text as one of the same text in plain line ends."""
    return Hunk(
        id=hunk.id,
        span=_translated(hunk.span, text, text.plain),
        old=with_line_ending(hunk.old, "\n"),
        new=with_line_ending(hunk.new, "\n"),
    )


def _translated(span: Span, text: Rope, other: Rope) -> Span:
    """A span of whole lines in a text with the same lines."""
    return Span(other.offset_at(text.place_at(span.start)), other.offset_at(text.place_at(span.end)))
