"""Review: proposals wait here until a person has decided on every hunk.

Rules: nothing is written before its decision; decisions are commands, but for an editor's own preview, which
applies by itself and is believed only for what the document shows; pending hunks move with the user's typing;
each hunk is decided exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.abort import Aborted, AbortSignal
from dsh_lsp.decisions import HunkDecided, ReviewDecided, ReviewFile, ReviewOpened
from dsh_lsp.errors import SessionError, ToolError
from dsh_lsp.hooks import Emit
from dsh_lsp.lsp import landing
from dsh_lsp.lsp.applier import Applier, Settled, text_on_disk
from dsh_lsp.lsp.documents import Document, DocumentChanged, Documents, identity, uri_of
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.hints import hint
from dsh_lsp.lsp.proposal import FileUnderReview, Item, Proposal
from dsh_lsp.session.log import SessionLog
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.edits import Absent, FileEdit, HunkOutcome, Landed, Touched, judge, with_text
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
        saves: bool = True,
    ) -> None:
        self.changed: Emit[None] = Emit("review changed")
        self._log = log
        self._documents = documents
        self._editor = editor
        self._tasks = tasks
        self._new_id = new_id
        self._open: dict[str, Proposal] = {}
        self._applier = Applier(
            log=log, documents=documents, editor=editor, saves=saves, accepted=self._accepted, settle=self._settle
        )
        documents.changed.listen(self._on_change)
        documents.opened.listen(self._on_open)
        documents.closed.listen(self._on_close)

    @property
    def saves(self) -> bool:
        """Whether a document that was clean is saved after its edit."""
        return self._applier.saves

    @saves.setter
    def saves(self, saves: bool) -> None:
        self._applier.saves = saves

    # -- proposing -------------------------------------------------------------------------------------------

    async def propose(self, edits: Sequence[tuple[FileEdit, Path]], *, signal: AbortSignal) -> list[HunkOutcome]:
        """Open a review and wait until every hunk is decided; a cancel decides what is left as cancelled."""
        proposal = self._begin(edits)
        self._tasks.start_soon(self._show, proposal)
        try:
            with signal.guard():
                await proposal.done.wait()
        except Aborted:
            self._settle((item, self._given_up(item)) for item in proposal.items)
        return [item.outcome for item in proposal.items if item.outcome is not None]

    def _begin(self, edits: Sequence[tuple[FileEdit, Path]]) -> Proposal:
        proposal = Proposal(self._new_id())
        conflicts: list[Item] = []
        described: list[ReviewFile] = []
        for edit, path in edits:
            document = self._documents.at(path)
            uri = document.uri if document else edit.base.uri if edit.base else uri_of(path)
            file = FileUnderReview.plan(proposal.id, edit, path, uri, self._new_id)
            if not file.items:
                raise ToolError(f"{edit.path} would not change", code="NO_CHANGE")
            if document is not None and document.rope != file.text:
                conflicts += file.rebase(file.text, document.rope)
            proposal.files.append(file)
            described.append(self._describe(file, file.items))
        self._open[proposal.id] = proposal
        proposal.disposers += [self._documents.watch(file.key) for file in proposal.files]
        self._log.append(ReviewOpened(proposal=proposal.id, files=tuple(described)))
        self._settle((item, self._conflict(item)) for item in conflicts)
        return proposal

    def _describe(self, file: FileUnderReview, items: Sequence[Item]) -> ReviewFile:
        document = self._documents.at(file.path)
        view = document or Document(file.uri, 0, file.text, self._documents.encoding)
        return file.describe(view, items=items, version=document.version if document else None)

    async def _show(self, proposal: Proposal) -> None:
        """Show a proposal by the best means that the editor has; the commands are there in any case."""
        profile = self._editor.profile
        self._refresh(proposal.files)
        if profile.offers_review:
            await self._editor.show_review(proposal.id)
        elif profile.previews_edits and profile.may_be_edited and self._may_preview(proposal):
            await self._preview(proposal)
        else:
            names = sorted({file.path.name for file in proposal.files})
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            self._editor.tell(f"DSH proposes an edit of {names[0]}{more}: accept or reject it by code action")
        await self._editor.refresh_code_lenses()

    # -- an editor's own preview -----------------------------------------------------------------------------

    def _may_preview(self, proposal: Proposal) -> bool:
        """One preview at a time, and only of documents that the editor holds."""
        return not any(item.previewed for item in self._pending()) and all(
            file.edit.base is not None and self._documents.at(file.path) for file in proposal.files
        )

    async def _preview(self, proposal: Proposal) -> None:
        """Let the editor's own preview ask and apply; what it leaves out stays pending."""
        for file in proposal.files:
            if (document := self._documents.at(file.path)) is not None:
                await landing.wait_for_quiet(self._documents, document)
        edits: list[JsonObject] = []
        shown: list[Item] = []
        for file in proposal.files:
            document = self._documents.at(file.path)
            items = [item for item in file.items if item.state == "pending"]
            if document is not None and items:
                edits.append(landing.to_lsp_edits(document, [item.hunk for item in items], "dsh"))
                shown += items
        if not shown:
            return
        for item in shown:
            item.previewed = True
        annotation = {"label": "DSH", "description": "proposed by the agent", "needsConfirmation": True}
        edit = {"documentChanges": edits, "changeAnnotations": {"dsh": annotation}}
        await self._editor.apply_edit("DSH: proposed edit", edit, timeout_s=None)
        with anyio.move_on_after(landing.SETTLE_S):  # an editor may answer before it tells of the change
            await proposal.done.wait()
        for item in shown:
            item.previewed = False
        if any(item.state == "pending" for item in shown):
            self._editor.tell("DSH: edits still wait; accept or reject them by code action")

    def _take_preview(self, items: list[Item], event: DocumentChanged) -> None:
        """See what an editor's preview applied: hunks that stand in the document were accepted in it."""
        verdicts = judge(event.before, [item.hunk for item in items], event.after)
        landed: list[Item] = []
        for item in items:
            match verdicts[item.hunk.id]:
                case Landed(span):
                    item.state = "sent"
                    self._applier.see(item, event.document, span)
                    landed.append(item)
                case Absent(hunk):
                    item.hunk = hunk
                case Touched():
                    self._settle([(item, self._conflict(item))])
        if landed:

            async def finish() -> None:
                await self._applier.finish_preview(event.document, landed, before=event.before)

            self._tasks.start_soon(finish)

    # -- deciding --------------------------------------------------------------------------------------------

    def accept(self, hunks: Selection, *, uri: str | None, edited: dict[str, str]) -> int:
        """Accept hunks, some with other text, and start to apply them; the number that is left to decide.

        Raises:
            SessionError: `NOT_PENDING`, a hunk does not wait (any more).
        """
        items = self._select(hunks, uri)
        unknown = set(edited) - {item.hunk.id for item in items}
        if unknown:
            raise SessionError(f"edited text for a hunk that is not accepted: {min(unknown)}", code="NOT_PENDING")
        if items and not self._editor.profile.may_be_edited:
            self._editor.warn("DSH: this editor cannot take edits safely; nothing was written")
            return self.pending_count()
        for item in items:
            theirs = with_text(item.hunk, edited.get(item.hunk.id, item.hunk.new))
            if theirs != item.hunk:
                item.edited, item.hunk = True, theirs
            item.state = "accepted"
        for key in dict.fromkeys(item.file.key for item in items):
            self._tasks.start_soon(self._land, key)
        self._refresh(item.file for item in items)
        return self.pending_count()

    async def _land(self, key: str) -> None:
        await self._applier.land(key)
        if waiting := self.pending_at(key):  # what the editor would not apply is shown again
            self._refresh(item.file for item in waiting)

    def reject(self, hunks: Selection, *, uri: str | None, comment: str | None) -> int:
        """Reject hunks; the number that is left to decide.

        Raises:
            SessionError: `NOT_PENDING`, a hunk does not wait (any more).
        """
        items = self._select(hunks, uri)
        self._settle((item, item.as_outcome("rejected", comment=comment)) for item in items)
        return self.pending_count()

    def is_unconfirmed(self, key: str) -> bool:
        """Whether an accepted edit of a document was given up and may still arrive."""
        return self._applier.is_unconfirmed(key)

    def pending_count(self) -> int:
        """How many hunks wait for a decision."""
        return len(self._pending())

    def pending_at(self, key: str) -> list[Item]:
        """The hunks of a document that wait for a decision."""
        return [item for item in self._pending() if item.file.key == key]

    def pending_files(self) -> list[tuple[str, ReviewFile]]:
        """What waits, by proposal and file, with ranges as they are now."""
        return [
            (proposal.id, self._describe(file, waiting))
            for proposal in self._open.values()
            for file in proposal.files
            if (waiting := [item for item in file.items if item.state == "pending"])
        ]

    def _pending(self) -> list[Item]:
        return [item for proposal in self._open.values() for item in proposal.items if item.state == "pending"]

    def _accepted(self, key: str) -> list[Item]:
        items = (item for proposal in self._open.values() for item in proposal.items)
        accepted = [item for item in items if item.state == "accepted" and item.file.key == key]
        return sorted(accepted, key=lambda item: item.hunk.span.start)

    def _select(self, hunks: Selection, uri: str | None) -> list[Item]:
        waiting = self._pending() if uri is None else self.pending_at(identity(uri))
        if hunks == "all":
            return waiting
        by_id = {item.hunk.id: item for item in waiting}
        for wanted in hunks:
            if wanted not in by_id:
                raise SessionError(f"hunk {wanted} is not waiting for a decision", code="NOT_PENDING")
        return [by_id[wanted] for wanted in dict.fromkeys(hunks)]

    def _conflict(self, item: Item) -> HunkOutcome:
        document = self._documents.at(item.file.path)
        return item.as_outcome("conflict", current=str(document.rope if document else item.file.text))

    def _given_up(self, item: Item) -> HunkOutcome:
        """What a cancel makes of a hunk; what was sent may still arrive, and nobody may claim that it did not."""
        if item.seen_at is not None:
            return item.as_outcome("landed", lines=item.seen_at, note="cancelled before it was known to be saved")
        return item.as_outcome("unconfirmed" if item.state == "sent" else "cancelled")

    def _settle(self, settled: Settled) -> None:
        """Decide hunks, log it, and end the proposals that have none left."""
        decided: dict[str, list[HunkDecided]] = {}
        files: list[FileUnderReview] = []
        for item, outcome in settled:
            if item.state == "decided":
                continue
            item.state, item.outcome = "decided", outcome
            files.append(item.file)
            decided.setdefault(item.file.proposal, []).append(
                HunkDecided(
                    id=item.hunk.id,
                    outcome=outcome.outcome,
                    text=item.hunk.new if item.edited and outcome.outcome == "landed" else None,
                    comment=outcome.comment,
                )
            )
        for proposal_id, hunks in decided.items():
            self._log.append(ReviewDecided(proposal=proposal_id, hunks=tuple(hunks)))
            if all(item.state == "decided" for item in self._open[proposal_id].items):
                self._open.pop(proposal_id).close()
        if files:
            self._refresh(files)

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
            self._take_preview(shown, event)
        lost = [
            item
            for item in waiting
            if not item.previewed and not item.follow(event.before, event.after, event.changes)
        ]
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
        text = Rope.of(text_on_disk(Path(document.key)) or "")
        for file in self._files_of(document):
            lost = file.rebase(document.rope, text)
            self._settle((item, self._conflict(item)) for item in lost)

    def _refresh(self, files: Iterable[FileUnderReview]) -> None:
        """Show what waits as hints in the documents; a client with a view of its own needs none."""
        if not self._editor.profile.offers_review:
            for key in {file.key for file in files}:
                document = self._documents.at(Path(key))
                if document is not None:
                    hints = [hint(document, item) for item in self.pending_at(key)]
                    self._editor.publish_diagnostics(document.uri, document.version, hints)
        self.changed(None)
