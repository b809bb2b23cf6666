"""Language: what tools may ask of the user's own language servers.

Rules: lines and columns count from 1, columns in characters; None means that nobody offers an answer, which is never
the answer "there is nothing".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from dsh_lsp.decisions import GrantKey
from dsh_lsp.workspace.edits import FileEdit
from dsh_lsp.workspace.paths import NOTHING

Severity = Literal["error", "warning", "information", "hint"]
Relation = Literal["definition", "references", "implementation"]

MAX_LINES: Final = 100
MAX_LINE_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A diagnostic; `source` is who says so."""

    line: int
    severity: Severity
    message: str
    source: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The problems of one document; `fresh` says that they are about its text as it is now."""

    problems: tuple[Problem, ...]
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A name in a document: its first occurrence in `line`, or in the whole text."""

    path: str
    symbol: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a document; `text` is its line, empty where nobody may read it."""

    path: str
    line: int
    column: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A named thing; `depth` is how far inside others of its document it stands."""

    name: str
    kind: str
    path: str
    line: int
    depth: int = 0


class LanguageServers(Protocol):
    """The language servers of the user's editor. Each method raises `ToolError` for a spot that is not there."""

    async def diagnose(
        self, path: str, approved: frozenset[GrantKey] = NOTHING, *, after_edit: bool = False
    ) -> Diagnosis | None:
        """The problems of a document; `after_edit` waits for news about its text as it is now, at most 2 s."""

    async def find(
        self, relation: Relation, spot: Spot, approved: frozenset[GrantKey] = NOTHING
    ) -> list[Place] | None:
        """Where a name is defined, used or implemented."""

    async def hover(self, spot: Spot, approved: frozenset[GrantKey] = NOTHING) -> str | None:
        """What the language server says of a name; empty when that is nothing."""

    async def outline(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> list[Symbol] | None:
        """The symbols of a document, in its order."""

    async def lookup(self, query: str) -> list[Symbol] | None:
        """The symbols of the workspace whose names fit a query."""

    async def rename(
        self, spot: Spot, new_name: str, approved: frozenset[GrantKey] = NOTHING
    ) -> list[FileEdit] | None:
        """The edits that give a name another one everywhere; nothing is written.

        Raises:
            ToolError: they reach outside the workspace, move files, or are about a text that is no more.
        """


class NoLanguageServers:
    """Where there is no editor, nobody offers anything."""

    async def diagnose(
        self, path: str, approved: frozenset[GrantKey] = NOTHING, *, after_edit: bool = False
    ) -> Diagnosis | None:
        """Nobody knows."""

    async def find(
        self, relation: Relation, spot: Spot, approved: frozenset[GrantKey] = NOTHING
    ) -> list[Place] | None:
        """Nobody knows."""

    async def hover(self, spot: Spot, approved: frozenset[GrantKey] = NOTHING) -> str | None:
        """Nobody knows."""

    async def outline(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> list[Symbol] | None:
        """Nobody knows."""

    async def lookup(self, query: str) -> list[Symbol] | None:
        """Nobody knows."""

    async def rename(
        self, spot: Spot, new_name: str, approved: frozenset[GrantKey] = NOTHING
    ) -> list[FileEdit] | None:
        """Nobody knows."""


def describe_problems(problems: Sequence[Problem]) -> str:
    """Problems as the model reads them, one a line."""
    return bounded(
        [
            f"line {problem.line}: {problem.severity}: {' '.join(problem.message.split())}{_source(problem)}"
            for problem in problems
        ]
    )


def bounded(lines: Sequence[str]) -> str:
    """Lines as a text that is never large."""
    kept = [line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…" for line in lines[:MAX_LINES]]
    more = [f"[{len(lines) - MAX_LINES} more]"] if len(lines) > MAX_LINES else []
    return "\n".join(kept + more)


def _source(problem: Problem) -> str:
    by = " ".join(filter(None, (problem.source, problem.code)))
    return f" ({by})" if by else ""
