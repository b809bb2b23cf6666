"""Review: proposals wait here until a person has decided on every hunk.

Rules: nothing is written before its decision; decisions are commands, but for an editor's own preview, which
applies by itself and is believed only for what the document shows; pending hunks move with the user's typing;
each hunk is decided exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

import anyio.to_thread
from anyio.abc import TaskGroup

from dsh_lsp.abort import Aborted, AbortSignal
from dsh_lsp.decisions import EditLanded, HunkDecided, ReviewDecided, ReviewFile, ReviewOpened
from dsh_lsp.errors import SessionError, ToolError
from dsh_lsp.hooks import Emit
from dsh_lsp.lsp.applier import Applier, Settled
from dsh_lsp.lsp.documents import Document, DocumentChanged, Documents, identity, uri_of
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.hints import hint
from dsh_lsp.lsp.landed import LandedEdits
from dsh_lsp.lsp.preview import Preview
from dsh_lsp.lsp.proposal import FileUnderReview, Item, Proposal, announcement
from dsh_lsp.lsp.undo import Undo, Undone
from dsh_lsp.lsp.watching import FileWatches
from dsh_lsp.session.log import SessionLog
from dsh_lsp.workspace.changes import Prepared
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.disk import text_on_disk
from dsh_lsp.workspace.edits import HunkOutcome, with_text
from dsh_lsp.workspace.paths import Guarded
from dsh_lsp.workspace.rope import Rope

Selection = Sequence[str] | Literal["all"]


class Reviews:
    """The reviews of one session."""

    def __init__(
        self,
        *,
        log: SessionLog,
        documents: Documents,
        editor: Editor,
        tasks: TaskGroup,
        new_id: Callable[[], str],
        root: Path,
        copies: Copies,
        guarded: Guarded | None = None,
        saves: bool = True,
        applies_at_once: Callable[[], bool] = lambda: False,
    ) -> None:
        self.changed: Emit[None] = Emit("review changed")
        self._log = log
        self._documents = documents
        self._editor = editor
        self._tasks = tasks
        self._new_id = new_id
        self._open: dict[str, Proposal] = {}
        self._applies_at_once = applies_at_once
        self.landed = LandedEdits(log, documents, root, copies, guarded)
        self._watches = FileWatches(editor, tasks)
        self._applier = Applier(
            log=log,
            documents=documents,
            editor=editor,
            saves=saves,
            accepted=self._accepted,
            settle=self._settle,
            copies=copies,
            tasks=tasks,
        )
        self._preview = Preview(
            documents=documents,
            editor=editor,
            applier=self._applier,
            tasks=tasks,
            conflict=lambda item: self._settle([(item, self._conflict(item))]),
        )
        self._undo = Undo(
            landed=self.landed, new_id=new_id, open_review=self._open_review, land=self._land, settle=self._settle
        )
        self._disposers = [
            documents.changed.listen(self._on_change),
            documents.opened.listen(self._on_open),
            documents.closed.listen(self._on_close),
            documents.hint_by(lambda document: [hint(document, item) for item in self.pending_at(document.key)]),
            self._applier.close,
            self.landed.close,
        ]

    def close(self) -> None:
        """Follow the documents no longer: the session is closed, and they belong to the connection."""
        for dispose in self._disposers:
            dispose()

    @property
    def saves(self) -> bool:
        """Whether a document that was clean is saved after its edit."""
        return self._applier.saves

    @saves.setter
    def saves(self, saves: bool) -> None:
        self._applier.saves = saves

    # -- proposing -------------------------------------------------------------------------------------------

    async def propose(
        self, changes: Sequence[Prepared], *, signal: AbortSignal, by_person: bool = False
    ) -> list[HunkOutcome]:
        """Open a review and wait until every hunk is decided; a cancel decides what is left as cancelled.

        Where edits are applied at once nobody is asked, unless `by_person` says that these are to be reviewed.
        """
        proposal = self._begin(changes)
        if self._applies_at_once() and not by_person and self.can_apply:
            self.landed.note_unasked(item.hunk.id for item in proposal.items)
            self._apply(item for item in proposal.items if item.state == "pending")
        else:
            self._tasks.start_soon(self._show, proposal)
        try:
            with signal.guard():
                await proposal.done.wait()
        except Aborted:
            self._settle((item, item.as_given_up()) for item in proposal.items)
        return [item.outcome for item in proposal.items if item.outcome is not None]

    def _begin(self, changes: Sequence[Prepared]) -> Proposal:
        proposal = Proposal(self._new_id())
        for change in changes:
            document = self._documents.at(change.path)
            uri = document.uri if document else uri_of(change.path)
            file = FileUnderReview.plan(proposal.id, change, uri, self._new_id)
            if not file.items:
                raise ToolError(f"{change.change.path} would not change", code="NO_CHANGE")
            proposal.files.append(file)
        self._open_review(proposal)
        return proposal

    def _open_review(self, proposal: Proposal) -> None:
        """Log a proposal and follow its documents, which may have changed since it was made."""
        conflicts: list[Item] = []
        for file in proposal.files:
            document = self._documents.at(file.path)
            if document is not None and document.rope != file.text:
                conflicts += file.rebase(file.text, document.rope)
        self._open[proposal.id] = proposal
        proposal.disposers += [self._documents.watch(file.key) for file in proposal.files]
        self._watches.follow(proposal, [file for file in proposal.files if self._documents.at(file.path) is None])
        described = tuple(self._describe(file, file.items) for file in proposal.files)
        self._log.append(ReviewOpened(proposal=proposal.id, files=described))
        self._settle((item, self._conflict(item)) for item in conflicts)

    def _describe(self, file: FileUnderReview, items: Sequence[Item]) -> ReviewFile:
        document = self._documents.at(file.path)
        view = document or Document(file.uri, None, file.text, self._documents.encoding)
        return file.describe(view, items=items, version=document.version if document else None)

    async def _show(self, proposal: Proposal) -> None:
        """Show a proposal by the best means that the editor has; the commands are there in any case."""
        self._refresh(proposal.files)
        self._tasks.start_soon(self._editor.refresh_code_lenses)
        if self._editor.profile.offers_review:
            await self._editor.show_review(proposal.id)
        elif self._preview.can_show(proposal):
            await self._preview.show(proposal)
        else:
            self._editor.tell(announcement(proposal))

    # -- deciding --------------------------------------------------------------------------------------------

    def accept(self, hunks: Selection, *, uri: str | None, edited: dict[str, str]) -> int:
        """Accept hunks, some with other text, and start to apply them; the number that is left to decide.

        A hunk that landed already is kept: it is not offered to be taken back any more.

        Raises:
            SessionError: `NOT_PENDING`, a hunk does not wait (any more).
        """
        items, landed = self._select(hunks, uri)
        unknown = set(edited) - {item.hunk.id for item in items if item.file.kind in ("edit", "create")}
        if unknown:
            raise SessionError(f"edited text for a hunk that is not accepted: {min(unknown)}", code="NOT_PENDING")
        for edit in landed:
            self.landed.keep(edit.hunk)
        if landed:
            self._show_decided()
        if not items or not self._may_write():
            return self.pending_count()
        for item in items:
            text = document.rope if (document := self._documents.at(item.file.path)) else item.file.text
            theirs = with_text(item.hunk, edited.get(item.hunk.id, item.hunk.new), text.line_ending)
            if theirs != item.hunk:
                item.edited, item.hunk = True, theirs
        self._apply(items)
        return self.pending_count()

    @property
    def can_apply(self) -> bool:
        """Whether an accepted edit can be made: an editor that takes none safely is sent none."""
        return self._editor.profile.may_be_edited

    def _may_write(self) -> bool:
        if not self.can_apply:
            self._editor.warn("DSH: this editor cannot take edits safely; nothing was written")
        return self.can_apply

    def _apply(self, items: Iterable[Item]) -> None:
        """Start to apply hunks."""
        files = {}
        for item in items:
            item.state = "accepted"
            files[item.file.key] = item.file
        for key in files:
            self._tasks.start_soon(self._land, key)
        self._refresh(files.values())

    async def _land(self, key: str) -> None:
        await self._applier.land(key)
        if waiting := self.pending_at(key):  # what the editor would not apply is shown again
            self._refresh(item.file for item in waiting)

    def reject(self, hunks: Selection, *, uri: str | None, comment: str | None) -> int:
        """Reject hunks; the number that is left to decide. A hunk that landed already is taken back.

        Raises:
            SessionError: `NOT_PENDING`, a hunk does not wait (any more).
        """
        items, landed = self._select(hunks, uri)
        self._settle((item, item.as_outcome("rejected", comment=comment)) for item in items)
        if landed:
            self._tasks.start_soon(self._take_back, landed, comment)
        return self.pending_count()

    async def _take_back(self, edits: Sequence[EditLanded], comment: str | None) -> None:
        for undone in await self.take_back(edits, signal=AbortSignal(), comment=comment):
            if undone.reason is not None:
                name = undone.edit.uri.rsplit("/", 1)[-1]
                self._editor.warn(f"DSH: an edit of {name} was not taken back: {undone.reason}")

    async def take_back(
        self, edits: Sequence[EditLanded], *, signal: AbortSignal, comment: str | None = None
    ) -> list[Undone]:
        """Take landed edits back, the last first, and tell what became of each."""
        if not self._may_write():
            return [Undone(edit=edit, reason="this editor cannot take edits safely") for edit in edits]
        undone = await self._undo.take_back(edits, signal=signal, comment=comment)
        self._show_decided()
        return undone

    def is_unconfirmed(self, key: str) -> bool:
        """Whether an accepted edit of a document was given up and may still arrive."""
        return self._applier.is_unconfirmed(key)

    def pending_count(self) -> int:
        """How many hunks wait for a decision."""
        return len(self.pending())

    def pending_at(self, key: str) -> list[Item]:
        """The hunks of a document that wait for a decision."""
        return [item for item in self.pending() if item.file.key == key]

    def pending_files(self) -> list[tuple[str, ReviewFile]]:
        """What waits, by proposal and file, with ranges as they are now."""
        return [
            (proposal.id, self._describe(file, waiting))
            for proposal in self._open.values()
            for file in proposal.files
            if (waiting := [item for item in file.items if item.state == "pending"])
        ]

    def pending(self) -> list[Item]:
        """All hunks that wait for a decision."""
        return [item for proposal in self._open.values() for item in proposal.items if item.state == "pending"]

    def _accepted(self, key: str) -> list[Item]:
        items = (item for proposal in self._open.values() for item in proposal.items)
        accepted = [item for item in items if item.state == "accepted" and item.file.key == key]
        return sorted(accepted, key=lambda item: item.hunk.span.start)

    def _select(self, hunks: Selection, uri: str | None) -> tuple[list[Item], list[EditLanded]]:
        """The hunks that are named, as they wait or as they landed, the last first.

        All are those that wait, or if none does, those that landed and that nobody was asked about: who accepted an
        edit and then rejects the rest once too often does not lose it.
        """
        key = identity(uri) if uri is not None else None
        waiting = self.pending() if key is None else self.pending_at(key)
        if hunks == "all":
            return waiting, [] if waiting else self.landed.unasked(key)
        by_id = {item.hunk.id: item for item in waiting}
        for wanted in hunks:
            if wanted not in by_id and self.landed.get(wanted) is None:
                raise SessionError(f"hunk {wanted} is not waiting for a decision", code="NOT_PENDING")
        items = [by_id[wanted] for wanted in dict.fromkeys(hunks) if wanted in by_id]
        return items, self.landed.last_first(set(hunks).difference(by_id))

    def _conflict(self, item: Item) -> HunkOutcome:
        document = self._documents.at(item.file.path)
        return item.as_outcome("conflict", current=str(document.rope if document else item.file.text))

    def _settle(self, settled: Settled) -> None:
        """Decide hunks, log it, and end the proposals that have none left."""
        decided: dict[str, list[HunkDecided]] = {}
        files: list[FileUnderReview] = []
        for item, outcome in settled:
            if item.state == "decided":
                continue
            if item.previewed and outcome.outcome in ("rejected", "unconfirmed"):
                self._applier.await_previewed(item)  # the editor's own preview can still apply it
            item.state, item.outcome = "decided", outcome
            files.append(item.file)
            decided.setdefault(item.file.proposal, []).append(item.as_decided(outcome))
        for proposal_id, hunks in decided.items():
            self._log.append(ReviewDecided(proposal=proposal_id, hunks=tuple(hunks)))
            if all(item.state == "decided" for item in self._open[proposal_id].items):
                self._open.pop(proposal_id).close()
        if files:
            self._refresh(files)
            self._show_decided()

    def _show_decided(self) -> None:
        """Let the editor ask again what can be decided, kept and taken back."""
        self.changed(None)
        self._tasks.start_soon(self._editor.refresh_code_lenses)

    # -- following the documents -----------------------------------------------------------------------------

    def _files_of(self, document: Document) -> list[FileUnderReview]:
        files = (file for proposal in self._open.values() for file in proposal.files)
        return [file for file in files if file.key == document.key]

    def _on_change(self, event: DocumentChanged) -> None:
        files = self._files_of(event.document)
        waiting = [item for file in files for item in file.waiting]
        if not waiting:
            return
        shown = [item for item in waiting if item.previewed]
        if shown:
            self._preview.take(shown, event)
        lost = [item for item in waiting if not item.previewed and not item.follow(event.passage)]
        self._settle((item, self._conflict(item)) for item in lost)
        self._refresh(files)

    async def look_at_file(self, key: str) -> None:
        """Move the hunks of a file that no editor holds, since it was changed on disk."""
        files = [file for proposal in self._open.values() for file in proposal.files if file.key == key]
        text = await anyio.to_thread.run_sync(text_on_disk, files[0].path) if files else None
        if text is None:
            return  # a file that is gone says so when it is written
        if self._documents.at(files[0].path) is None:
            after = Rope.of(text)
            for file in files:
                lost = file.rebase(file.text, after)
                self._settle((item, self._conflict(item)) for item in lost)
            self._refresh(files)

    def _on_open(self, document: Document) -> None:
        for file in self._files_of(document):
            file.uri = document.uri
            lost = file.rebase(file.text, document.rope)
            self._settle((item, self._conflict(item)) for item in lost)
        self._refresh(self._files_of(document))

    def _on_close(self, document: Document) -> None:
        """An editor that closes a document may have thrown its text away: the file is what counts now."""
        saved = text_on_disk(Path(document.key))
        text = Rope.of(saved) if saved is not None else document.rope  # why there is none is said when it is written
        for file in self._files_of(document):
            lost = file.rebase(document.rope, text)
            if file.waiting and (proposal := self._open.get(file.proposal)) is not None:
                self._watches.follow(proposal, [file])
            self._settle((item, self._conflict(item)) for item in lost)

    def _refresh(self, files: Iterable[FileUnderReview]) -> None:
        """Show what waits as hints in the documents; a client with a view of its own needs none."""
        if not self._editor.profile.offers_review:
            for key in {file.key for file in files}:
                document = self._documents.at(Path(key))
                if document is not None:
                    hints = self._documents.hints_of(document)
                    self._editor.publish_diagnostics(document.uri, document.version, hints)
        self.changed(None)
