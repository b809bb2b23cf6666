r"""Text: line ends, spans and changes of a document, in code points.

Rules: a line ends at `\n`, `\r\n` or `\r` and at nothing else, as LSP says; offsets count code points.
Knows nothing of: files, editors, position encodings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dsh_lsp.workspace.diff import differing_blocks

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_EXOTIC = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def split_lines(text: str) -> list[str]:
    """Split into lines that keep their ends; no empty last line."""
    # `str.splitlines` is several times faster, and right where nothing else that it splits at occurs.
    return _LINE.findall(text) if _EXOTIC.search(text) else text.splitlines(keepends=True)


def line_ending(text: str) -> str:
    r"""The line end that a document uses most; `\n` where it has none."""
    crlf = text.count("\r\n")
    counts = {"\r\n": crlf, "\n": text.count("\n") - crlf, "\r": text.count("\r") - crlf}
    best = max(counts, key=lambda end: counts[end])
    return best if counts[best] else "\n"


def with_line_ending(text: str, end: str) -> str:
    """The same lines, all ending in `end`."""
    return re.sub(r"\r\n|\n|\r", end, text)


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of offsets."""

    start: int
    end: int

    def shifted(self, by: int) -> Span:
        """The span moved."""
        return Span(self.start + by, self.end + by)


@dataclass(frozen=True, slots=True)
class Change:
    """`text` took the place of `span`; offsets are in the text before."""

    span: Span
    text: str

    def apply(self, before: str) -> str:
        """The text after."""
        return before[: self.span.start] + self.text + before[self.span.end :]

    @property
    def growth(self) -> int:
        """How much longer the text became."""
        return len(self.text) - (self.span.end - self.span.start)


def difference(before: str, after: str) -> Change:
    """The smallest single change that leads from one text to the other; empty when they are equal."""
    limit = min(len(before), len(after))
    start = _common_prefix(before, after, limit)
    tail = _common_prefix(
        before[: start - 1 if start else None : -1], after[: start - 1 if start else None : -1], limit - start
    )
    return Change(Span(start, len(before) - tail), after[start : len(after) - tail])


def _common_prefix(a: str, b: str, limit: int) -> int:
    """How many leading characters are equal; halving compares at the speed of memory."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def line_changes(before: str, after: str) -> list[Change]:
    """The changes of whole lines that lead from one text to the other, in order, not touching each other."""
    if before == after:
        return []
    old, new = split_lines(before), split_lines(after)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    return [
        Change(Span(starts[i1], starts[i2]), "".join(new[j1:j2])) for i1, i2, j1, j2 in differing_blocks(old, new)
    ]
