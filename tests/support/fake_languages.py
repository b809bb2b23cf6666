"""Fake languages: language servers that know what a test tells them, and note what they were asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from dsh_lsp.decisions import GrantKey
from dsh_lsp.workspace.edits import FileEdit
from dsh_lsp.workspace.language import Diagnosis, Place, Problem, Relation, Spot, Symbol
from dsh_lsp.workspace.paths import NOTHING


def problem(line: int, message: str, **more: Any) -> Problem:
    return Problem(line=line, severity="error", message=message, **more)


class FakeLanguageServers:
    """Answers with what it holds; `before` and `after` are the problems around an edit, None offers nothing."""

    def __init__(
        self, before: Sequence[Problem] | None = None, after: Sequence[Problem] | None = None, *, fresh: bool = True
    ) -> None:
        self.before, self.after, self.fresh = before, after, fresh
        self.asked: list[Any] = []
        self.places: list[Place] | None = None
        self.symbols: list[Symbol] | None = None
        self.text: str | None = None
        self.edits: list[FileEdit] | None = None
        self.silent = False  # never answers
        self.rename_takes_s = 0.0

    async def diagnose(
        self, path: str, approved: frozenset[GrantKey] = NOTHING, *, after_edit: bool = False
    ) -> Diagnosis | None:
        self.asked.append((path, after_edit))
        if self.silent:
            await anyio.sleep_forever()
        found = self.after if after_edit else self.before
        return None if found is None else Diagnosis(problems=tuple(found), fresh=self.fresh)

    async def find(
        self, relation: Relation, spot: Spot, approved: frozenset[GrantKey] = NOTHING
    ) -> list[Place] | None:
        self.asked.append((relation, spot))
        return self.places

    async def hover(self, spot: Spot, approved: frozenset[GrantKey] = NOTHING) -> str | None:
        self.asked.append(("hover", spot))
        return self.text

    async def outline(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> list[Symbol] | None:
        self.asked.append(("outline", path))
        return self.symbols

    async def lookup(self, query: str) -> list[Symbol] | None:
        self.asked.append(("lookup", query))
        return self.symbols

    async def rename(
        self, spot: Spot, new_name: str, approved: frozenset[GrantKey] = NOTHING
    ) -> list[FileEdit] | None:
        self.asked.append(("rename", spot, new_name))
        await anyio.sleep(self.rename_takes_s)
        return self.edits
