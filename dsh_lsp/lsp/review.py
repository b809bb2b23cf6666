"""Review: proposals wait here until a person decides on every hunk, and accepted hunks go into the documents.

Rules: nothing is written before its decision; decisions are commands, but for an editor's own preview, which
applies by itself and is believed only for what the document shows; pending hunks move with the user's typing;
each hunk is decided exactly once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.abort import Aborted, AbortSignal
from dsh_lsp.errors import SessionError, ToolError
from dsh_lsp.events import (
    EditLanded,
    HunkDecided,
    Outcome,
    Position,
    Range,
    ReviewDecided,
    ReviewFile,
    ReviewHunk,
    ReviewOpened,
)
from dsh_lsp.hooks import Emit
from dsh_lsp.lsp import landing
from dsh_lsp.lsp.documents import Document, DocumentChanged, Documents, identity, uri_of
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.session.log import SessionLog
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.disk import create_file, read_file, replace_file
from dsh_lsp.workspace.edits import (
    Absent,
    FileEdit,
    Hunk,
    HunkOutcome,
    Landed,
    Touched,
    Verdict,
    applied,
    judge,
    moved,
    plan_hunks,
)
from dsh_lsp.workspace.text import Span, difference

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 5


@dataclass(slots=True)
class Item:
    """One hunk on its way to a decision; `hunk.span` is where it would go now."""

    hunk: Hunk
    file: FileUnderReview
    state: Literal["pending", "accepted", "sent", "decided"] = "pending"
    previewed: bool = False
    outcome: HunkOutcome | None = None


@dataclass(slots=True)
class FileUnderReview:
    """One file of a proposal; `text` is what its hunks' spans count in while no editor holds it."""

    edit: FileEdit
    path: Path
    uri: str
    text: str
    items: list[Item] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The document's identity."""
        return str(self.path)


@dataclass(slots=True)
class Proposal:
    """Edits that one tool call proposed together."""

    id: str
    files: list[FileUnderReview]
    done: anyio.Event = field(default_factory=anyio.Event)
    disposers: list[Callable[[], object]] = field(default_factory=list)

    @property
    def items(self) -> list[Item]:
        """All hunks, in order."""
        return [item for file in self.files for item in file.items]


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
        self._saves = saves
        self._open: dict[str, Proposal] = {}
        self._late: list[tuple[Proposal, FileUnderReview, landing.Attempt]] = []  # unconfirmed, still watched
        self._landing: dict[str, anyio.Lock] = {}
        self._told_unsaved = False
        documents.changed.listen(self._on_change)
        documents.opened.listen(self._on_open)
        documents.closed.listen(self._on_close)

    # -- proposing -------------------------------------------------------------------------------------------

    async def propose(self, edits: Sequence[tuple[FileEdit, Path]], *, signal: AbortSignal) -> list[HunkOutcome]:
        """Open a review and wait until every hunk is decided; a cancel decides what is left as cancelled."""
        proposal = self._begin(edits)
        self._tasks.start_soon(self._show, proposal)
        try:
            with signal.guard():
                await proposal.done.wait()
        except Aborted:
            self._decide(
                [(item, self._outcome(item, "cancelled")) for item in proposal.items if item.state != "decided"]
            )
        return [item.outcome for item in proposal.items if item.outcome is not None]

    def _begin(self, edits: Sequence[tuple[FileEdit, Path]]) -> Proposal:
        proposal = Proposal(self._new_id(), [])
        conflicts: list[Item] = []
        for edit, path in edits:
            document = self._documents.at(path)
            uri = document.uri if document else edit.base.uri if edit.base else uri_of(path)
            file = FileUnderReview(edit, path, uri, edit.base.text if edit.base else "")
            file.items = [Item(hunk, file) for hunk in plan_hunks(edit, self._new_id)]
            if not file.items:
                raise ToolError(f"{edit.path} would not change", code="NO_CHANGE")
            if document is not None and document.text != file.text:
                conflicts += self._rebase(file, file.text, document.text)
            proposal.files.append(file)
            proposal.disposers.append(self._documents.watch(file.key))
        self._open[proposal.id] = proposal
        files = tuple(self._describe(file) for file in proposal.files)
        self._log.append(ReviewOpened(proposal=proposal.id, files=files))
        self._decide([(item, self._conflict(item)) for item in conflicts])
        return proposal

    def _describe(self, file: FileUnderReview) -> ReviewFile:
        document = self._documents.at(file.path)
        view = document or Document(file.uri, 0, file.text, self._documents.encoding)
        return ReviewFile(
            uri=file.uri,
            kind=file.edit.kind,
            version=document.version if document else None,
            hunks=tuple(
                ReviewHunk(
                    id=item.hunk.id,
                    range=view.range_of(item.hunk.span),
                    old_text=item.hunk.old,
                    new_text=item.hunk.new,
                )
                for item in file.items
            ),
        )

    async def _show(self, proposal: Proposal) -> None:
        """Show a proposal by the best means that the editor has; the commands are there in any case."""
        profile = self._editor.profile
        self._refresh(proposal.files)
        if profile.offers_review:
            await self._editor.show_review(proposal.id)
            return
        if profile.previews_edits and profile.may_be_edited and self._may_preview(proposal):
            await self._preview(proposal)
            return
        names = sorted({file.edit.path.rsplit("/", 1)[-1] for file in proposal.files})
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self._editor.tell(f"DSH proposes an edit of {names[0]}{more}: accept or reject it by code action")
        await self._editor.refresh_code_lenses()

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
        if not edits:
            return
        for item in shown:
            item.previewed = True
        annotation = {"label": "DSH", "description": "proposed by the agent", "needsConfirmation": True}
        edit = {"documentChanges": edits, "changeAnnotations": {"dsh": annotation}}
        await self._editor.apply_edit("DSH: proposed edit", edit, timeout_s=None)
        with anyio.move_on_after(landing.SETTLE_S):  # the editor may answer before it tells of the change
            await proposal.done.wait()
        for item in shown:
            item.previewed = False
        left = [item for item in shown if item.state == "pending"]
        if left:
            self._editor.tell("DSH: edits still wait; accept or reject them by code action")

    # -- deciding --------------------------------------------------------------------------------------------

    def _pending(self) -> list[Item]:
        return [item for proposal in self._open.values() for item in proposal.items if item.state == "pending"]

    def pending_count(self) -> int:
        """How many hunks wait for a decision."""
        return len(self._pending())

    def pending_at(self, key: str) -> list[Item]:
        """The hunks of a document that wait for a decision."""
        return [item for item in self._pending() if item.file.key == key]

    def pending_files(self) -> list[tuple[str, ReviewFile]]:
        """What waits, by proposal and file, with ranges as they are now."""
        found: list[tuple[str, ReviewFile]] = []
        for proposal in self._open.values():
            for file in proposal.files:
                waiting = {item.hunk.id for item in file.items if item.state == "pending"}
                if waiting:
                    described = self._describe(file)
                    hunks = tuple(hunk for hunk in described.hunks if hunk.id in waiting)
                    found.append((proposal.id, replace(described, hunks=hunks)))
        return found

    def accept(self, hunks: Sequence[str] | Literal["all"], *, uri: str | None, edited: dict[str, str]) -> int:
        """Accept hunks and start to apply them; the number that is left to decide.

        Raises:
            SessionError: `NOT_PENDING`, a hunk does not wait (any more).
        """
        items = self._select(hunks, uri)
        unknown = set(edited) - {item.hunk.id for item in items}
        if unknown:
            raise SessionError(f"edited text for a hunk that is not accepted: {min(unknown)}", code="NOT_PENDING")
        if items and not self._editor.profile.may_be_edited:
            self._editor.warn("DSH: this editor cannot take edits safely; nothing was written")
            return len(self._pending())
        for item in items:
            if item.hunk.id in edited:
                item.hunk = replace(item.hunk, new=edited[item.hunk.id])
            item.state = "accepted"
        for key in dict.fromkeys(item.file.key for item in items):
            self._tasks.start_soon(self._land, key)
        return len(self._pending())

    def reject(self, hunks: Sequence[str] | Literal["all"], *, uri: str | None, comment: str | None) -> int:
        """Reject hunks; the number that is left to decide.

        Raises:
            SessionError: `NOT_PENDING`, a hunk does not wait (any more).
        """
        items = self._select(hunks, uri)
        self._decide([(item, replace(self._outcome(item, "rejected"), comment=comment)) for item in items])
        return len(self._pending())

    def _select(self, hunks: Sequence[str] | Literal["all"], uri: str | None) -> list[Item]:
        key = None
        if uri is not None:
            key = identity(uri)
        waiting = [item for item in self._pending() if key is None or item.file.key == key]
        if hunks == "all":
            return waiting
        by_id = {item.hunk.id: item for item in waiting}
        for wanted in hunks:
            if wanted not in by_id:
                raise SessionError(f"hunk {wanted} is not waiting for a decision", code="NOT_PENDING")
        return [by_id[wanted] for wanted in dict.fromkeys(hunks)]

    def _outcome(self, item: Item, outcome: Outcome, **more: object) -> HunkOutcome:
        return HunkOutcome(hunk=item.hunk, path=item.file.edit.path, outcome=outcome, **more)  # type: ignore[arg-type]

    def _conflict(self, item: Item) -> HunkOutcome:
        document = self._documents.at(item.file.path)
        return self._outcome(item, "conflict", current=document.text if document else item.file.text)

    def _decide(self, decided: Iterable[tuple[Item, HunkOutcome]]) -> None:
        """Settle hunks, log it, and end the proposals that have none left."""
        by_proposal: dict[str, list[HunkDecided]] = {}
        files: dict[str, FileUnderReview] = {}
        for item, outcome in decided:
            if item.state == "decided":
                continue
            item.state, item.outcome = "decided", outcome
            files[item.file.key] = item.file
            proposal = next(p for p in self._open.values() if item.file in p.files)
            by_proposal.setdefault(proposal.id, []).append(
                HunkDecided(id=item.hunk.id, outcome=outcome.outcome, comment=outcome.comment)
            )
        for proposal_id, hunks in by_proposal.items():
            self._log.append(ReviewDecided(proposal=proposal_id, hunks=tuple(hunks)))
            proposal = self._open[proposal_id]
            if all(item.state == "decided" for item in proposal.items):
                del self._open[proposal_id]
                for dispose in proposal.disposers:
                    dispose()
                proposal.done.set()
        if files:
            self._refresh(files.values())

    # -- landing ---------------------------------------------------------------------------------------------

    async def _land(self, key: str) -> None:
        """Apply what was accepted of one document, until nothing accepted is left."""
        lock = self._landing.setdefault(key, anyio.Lock())
        async with lock:
            for number in range(1, MAX_ATTEMPTS + 1):
                items = self._accepted(key)
                if not items:
                    return
                document = self._documents.at(items[0].file.path)
                if document is None:
                    await self._write(items)
                else:
                    await landing.wait_for_quiet(self._documents, document)
                    items = self._accepted(key)
                    if items and self._documents.at(items[0].file.path) is document:
                        await self._send(document, items, last=number == MAX_ATTEMPTS)

    def _accepted(self, key: str) -> list[Item]:
        items = [
            item
            for proposal in self._open.values()
            for item in proposal.items
            if item.state == "accepted" and item.file.key == key
        ]
        return sorted(items, key=lambda item: item.hunk.span.start)

    async def _send(self, document: Document, items: list[Item], *, last: bool) -> None:
        """Send accepted hunks to the editor once, and settle those whose fate is known."""
        clean = self._is_clean(document)
        for item in items:
            item.state = "sent"
        label = f"DSH: edit {items[0].file.edit.path}"
        result = await landing.attempt(
            self._documents, self._editor, document, [item.hunk for item in items], label=label
        )
        settled: list[tuple[Item, HunkOutcome]] = []
        landed: list[tuple[Item, Span]] = []
        refused = False
        for item in items:
            verdict = result.verdicts[item.hunk.id]
            if item.state != "sent":  # decided meanwhile, by a cancel
                if isinstance(verdict, Landed):
                    self._log_landed(self._proposal_of(item), document, item.hunk, verdict)
                continue
            match verdict:
                case Landed(span):
                    landed.append((item, span))
                case Touched():
                    settled.append((item, self._conflict(item)))
                case Absent(hunk) if result.final == "silent":
                    settled.append((item, self._outcome(item, "unconfirmed")))
                case Absent(hunk) if result.final == "refused" or last:
                    item.hunk, item.state, refused = hunk, "pending", True
                case Absent(hunk):
                    item.hunk, item.state = hunk, "accepted"
        for item, span in landed:
            self._log_landed(self._proposal_of(item), document, item.hunk, Landed(span))
        if landed:
            note = await self._save(document, [item for item, _ in landed], clean=clean)
            settled += [
                (item, self._outcome(item, "landed", lines=_lines(document.text, span), note=note))
                for item, span in landed
            ]
        if any(outcome.outcome == "unconfirmed" for _, outcome in settled):
            self._watch_late(items, result)
        self._decide(settled)
        if refused:
            self._editor.warn("DSH: the editor did not apply an accepted edit and gave no reason; it still waits")

    async def _save(self, document: Document, items: list[Item], *, clean: bool) -> str:
        """Save a document that was clean before our edit; what the model should know of it."""
        if not clean:
            return "not saved: the document also holds the user's unsaved text"
        if not self._saves:
            return "not saved: the user's settings leave saving to the user"
        saved = await self._editor.save(document.uri)
        if saved is None:
            if not self._told_unsaved:
                self._told_unsaved = True
                self._editor.tell("DSH: the edit is in the buffer, unsaved; your editor leaves saving to you")
            return "not saved: the user's editor does not let the agent save"
        if not saved:
            return "not saved: the editor could not save it"
        text = await anyio.to_thread.run_sync(_text_on_disk, items[0].file.path)
        if text is None or not all(item.hunk.new in text for item in items):
            return "the editor says that it saved the document, but the file does not show the edit"
        return "saved"

    async def _write(self, items: list[Item]) -> None:
        """Write accepted hunks of a file that the editor does not hold, guarded by what the file holds now."""
        file = items[0].file
        name = file.edit.path
        try:
            if file.edit.base is None:
                await anyio.to_thread.run_sync(create_file, file.path, items[0].hunk.new, name)
                verdicts: dict[str, Verdict] = {items[0].hunk.id: Landed(Span(0, len(items[0].hunk.new)))}
                text = items[0].hunk.new
            else:
                before = await anyio.to_thread.run_sync(read_file, file.path, name)
                verdicts = {**judge(file.text, [item.hunk for item in items], before.text)}
                ready = [v.hunk for v in verdicts.values() if isinstance(v, Absent)]
                text = applied(before.text, ready)
                if ready:
                    await anyio.to_thread.run_sync(replace_file, file.path, before, text, name)
                    verdicts.update(judge(before.text, ready, text))
        except ToolError as error:
            self._decide([(item, self._outcome(item, "notLanded", note=str(error))) for item in items])
            return
        view = Document(file.uri, 0, text, self._documents.encoding)
        settled: list[tuple[Item, HunkOutcome]] = []
        for item in items:
            verdict = verdicts[item.hunk.id]
            if isinstance(verdict, Landed):
                self._log_landed(self._proposal_of(item), view, item.hunk, verdict, on_disk=True)
                lines = _lines(text, verdict.span)
                settled.append((item, self._outcome(item, "landed", lines=lines, note="saved")))
            else:
                settled.append((item, replace(self._conflict(item), current=text)))
        for other in file.items:
            if other.state == "pending":
                self._follow(other, file.text, text)
        file.text = text
        self._decide(settled)

    def _proposal_of(self, item: Item) -> str:
        return next((p.id for p in self._open.values() if item.file in p.files), "")

    def _log_landed(
        self, proposal: str, document: Document, hunk: Hunk, verdict: Landed, *, on_disk: bool = False
    ) -> None:
        self._log.append(
            EditLanded(
                proposal=proposal,
                hunk=hunk.id,
                uri=document.uri,
                version=None if on_disk else document.version,
                range=document.range_of(verdict.span),
                before=hunk.old,
                after=hunk.new,
            )
        )

    @staticmethod
    def _is_clean(document: Document) -> bool:
        """Whether the editor's text is the file's."""
        return _text_on_disk(Path(document.key)) == document.text

    # -- following the documents -----------------------------------------------------------------------------

    def _on_change(self, event: DocumentChanged) -> None:
        self._look_for_late(event)
        changed = False
        for proposal in list(self._open.values()):
            for file in proposal.files:
                if file.key == event.document.key:
                    changed = self._follow_change(file, event) or changed
        if changed:
            self._refresh([f for p in self._open.values() for f in p.files if f.key == event.document.key])

    def _follow_change(self, file: FileUnderReview, event: DocumentChanged) -> bool:
        waiting = [item for item in file.items if item.state in ("pending", "accepted")]
        if not waiting:
            return False
        shown = [item for item in waiting if item.previewed]
        if shown:
            self._take_preview(shown, event)
        change = difference(event.before, event.after)
        conflicts: list[Item] = []
        for item in waiting:
            if item.state == "decided" or item.previewed:
                continue
            after = moved(item.hunk, [change])
            if after is not None:
                item.hunk = after
            elif not self._follow(item, event.before, event.after):
                conflicts.append(item)
        self._decide([(item, self._conflict(item)) for item in conflicts])
        return True

    def _take_preview(self, items: list[Item], event: DocumentChanged) -> None:
        """See what an editor's preview applied: hunks that stand there have been accepted in it."""
        verdicts = judge(event.before, [item.hunk for item in items], event.after)
        conflicts: list[tuple[Item, HunkOutcome]] = []
        landed: list[tuple[Item, Span]] = []
        for item in items:
            match verdicts[item.hunk.id]:
                case Landed(span):
                    landed.append((item, span))
                    item.state = "sent"
                case Absent(hunk):
                    item.hunk = hunk
                case Touched():
                    conflicts.append((item, self._conflict(item)))
        self._decide(conflicts)
        if landed:
            clean = _text_on_disk(items[0].file.path) == event.before
            self._tasks.start_soon(self._finish_preview, event.document, landed, clean)

    async def _finish_preview(self, document: Document, landed: list[tuple[Item, Span]], clean: bool) -> None:
        for item, span in landed:
            self._log_landed(self._proposal_of(item), document, item.hunk, Landed(span))
        note = await self._save(document, [item for item, _ in landed], clean=clean)
        self._decide(
            (item, self._outcome(item, "landed", lines=_lines(document.text, span), note=note))
            for item, span in landed
        )

    @staticmethod
    def _follow(item: Item, before: str, after: str) -> bool:
        """Move a hunk by comparing the whole texts; False if its own lines changed."""
        match judge(before, [item.hunk], after)[item.hunk.id]:
            case Absent(hunk):
                item.hunk = hunk
                return True
            case _:
                return False

    def _rebase(self, file: FileUnderReview, before: str, after: str) -> list[Item]:
        """Move a file's waiting hunks to another text; those that do not fit it."""
        waiting = [item for item in file.items if item.state in ("pending", "accepted")]
        file.text = after
        return [item for item in waiting if not self._follow(item, before, after)]

    def _on_open(self, document: Document) -> None:
        for proposal in list(self._open.values()):
            for file in proposal.files:
                if file.key == document.key and file.text != document.text:
                    file.uri = document.uri
                    lost = self._rebase(file, file.text, document.text)
                    self._decide([(item, self._conflict(item)) for item in lost])

    def _on_close(self, document: Document) -> None:
        """An editor that closes a document may have thrown its text away: the file is what counts now."""
        text = _text_on_disk(Path(document.key))
        for proposal in list(self._open.values()):
            for file in proposal.files:
                if file.key == document.key:
                    lost = self._rebase(file, document.text, text if text is not None else "")
                    self._decide([(item, self._conflict(item)) for item in lost])

    def _watch_late(self, items: list[Item], attempt: landing.Attempt) -> None:
        """Go on watching for an edit that the editor said it applied."""
        proposal = next(p for p in self._open.values() if items[0].file in p.files)
        self._documents.watch(items[0].file.key)  # for the rest of the session: it may come at any time
        self._late.append((proposal, items[0].file, attempt))

    def _look_for_late(self, event: DocumentChanged) -> None:
        for entry in list(self._late):
            proposal, file, attempt = entry
            if file.key != event.document.key:
                continue
            verdicts = judge(attempt.before, attempt.hunks, event.after)
            for hunk in attempt.hunks:
                verdict = verdicts[hunk.id]
                if isinstance(verdict, Landed) and not isinstance(attempt.verdicts[hunk.id], Landed):
                    attempt.verdicts[hunk.id] = verdict
                    self._log_landed(proposal.id, event.document, hunk, verdict)
            if not any(isinstance(verdict, Absent) for verdict in verdicts.values()):
                self._late.remove(entry)

    # -- showing in any editor -------------------------------------------------------------------------------

    def _refresh(self, files: Iterable[FileUnderReview]) -> None:
        """Show what waits as diagnostics, which every editor has; a client with a view of its own needs none."""
        if not self._editor.profile.offers_review:
            for file in {file.key: file for file in files}.values():
                document = self._documents.at(file.path)
                if document is not None:
                    items = [_diagnostic(document, item) for item in self.pending_at(file.key)]
                    self._editor.publish_diagnostics(document.uri, document.version, items)
        self.changed(None)


def _diagnostic(document: Document, item: Item) -> JsonObject:
    span = document.range_of(item.hunk.span)
    removed = "".join(f"- {line}\n" for line in item.hunk.old.splitlines())
    added = "".join(f"+ {line}\n" for line in item.hunk.new.splitlines())
    return {
        "range": _json(Range(start=span.start, end=max(span.start, span.end, key=_order))),
        "severity": 3,
        "source": "dsh",
        "code": item.hunk.id,
        "message": f"DSH proposes:\n{removed}{added}".rstrip(),
    }


def _order(position: Position) -> tuple[int, int]:
    return position.line, position.character


def _json(span: Range) -> JsonObject:
    return {
        "start": {"line": span.start.line, "character": span.start.character},
        "end": {"line": span.end.line, "character": span.end.character},
    }


def _text_on_disk(path: Path) -> str | None:
    try:
        return read_file(path, path.name).text
    except ToolError:
        return None


def _lines(text: str, span: Span) -> tuple[int, int]:
    """The lines, counted from 1, that a span covers."""
    first = text.count("\n", 0, span.start) + 1
    return first, max(first, first + text.count("\n", span.start, max(span.start, span.end - 1)))
