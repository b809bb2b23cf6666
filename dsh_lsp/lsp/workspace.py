"""Workspace: the tools' port to the user's documents, over what the editor holds and the files below.

Rules: an open buffer wins over its file; a proposal that cannot be written is refused before anybody reviews it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import anyio.to_thread

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import Effect, GrantKey
from dsh_lsp.lsp.documents import Document, Documents, path_of, uri_of
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.workspace.changes import Prepared, prepare
from dsh_lsp.workspace.disk import read_file, text_on_disk, written_at
from dsh_lsp.workspace.edits import FileChange, FileEdit, HunkOutcome, Snapshot
from dsh_lsp.workspace.order import Order, Ticket
from dsh_lsp.workspace.pages import is_large, read_page
from dsh_lsp.workspace.paths import NOTHING, Guarded, effects_of, in_workspace, resolve, shown
from dsh_lsp.workspace.port import Found, Listing, OpenDocument, Page, Query
from dsh_lsp.workspace.ripgrep import ripgrep
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.search import search
from dsh_lsp.workspace.threads import Stop, in_thread
from dsh_lsp.workspace.walk import list_folder


class EditorWorkspace:
    """The `Workspace` of one session in an editor."""

    def __init__(self, root: Path, documents: Documents, reviews: Reviews, guarded: Guarded | None = None) -> None:
        self.root = root
        self._guarded = guarded
        self._real_root = Path(os.path.realpath(root))
        self._documents = documents
        self._reviews = reviews
        self.order = Order()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The other folders of the window."""
        return tuple(self._guarded.folders()) if self._guarded is not None else ()

    def effects(self, path: str, kind: Literal["read", "edit"]) -> list[Effect]:
        """What touching a path means."""
        return effects_of(self.root, path, kind, self._guarded)

    async def read(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> Snapshot:
        """Read a document, unsaved text included."""
        if (document := self._untitled(path)) is not None:
            unconfirmed = self._reviews.is_unconfirmed(document.key)
            return Snapshot(
                uri=document.uri,
                path=document.uri,
                rope=document.rope,
                version=document.version,
                dirty=True,
                unconfirmed=unconfirmed,
            )
        real, name = await anyio.to_thread.run_sync(self._located, path, approved)
        document = self._documents.at(real)
        if document is None:
            return Snapshot(uri=uri_of(real), path=name, rope=await anyio.to_thread.run_sync(_rope_of, real, name))
        rope, version, told_at = document.rope, document.version, document.told_at
        saved = await anyio.to_thread.run_sync(_text_beside, rope, real)
        dirty = not self._documents.is_saved(rope, saved)
        return Snapshot(
            uri=document.uri,
            path=name,
            rope=rope,
            version=version,
            dirty=dirty,
            outdated=saved is not None and dirty and await anyio.to_thread.run_sync(written_at, real) > told_at,
            unconfirmed=self._reviews.is_unconfirmed(document.key),
        )

    def _untitled(self, name: str) -> Document | None:
        """The open document that has no file yet, which goes by its URI."""
        return self._documents.get(name) if name.startswith("untitled:") else None

    async def list_files(self, path: str, approved: frozenset[GrantKey] = NOTHING, *, limit: int) -> Listing:
        """List the files below a folder."""

        def listing(stop: Stop) -> Listing:
            folder, _ = self._located(path, approved)
            return list_folder(self.root, folder, limit=limit, stop=stop)

        return await in_thread(listing)

    async def read_page(
        self, path: str, approved: frozenset[GrantKey] = NOTHING, *, first: int, limit: int
    ) -> Page | None:
        """Read some lines of a large file that no editor holds."""
        real, name = await anyio.to_thread.run_sync(self._located, path, approved)
        if self._documents.at(real) is not None or not await anyio.to_thread.run_sync(is_large, real):
            return None
        return await in_thread(lambda stop: read_page(real, name, first=first, limit=limit, stop=stop))

    async def search(self, query: Query, approved: frozenset[GrantKey] = NOTHING) -> Found:
        """Search the files below a folder, unsaved text included."""
        documents = list(self._documents)

        def look() -> tuple[Path, list[OpenDocument], str | None]:
            return self._located(query.path, approved)[0], self._in_workspace(documents), ripgrep()

        folder, held, program = await anyio.to_thread.run_sync(look)
        return await search(self._real_root, folder, query, held, program=program)

    def _located(self, path: str, approved: frozenset[GrantKey]) -> tuple[Path, str]:
        """Where a path leads, and its name. Blocks."""
        real = resolve(self.root, path, approved, self._guarded)
        return real, shown(self.root, real)

    def open_documents(self) -> list[OpenDocument]:
        """The documents of the workspace that the editor holds."""
        return self._in_workspace(self._documents)

    def _in_workspace(self, documents: Iterable[Document]) -> list[OpenDocument]:
        return [
            OpenDocument(
                path=shown(self.root, real),
                uri=document.uri,
                text=document.text,
                line_ends_apart=self._documents.line_ends_apart,
                last_end_apart=self._documents.last_end_apart,
            )
            for document in documents
            if (real := path_of(document.uri)) is not None and in_workspace(self.root, real, self._guarded)
        ]

    async def propose(
        self,
        edits: Sequence[FileChange],
        approved: frozenset[GrantKey] = NOTHING,
        *,
        signal: AbortSignal,
        ticket: Ticket | None = None,
    ) -> list[HunkOutcome]:
        """Review changes and tell what became of each hunk."""

        def is_open(path: Path) -> bool:
            return self._documents.at(path) is not None

        def check(edit: FileChange) -> Prepared:
            if isinstance(edit, FileEdit) and edit.base and (document := self._untitled(edit.path)) is not None:
                return Prepared(change=edit, path=Path(document.key))
            prepared = prepare(self.root, edit, approved, is_open=is_open, guarded=self._guarded)
            self._documents.check_certain(prepared.path)
            return prepared

        prepared = await anyio.to_thread.run_sync(lambda: [check(edit) for edit in edits])
        if ticket is not None:
            await ticket.wait()
        return await self._reviews.propose(prepared, signal=signal, by_person=bool(approved))


def _rope_of(real: Path, name: str) -> Rope:
    """The text of a file that no editor holds. Blocks."""
    rope = Rope.of(read_file(real, name).text)
    rope.digest  # noqa: B018 - every reader asks for it, and the first time takes long for a long text
    return rope


def _text_beside(rope: Rope, real: Path) -> str | None:
    """The text of a file that an editor holds too, None where it has none. Blocks."""
    rope.digest  # noqa: B018 - as above
    return text_on_disk(real)
