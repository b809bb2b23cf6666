r"""Pages: some lines of a large file, without reading more of it than leads there.

Rules: a line ends at `\n`, `\r\n` or `\r`; what comes after the page is not read, and so not counted; a line that is
longer than anybody reads is cut, and the rest of it passed over.
"""

from __future__ import annotations

import codecs
import stat
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.port import Page
from dsh_lsp.workspace.threads import Stop, never

LARGE_BYTES: Final = 1 << 20  # a smaller file is read whole
MAX_LINE_CHARS: Final = 20_000

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def is_large(path: Path) -> bool:
    """Whether a file is read by pages. Blocks."""
    try:
        found = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > LARGE_BYTES


def read_page(path: Path, name: str, *, first: int, limit: int, stop: Stop = never) -> Page:
    """Read `limit` lines from the line `first`, counted from 1, unless `stop` says that nobody waits. Blocks.

    Raises:
        ToolError: `NOT_TEXT`, `PAST_END`, `NOT_READABLE`.
    """
    try:
        with path.open("rb") as raw:
            head = raw.read(4096)
            raw.seek(0)
            if b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise ToolError(f"{name} is a binary file", code="NOT_TEXT")
            encoding = next((encoding for mark, encoding in _MARKS if head.startswith(mark)), "utf-8")
            with TextIOWrapper(raw, encoding=encoding, newline="") as file:
                return _page(file, name, first, limit, stop)
    except UnicodeDecodeError as error:
        raise ToolError(f"{name} is not {error.encoding.upper()} text", code="NOT_TEXT") from error
    except OSError as error:
        raise ToolError(f"{name} cannot be read: {error.strerror}", code="NOT_READABLE") from error


def _page(file: TextIOWrapper, name: str, first: int, limit: int, stop: Stop) -> Page:
    for number in range(1, first):
        if stop():
            break
        if _line(file) is None:
            raise ToolError(f"{name} has only {number - 1} lines", code="PAST_END")
    lines: list[str] = []
    while len(lines) < limit and (line := _line(file)) is not None:
        lines.append(line)
    if not lines and first > 1:
        raise ToolError(f"{name} has only {first - 1} lines", code="PAST_END")
    more = bool(file.read(1))
    total = None if more else first - 1 + len(lines)
    return Page(path=name, first=first, lines=tuple(lines), more=more, total=total)


def _line(file: TextIOWrapper) -> str | None:
    """The next line without its end; None at the end of the file."""
    line = piece = file.readline(MAX_LINE_CHARS)
    if not line:
        return None
    while not piece.endswith("\n") and len(piece) == MAX_LINE_CHARS:  # cut, maybe between the halves of its end
        if piece.endswith("\r"):
            place = file.tell()
            if file.read(1) != "\n":
                file.seek(place)
            break
        piece = file.readline(MAX_LINE_CHARS)
    return line.rstrip("\r\n")
