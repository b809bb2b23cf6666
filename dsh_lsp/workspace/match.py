"""Match: finds the piece of a document that a model means, although it rarely copies white space exactly.

Three readings, each stricter than the next: the exact text; whole lines but for line ends and trailing space; whole
lines but for their indentation, with the document's own put back into the new text.

Rules: a match is unique or an error; it never is empty; the error of a miss shows what comes nearest; the reading
that found it is told to the model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal
from unicodedata import normalize

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.diff import differing_blocks
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import (
    Change,
    Span,
    bare_lines,
    count_line_ends,
    line_end_of,
    same_lines,
    split_lines,
    with_line_ending,
)

Reading = Literal["exact", "trailing space ignored", "indentation adapted"]

MAX_PLACES = 1_000  # of a text that should stand in one
MAX_CANDIDATES = 3
MAX_SHOWN_LINES = 12  # of a candidate, from shortly before what differs
MAX_SHOWN_CHARS = 200  # of a line
MIN_LIKENESS = 0.5

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Where the old text stands, what takes its place, and how it was found."""

    change: Change
    reading: Reading


def find_match(document: Rope, old: str, new: str, *, name: str) -> Match:
    """Find the one place of `old` in a document and adapt `new` to it; `name` is what errors call the document.

    Raises:
        ToolError: `EMPTY_MATCH`, `NO_MATCH` with the nearest candidates, `AMBIGUOUS` with the lines.
    """
    if not old.strip():
        raise ToolError("old_text must hold more than white space", code="EMPTY_MATCH")
    end = document.line_ending
    for as_given in dict.fromkeys((old, with_line_ending(old, end))):
        found = document.occurrences(as_given)
        whole = (at for at in found if not _cuts_end(document, at, at + len(as_given)))
        if exact := list(islice(whole, MAX_PLACES + 1)):
            spans = [Span(start, start + len(as_given)) for start in exact]
            ends = [one for one, count in count_line_ends(as_given).items() if count] or [end]
            lines_as_there = with_line_ending(new, ends[0]) if len(ends) == 1 else new
            return Match(change=Change(_only(spans, document, name), lines_as_there), reading="exact")
    text = str(document)
    lines, wanted = split_lines(text), split_lines(old)
    spans = _windows(lines, wanted, str.rstrip)
    if spans:
        span = _only(spans, document, name)
        there = text[span.start : span.end]
        replacement = _carried(split_lines(there), wanted, split_lines(new), lambda line: line, end)
        return Match(change=Change(span, _ended_like(replacement, there, end)), reading="trailing space ignored")
    adapted = [
        (span, indents) for span in _windows(lines, wanted, str.strip) if (indents := _indents(text, span, wanted))
    ]
    if adapted:
        span = _only([span for span, _ in adapted], document, name)
        indents = next(indents for at, indents in adapted if at == span)
        there, wished = text[span.start : span.end], split_lines(new)
        deeper = _units(indents, lines, [*wanted, *wished])
        replacement = _carried(
            split_lines(there), wanted, wished, lambda line: _reindented(line, indents, deeper), end
        )
        return Match(change=Change(span, _ended_like(replacement, there, end)), reading="indentation adapted")
    raise ToolError(_miss(lines, wanted, name), code="NO_MATCH")


def _cuts_end(text: Rope, *places: int) -> bool:
    """Whether one of the places is between the two halves of a line end."""
    return any(text[max(0, at - 1) : at + 1] == "\r\n" for at in places)


def ended_like(document: Rope, content: str) -> str:
    """A whole new text with the line ends of a document: lines that stay keep their own, where several are in use."""
    lines, end = split_lines(str(document)), document.line_ending
    if sum(count > 0 for count in count_line_ends(str(document)).values()) < 2:
        return with_line_ending(content, end)
    before, after = (Rope.of(with_line_ending(text, "\n")) for text in (str(document), content))
    result: list[str] = []
    kept = 0
    for change in before.line_changes(after):
        first, last = (before.place_at(at)[0] for at in (change.span.start, change.span.end))
        result += [*lines[kept:first], with_line_ending(change.text, end)]
        kept = last if change.span.end < len(before) else len(lines)
    whole = "".join([*result, *lines[kept:]])
    # A `\r` that stays may join the `\n` of an empty line that comes to stand behind it.
    return whole if same_lines(whole, content) else with_line_ending(content, end)


def _windows(lines: Sequence[str], wanted: Sequence[str], fold: Callable[[str], str]) -> list[Span]:
    """The runs of whole lines that equal the wanted ones after folding."""
    folded, target = [fold(line) for line in lines], [fold(line) for line in wanted]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    count = len(target)
    found = (
        Span(starts[first], starts[first + count])
        for first in range(len(folded) - count + 1)
        if folded[first] == target[0] and folded[first : first + count] == target
    )
    return list(islice(found, MAX_PLACES + 1))


def _only(spans: Sequence[Span], document: Rope, name: str) -> Span:
    if len(spans) == 1:
        return spans[0]
    numbers = [str(document.place_at(span.start)[0] + 1) for span in spans[:10]]
    more = "" if len(spans) <= 10 else " and more" if len(spans) > MAX_PLACES else f" and {len(spans) - 10} more"
    count = f"more than {MAX_PLACES}" if len(spans) > MAX_PLACES else len(spans)
    raise ToolError(
        f"old_text occurs {count} times in {name}, at lines {', '.join(numbers)}{more}; "
        "add lines around it until it is unique",
        code="AMBIGUOUS",
    )


def _carried(
    there: Sequence[str], wanted: Sequence[str], new: Sequence[str], adapt: Callable[[str], str], end: str
) -> str:
    """The new lines as they are written there: those that the old text has too are the document's own, untouched."""
    lines: list[str] = []
    known, wished = (bare_lines("".join(some)) for some in (wanted, new))
    kept = 0
    for i1, i2, j1, j2 in differing_blocks(known, wished):
        lines += there[kept:i1]
        for offset, line in enumerate(wished[j1:j2]):
            beside = there[max(0, min(i1 + offset, i2 - 1))]
            lines.append(adapt(line) + (line_end_of(beside) or end))
        kept = i2
    lines += there[kept:]
    lines[:-1] = [line if line_end_of(line) else line + end for line in lines[:-1]]
    return "".join(lines)


def _ended_like(new: str, old: str, end: str) -> str:
    """The new text with or without a line end, as the whole lines that it replaces."""
    if new and old.endswith(("\n", "\r")) and not new.endswith(("\n", "\r")):
        return new + end
    return new if old.endswith(("\n", "\r")) else new.rstrip("\r\n")


# -- indentation ---------------------------------------------------------------------------------------------


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indents(text: str, span: Span, wanted: Sequence[str]) -> dict[str, str] | None:
    """The document's indentation for each of the model's; None where that is not one and the same throughout."""
    indents: dict[str, str] = {}
    for mine, theirs in zip(wanted, split_lines(text[span.start : span.end]), strict=True):
        if mine.strip() and indents.setdefault(_indent(mine), _indent(theirs)) != _indent(theirs):
            return None
    return indents


def _units(indents: dict[str, str], lines: Sequence[str], model: Sequence[str]) -> Callable[[str], str]:
    """How the document writes what the model indents deeper, by the steps in which both do it.

    Where both use spaces, steps of another width are believed only if the known depths are in that relation.
    """
    theirs, mine = _unit(lines), _unit(model)
    if not theirs or not mine or theirs == mine:
        return lambda deeper: deeper
    widths = [(len(here), len(there)) for here, there in indents.items() if here]
    in_relation = bool(widths) and all(there * len(mine) == here * len(theirs) for here, there in widths)
    if theirs[0] == mine[0] and not in_relation:
        return lambda deeper: deeper
    return lambda deeper: (
        theirs * (len(deeper) // len(mine))
        if deeper == mine * (len(deeper) // len(mine))
        else deeper  # not a depth of its own, but an alignment
    )


def _unit(lines: Sequence[str]) -> str:
    """One step of indentation: a tab, or the spaces by which most deeper lines are deeper; empty if none."""
    steps: Counter[str] = Counter()
    above = ""
    for line in lines:
        if line.strip():
            indent = _indent(line)
            if indent.startswith("\t"):
                steps["\t"] += 1
            elif len(indent) > len(above) and not above.startswith("\t"):
                steps[" " * (len(indent) - len(above))] += 1
            above = indent
    return steps.most_common(1)[0][0] if steps else ""


def _reindented(line: str, indents: dict[str, str], written: Callable[[str], str]) -> str:
    """A new line with the document's indentation; a depth that the old text did not have goes on from the nearest."""
    if not line.strip():
        return line
    indent = _indent(line)
    known = max((mine for mine in indents if indent.startswith(mine)), key=len, default=None)
    if known is None:  # less deep than all that is known: take away as much as the shallowest one has more
        shallow = min(indents, key=len)
        excess = len(shallow) - len(indent)
        return indents[shallow][: max(0, len(indents[shallow]) - excess)] + line.lstrip(" \t")
    return indents[known] + written(indent[len(known) :]) + line.lstrip(" \t")


# -- a miss --------------------------------------------------------------------------------------------------


def _miss(lines: Sequence[str], wanted: Sequence[str], name: str) -> str:
    found = _nearest(lines, wanted)
    if not found:
        return f"old_text does not occur in {name}, nor anything like it; read the file and copy the lines exactly"
    target = [line.strip() for line in wanted]
    shown = "\n".join(_candidate(lines, first, target) for first in found)
    return f"old_text does not occur in {name}; copy the lines exactly.\n{shown}".rstrip()


def _candidate(lines: Sequence[str], first: int, target: Sequence[str]) -> str:
    """A window that looks like the wanted text, from shortly before the first line that differs."""
    last = min(first + len(target), len(lines))
    equal = 0
    while first + equal < last and lines[first + equal].strip() == target[equal]:
        equal += 1
    start = max(first, min(first + equal - MAX_SHOWN_LINES // 4, last - MAX_SHOWN_LINES))
    end = min(last, start + MAX_SHOWN_LINES)
    rows = "".join(f"{number + 1}\t{_clipped(lines[number].rstrip())}\n" for number in range(start, end))
    part = "" if (start, end) == (first, last) else f", of which {start + 1}-{end} are shown"
    return f"Lines {first + 1}-{last} come near{part}:\n{rows}"


def _clipped(line: str) -> str:
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]}…"


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The first lines of the windows that look most like the wanted text, best first."""
    target = [line.strip() for line in wanted]
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line.strip(), []).append(number)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(target):
        if line and len(places.get(line, ())) <= 50:  # a line that stands everywhere says nothing
            votes.update(max(0, number - offset) for number in places.get(line, ()))
    starts = [start for start, _ in votes.most_common(8)] or _by_words(lines, target)
    words = _words_of(target)
    rated = [(_likeness(words, lines[start : start + len(target)]), start) for start in starts]
    best = sorted((rate for rate in rated if rate[0] >= MIN_LIKENESS), key=lambda rate: (-rate[0], rate[1]))
    return [start for _, start in best[:MAX_CANDIDATES]]


def _by_words(lines: Sequence[str], target: Sequence[str]) -> list[int]:
    """Where the longest wanted line's words occur together, if no line is equal."""
    offset, line = max(enumerate(target), key=lambda item: len(item[1]))
    for split in (str.split, _words_in):  # the first is fast, and enough where words stand apart
        words = set(split(line))
        shared = [(len(words.intersection(split(text))), number) for number, text in enumerate(lines)]
        best = sorted((item for item in shared if item[0]), key=lambda item: (-item[0], item[1]))[:8]
        if best:
            return [max(0, number - offset) for _, number in best]
    return []


def _likeness(words: Counter[str], window: Sequence[str]) -> float:
    """How many words and signs two pieces share, in whatever order, of all that they have: 0 to 1."""
    there = _words_of(window)
    total = words.total() + there.total()
    return 2 * (words & there).total() / total if total else 0.0


def _words_of(lines: Sequence[str]) -> Counter[str]:
    return Counter(word for line in lines for word in _words_in(line))


def _words_in(line: str) -> list[str]:
    """The words and signs of a line, however its accents are composed."""
    return _WORD.findall(line if line.isascii() else normalize("NFC", line))
