"""Fake workspace: documents in a dict, whose reviewer decides at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import Effect, GrantKey
from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.edits import (
    FileChange,
    FileDelete,
    FileEdit,
    FileRename,
    HunkOutcome,
    Snapshot,
    outcome_of,
    plan_hunks,
)
from dsh_lsp.workspace.order import Order, Ticket
from dsh_lsp.workspace.paths import NOTHING
from dsh_lsp.workspace.port import Entry, Found, Listing, Match, OpenDocument, Page, Query
from dsh_lsp.workspace.rope import Rope


class FakeWorkspace:
    """Holds files by their paths; a path that begins with `/` or `..` lies outside."""

    def __init__(self, files: dict[str, str] | None = None, *, accepts: bool = True) -> None:
        self.files = dict(files or {})
        self.accepts = accepts
        self.open: dict[str, str] = {}
        self.order = Order()
        self.touched: list[str] = []  # what was read, listed or proposed, in order

    @property
    def root(self) -> Path:
        return Path("/w")

    @property
    def folders(self) -> tuple[Path, ...]:
        return ()

    def effects(self, path: str, kind: Literal["read", "edit"]) -> list[Effect]:
        effects = [Effect(kind=kind, detail=path, grant_key=f"{kind}:{path}")]
        if _is_outside(path):
            effects.append(Effect(kind="outside", detail=f"{kind} {path}", grant_key=f"outside:{kind}:{path}"))
        return effects

    async def read(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> Snapshot:
        self._touch("read", path, approved)
        if path not in self.files:
            raise ToolError(f"there is no file {path}", code="NOT_FOUND")
        return Snapshot(uri=f"file:///w/{path}", path=path, rope=Rope.of(self.files[path]))

    async def list_files(self, path: str, approved: frozenset[GrantKey] = NOTHING, *, limit: int) -> Listing:
        self._touch("list", path, approved)
        below = sorted(name for name in self.files if path == "." or name.startswith(f"{path}/"))
        return Listing(entries=tuple(Entry(path=name) for name in below[:limit]), truncated=len(below) > limit)

    async def read_page(
        self, path: str, approved: frozenset[GrantKey] = NOTHING, *, first: int, limit: int
    ) -> Page | None:
        return None

    async def search(self, query: Query, approved: frozenset[GrantKey] = NOTHING) -> Found:
        self._touch("search", query.path, approved)
        found = [
            Match(path=path, line=number, text=line)
            for path, text in sorted(self.files.items())
            for number, line in enumerate(text.splitlines(), 1)
            if (query.pattern in line if query.fixed else re.search(query.pattern, line))
        ]
        return Found(matches=tuple(found[: query.limit]), truncated=len(found) > query.limit)

    def open_documents(self) -> list[OpenDocument]:
        return [OpenDocument(path=path, uri=f"file:///w/{path}", text=text) for path, text in self.open.items()]

    async def propose(
        self,
        edits: Sequence[FileChange],
        approved: frozenset[GrantKey] = NOTHING,
        *,
        signal: AbortSignal,
        ticket: Ticket | None = None,
    ) -> list[HunkOutcome]:
        if ticket is not None:
            await ticket.wait()
        outcomes = []
        for edit in edits:
            for path in (edit.path, edit.new_path) if isinstance(edit, FileRename) else (edit.path,):
                self._touch("propose", path, approved)
            if isinstance(edit, FileDelete | FileRename) and edit.path not in self.files:
                raise ToolError(f"there is no file {edit.path}", code="NOT_FOUND")
            ids = iter(range(1_000))
            for hunk in plan_hunks(edit, lambda ids=ids: f"h{next(ids)}"):  # type: ignore[misc]
                outcome: Literal["landed", "rejected"] = "landed" if self.accepts else "rejected"
                outcomes.append(outcome_of(edit, hunk, outcome, lines=(1, 1)))
            if self.accepts:
                self._carry_out(edit)
        return outcomes

    def _carry_out(self, change: FileChange) -> None:
        match change:
            case FileEdit(path=path, new=text):
                self.files[path] = str(text)
            case FileRename(path=path, new_path=new_path):
                self.files[new_path] = self.files.pop(path)
            case FileDelete(path=path):
                del self.files[path]
            case _:
                raise AssertionError(change)

    def _touch(self, what: str, path: str, approved: frozenset[GrantKey]) -> None:
        self.touched.append(f"{what} {path}")
        if _is_outside(path) and not any(f"outside:{kind}:{path}" in approved for kind in ("read", "edit")):
            raise ToolError(f"{path} lies outside the workspace /w", code="OUTSIDE")


def _is_outside(path: str) -> bool:
    return path.startswith(("/", "..", "~"))
