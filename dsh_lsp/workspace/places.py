"""Places: finds lines again that were seen in an earlier version of a text, by what stands beside them.

Rules: a place is certain or it is none: the lines must stand between the lines between which they were seen, in one
place alone. That a line occurs only once is not enough: it may be another one, and its twin be gone.
"""

from __future__ import annotations

from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Span, is_empty_line, split_lines, with_line_ending

CONTEXT_LINES = 3  # kept of each side
CONTEXT_CHARS = 600


def around(text: Rope, span: Span) -> tuple[str, str]:
    """The lines above and below a place."""
    first, (last, column) = text.place_at(span.start)[0], text.place_at(span.end)
    last += column > 0
    above = "".join(text.lines(max(0, first - CONTEXT_LINES), first))
    below = "".join(text.lines(last, last + CONTEXT_LINES))
    return above[-CONTEXT_CHARS:], below[:CONTEXT_CHARS]


def sides_kept(text: Rope, span: Span, above: str, below: str) -> int:
    """How many of the two lines next to a place are those that were next to it when these lines were kept."""
    here, kept = _next_to(*around(text, span)), _next_to(above, below)
    return (here[0] == kept[0]) + (here[1] == kept[1])


def _next_to(above: str, below: str) -> tuple[str, str]:
    return "".join(split_lines(above)[-1:]), "".join(split_lines(below)[:1])


def copies_at(at: int, lines: str, text: Rope) -> int:
    """How many copies of some lines follow one another, up to a place and on from it."""
    count, start, end = 0, at - len(lines), at
    while start >= 0 and text[start : start + len(lines)] == lines:
        count, start = count + 1, start - len(lines)
    while text[end : end + len(lines)] == lines:
        count, end = count + 1, end + len(lines)
    return count


def find_again(text: Rope, piece: str, above: str, below: str) -> Span | str:
    """Where lines stand that were seen between others, with whatever line ends, or why that cannot be told.

    All that was kept of both sides must be there, else the one line next to it on each side, which the start and
    the end of the text are too.
    """
    found = _find(text, piece, above, below)
    if isinstance(found, Span) or not (text.has_returns or "\r" in piece + above + below):
        return found
    plain = text.plain
    found = _find(plain, *(with_line_ending(part, "\n") for part in (piece, above, below)))
    if isinstance(found, str):
        return found
    return Span(*(text.offset_at(plain.place_at(at)) for at in (found.start, found.end)))


def _find(text: Rope, piece: str, above: str, below: str) -> Span | str:
    if not text and is_empty_line(piece) and not above + below:
        return Span(0, 0)  # an editor that tells of an empty text as of an empty line has saved it
    near = _next_to(above, below)
    repeated = bool(piece) and piece in above + below  # one such line says little of another
    for before, after in dict.fromkeys(((above, below),) if repeated else ((above, below), near)):
        found = [
            start
            for at in text.occurrences(before + piece + after)
            if _between(text, start := at + len(before), start + len(piece), before, after)
        ]
        if len(found) == 1:
            return Span(found[0], found[0] + len(piece))
        if found:
            return "its lines occur more than once"
    return "its lines, or those beside them, were changed since"


def _between(text: Rope, start: int, end: int, before: str, after: str) -> bool:
    """Whether whole lines stand there, with nothing where nothing was beside them."""
    whole = (start == 0 or text[start - 1] in "\r\n") and (end == len(text) or end == 0 or text[end - 1] in "\r\n")
    return whole and (bool(before) or start == 0) and (bool(after) or end == len(text))
