r"""Documents: the mirror of what the editor's buffers hold, unsaved text included.

Owns: position encodings; one identity for each file, whatever the spelling of its URI, as it is when that is opened.
Rules: each URI that was opened has a text of its own; of several that name one file, the first is followed, and the
file is edited only while they agree; a line ends at `\n`, `\r\n` or `\r` and nothing else; positions are clamped as
LSP says; a change costs what it changes, not what the document holds. Versions are the editor's.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote_to_bytes, urlsplit

import anyio
from pygls import uris

from dsh_lsp.abort import Disposer
from dsh_lsp.decisions import Position, Range
from dsh_lsp.errors import ToolError
from dsh_lsp.hooks import Emit
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.passage import Passage
from dsh_lsp.workspace.rope import Place, Rope
from dsh_lsp.workspace.text import Change, Span, is_saved

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LOCALHOST = re.compile("file://localhost/", re.IGNORECASE)  # this machine, as RFC 8089 has it
_DRIVE = re.compile(r"/?[A-Za-z]:[/\\]")

PAUSE_S = 2.0  # no key for so long: nobody is typing


def spelled_path_of(uri: str) -> Path | None:
    """The path that a `file:` URI spells, no link followed; None for any other scheme."""
    if not uri.lower().startswith("file:"):
        return None
    path = uris.to_fs_path(_LOCALHOST.sub("file:///", uri))
    if path and "\ufffd" in path:  # what stands for bytes that are no UTF-8, as a file's name may be
        path = os.fsdecode(unquote_to_bytes(urlsplit(uri).path))
    if path and _DRIVE.match(path):
        path = path.lstrip("/")
        path = path[0].lower() + path[1:]  # clients spell it as they like: C:, c:, c%3A
    return Path(path) if path else None


def path_of(uri: str) -> Path | None:
    """The real path that a `file:` URI names, links followed; None for any other scheme."""
    path = spelled_path_of(uri)
    return Path(os.path.realpath(path)) if path is not None else None


def uri_of(path: Path) -> str:
    """The `file:` URI of a path."""
    try:
        return str(uris.from_fs_path(str(path)))
    except UnicodeEncodeError:
        return path.as_uri()  # of bytes


def identity(uri: str) -> str:
    """What makes two URIs the same document, as the path of one: slashes that follow one another are one."""
    return str(path_of(uri) or Path(uri))


def _units(character: str, encoding: Encoding) -> int:
    if encoding == "utf-32" or character < "\x80":
        return 1
    if encoding == "utf-16":
        return 2 if character > "\uffff" else 1
    return 2 if character < "\u0800" else 3 if character <= "\uffff" else 4


def column_to_offset(line: str, character: int, encoding: Encoding, *, line_ends: str = "\r\n") -> int:
    """A column of a position as code points, clamped to the line without its end, of which characters it may be."""
    body = line.rstrip(line_ends)
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


def newline_line(text: str, number: int) -> tuple[int, str]:
    r"""Where a line begins that only `\n` ends, and the line; the end of the text if there is none."""
    start = 0
    for _ in range(number):
        start = text.find("\n", start) + 1
        if not start:
            return len(text), ""
    end = text.find("\n", start)
    return start, text[start : end if end >= 0 else len(text)]


def newline_place(head: str) -> tuple[int, str]:
    r"""Which line comes next after a text, where only `\n` ends one, and what the text has of it."""
    return head.count("\n"), head.rpartition("\n")[2]


class Document:
    r"""One open document, as the editor last told it; or a text that is looked at as one, without a version.

    `splits_at_return`: for its editor a `\r` ends a line; else it is a character of the line, which has a column.
    """

    def __init__(
        self,
        uri: str,
        version: int | None,
        rope: Rope,
        encoding: Encoding = "utf-16",
        *,
        splits_at_return: bool = True,
    ) -> None:
        self._splits_at_return = splits_at_return
        self.uri = uri
        self.key = identity(uri)
        self.version = version
        self.encoding = encoding
        self.rope = rope
        self.told_at = time.time()  # of the last that was told of its text, by the clock of the files
        self.changed_at = float("-inf")  # of the last didChange, by the monotonic clock, which is asyncio's too

    @property
    def text(self) -> str:
        """The whole text."""
        return str(self.rope)

    def offset_at(self, position: Position) -> int:
        """Code points before a position."""
        return self.rope.offset_at(self._place(position.line, position.character))

    def position_at(self, offset: int, encoding: Encoding | None = None) -> Position:
        """The position of an offset, in the editor's encoding unless another is asked for."""
        if self._counts_newlines:
            newlines, tail = newline_place(self.text[:offset])
            return Position(line=newlines, character=offset_to_column(tail, len(tail), encoding or self.encoding))
        line, column = self.rope.place_at(offset)
        if column:
            column = offset_to_column(self.rope.line(line), column, encoding or self.encoding)
        return Position(line=line, character=column)

    def range_of(self, span: Span, encoding: Encoding | None = None) -> Range:
        """The range of a span."""
        return Range(start=self.position_at(span.start, encoding), end=self.position_at(span.end, encoding))

    def apply(self, version: int, changes: list[dict[str, Any]], trace: list[Change] | None = None) -> None:
        """Take a didChange's content changes, in their order; `trace` gets each as a change of offsets."""
        for change in changes:
            self.rope = self._changed(change.get("range"), change["text"], trace)
        self.version = version
        self.changed_at = time.monotonic()
        self.told_at = time.time()

    def _changed(self, where: dict[str, Any] | None, text: str, trace: list[Change] | None) -> Rope:
        before = self.rope
        if where is None:
            after = Rope.of(text)
            if trace is not None:
                trace.append(before.difference(after))
            return after
        start, end = sorted(self._place(where[edge]["line"], where[edge]["character"]) for edge in ("start", "end"))
        if trace is not None:
            trace.append(Change(Span(before.offset_at(start), before.offset_at(end)), text))
        return before.replaced(start, end, text)

    def _place(self, line: int, character: int) -> Place:
        """A position as a line and code points; past the end means the end."""
        if self._counts_newlines:
            start, body = newline_line(self.text, line)
            return self.rope.place_at(start + column_to_offset(body, character, self.encoding, line_ends=""))
        if line >= self.rope.line_count:
            return self.rope.end
        ends = "\r\n" if self._splits_at_return else "\n"
        return line, column_to_offset(self.rope.line(line), character, self.encoding, line_ends=ends)

    @property
    def _counts_newlines(self) -> bool:
        """Whether the editor's lines are not the text's; then the whole text is looked through for a place."""
        return not self._splits_at_return and self.rope.has_lone_returns


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChanged:
    """A document's text became another one."""

    document: Document
    passage: Passage

    @property
    def before(self) -> Rope:
        """The text that it was."""
        return self.passage.before

    @property
    def after(self) -> Rope:
        """The text that it is."""
        return self.passage.after


Hinter = Callable[[Document], list[JsonObject]]


class Documents:
    r"""All open documents of a client; going through them gives one of each file, the one that is followed.

    `line_ends_apart`: it may keep the line ends of a file apart from its text and tell of `\n` alone, as Emacs does.
    `last_end_apart`: how the last line ends is not in its text, as in Neovim's.
    `splits_at_return`: a `\r` ends a line, as LSP says; for Neovim it is a character of the line.
    """

    def __init__(
        self,
        encoding: Encoding = "utf-16",
        *,
        line_ends_apart: bool = False,
        last_end_apart: bool = False,
        splits_at_return: bool = True,
    ) -> None:
        self.encoding: Encoding = encoding
        self.line_ends_apart = line_ends_apart
        self.last_end_apart = last_end_apart
        self.splits_at_return = splits_at_return
        self.changed: Emit[DocumentChanged] = Emit("document changed")
        self.opened: Emit[Document] = Emit("document opened")
        self.closed: Emit[Document] = Emit("document closed")
        self._by_uri: dict[str, Document] = {}
        self._of_file: dict[str, list[Document]] = {}  # by identity; the first is the one that is followed
        self._watched: Counter[str] = Counter()
        self._locks: dict[str, anyio.Lock] = {}
        self._hinters: list[Hinter] = []

    def is_saved(self, held: Rope, saved: str | None) -> bool:
        """Whether a file holds the text that the editor holds."""
        if saved is None or held.is_text(saved):
            return saved is not None
        apart = self.line_ends_apart, self.last_end_apart
        return any(apart) and is_saved(str(held), saved, line_ends_apart=apart[0], last_end_apart=apart[1])

    def watch(self, key: str) -> Disposer:
        """Tell `changed` of a document's changes; those of documents that nobody watches are only applied."""
        self._watched[key] += 1

        def dispose() -> None:
            self._watched[key] -= 1
            if not self._watched[key]:
                del self._watched[key]

        return dispose

    @asynccontextmanager
    async def one_at_a_time(self, key: str) -> AsyncIterator[None]:
        """Be the only one that sends edits of a document, whatever session they are of."""
        lock = self._locks.setdefault(key, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    def hint_by(self, hinter: Hinter) -> Disposer:
        """Have something shown beside documents as diagnostics, of which a document has one list in all."""
        self._hinters.append(hinter)
        return lambda: self._hinters.remove(hinter)

    def hints_of(self, document: Document) -> list[JsonObject]:
        """All that is to be shown beside a document."""
        return [hint for hinter in self._hinters for hint in hinter(document)]

    def get(self, uri: str) -> Document | None:
        """The open document that a URI in any spelling names."""
        return self._by_uri.get(uri) or self._first(identity(uri))

    def followed(self, uri: str) -> Document | None:
        """The document that is followed and holds the text of this one; None if it holds another text."""
        document = self.get(uri)
        first = self._first(document.key) if document is not None else None
        return first if document is not None and first is not None and first.rope == document.rope else None

    def at(self, path: Path) -> Document | None:
        """The open document of a real path."""
        return self._first(str(path))

    def _first(self, key: str) -> Document | None:
        return next(iter(self._of_file.get(key, ())), None)

    def __iter__(self) -> Iterator[Document]:
        return iter([documents[0] for documents in self._of_file.values()])

    def check_certain(self, path: Path) -> None:
        """Refuse to edit a file of which it cannot be told what the editor holds. Blocks.

        Raises:
            ToolError: `TWO_TEXTS`, `MOVED`.
        """
        here = list(self._of_file.get(str(path), ()))
        if any(document.rope != here[0].rope for document in here):
            message = f"the editor holds {path.name} under several names, with different texts; save or close one"
            raise ToolError(message, code="TWO_TEXTS")
        for document in list(self._by_uri.values()):
            now = identity(document.uri)
            if now != document.key and str(path) in (now, document.key):
                message = (
                    f"the editor opened {path.name} by a link that leads elsewhere by now; it must open it again"
                )
                raise ToolError(message, code="MOVED")

    async def wait_until_nobody_types(self) -> None:
        """Return when no document has changed for a while: what takes the focus then takes no keystroke."""
        while True:
            last = max((document.changed_at for document in self._by_uri.values()), default=float("-inf"))
            left = last + PAUSE_S - anyio.current_time()
            if left <= 0:
                return
            await anyio.sleep(left)

    def open(self, uri: str, version: int, text: str) -> None:
        """Take a didOpen; opening again, without a didClose, is a change of the whole text."""
        before = self._by_uri.get(uri)
        if before is not None and before.key == identity(uri):
            self.change(uri, version, [{"text": text}])
            return
        if before is not None:
            self.close(uri)
        document = Document(uri, version, Rope.of(text), self.encoding, splits_at_return=self.splits_at_return)
        self._by_uri[uri] = document
        here = self._of_file.setdefault(document.key, [])
        here.append(document)
        if here[0] is document:
            self.opened(document)

    def change(self, uri: str, version: int, changes: list[dict[str, Any]]) -> None:
        """Take a didChange; one for a document that was never opened is dropped."""
        document = self.get(uri)
        if document is None:
            return
        if document.key not in self._watched or self._first(document.key) is not document:
            document.apply(version, changes)
            return
        before, trace = document.rope, list[Change]()
        document.apply(version, changes, trace)
        self.changed(DocumentChanged(document=document, passage=Passage(before, document.rope, tuple(trace))))

    def close(self, uri: str) -> None:
        """Take a didClose; another document of the file, if there is one, is followed from now on."""
        document = self.get(uri)
        if document is None:
            return
        was_followed = self._first(document.key) is document
        del self._by_uri[document.uri]
        self._of_file[document.key].remove(document)
        if not self._of_file[document.key]:
            del self._of_file[document.key]
        if was_followed:
            self.closed(document)
            if (other := self._first(document.key)) is not None:
                self.opened(other)
