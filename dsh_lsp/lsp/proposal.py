"""Proposal: edits that one tool call proposed together, and where each of their hunks is on its way.

Rules: a hunk's span is always in the text as it is now: the editor's where it holds the document, else the text
that the file was last seen to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio

from dsh_lsp.decisions import Outcome, ReviewFile, ReviewHunk
from dsh_lsp.lsp.documents import Document
from dsh_lsp.workspace.edits import FileEdit, Hunk, HunkOutcome, followed, plan_hunks
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change


@dataclass(slots=True, eq=False)
class Item:
    """One hunk on its way: waiting, accepted, sent to the editor, or decided."""

    hunk: Hunk
    file: FileUnderReview
    state: Literal["pending", "accepted", "sent", "decided"] = "pending"
    edited: bool = False  # the person put other text in the place of what was proposed
    previewed: bool = False  # an editor's own preview shows it, and may apply it by itself
    seen_at: tuple[int, int] | None = None  # the lines where the document showed it
    outcome: HunkOutcome | None = None

    def as_outcome(self, outcome: Outcome, **more: Any) -> HunkOutcome:
        """What the hunk would become."""
        return HunkOutcome(hunk=self.hunk, path=self.file.edit.path, outcome=outcome, edited=self.edited, **more)

    def follow(self, before: Rope, after: Rope, changes: Sequence[Change] | None = None) -> bool:
        """Move with the changes of the text, where they are known; False if the hunk's own lines changed."""
        hunk = followed(self.hunk, before, after, changes)
        if hunk is not None:
            self.hunk = hunk
        return hunk is not None


def apart(items: Sequence[Item]) -> list[Item]:
    """Those of the hunks of one document, in order, that can go out together: no two of them touch."""
    chosen: list[Item] = []
    for item in items:
        if not chosen or item.hunk.span.start > chosen[-1].hunk.span.end:
            chosen.append(item)
    return chosen


@dataclass(slots=True, eq=False)
class FileUnderReview:
    """One file of a proposal; `text` is what was last seen of it while no editor holds it."""

    proposal: str
    edit: FileEdit
    path: Path
    uri: str
    text: Rope
    items: list[Item] = field(default_factory=list)

    @classmethod
    def plan(cls, proposal: str, edit: FileEdit, path: Path, uri: str, new_id: Callable[[], str]) -> FileUnderReview:
        """Cut an edit into the hunks that a person decides on."""
        file = cls(proposal, edit, path, uri, edit.base.rope if edit.base else Rope.of(""))
        file.items = [Item(hunk, file) for hunk in plan_hunks(edit, new_id)]
        return file

    @property
    def key(self) -> str:
        """The document's identity."""
        return str(self.path)

    @property
    def waiting(self) -> list[Item]:
        """The hunks whose place must be kept up to date."""
        return [item for item in self.items if item.state in ("pending", "accepted")]

    def rebase(self, before: Rope, after: Rope) -> list[Item]:
        """Move all waiting hunks to another text; returns those whose own lines changed."""
        self.text = after
        return [item for item in self.waiting if not item.follow(before, after)]

    def describe(self, document: Document, *, items: Sequence[Item], version: int | None) -> ReviewFile:
        """The file as events and lists show it; `document` holds the text that the spans count in."""
        return ReviewFile(
            uri=self.uri,
            kind=self.edit.kind,
            version=version,
            hunks=tuple(
                ReviewHunk(
                    id=item.hunk.id,
                    range=document.range_of(item.hunk.span),
                    old_text=item.hunk.old,
                    new_text=item.hunk.new,
                )
                for item in items
            ),
        )


@dataclass(slots=True, eq=False)
class Proposal:
    """Edits under one review; `done` is set when every hunk is decided."""

    id: str
    files: list[FileUnderReview] = field(default_factory=list)
    done: anyio.Event = field(default_factory=anyio.Event)
    disposers: list[Callable[[], object]] = field(default_factory=list)

    @property
    def items(self) -> list[Item]:
        """All hunks, in order."""
        return [item for file in self.files for item in file.items]

    def close(self) -> None:
        """Stop following the documents and wake whoever waits."""
        for dispose in self.disposers:
            dispose()
        self.done.set()
