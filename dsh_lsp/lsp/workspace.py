"""Workspace: the tools' port to the user's documents, over what the editor holds and the files below.

Rules: an open buffer wins over its file; a proposal that cannot be written is refused before anybody reviews it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import anyio.to_thread

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import Effect, EffectKind
from dsh_lsp.lsp.documents import Documents, path_of, uri_of
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.workspace.changes import prepare
from dsh_lsp.workspace.disk import list_folder, read_file, text_on_disk
from dsh_lsp.workspace.edits import FileChange, HunkOutcome, Snapshot
from dsh_lsp.workspace.paths import NOTHING, effects_of, is_inside, resolve, shown
from dsh_lsp.workspace.port import Listing, OpenDocument
from dsh_lsp.workspace.rope import Rope


class EditorWorkspace:
    """The `Workspace` of one session in an editor."""

    def __init__(self, root: Path, documents: Documents, reviews: Reviews) -> None:
        self.root = root
        self._documents = documents
        self._reviews = reviews

    def effects(self, path: str, kind: Literal["read", "edit"]) -> list[Effect]:
        """What touching a path means."""
        return effects_of(self.root, path, kind)

    async def read(self, path: str, approved: frozenset[EffectKind] = NOTHING) -> Snapshot:
        """Read a document, unsaved text included."""
        real = resolve(self.root, path, approved)
        name = shown(self.root, real)
        document = self._documents.at(real)
        if document is None:
            text = (await anyio.to_thread.run_sync(read_file, real, name)).text
            return Snapshot(uri=uri_of(real), path=name, rope=Rope.of(text))
        rope, version = document.rope, document.version
        saved = await anyio.to_thread.run_sync(text_on_disk, real)
        return Snapshot(
            uri=document.uri,
            path=name,
            rope=rope,
            version=version,
            dirty=saved != str(rope),
            unconfirmed=self._reviews.is_unconfirmed(document.key),
        )

    async def list_files(self, path: str, approved: frozenset[EffectKind] = NOTHING, *, limit: int) -> Listing:
        """List the files below a folder."""
        folder = resolve(self.root, path, approved)
        return await anyio.to_thread.run_sync(lambda: list_folder(self.root, folder, limit=limit))

    def open_documents(self) -> list[OpenDocument]:
        """The documents of the workspace that the editor holds."""
        return [
            OpenDocument(path=shown(self.root, real), uri=document.uri, text=document.text)
            for document in self._documents
            if (real := path_of(document.uri)) is not None and is_inside(self.root, real)
        ]

    async def propose(
        self, edits: Sequence[FileChange], approved: frozenset[EffectKind] = NOTHING, *, signal: AbortSignal
    ) -> list[HunkOutcome]:
        """Review changes and tell what became of each hunk."""

        def is_open(path: Path) -> bool:
            return self._documents.at(path) is not None

        prepared = await anyio.to_thread.run_sync(
            lambda: [prepare(self.root, edit, approved, is_open=is_open) for edit in edits]
        )
        return await self._reviews.propose(prepared, signal=signal, by_person=bool(approved))
