r"""Rope: an immutable text of lines whose versions share what they have in common.

A text is a row of chunks of whole lines. A change makes new chunks where it happened and takes over the others, so
it costs what it changes, and two versions differ at most in the chunks that they do not share.

Rules: a line ends at `\n`, `\r\n` or `\r` and nothing else; no chunk is empty or stands in a rope twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import overload

from dsh_lsp.workspace.diff import differing_blocks
from dsh_lsp.workspace.text import (
    Change,
    Span,
    count_line_ends,
    difference,
    most_used,
    occurrences,
    split_lines,
    with_line_ending,
)

CHUNK_LINES = 1024  # a chunk holds up to twice as many, and hardly less than a quarter, but for the last one
DIGEST_PRIME = (1 << 60) - 3677  # a safe one, so that no two bytes of a text that change places go unseen

Place = tuple[int, int]  # a line and code points in it


class _Chunk:
    """Some whole lines."""

    __slots__ = ("_digest", "_ends", "_lacks", "_plain", "_starts", "_text", "lines", "size")

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.size = sum(map(len, lines))
        self._starts: list[int] | None = None
        self._text: str | None = None
        self._ends: Counter[str] | None = None
        self._plain: _Chunk | None = None
        self._digest: tuple[int, int] | None = None
        self._lacks: set[str] = set()

    def has(self, word: str) -> bool:
        """Whether a word stands in the chunk, which is read once for each that does not."""
        if word not in self._lacks and word not in self.text:
            self._lacks.add(word)
        return word not in self._lacks

    @property
    def plain(self) -> _Chunk:
        r"""The same lines, all ending in `\n`."""
        if self._plain is None:
            odd = self.ends["\r\n"] or self.ends["\r"]
            self._plain = _Chunk([with_line_ending(line, "\n") for line in self.lines]) if odd else self
        return self._plain

    @property
    def text(self) -> str:
        """The lines as one text."""
        if self._text is None:
            self._text = "".join(self.lines)
        return self._text

    @property
    def ends(self) -> Counter[str]:
        """How often each line end occurs."""
        if self._ends is None:
            self._ends = count_line_ends(self.text)
        return self._ends

    @property
    def digest(self) -> tuple[int, int]:
        """What the text's bytes are as one number, and what a number before them is multiplied by; both reduced."""
        if self._digest is None:
            data = self.text.encode("utf-8", "surrogatepass")
            self._digest = int.from_bytes(data) % DIGEST_PRIME, pow(256, len(data), DIGEST_PRIME)
        return self._digest

    @property
    def starts(self) -> list[int]:
        """Where each line begins, counted from the chunk's first."""
        if self._starts is None:
            self._starts = [0, *accumulate(map(len, self.lines))]
        return self._starts


class Rope:
    """One version of a text. Versions are equal when their characters are."""

    __slots__ = ("_counts", "_ends", "_ends_before", "_first_lines", "_offsets", "_sizes", "_text", "chunks")
    __hash__ = None  # type: ignore[assignment]  # equal by what may be a long comparison

    def __init__(self, chunks: list[_Chunk], sizes: list[int], counts: list[int]) -> None:
        self.chunks = chunks
        self._sizes = sizes
        self._counts = counts
        self._offsets = list(accumulate(sizes, initial=0))
        self._first_lines = list(accumulate(counts, initial=0))
        self._text: str | None = None
        self._ends: Counter[str] | None = None
        self._ends_before: tuple[Counter[str], list[_Chunk], list[_Chunk]] | None = None  # chunks that went, and came

    @classmethod
    def of(cls, text: str) -> Rope:
        """Make the first version of a text."""
        return cls(*_chunked(split_lines(text)))

    def __len__(self) -> int:
        return self._offsets[-1]

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(chunk.text for chunk in self.chunks)
        return self._text

    def __repr__(self) -> str:
        return f"Rope({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rope):
            return NotImplemented
        if self is other:
            return True
        return len(self) == len(other) and all(
            _joined(self.chunks[i1:i2]) == _joined(other.chunks[j1:j2])
            for i1, i2, j1, j2 in _unshared(self.chunks, other.chunks)
        )

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: slice[int, int, None]) -> str: ...
    def __getitem__(self, key: int | slice[int, int, None]) -> str:
        """Code points of the text, by offsets from its start."""
        if isinstance(key, int):
            return self[key : key + 1]
        if self._text is not None:
            return self._text[key]
        start, end = max(key.start, 0), min(key.stop, len(self))
        if start >= end:
            return ""
        first, last = bisect_right(self._offsets, start) - 1, bisect_right(self._offsets, end - 1) - 1
        at = self._offsets[first]
        return _joined(self.chunks[first : last + 1])[start - at : end - at]

    def is_text(self, text: str) -> bool:
        """Whether these are the characters of this version."""
        return len(self) == len(text) and all(
            text.startswith(chunk.text, at) for chunk, at in zip(self.chunks, self._offsets, strict=False)
        )

    def occurrences(self, piece: str) -> Iterator[int]:
        """Where a piece stands, overlapping ones included; an empty one stands at the start."""
        if not piece:
            yield 0
            return
        reach = len(piece) - 1 if _may_cross(piece) else 0
        for index, (chunk, at) in enumerate(zip(self.chunks, self._offsets, strict=False)):
            yield from (at + found for found in occurrences(chunk.text, piece))
            head = chunk.text[-reach:] if reach else ""
            across = head + self._start_of(index + 1, reach)
            yield from (at + chunk.size - len(head) + found for found in occurrences(across, piece))

    def has(self, piece: str) -> bool:
        """Whether a piece stands in the text. For few pieces: each chunk keeps those that it lacks."""
        in_one = piece != "" and not _may_cross(piece)
        return any(chunk.has(piece) for chunk in self.chunks) if in_one else next(self.occurrences(piece), -1) >= 0

    def _start_of(self, index: int, size: int) -> str:
        """Up to so many characters from the start of a chunk on."""
        parts = []
        while size > 0 and index < len(self.chunks):
            parts.append(self.chunks[index].text[:size])
            size -= len(parts[-1])
            index += 1
        return "".join(parts)

    @property
    def digest(self) -> str:
        """What tells one text from another, however it came to be; no defence against who looks for an equal one.

        It is the remainder of the text's bytes, read as one number, so that it is made of those of the chunks.
        """
        total = 1
        for value, factor in (chunk.digest for chunk in self.chunks):
            total = (total * factor + value) % DIGEST_PRIME
        return f"{total:015x}"

    # -- lines -----------------------------------------------------------------------------------------------

    @property
    def line_count(self) -> int:
        """How many lines there are; what follows the last line end counts if it is not empty."""
        return self._first_lines[-1]

    def lines(self, first: int = 0, last: int | None = None) -> Iterator[str]:
        """The lines from `first` up to `last`, with their ends."""
        last = self.line_count if last is None else min(last, self.line_count)
        while first < last:
            index = self._chunk_of_line(first)
            at = self._first_lines[index]
            yield from self.chunks[index].lines[first - at : last - at]
            first = self._first_lines[index + 1]

    @property
    def line_ending(self) -> str:
        r"""The line end that is used most; `\n` where there is none."""
        return most_used(self.line_ends)

    @property
    def line_ends(self) -> Counter[str]:
        """How often each line end occurs."""
        if self._ends is None:
            before, gone, new = self._ends_before or (Counter[str](), [], self.chunks)
            self._ends = before + _line_ends(new) - _line_ends(gone)
        return self._ends

    @property
    def has_lone_returns(self) -> bool:
        r"""Whether a line ends in `\r` alone."""
        return self.line_ends["\r"] > 0

    @property
    def has_returns(self) -> bool:
        r"""Whether there is a line end that is not `\n`."""
        return self.line_ends["\r\n"] > 0 or self.has_lone_returns

    @property
    def plain(self) -> Rope:
        r"""The same lines, all ending in `\n`; versions share what they had in common."""
        if not self.has_returns:
            return self
        chunks = [chunk.plain for chunk in self.chunks]
        return Rope(chunks, [chunk.size for chunk in chunks], self._counts)

    def line(self, number: int) -> str:
        """One line with its end."""
        index = self._chunk_of_line(number)
        return self.chunks[index].lines[number - self._first_lines[index]]

    def offset_at(self, place: Place) -> int:
        """Code points before a place."""
        line, column = place
        if line >= self.line_count:
            return len(self) + column
        index = self._chunk_of_line(line)
        return self._offsets[index] + self.chunks[index].starts[line - self._first_lines[index]] + column

    def place_at(self, offset: int) -> Place:
        """The place of an offset; the end of a text that ends in a line end is the start of one more line."""
        if offset >= len(self):
            return self.end
        index = bisect_right(self._offsets, offset) - 1
        starts = self.chunks[index].starts
        inside = offset - self._offsets[index]
        line = bisect_right(starts, inside) - 1
        return self._first_lines[index] + line, inside - starts[line]

    @property
    def end(self) -> Place:
        """The place after the last character."""
        count = self.line_count
        if not count:
            return 0, 0
        last = self.line(count - 1)
        return (count, 0) if last.endswith(("\n", "\r")) else (count - 1, len(last))

    # -- other versions --------------------------------------------------------------------------------------

    def changed(self, change: Change) -> Rope:
        """The version after a change."""
        return self.replaced(self.place_at(change.span.start), self.place_at(change.span.end), change.text)

    def replaced(self, start: Place, end: Place, text: str) -> Rope:
        """The version with `text` between two places of this one."""
        count = self.line_count
        first, last = start[0], min(end[0] + 1, count)
        head = self.line(first)[: start[1]] if first < count else ""
        tail = self.line(end[0])[end[1] :] if end[0] < count else ""
        middle = head + text + tail
        # `\r` at an edge may join a `\n` beyond it, and a line without its end joins the next one.
        if first and not head and (before := self.line(first - 1)).endswith("\r"):
            first -= 1
            middle = before + middle
        if last < count and not middle.endswith("\n"):
            middle += self.line(last)
            last += 1
        return self._spliced(first, last, split_lines(middle))

    def _spliced(self, first: int, last: int, lines: Sequence[str]) -> Rope:
        """The version with other lines in the place of some."""
        if not self.chunks:
            return Rope(*_chunked(lines))
        low = min(self._chunk_of_line(first), len(self.chunks) - 1)
        high = low if last <= first else self._chunk_of_line(last - 1)
        head = self.chunks[low].lines[: first - self._first_lines[low]]
        tail = self.chunks[high].lines[last - self._first_lines[high] :]
        there = [*head, *lines, *tail]
        if len(there) < CHUNK_LINES // 4:  # too small to stand alone
            if high + 1 < len(self.chunks):
                high += 1
                there += self.chunks[high].lines
            elif low:
                low -= 1
                there = [*self.chunks[low].lines, *there]
        chunks, sizes, counts = _chunked(there)
        after = Rope(
            [*self.chunks[:low], *chunks, *self.chunks[high + 1 :]],
            [*self._sizes[:low], *sizes, *self._sizes[high + 1 :]],
            [*self._counts[:low], *counts, *self._counts[high + 1 :]],
        )
        if self._ends is not None:
            after._ends_before = self._ends, self.chunks[low : high + 1], chunks
        return after

    def _chunk_of_line(self, number: int) -> int:
        return bisect_right(self._first_lines, number) - 1

    # -- what differs ----------------------------------------------------------------------------------------

    def difference(self, after: Rope) -> Change:
        """The smallest single change that leads to another version; empty when they are equal."""
        gaps = _unshared(self.chunks, after.chunks)
        if not gaps:
            return Change(Span(0, 0), "")
        (i1, _, j1, _), (_, i2, _, j2) = gaps[0], gaps[-1]
        change = difference(_joined(self.chunks[i1:i2]), _joined(after.chunks[j1:j2]))
        return Change(change.span.shifted(self._offsets[i1]), change.text)

    def line_changes(self, after: Rope) -> list[Change]:
        """The changes of whole lines that lead to another version, in order, not touching each other."""
        changes: list[Change] = []
        for i1, i2, j1, j2 in _unshared(self.chunks, after.chunks):
            old, new = list(_lines(self.chunks[i1:i2])), list(_lines(after.chunks[j1:j2]))
            starts = list(accumulate(map(len, old), initial=self._offsets[i1]))
            changes += [
                Change(Span(starts[a1], starts[a2]), "".join(new[b1:b2]))
                for a1, a2, b1, b2 in differing_blocks(old, new)
            ]
        return changes


def _chunked(lines: Sequence[str]) -> tuple[list[_Chunk], list[int], list[int]]:
    """Chunks of lines with their sizes in characters and lines; what is left over belongs to the last one."""
    chunks = []
    start = 0
    while len(lines) - start > 2 * CHUNK_LINES:
        chunks.append(_Chunk(lines[start : start + CHUNK_LINES]))
        start += CHUNK_LINES
    if start < len(lines):
        chunks.append(_Chunk(lines[start:]))
    return chunks, [chunk.size for chunk in chunks], [len(chunk.lines) for chunk in chunks]


def _may_cross(piece: str) -> bool:
    """Whether a piece can lie in two chunks: they end where lines do."""
    return any(end in piece[:-1] for end in "\r\n")


def _line_ends(chunks: Sequence[_Chunk]) -> Counter[str]:
    """How often each line end occurs, in the order in which one is preferred to another."""
    counts = [chunk.ends for chunk in chunks]
    return Counter({end: sum(ends[end] for ends in counts) for end in ("\r\n", "\n", "\r")})


def _joined(chunks: Sequence[_Chunk]) -> str:
    return chunks[0].text if len(chunks) == 1 else "".join(chunk.text for chunk in chunks)


def _lines(chunks: Sequence[_Chunk]) -> Iterator[str]:
    return chain.from_iterable(chunk.lines for chunk in chunks)


def _unshared(a: Sequence[_Chunk], b: Sequence[_Chunk]) -> list[tuple[int, int, int, int]]:
    """The runs of chunks a[i1:i2] and b[j1:j2] that two versions do not share, in order."""
    head, limit = 0, min(len(a), len(b))
    while head < limit and a[head] is b[head]:
        head += 1
    tail = 0
    while tail < limit - head and a[-1 - tail] is b[-1 - tail]:
        tail += 1
    places = {id(a[i]): i for i in range(head, len(a) - tail)}
    gaps: list[tuple[int, int, int, int]] = []
    i = j = head
    for k in range(head, len(b) - tail):
        at = places.get(id(b[k]), -1)
        if at >= i:
            if at > i or k > j:
                gaps.append((i, at, j, k))
            i, j = at + 1, k + 1
    if i < len(a) - tail or j < len(b) - tail:
        gaps.append((i, len(a) - tail, j, len(b) - tail))
    return gaps
