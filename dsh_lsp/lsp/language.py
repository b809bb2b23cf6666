"""Language: the user's own language servers, asked through the editor.

Rules: a client that does not offer it, an error, `null` where an answer is due, silence and an answer of another
shape are all "not offered"; a rename is only a set of edits, which goes the way of all edits.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import anyio.to_thread

from dsh_lsp.decisions import GrantKey, Range
from dsh_lsp.errors import EditorError, ToolError
from dsh_lsp.lsp.documents import Document, Documents, Encoding, offset_to_column, path_of, uri_of
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.language_results import (
    TextEdits,
    edits_of,
    hover_of,
    locations_of,
    problems_of,
    symbols_of,
)
from dsh_lsp.lsp.protocol import DIAGNOSTICS, NAVIGATE
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.disk import read_file
from dsh_lsp.workspace.edits import FileEdit, Snapshot
from dsh_lsp.workspace.language import Diagnosis, Place, Relation, Spot, Symbol
from dsh_lsp.workspace.paths import NOTHING, Guarded, may_touch, resolve, shown
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span

log = logging.getLogger(__name__)

DIAGNOSTICS_TIMEOUT_S: Final = 2.5  # the client waits for 2 s itself
NAVIGATE_TIMEOUT_S: Final = 20.0  # a language server may still read the project
MAX_PLACES: Final = 200

R = TypeVar("R")


class EditorLanguages:
    """The `LanguageServers` of one session in an editor."""

    def __init__(
        self, workspace: Workspace, documents: Documents, editor: Editor, guarded: Guarded | None = None
    ) -> None:
        self._workspace = workspace
        self._guarded = guarded
        self._root = workspace.root
        self._documents = documents
        self._editor = editor

    async def diagnose(
        self, path: str, approved: frozenset[GrantKey] = NOTHING, *, after_edit: bool = False
    ) -> Diagnosis | None:
        """The problems of a document."""
        real = resolve(self._root, path, approved, self._guarded)
        document = self._documents.at(real)
        params: JsonObject = {"uri": document.uri if document is not None else uri_of(real)}
        if after_edit and document is not None:
            params["after"] = document.version
        if not self._editor.profile.offers("diagnostics"):
            return None
        reply = await self._ask(DIAGNOSTICS, params, DIAGNOSTICS_TIMEOUT_S)
        if not isinstance(reply, dict):
            return None
        problems = _read(problems_of, reply.get("items"))
        return None if problems is None else Diagnosis(problems=problems, fresh=reply.get("fresh") is True)

    async def find(
        self, relation: Relation, spot: Spot, approved: frozenset[GrantKey] = NOTHING
    ) -> list[Place] | None:
        """Where a name is defined, used or implemented."""
        found = _read(locations_of, await self._navigate(relation, spot, approved))
        if found is None:
            return None
        texts: dict[Path, Document | None] = {}
        return [await self._place(uri, place, approved, texts) for uri, place in found[:MAX_PLACES]]

    async def hover(self, spot: Spot, approved: frozenset[GrantKey] = NOTHING) -> str | None:
        """What the language server says of a name."""
        return _read(hover_of, await self._navigate("hover", spot, approved))

    async def outline(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> list[Symbol] | None:
        """The symbols of a document."""
        uri = await self._uri(path, approved)
        result = await self._request({"kind": "documentSymbols", "uri": uri})
        return self._symbols(_read(lambda reply: symbols_of(reply, uri), result))

    async def lookup(self, query: str) -> list[Symbol] | None:
        """The symbols of the workspace whose names fit a query."""
        return self._symbols(_read(symbols_of, await self._request({"kind": "workspaceSymbols", "query": query})))

    async def rename(
        self, spot: Spot, new_name: str, approved: frozenset[GrantKey] = NOTHING
    ) -> list[FileEdit] | None:
        """The edits that give a name another one everywhere."""
        reply = await self._navigate("rename", spot, approved, newName=new_name)
        if reply is _NOTHING:
            return None
        try:
            found = edits_of(reply)
        except (ValueError, KeyError, TypeError) as error:
            raise ToolError(f"the language server's rename cannot be used: {error}", code="NO_RENAME") from error
        return [await self._file_edit(one, approved) for one in found]

    # -- asking ----------------------------------------------------------------------------------------------

    async def _navigate(
        self,
        kind: Relation | Literal["hover", "rename"],
        spot: Spot,
        approved: frozenset[GrantKey],
        **more: str,
    ) -> Any:
        snapshot = await self._workspace.read(spot.path, approved)
        line, column = locate_symbol(snapshot, spot)
        text = snapshot.rope.line(line)
        position = {"line": line, "character": offset_to_column(text, column, self._documents.encoding)}
        return await self._request({"kind": kind, "uri": snapshot.uri, "position": position, **more})

    async def _request(self, params: JsonObject) -> Any:
        if not self._editor.profile.offers("navigate"):
            return _NOTHING
        reply = await self._ask(NAVIGATE, params, NAVIGATE_TIMEOUT_S)
        return _NOTHING if reply is None else reply  # `null` is no answer: nobody was there to give one

    async def _ask(self, method: str, params: JsonObject, timeout_s: float) -> Any:
        try:
            return await self._editor.ask(method, params, timeout_s=timeout_s)
        except EditorError as error:
            log.info("%s: %s", method, error)
            return _NOTHING

    async def _uri(self, path: str, approved: frozenset[GrantKey]) -> str:
        return (await self._workspace.read(path, approved)).uri

    # -- understanding ---------------------------------------------------------------------------------------

    def _symbols(self, found: list[tuple[str, str, str, int, int]] | None) -> list[Symbol] | None:
        if found is None:
            return None
        return [
            Symbol(name=name, kind=kind, path=self._name(uri), line=line, depth=depth)
            for name, kind, uri, line, depth in found
        ]

    def _name(self, uri: str) -> str:
        real = path_of(uri)
        return shown(self._root, real) if real is not None else uri

    async def _place(
        self, uri: str, found: Range, approved: frozenset[GrantKey], texts: dict[Path, Document | None]
    ) -> Place:
        """A location as people read it; the text of what lies outside is shown only where that was allowed."""
        real = path_of(uri)
        document = None
        if real is not None and may_touch(self._root, real, "read", approved, self._guarded):
            if real not in texts:
                texts[real] = self._documents.at(real) or await anyio.to_thread.run_sync(
                    _document_on_disk, real, self._documents.encoding
                )
            document = texts[real]
        if document is None:
            return Place(path=self._name(uri), line=found.start.line + 1, column=found.start.character + 1)
        row, column = document.rope.place_at(document.offset_at(found.start))
        line = document.rope.line(row) if row < document.rope.line_count else ""
        return Place(path=self._name(uri), line=row + 1, column=column + 1, text=line.rstrip("\r\n"))

    async def _file_edit(self, found: TextEdits, approved: frozenset[GrantKey]) -> FileEdit:
        """One document's part of a rename.

        Raises:
            ToolError: `OUTSIDE`, `STALE`, `NO_RENAME`.
        """
        real = path_of(found.uri)
        if real is None:
            raise ToolError(f"the rename would change {found.uri}, which is no file", code="NO_RENAME")
        base = await self._workspace.read(str(real), approved)
        if found.version is not None and base.version is not None and found.version != base.version:
            raise ToolError(f"{base.path} has changed while the language server thought; try again", code="STALE")
        document = Document(found.uri, None, base.rope, self._documents.encoding)
        changes = sorted(
            (document.offset_at(place.start), document.offset_at(place.end), text) for place, text in found.edits
        )
        if any(before[1] > after[0] for before, after in pairwise(changes)):
            raise ToolError("the language server's edits overlap", code="NO_RENAME")
        new = base.rope
        for start, end, text in reversed(changes):
            new = new.changed(Change(Span(start, end), text))
        return FileEdit(path=base.path, base=base, new=new)


_NOTHING: Final = object()  # nobody answered, which is not the answer "there is nothing"


def _read(read: Callable[[Any], R], reply: Any) -> R | None:
    """Read an answer; None when there is none, or none that LSP knows."""
    if reply is _NOTHING:
        return None
    try:
        return read(reply)
    except (ValueError, KeyError, TypeError) as error:
        log.warning("the editor's answer is not understood: %s", error)
        return None


def locate_symbol(snapshot: Snapshot, spot: Spot) -> tuple[int, int]:
    """Where a name stands first: line from 0, and characters before it.

    Raises:
        ToolError: `NO_SYMBOL`.
    """
    rope = snapshot.rope
    if spot.line is not None and spot.line > rope.line_count:
        raise ToolError(f"{snapshot.path} has only {rope.line_count} lines", code="PAST_END")
    whole = re.compile(rf"(?<!\w){re.escape(spot.symbol)}(?!\w)")
    first, last = (0, None) if spot.line is None else (spot.line - 1, spot.line)
    for number, line in enumerate(rope.lines(first, last), first):
        if (found := whole.search(line)) is not None:
            return number, found.start()
    where = "in" if spot.line is None else f"in line {spot.line} of"
    raise ToolError(f"there is no {spot.symbol!r} {where} {snapshot.path}", code="NO_SYMBOL")


def _document_on_disk(path: Path, encoding: Encoding) -> Document | None:
    try:
        return Document(uri_of(path), None, Rope.of(read_file(path, path.name).text), encoding)
    except ToolError:
        return None
