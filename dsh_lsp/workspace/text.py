r"""Text: line ends, spans and changes of a document, in code points.

Rules: a line ends at `\n`, `\r\n` or `\r` and at nothing else, as LSP says; offsets count code points.
Knows nothing of: files, editors, position encodings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dsh_lsp.workspace.diff import common_prefix

LINE_END = r"(?:\r\n|(?<!\r)\n|\r(?!\n))"  # a regular expression, for one whole end and never a half

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_EXOTIC = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def split_lines(text: str) -> list[str]:
    """Split into lines that keep their ends; no empty last line."""
    # `str.splitlines` is several times faster, and right where nothing else that it splits at occurs.
    return _LINE.findall(text) if _EXOTIC.search(text) else text.splitlines(keepends=True)


def count_line_ends(text: str) -> Counter[str]:
    """How often each line end occurs."""
    returns = text.count("\r")
    crlf = text.count("\r\n") if returns else 0
    return Counter({"\r\n": crlf, "\n": text.count("\n") - crlf, "\r": returns - crlf})


def most_used(ends: Counter[str]) -> str:
    r"""The line end that occurs most; `\n` where none does."""
    best = max(("\r\n", "\n", "\r"), key=lambda end: ends[end])
    return best if ends[best] else "\n"


def with_line_ending(text: str, end: str) -> str:
    """The same lines, all ending in `end`."""
    return re.sub(r"\r\n|\n|\r", end, text)


def bare_lines(text: str) -> list[str]:
    """Split into lines without their ends; no empty last line."""
    return [line.rstrip("\r\n") for line in split_lines(text)]


def same_lines(one: str, other: str) -> bool:
    """Whether two texts are the same but for their line ends."""
    return one == other or with_line_ending(one, "\n") == with_line_ending(other, "\n")


def line_end_of(text: str) -> str:
    """The line end that a text ends in; empty if it does in none."""
    return next((end for end in ("\r\n", "\n", "\r") if text.endswith(end)), "")


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
    start = common_prefix(before, after, limit)
    tail = common_prefix(
        before[: start - 1 if start else None : -1], after[: start - 1 if start else None : -1], limit - start
    )
    return Change(Span(start, len(before) - tail), after[start : len(after) - tail])


def occurrences(text: str, piece: str) -> Iterator[int]:
    """Where a piece stands, overlapping ones included."""
    at = text.find(piece)
    while at != -1:
        yield at
        at = text.find(piece, at + 1) if piece else -1


def is_saved(held: str, saved: str | None, *, line_ends_apart: bool = False, last_end_apart: bool = False) -> bool:
    r"""Whether a file holds the text that an editor holds.

    An editor that keeps line ends apart from the text, as Emacs does, tells of `\n` alone; one that keeps the last
    of them apart, as Neovim does, may tell of one that the file does not have, or of none where it has one.
    """
    if last_end_apart and saved is not None:
        held, saved = without_last_end(held), without_last_end(saved)
    if held == saved or saved is None or not line_ends_apart or "\r" in held:
        return held == saved
    return held.count("\n") == saved.count("\r\n") and held == saved.replace("\r\n", "\n")


def without_last_end(text: str) -> str:
    """The text without the line end that it ends in."""
    return text.removesuffix(line_end_of(text))


def is_empty_line(text: str) -> bool:
    """Whether a text is one line end and nothing else."""
    return text in ("\n", "\r\n")
