"""Simulated buffer: an open document, and the server's edits in it.

Every character is a cell with an identity that undo brings back, so a test knows what became of each. Offsets and
positions are counted the plain way, which knows nothing of the server's.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsh_lsp.workspace.text import Span
from tests.support.simulated_manners import Manners


@dataclass(frozen=True)
class State:
    """A text and the identities of its characters; `typed` counts what the user did until then."""

    text: str
    cells: tuple[int, ...]
    typed: int = 0

    def replaced(self, start: int, end: int, text: str, cells: tuple[int, ...]) -> State:
        cells = self.cells[:start] + cells + self.cells[end:]
        return State(self.text[:start] + text + self.text[end:], cells, self.typed)


@dataclass
class Buffer:
    """One open document."""

    uri: str
    path: Path
    state: State
    version: int
    history: dict[int, State] = field(default_factory=dict)
    undo: list[State] = field(default_factory=list)
    unsent: list[tuple[int, list[dict[str, Any]]]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, kw_only=True)
class Application:
    """One text edit of the server in a buffer, with what it took out and put in."""

    uri: str
    start: int
    end: int
    text: str
    base: State
    before: State
    put: tuple[int, ...]
    took: tuple[int, ...]
    overtaken: bool = False  # it was made for an earlier text, and the editor did not look

    def stands(self, state: State, lines: Span) -> bool:
        """Whether a state shows all of this edit, untouched and in whole lines; in `base` it replaces `lines`."""
        cells, base = state.cells, self.base.cells
        if set(cells).intersection(self.took):
            return False
        whole = base[lines.start : self.start] + self.put + base[self.end : lines.end]
        if not whole:  # nothing stands there: what was on both sides of it must have met
            whole = base[max(0, lines.start - 1) : lines.start] + base[lines.end : lines.end + 1]
            return not whole or any(cells[i : i + len(whole)] == whole for i in range(len(cells)))
        if whole[0] not in cells:
            return False
        at = cells.index(whole[0])
        begins_behind_a_line = (
            self.start > 0 and self.base.text[self.start - 1] not in "\r\n" and self.text[:1] in ("\r", "\n")
        )
        end = at + len(whole)
        return (
            cells[at:end] == whole
            and (at == 0 or state.text[at - 1] in "\r\n" or begins_behind_a_line)
            and (end == len(cells) or state.text[end - 1] in "\r\n")
        )

    def in_part(self, state: State) -> bool:
        """Whether a state shows something of this edit."""
        here = set(state.cells)
        return bool(here.intersection(self.put)) if self.put else not here.intersection(self.took)


def offset_of(text: str, line: int, column: int, manners: Manners) -> int:
    """Code points before a position, the plain way."""
    lines = split_plainly(text, manners)
    if line >= len(lines):
        return len(text)
    encoding = manners.encoding
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    bare = lines[line].rstrip("\r\n" if manners.splits_at_return else "\n")
    raw = bare.encode(f"{encoding}-le" if width > 1 else encoding)
    return sum(map(len, lines[:line])) + len(
        raw[: column * width].decode(f"{encoding}-le" if width > 1 else encoding)
    )


def split_plainly(text: str, manners: Manners) -> list[str]:
    """The lines with their ends, as an editor sees them; the last one is what has no end, and may be empty."""
    *bodies_and_ends, last = re.split(r"(\r\n|\n|\r)" if manners.splits_at_return else r"(\n)", text)
    return [*map("".join, zip(bodies_and_ends[::2], bodies_and_ends[1::2], strict=True)), last]


def position_of(text: str, offset: int, manners: Manners) -> dict[str, int]:
    """The position of an offset, the plain way."""
    *whole, tail = split_plainly(text[:offset], manners)
    encoding, line = manners.encoding, len(whole)
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    return {"line": line, "character": len(tail.encode(f"{encoding}-le" if width > 1 else encoding)) // width}


def with_own_end(base: str, start: int, text: str) -> str:
    """What comes to the end of a buffer, as Neovim puts it there: lines behind the last one, which ends as it did."""
    if base and base[-1] != "\n":
        return text
    if start == len(base):
        return f"{text}\n" if text or not base else text
    left = base[:start] + text
    return text if not left or left[-1] == "\n" else f"{text}\n"


def inside_line_end(text: str, at: int) -> int:
    return int(text[max(0, at - 1) : at + 1] == "\r\n")
