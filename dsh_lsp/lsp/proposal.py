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

from dsh_lsp.decisions import FileKind, HunkDecided, Outcome, ReviewFile, ReviewHunk
from dsh_lsp.lsp.documents import Document, uri_of
from dsh_lsp.workspace.changes import Prepared
from dsh_lsp.workspace.edits import (
    FileChange,
    FileEdit,
    Hunk,
    HunkOutcome,
    ended,
    outcome_of,
    plan_hunks,
    text_before,
)
from dsh_lsp.workspace.passage import Passage
from dsh_lsp.workspace.rope import Rope

STILL_SHOWN = "the review was cancelled, but the editor still shows it to the user, who may apply it there"


@dataclass(slots=True, eq=False)
class Item:
    """One hunk on its way: waiting, accepted, sent to the editor, or decided."""

    hunk: Hunk
    file: FileUnderReview
    state: Literal["pending", "accepted", "sent", "decided"] = "pending"
    edited: bool = False  # the person put other text in the place of what was proposed
    refused: bool = False  # the editor has said that it did not apply what was sent, and may do with newer text
    previewed: bool = False  # an editor's own preview shows it, and may apply it by itself
    seen_at: tuple[int, int] | None = None  # the lines where the document showed it
    outcome: HunkOutcome | None = None
    undoes: str | None = None  # the landed hunk that it takes back
    comment: str | None = None  # the person's words, given with the wish

    def as_outcome(self, outcome: Outcome, **more: Any) -> HunkOutcome:
        """What the hunk would become."""
        more.setdefault("comment", self.comment)
        return outcome_of(self.file.change, self.hunk, outcome, edited=self.edited, **more)

    def as_given_up(self) -> HunkOutcome:
        """What a cancel makes of the hunk; what was sent may still arrive, and nobody may claim that it did not."""
        if self.seen_at is not None:
            return self.as_outcome("landed", lines=self.seen_at, note="cancelled before it was known to be saved")
        if self.state == "sent" and not self.refused:
            return self.as_outcome("unconfirmed")
        return self.as_outcome("unconfirmed", note=STILL_SHOWN) if self.previewed else self.as_outcome("cancelled")

    def as_decided(self, outcome: HunkOutcome) -> HunkDecided:
        """The log's fact about what became of it."""
        text = self.hunk.new if self.edited and outcome.outcome == "landed" else None
        return HunkDecided(id=self.hunk.id, outcome=outcome.outcome, text=text, comment=outcome.comment)

    def follow(self, passage: Passage) -> bool:
        """Move to a later version of the text; False if the hunk's own lines changed."""
        if not self.file.changes_text:
            return True  # it is about a whole file, which is looked at when it is carried out
        hunk = passage.follow(self.hunk)
        if hunk is not None:
            self.hunk = ended(hunk, passage.after)
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
    prepared: Prepared
    uri: str
    text: Rope
    items: list[Item] = field(default_factory=list)

    @classmethod
    def plan(cls, proposal: str, prepared: Prepared, uri: str, new_id: Callable[[], str]) -> FileUnderReview:
        """Cut a change into the hunks that a person decides on."""
        file = cls(proposal, prepared, uri, text_before(prepared.change))
        file.items = [Item(hunk, file) for hunk in plan_hunks(prepared.change, new_id)]
        return file

    @property
    def change(self) -> FileChange:
        """What is proposed."""
        return self.prepared.change

    @property
    def kind(self) -> FileKind:
        """What is done to the file."""
        return self.change.kind

    @property
    def path(self) -> Path:
        """The file's real path."""
        return self.prepared.path

    @property
    def key(self) -> str:
        """The document's identity."""
        return str(self.path)

    @property
    def changes_text(self) -> bool:
        """Whether its hunks are changes of a text that exists; else it has one, about the whole file."""
        return isinstance(self.change, FileEdit) and self.change.base is not None

    @property
    def waiting(self) -> list[Item]:
        """The hunks whose place must be kept up to date."""
        return [item for item in self.items if item.state in ("pending", "accepted")]

    def rebase(self, before: Rope, after: Rope) -> list[Item]:
        """Move all waiting hunks to another text; returns those whose own lines changed."""
        self.text = after
        passage = Passage(before, after)
        return [item for item in self.waiting if not item.follow(passage)]

    def describe(self, document: Document, *, items: Sequence[Item], version: int | None) -> ReviewFile:
        """The file as events and lists show it; `document` holds the text that the spans count in."""
        target = self.prepared.new_path
        return ReviewFile(
            uri=self.uri,
            kind=self.kind,
            version=version,
            new_uri=uri_of(target) if target is not None else None,
            hunks=tuple(
                ReviewHunk(
                    id=item.hunk.id,
                    range=document.range_of(item.hunk.span),
                    old_text=item.hunk.old,
                    new_text=item.hunk.new,
                    undoes=item.undoes,
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
    watched: set[Path] = field(default_factory=set)  # the files whose changes on disk are told of

    @property
    def items(self) -> list[Item]:
        """All hunks, in order."""
        return [item for file in self.files for item in file.items]

    def close(self) -> None:
        """Stop following the documents and wake whoever waits."""
        for dispose in self.disposers:
            dispose()
        self.done.set()


_WORDS: dict[FileKind, str] = {
    "edit": "an edit of {}",
    "create": "the new file {}",
    "rename": "to rename {}",
    "delete": "to delete {}",
}


def words_of(file: FileUnderReview) -> str:
    """What is proposed, for people."""
    return _WORDS[file.kind].format(file.path.name)


def announcement(proposal: Proposal) -> str:
    """One line that says what waits, for a client without a view for it."""
    more = f" and {len(proposal.files) - 1} more" if len(proposal.files) > 1 else ""
    return f"DSH proposes {words_of(proposal.files[0])}{more}: accept or reject it by code action"
