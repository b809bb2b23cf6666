r"""Documents: the mirror of what the editor's buffers hold, unsaved text included.

Owns: position encodings; one identity for each file, whatever the spelling of its URI.
Rules: a line ends at `\n`, `\r\n` or `\r` and nothing else; positions are clamped as LSP says; a change costs
what it changes, not what the document holds. Versions are the editor's.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pygls import uris

from dsh_lsp.abort import Disposer
from dsh_lsp.decisions import Position, Range
from dsh_lsp.hooks import Emit
from dsh_lsp.workspace.text import Change, Span, difference, split_lines

Encoding = Literal["utf-8", "utf-16", "utf-32"]


def path_of(uri: str) -> Path | None:
    """The real path that a `file:` URI names, links followed; None for any other scheme."""
    if not uri.lower().startswith("file:"):
        return None
    path = uris.to_fs_path(uri)
    return Path(os.path.realpath(path)) if path else None


def uri_of(path: Path) -> str:
    """The `file:` URI of a path."""
    return str(uris.from_fs_path(str(path)))


def identity(uri: str) -> str:
    """What makes two URIs the same document."""
    path = path_of(uri)
    return str(path) if path is not None else uri


def _units(character: str, encoding: Encoding) -> int:
    if encoding == "utf-32" or character < "\x80":
        return 1
    if encoding == "utf-16":
        return 2 if character > "\uffff" else 1
    return 2 if character < "\u0800" else 3 if character <= "\uffff" else 4


def column_to_offset(line: str, character: int, encoding: Encoding) -> int:
    """A column of a position as code points, clamped to the line without its end."""
    body = line.rstrip("\r\n")
    if encoding == "utf-32" or body.isascii():
        return min(character, len(body))
    units = 0
    for index, char in enumerate(body):
        units += _units(char, encoding)
        if units > character:
            return index
    return len(body)


def offset_to_column(line: str, offset: int, encoding: Encoding) -> int:
    """Code points of a line as a column of a position."""
    head = line[:offset]
    if encoding == "utf-32" or head.isascii():
        return len(head)
    return sum(_units(char, encoding) for char in head)


class Document:
    """One open document, as the editor last told it."""

    def __init__(self, uri: str, version: int, text: str, encoding: Encoding = "utf-16") -> None:
        self.uri = uri
        self.key = identity(uri)
        self.version = version
        self.encoding = encoding
        self.changed_at = float("-inf")  # of the last didChange, by the monotonic clock, which is asyncio's too
        self._lines = split_lines(text)
        self._text: str | None = text

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = "".join(self._lines)
        return self._text

    def offset_at(self, position: Position) -> int:
        """Code points before a position."""
        return self._offset(*self._place(position.line, position.character))

    def position_at(self, offset: int, encoding: Encoding | None = None) -> Position:
        """The position of an offset, in the editor's encoding unless another is asked for."""
        for number, line in enumerate(self._lines):
            if offset < len(line) or (offset == len(line) and not line.endswith(("\n", "\r"))):
                return Position(line=number, character=offset_to_column(line, offset, encoding or self.encoding))
            offset -= len(line)
        return Position(line=len(self._lines), character=0)

    def range_of(self, span: Span, encoding: Encoding | None = None) -> Range:
        """The range of a span."""
        return Range(start=self.position_at(span.start, encoding), end=self.position_at(span.end, encoding))

    def apply(self, version: int, changes: list[dict[str, Any]], trace: list[Change] | None = None) -> None:
        """Take a didChange's content changes, in their order; `trace` gets each as a change of offsets."""
        for change in changes:
            span = change.get("range")
            if span is None:
                if trace is not None:
                    trace.append(difference(self.text, change["text"]))
                self._lines, self._text = split_lines(change["text"]), change["text"]
                continue
            start, end = sorted(self._place(span[edge]["line"], span[edge]["character"]) for edge in ("start", "end"))
            if trace is not None:
                trace.append(Change(Span(self._offset(*start), self._offset(*end)), change["text"]))
            self._replace(start, end, change["text"])
        self.version = version
        self.changed_at = time.monotonic()

    def _offset(self, line: int, column: int) -> int:
        return sum(map(len, self._lines[:line])) + column

    def _place(self, line: int, character: int) -> tuple[int, int]:
        """A position as a line and code points; past the end means the end."""
        lines = self._lines
        if line < len(lines):
            return line, column_to_offset(lines[line], character, self.encoding)
        if not lines or lines[-1].endswith(("\n", "\r")):
            return len(lines), 0
        return len(lines) - 1, len(lines[-1])

    def _replace(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        lines = self._lines
        first, last = start[0], min(end[0] + 1, len(lines))
        head = lines[first][: start[1]] if first < len(lines) else ""
        tail = lines[end[0]][end[1] :] if end[0] < len(lines) else ""
        middle = head + text + tail
        # `\r` at an edge may join a `\n` beyond it, and a line without its end joins the next one.
        if first and not head and lines[first - 1].endswith("\r"):
            first -= 1
            middle = lines[first] + middle
        if last < len(lines) and not middle.endswith("\n"):
            middle += lines[last]
            last += 1
        lines[first:last] = split_lines(middle)
        self._text = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChanged:
    """A document's text became another one, by these changes, one after the other."""

    document: Document
    before: str
    after: str
    changes: tuple[Change, ...]


class Documents:
    """All open documents of a client."""

    def __init__(self, encoding: Encoding = "utf-16") -> None:
        self.encoding: Encoding = encoding
        self.changed: Emit[DocumentChanged] = Emit("document changed")
        self.opened: Emit[Document] = Emit("document opened")
        self.closed: Emit[Document] = Emit("document closed")
        self._open: dict[str, Document] = {}
        self._watched: Counter[str] = Counter()

    def watch(self, key: str) -> Disposer:
        """Tell `changed` of a document's changes; those of documents that nobody watches are only applied."""
        self._watched[key] += 1

        def dispose() -> None:
            self._watched[key] -= 1
            if not self._watched[key]:
                del self._watched[key]

        return dispose

    def get(self, uri: str) -> Document | None:
        """The open document that a URI in any spelling names."""
        return self._open.get(identity(uri))

    def at(self, path: Path) -> Document | None:
        """The open document of a real path."""
        return self._open.get(str(path))

    def __iter__(self) -> Iterator[Document]:
        return iter(list(self._open.values()))

    def open(self, uri: str, version: int, text: str) -> None:
        """Take a didOpen; opening again replaces what was known."""
        document = Document(uri, version, text, self.encoding)
        self._open[document.key] = document
        self.opened(document)

    def change(self, uri: str, version: int, changes: list[dict[str, Any]]) -> None:
        """Take a didChange; one for a document that was never opened is dropped."""
        key = identity(uri)
        document = self._open.get(key)
        if document is None:
            return
        if key not in self._watched:
            document.apply(version, changes)
            return
        before, trace = document.text, list[Change]()
        document.apply(version, changes, trace)
        self.changed(DocumentChanged(document=document, before=before, after=document.text, changes=tuple(trace)))

    def close(self, uri: str) -> None:
        """Take a didClose."""
        document = self._open.pop(identity(uri), None)
        if document is not None:
            self.closed(document)
