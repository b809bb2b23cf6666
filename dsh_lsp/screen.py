"""Screen: a page of text in a terminal or a pipe, with a narrow column of names on the left.

Owns: all that the demo and a headless run print for people.
Rules: escape codes go only to a terminal that wants them, and only ours: what models and files say cannot steer the
terminal; lines are wrapped at its width while they stream; without colours everything can still be told apart.
Knows nothing of: sessions, editors.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, TextIO

Style = Literal["plain", "bold", "dim", "red", "green"]

INDENT: Final = 6
MIN_WIDTH: Final = 40
MAX_WIDTH: Final = 92  # longer lines are hard to read
PIPE_WIDTH: Final = 80
_CODES: Final[dict[Style, str]] = {"plain": "", "bold": "1", "dim": "2", "red": "31", "green": "32"}
_PIECE: Final = re.compile(r"\n|[^\S\n]+|\S+")
# Control characters, and those that turn the reading direction: a diff must not look like another one.
_CONTROLS: Final = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)


def harmless(text: str) -> str:
    """Text of a model or a file, without what could steer a terminal."""
    return text.translate(_CONTROLS)


def wants_colours(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether escape codes are welcome: on a terminal that knows them, unless `NO_COLOR` is set."""
    if not out.isatty() or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return os.name != "nt" or "WT_SESSION" in environ or "TERM" in environ


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a diff; `number` counts in the old text for a removed line, else in the new one."""

    number: int
    sign: Literal[" ", "-", "+"]
    text: str


def diff_lines(before: str, after: str, *, context: int = 2) -> Iterator[DiffLine | None]:
    """The changed lines with their neighbours; None stands for what is left out between two places."""
    old_lines, new_lines = before.splitlines(), after.splitlines()
    # difflib takes long over what it need not see
    skip = max(0, _equal_lines(old_lines, new_lines) - context)
    old_lines, new_lines = old_lines[skip:], new_lines[skip:]
    tail = max(0, _equal_lines(old_lines[::-1], new_lines[::-1]) - context)
    old = new = 0
    rows = difflib.unified_diff(
        old_lines[: len(old_lines) - tail], new_lines[: len(new_lines) - tail], lineterm="", n=context
    )
    for row in list(rows)[2:]:  # two lines name the files
        if header := re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)", row):
            if new:
                yield None
            old, new = int(header[1]) + skip, int(header[2]) + skip
            continue
        match row[0]:
            case "-":
                yield DiffLine(number=old, sign="-", text=row[1:])
                old += 1
            case "+":
                yield DiffLine(number=new, sign="+", text=row[1:])
                new += 1
            case _:
                yield DiffLine(number=new, sign=" ", text=row[1:])
                old, new = old + 1, new + 1


def _equal_lines(old: Sequence[str], new: Sequence[str]) -> int:
    """How many leading lines are the same."""
    return next(
        (at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )


class Screen:
    """A page that grows downwards; a new speaker begins a new paragraph with their name."""

    def __init__(self, out: TextIO, *, width: int, colours: bool) -> None:
        self._out = out
        self._width = max(MIN_WIDTH, min(width, MAX_WIDTH))
        self._colours = colours
        self._dot = "·" if (out.encoding or "ascii").lower().startswith("utf") else "-"
        self._speaker: str | None = None
        self._kind = ""
        self._column = 0
        self._space = False
        self._held = ""
        self._style: Style = "plain"

    @classmethod
    def on(cls, out: TextIO, environ: Mapping[str, str]) -> Self:
        """The screen for a stream."""
        width = shutil.get_terminal_size((PIPE_WIDTH, 24)).columns if out.isatty() else PIPE_WIDTH
        return cls(out, width=width - 1, colours=wants_colours(out, environ))

    # -- what can be shown -----------------------------------------------------------------------------------

    def note(self, text: str, style: Style = "plain") -> None:
        """Say something about the run itself, at the left edge."""
        self._break()
        if self._speaker is not None and self._kind != "note":
            self._write("\n")
        self._speaker, self._kind = "", "note"
        self._flow(text, style, indent=0)
        self._break()

    def user(self, text: str) -> None:
        """Show what the user says or decides."""
        self._paragraph("you", "user")
        self._flow(text, "bold")
        self._break()

    def stream(self, kind: Literal["text", "thinking"], text: str) -> None:
        """Show more of what the model says or thinks, as it comes."""
        if kind != self._kind:
            self._paragraph("dsh", kind, gap=self._kind == "tool")
            if kind == "thinking" and not self._colours:
                text = f"({text}"  # dimmed where that can be seen
        self._flow(text, "dim" if kind == "thinking" else "plain", more=True)

    def tool(self, title: str) -> None:
        """Show a tool call."""
        self._paragraph("dsh", "tool")
        self._put(f"{self._dot} ", "dim")
        self._flow(title, "plain", indent=INDENT + 2)
        self._break()

    def trouble(self, text: str) -> None:
        """Show a tool's result that is a failure."""
        self._paragraph("dsh", "tool")
        self._put("! ", "red")
        self._flow(text, "dim", indent=INDENT + 2)
        self._break()

    def edit(self, text: str, style: Style = "plain") -> None:
        """Tell what becomes of the edit."""
        self._paragraph("edit", "edit")
        self._flow(text, style)
        self._break()

    def diff(self, name: str, before: str, after: str, *, state: str = "waiting for your review") -> None:
        """Show an edit, and how it stands."""
        lines = list(diff_lines(before, after))
        digits = len(str(max((line.number for line in lines if line), default=0)))
        self._paragraph("edit", "diff")
        self._put(name, "bold")
        self._put(f", {state}", "dim")
        self._break()
        styles: dict[str, Style] = {"-": "red", "+": "green", " ": "plain"}
        room = self._width - INDENT - digits - 3
        for line in lines:
            self._indent()
            if line is None:
                self._put("...", "dim")
                self._break()
                continue
            text = line.text.expandtabs(4).rstrip()
            self._put(f"{line.number:>{digits}}", "dim")
            self._put(f" {line.sign} {text[:room]}".rstrip(), styles[line.sign])
            self._break()
            for start in range(room, len(text), room):  # whole: nobody can decide on what is cut off
                self._write(" " * (INDENT + digits + 3))
                self._put(text[start : start + room], styles[line.sign])
                self._break()
        if not lines and before != after:
            self._indent()
            self._flow("(only line ends change, or the last one)", "plain")
            self._break()

    def ask(self, question: str) -> None:
        """Ask the reader; the line stays open for the answer."""
        self._paragraph("you", "ask")
        self._put(f"{question} ", "dim")
        self._out.flush()

    def answer(self, text: str, *, echoed: bool) -> None:
        """End the line of a question; a terminal has echoed what was typed, its line end included."""
        if echoed:
            self._column = 0
        else:
            self._put(text, "bold")
        self._break()
        self._out.flush()

    def close(self) -> None:
        """End an open line."""
        self._break()
        self._out.flush()

    # -- how it is written -----------------------------------------------------------------------------------

    def _paragraph(self, speaker: str, kind: str, *, gap: bool = False) -> None:
        """Begin a line, with the name, after an empty line, if another one spoke last."""
        self._break()
        changes = speaker != self._speaker
        if (changes or gap) and self._speaker is not None:
            self._write("\n")
        if changes:
            self._put(f"{speaker:<{INDENT}}", "bold" if speaker == "you" else "dim")
        else:
            self._indent()
        self._speaker, self._kind = speaker, kind

    def _indent(self) -> None:
        self._write(" " * INDENT)
        self._column = INDENT

    def _flow(self, text: str, style: Style, *, indent: int = INDENT, more: bool = False) -> None:
        """Write words, wrapped; with `more` the last one is held back, since it may go on."""
        self._style = style
        pieces = _PIECE.findall(self._held + text)
        self._held = pieces.pop() if more and pieces and not pieces[-1].isspace() else ""
        for piece in pieces:
            if piece == "\n":
                self._write("\n" + " " * indent)
                self._column, self._space = indent, False
            elif piece.isspace():
                self._space = True
            else:
                self._word(piece, style, indent)
        self._out.flush()

    def _word(self, word: str, style: Style, indent: int) -> None:
        space = self._space and self._column > indent
        if self._column > indent and self._column + space + len(word) > self._width:
            self._write("\n" + " " * indent)
            self._column, space = indent, False
        self._put(" " * space + word, style)
        self._space = False

    def _break(self) -> None:
        """End the line that is open, and the word that was held back."""
        if self._held:
            held, self._held = self._held, ""
            self._word(held, self._style, INDENT)
        if self._kind == "thinking" and self._column and not self._colours:
            self._write(")")
        if self._column:
            self._write("\n")
        self._column, self._space = 0, False

    def _put(self, text: str, style: Style) -> None:
        code = _CODES[style] if self._colours else ""
        text = harmless(text)
        self._write(f"\x1b[{code}m{text}\x1b[0m" if code else text)
        self._column += len(text)

    def _write(self, text: str) -> None:
        encoding = self._out.encoding or "ascii"
        self._out.write(text.encode(encoding, "replace").decode(encoding))
