"""Port: what tools may ask of the user's documents, whoever holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import Effect, GrantKey
from dsh_lsp.workspace.edits import FileChange, HunkOutcome, Snapshot
from dsh_lsp.workspace.order import Order, Ticket
from dsh_lsp.workspace.paths import NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file or folder of the workspace; `path` is relative to its root, folders end in `/`."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a folder holds; `truncated` when there was more."""

    entries: tuple[Entry, ...]
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is searched for: a regular expression, or with `fixed` a text, line by line, in the files below a folder.

    `glob` restricts their paths as an ignore pattern would name them; `limit` bounds the matches.
    """

    pattern: str
    path: str = "."
    glob: str | None = None
    ignore_case: bool = False
    fixed: bool = False
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line that matches; a long one is shortened around the match."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found, by path and line; `truncated` when there was more.

    `unsaved` are the documents that were searched as the editor holds them.
    """

    matches: tuple[Match, ...]
    truncated: bool
    unsaved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some lines of a document, `first` counted from 1, without their ends; `more` says that others follow.

    `total` is how many lines there are, None where nobody has counted them.
    """

    path: str
    first: int
    lines: tuple[str, ...]
    more: bool
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDocument:
    r"""A document that the editor holds; `path` is relative to the workspace's root where it lies inside.

    `line_ends_apart`: its text has `\n` for every line end of the file. `last_end_apart`: it may
    have one at its end where the file has none, and the other way round.
    """

    path: str
    uri: str
    text: str
    line_ends_apart: bool = False
    last_end_apart: bool = False


class Workspace(Protocol):
    """The documents of one session: an open buffer wins over the file, and nothing is written unreviewed."""

    @property
    def root(self) -> Path:
        """The folder that paths are relative to."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The other folders of the user's window, as they are now."""

    @property
    def order(self) -> Order:
        """Calls that overlap take a ticket here before their first await, and propose in that order."""

    def effects(self, path: str, kind: Literal["read", "edit"]) -> list[Effect]:
        """What touching a path means, for whoever judges the call; pure.

        Raises:
            ToolError: `INVALID_PATH`.
        """

    async def read(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> Snapshot:
        """Read a document, unsaved text included; `approved` is what the user has allowed for this call.

        Raises:
            ToolError: `OUTSIDE`, `NOT_FOUND`, `NOT_A_FILE`, `NOT_TEXT`.
        """

    async def list_files(self, path: str, approved: frozenset[GrantKey] = NOTHING, *, limit: int) -> Listing:
        """List the files below a folder, ignored ones left out.

        Raises:
            ToolError: `OUTSIDE`, `NOT_FOUND`.
        """

    async def read_page(
        self, path: str, approved: frozenset[GrantKey] = NOTHING, *, first: int, limit: int
    ) -> Page | None:
        """Read some lines of a large file that no editor holds; None for any other, which `read` reads whole.

        Raises:
            ToolError: `OUTSIDE`, `NOT_TEXT`, `PAST_END`.
        """

    async def search(self, query: Query, approved: frozenset[GrantKey] = NOTHING) -> Found:
        """Search the files below a folder, unsaved text included, ignored files left out.

        Raises:
            ToolError: `OUTSIDE`, `NOT_FOUND`, `BAD_PATTERN`, `TIMEOUT`.
        """

    def open_documents(self) -> list[OpenDocument]:
        """The documents of the workspace that the editor holds, with their text as it is there."""

    async def propose(
        self,
        edits: Sequence[FileChange],
        approved: frozenset[GrantKey] = NOTHING,
        *,
        signal: AbortSignal,
        ticket: Ticket | None = None,
    ) -> list[HunkOutcome]:
        """Show edits for review and wait until every hunk is decided, or the signal fires.

        The review opens after those of the calls ahead; without a ticket, at once.

        Raises:
            ToolError: an edit changes nothing or cannot be shown.
        """
