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
from dsh_lsp.errors import ToolError
from dsh_lsp.lsp.documents import Documents, path_of, uri_of
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.workspace.disk import list_folder, read_file
from dsh_lsp.workspace.edits import FileEdit, HunkOutcome, Snapshot
from dsh_lsp.workspace.paths import NOTHING, check_writable, effects_of, is_inside, resolve, shown
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
        saved = await anyio.to_thread.run_sync(_saved_text, real, name)
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
        self, edits: Sequence[FileEdit], approved: frozenset[EffectKind] = NOTHING, *, signal: AbortSignal
    ) -> list[HunkOutcome]:
        """Review edits and tell what became of each hunk."""
        checked: list[tuple[FileEdit, Path]] = []
        for edit in edits:
            real = resolve(self.root, edit.path, approved)
            check_writable(self.root, real, approved)
            if edit.base is None and (real.exists() or self._documents.at(real) is not None):
                raise ToolError(f"{edit.path} exists already", code="EXISTS")
            checked.append((edit, real))
        return await self._reviews.propose(checked, signal=signal)


def _saved_text(path: Path, name: str) -> str | None:
    try:
        return read_file(path, name).text
    except ToolError:
        return None
