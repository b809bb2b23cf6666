"""Terminal: a real one under tmux, driven by keys, read as text, and drawn as a picture for the documentation.

Owns: one tmux server on a socket of its own, which it ends.
Rules: every wait has a time limit; a picture shows what the terminal showed, colours included.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Self

from tests.e2e.desk import wait_for

TMUX = shutil.which("tmux")
CELL, LINE, MARGIN = 8.4, 18, 12
BACKGROUND, FOREGROUND = "#14161b", "#e0e2ea"
# The sixteen colours of a terminal, as Neovim's own scheme has them.
DARK = ("#07080d", "#ffc0b9", "#b3f6c0", "#fce094", "#a6dbff", "#ffcaff", "#8cf8f7", "#eef1f8")
COLOURS = (*DARK, "#4f5258", *DARK[1:])
NO_BREAK = "\u00a0"  # a space that no viewer takes away
SGR = re.compile(r"\x1b\[([\d;:]*)m")


class Terminal:
    """One program in one window of a fixed size."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    @classmethod
    @contextmanager
    def start(
        cls, program: list[str], *, folder: Path, env: Mapping[str, str], columns: int, rows: int
    ) -> Iterator[Self]:
        """Run a program in a new terminal."""
        terminal = cls(f"dsh-{os.getpid()}-{folder.name}")
        # tmux's server keeps the environment that it was started in
        settings = [
            "set",
            "-g",
            "default-terminal",
            "tmux-256color",
            ";",
            "set",
            "-as",
            "terminal-overrides",
            ",*:Tc",
        ]
        size = ["-x", str(columns), "-y", str(rows)]
        command = ["env", "-i", *(f"{k}={v}" for k, v in {**env, "COLORTERM": "truecolor"}.items()), *program]
        started = [*settings, ";", "new-session", "-d", *size, "-c", str(folder), *command]
        try:
            terminal._tmux(*started)
            yield terminal
        finally:
            subprocess.run([str(TMUX), "-L", terminal._socket, "kill-server"], check=False, capture_output=True)

    def keys(self, *keys: str) -> None:
        """Press keys by tmux's names: `Enter`, `Escape`, `C-c`."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text as it is."""
        self._tmux("send-keys", "-l", text)

    def text(self) -> str:
        """What the terminal shows."""
        return self._tmux("capture-pane", "-p")

    def wait_for(self, text: str) -> str:
        """Wait until the terminal shows a text, and return all that it shows."""
        try:
            return wait_for(lambda: shown if text in (shown := self.text()) else "", f"{text!r} shows")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.text()}") from None

    def draw(self, path: Path) -> None:
        """Draw what the terminal shows as an SVG picture."""
        x, y = map(int, self._tmux("display", "-p", "#{cursor_x} #{cursor_y}").split())
        path.write_text(to_svg(self._tmux("capture-pane", "-e", "-p").rstrip("\n"), cursor=(x, y)))

    def _tmux(self, *arguments: str) -> str:
        command = [str(TMUX), "-f", "/dev/null", "-L", self._socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


# -- pictures ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Style:
    """How a piece of text looks."""

    fg: str | None = None
    bg: str | None = None
    bold: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False


def _colour(codes: list[int]) -> str:
    """The colour after a 38 or 48, whose codes it takes."""
    if codes.pop(0) == 2:
        red, green, blue = (codes.pop(0) for _ in range(3))
        return f"#{red:02x}{green:02x}{blue:02x}"
    number = codes.pop(0)
    if number < 16:
        return COLOURS[number]
    if number >= 232:
        return f"#{(number - 232) * 10 + 8:02x}" + f"{(number - 232) * 10 + 8:02x}" * 2
    steps = (0, 95, 135, 175, 215, 255)
    number -= 16
    return f"#{steps[number // 36]:02x}{steps[number // 6 % 6]:02x}{steps[number % 6]:02x}"


FLAGS = {
    1: {"bold": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    22: {"bold": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
    39: {"fg": None},
    49: {"bg": None},
}


def _restyle(style: Style, parameters: str) -> Style:
    codes = [int(code or 0) for code in parameters.replace(":", ";").split(";")]
    while codes:
        match codes.pop(0):
            case 0:
                style = Style()
            case 38:
                style = replace(style, fg=_colour(codes))
            case 48:
                style = replace(style, bg=_colour(codes))
            case code if code in FLAGS:
                style = replace(style, **FLAGS[code])  # type: ignore[arg-type]
            case code if 30 <= code <= 37 or 90 <= code <= 97:
                style = replace(style, fg=COLOURS[code - 30 if code < 90 else code - 82])
            case code if 40 <= code <= 47 or 100 <= code <= 107:
                style = replace(style, bg=COLOURS[code - 40 if code < 100 else code - 92])
    return style


def _pieces(line: str, style: Style) -> tuple[list[tuple[str, Style]], Style]:
    pieces, start = [], 0
    for match in SGR.finditer(line):
        pieces.append((line[start : match.start()], style))
        style, start = _restyle(style, match.group(1)), match.end()
    pieces.append((line[start:], style))
    return [piece for piece in pieces if piece[0]], style


def to_svg(captured: str, *, cursor: tuple[int, int]) -> str:
    """What `capture-pane -e` gave, as a picture."""
    style, shapes, words, columns = Style(), [], [], 0
    lines = captured.split("\n")
    for row, line in enumerate(lines):
        pieces, style = _pieces(line, style)
        column = 0
        for text, look in pieces:
            fg, bg = look.fg or FOREGROUND, look.bg
            if look.reverse:
                fg, bg = bg or BACKGROUND, fg
            x, y, width = MARGIN + column * CELL, MARGIN + row * LINE, len(text) * CELL
            if bg:
                shapes.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE}" fill="{bg}"/>')
            if text.strip():
                more = ' font-weight="bold"' if look.bold else ""
                more += ' font-style="italic"' if look.italic else ""
                more += ' text-decoration="underline"' if look.underline else ""
                place = f'x="{x:.1f}" y="{y + 13}" textLength="{width:.1f}"'
                words.append(f'<text {place} fill="{fg}"{more}>{escape(text).replace(" ", NO_BREAK)}</text>')
            column += len(text)
        columns = max(columns, column)
    x, y = MARGIN + cursor[0] * CELL, MARGIN + cursor[1] * LINE
    shapes.append(f'<rect x="{x:.1f}" y="{y}" width="{CELL}" height="{LINE}" fill="none" stroke="{FOREGROUND}"/>')
    width, height = columns * CELL + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="14"'
            ' font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace">',
            f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>',
            *shapes,
            *words,
            "</svg>\n",
        ]
    )
