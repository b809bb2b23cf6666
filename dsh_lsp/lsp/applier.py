"""Applier: puts accepted hunks into the documents and tells what really became of them.

Rules: an open document is changed by its editor, another one on disk, guarded by what it holds now; what was seen
is logged as `edit/landed`, whenever it is seen; a document is saved only if it was clean before our edit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from dsh_lsp.decisions import EditLanded
from dsh_lsp.errors import ToolError
from dsh_lsp.lsp import landing
from dsh_lsp.lsp.documents import Document, Documents, path_of
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.late import LateEdits
from dsh_lsp.lsp.proposal import FileUnderReview, Item, apart
from dsh_lsp.lsp.unopened import Seen, attempt_unopened
from dsh_lsp.lsp.whole_files import WholeFiles
from dsh_lsp.session.log import SessionLog
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.disk import missing_folders, text_on_disk
from dsh_lsp.workspace.edits import FileEdit, Hunk, HunkOutcome, ended
from dsh_lsp.workspace.files import lines_of, write_hunks
from dsh_lsp.workspace.passage import Absent, Landed, Passage, Touched
from dsh_lsp.workspace.places import around
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Span, with_line_ending, without_last_end

MAX_ATTEMPTS = 5  # of an edit that the document is not seen to take, though the editor does not say that it is stale
OVERTAKEN_S = 10.0  # how long it is tried at least: its user may type on, and some editors say yes to what they drop
REFUSED = "DSH: the editor did not apply an accepted edit, which still waits: {reason}"
NO_REASON = "it gave no reason"
NO_CHANGE = "nothing was to be changed: the user put the old text in the place of the new"
OVERTYPED = "the user changed these lines in the moment in which the accepted edit was made"
CHANGED_SINCE = "not saved: the user has changed the document since"
LABEL = "DSH"  # short: stock Neovim prints it, and asks for a key when the line is too long for its screen

Settled = Iterable[tuple[Item, HunkOutcome]]


class Applier:
    """Brings accepted hunks into documents, one document at a time each."""

    def __init__(
        self,
        *,
        log: SessionLog,
        documents: Documents,
        editor: Editor,
        saves: bool,
        accepted: Callable[[str], list[Item]],
        settle: Callable[[Settled], None],
        copies: Copies,
        tasks: TaskGroup,
    ) -> None:
        self._log = log
        self._documents = documents
        self._editor = editor
        self.saves = saves
        self._accepted = accepted
        self._settle = settle
        self._late = LateEdits(documents, editor, self._log_landed)
        self._told_unsaved = False
        self._whole_files = WholeFiles(
            log=log, documents=documents, editor=editor, copies=copies, tasks=tasks, settle=settle
        )

    def close(self) -> None:
        """Look for late edits no longer."""
        self._late.close()
        self._whole_files.close()

    def is_unconfirmed(self, key: str) -> bool:
        """Whether an edit of a document was sent, given up, and may still arrive."""
        return self._late.may_come(key)

    async def land(self, key: str) -> None:
        """Apply what is accepted of one document, until nothing accepted is left: changes of its text come first."""
        await self._editor.caught_up()
        async with self._documents.one_at_a_time(key):
            await self._land(key)

    async def _land(self, key: str) -> None:
        attempts, since = 0, anyio.current_time()
        while accepted := await self._accepted_in_place(key):
            items = apart([item for item in accepted if item.file.changes_text])
            if not items:
                await self._whole(accepted[0])
                continue
            document = self._documents.at(items[0].file.path)
            if self._settle_at_once(document, accepted):
                continue
            if document is None:
                await (self._send_unopened if self._editor.profile.offers_review else self._write)(items)
                continue
            await landing.wait_for_quiet(self._documents, document)
            items = apart([item for item in self._accepted(key) if item.file.changes_text])
            if items and self._documents.at(items[0].file.path) is document:
                attempts += 1
                last = attempts >= MAX_ATTEMPTS and anyio.current_time() - since >= OVERTAKEN_S
                final = await self._send(document, items, last=last)
                if final == "stale" or any(item.state != "accepted" for item in items):
                    # Its user types on; or what comes next has tries of its own.
                    attempts, since = 0, anyio.current_time()

    async def _accepted_in_place(self, key: str) -> list[Item]:
        """What waits to be done to a file; what may not be done there any more is settled."""
        for file in {item.file for item in self._accepted(key)}:
            try:
                await anyio.to_thread.run_sync(file.prepared.check)
                await anyio.to_thread.run_sync(self._documents.check_certain, file.path)
            except ToolError as error:
                lost = [item for item in self._accepted(key) if item.file is file]
                self._settle([(item, item.as_outcome("notLanded", note=str(error))) for item in lost])
        return self._accepted(key)

    def _settle_at_once(self, document: Document | None, items: Sequence[Item]) -> bool:
        """Settle hunks for which nothing can or need be sent; whether there were any."""
        items = [item for item in items if item.file.changes_text]
        file = items[0].file
        view = document or Document(file.uri, None, file.text, self._documents.encoding)
        is_sent = document is not None or self._editor.profile.offers_review
        why_not = partial(landing.why_not, text=view.rope, manners=self._editor.profile.manners)
        barred = [(item, item.as_outcome("notLanded", note=why)) for item in items if (why := why_not(item.hunk))]
        if is_sent and barred:
            self._settle(barred)
            return True
        same = [item for item in items if item.hunk.old == item.hunk.new]  # its person put back what was there
        for item in same:
            self.see(item, view, item.hunk.span)
        self._settle([(item, item.as_outcome("landed", lines=item.seen_at, note=NO_CHANGE)) for item in same])
        return bool(same)

    async def _whole(self, item: Item) -> None:
        """Do what is done to a whole file."""
        if not isinstance(item.file.change, FileEdit):
            await self._whole_files.carry_out(item)
        elif self._documents.at(item.file.path) is not None:
            self._settle([(item, item.as_outcome("notLanded", note="the editor has opened a document of this name"))])
        else:
            await self._write([item])

    # -- open documents --------------------------------------------------------------------------------------

    async def _send(self, document: Document, items: list[Item], *, last: bool) -> landing.Final:
        """Send accepted hunks to the editor once, and settle those whose fate is known; what became of it."""
        clean = document.rope if await self._is_clean(document, document.rope) else None
        items = apart([item for item in items if item.state == "accepted"])
        if not items or self._documents.at(items[0].file.path) is not document:
            return "retry"
        for item in items:
            item.state, item.refused = "sent", False
        self._late.forget(document, [item.hunk for item in items])
        by_id = {item.hunk.id: item for item in items}
        result = await landing.attempt(
            self._documents,
            self._editor,
            document,
            [item.hunk for item in items],
            label=LABEL,
            landed=lambda hunk, span: self.see(by_id[hunk.id], document, span),
            refused=lambda: _refuse(items),
        )
        settled: list[tuple[Item, HunkOutcome]] = []
        landed: list[Item] = []
        lost: list[tuple[FileUnderReview, Hunk]] = []
        for item in items:
            match result.verdicts[item.hunk.id]:
                case Landed():
                    landed.append(item)
                case Touched() if result.denied:
                    settled.append((item, item.as_outcome("conflict", current=document.text)))
                case Touched():  # by their user, before or after the edit: an editor may tell of both at once
                    settled.append((item, item.as_outcome("unconfirmed", note=OVERTYPED, current=document.text)))
                case Absent() if result.final == "silent":
                    lost.append((item.file, item.hunk))  # as it was sent, in the text before
                    settled.append((item, item.as_outcome("unconfirmed")))
                case Absent(hunk) if item.state == "sent":
                    item.hunk = ended(hunk, document.rope)
                    given_up = result.final == "refused" or (last and result.final != "stale")
                    item.state = "pending" if given_up else "accepted"
                    now = self._text_after(document, item)
                    if now is not None and not item.follow(Passage(document.rope, now)):
                        settled.append((item, item.as_outcome("conflict", current=str(now))))
        if lost:
            self._late.wait_for(document.key, result.before, lost, answered=result.answered)
        await self.finish(document, landed, before=result.before if result.before == clean else None)
        self._settle(settled)
        if any(item.state == "pending" for item in items):
            self._editor.warn(REFUSED.format(reason=result.reason or NO_REASON))
        return result.final

    def _text_after(self, document: Document, item: Item) -> Rope | None:
        """The text of a file whose document was closed meanwhile, and perhaps opened again; None if it was not."""
        now = self._documents.at(item.file.path)
        if now is document:
            return None
        return now.rope if now is not None else item.file.text

    def see(self, item: Item, document: Document, span: Span) -> None:
        """Log a hunk that the document shows now."""
        item.seen_at = lines_of(document.rope, span)
        self._log_landed(item.file, document, item.hunk, span)

    async def finish(self, document: Document, landed: Sequence[Item], *, before: Rope | None) -> None:
        """Save what landed where that is wanted, and settle it; `before` was the text if it was the file's."""
        if not landed:
            return
        note = await self._save(document, landed, before)
        self._settle((item, item.as_outcome("landed", lines=item.seen_at, note=note)) for item in landed)

    async def finish_preview(self, document: Document, landed: Sequence[Item], *, before: Rope) -> None:
        """Save and settle what an editor's own preview applied; `before` is the text before it."""
        await self.finish(document, landed, before=before if await self._is_clean(document, before) else None)

    async def _is_clean(self, document: Document, text: Rope) -> bool:
        """Whether a text of a document is its file's; that of a file which does not exist is empty."""
        path = path_of(document.uri)
        if path is None:
            return False
        saved = await anyio.to_thread.run_sync(lambda: text_on_disk(path) if os.path.lexists(path) else "")
        return self._documents.is_saved(text, saved)

    async def _save(self, document: Document, items: Sequence[Item], before: Rope | None) -> str:
        """Save a document that was clean before our edit and holds nothing else; what the model should know of it."""
        if before is None:
            return "not saved: the document and its file differed before the edit"
        if not self.saves:
            return "not saved: the user's settings leave saving to the user"
        if self._editor.profile.offers("save"):
            await anyio.sleep(self._editor.profile.manners.tells_within_s)
            hunks = sorted((item.hunk for item in items), key=lambda hunk: hunk.span.start)
            if not landing.shows_only(before, hunks, document.rope, self._editor.profile.manners):
                return CHANGED_SINCE
        version = document.version
        saved = await self._editor.save(document.uri, version)
        if saved is None:
            if not self._told_unsaved:
                self._told_unsaved = True
                self._editor.tell("DSH: the edit is in the buffer, unsaved; your editor leaves saving to you")
            return "not saved: the user's editor does not let the agent save"
        if not saved:
            await anyio.sleep(
                self._editor.profile.manners.tells_within_s
            )  # it may know of a key that is not told yet
            return CHANGED_SINCE if document.version != version else "not saved: the editor could not save it"
        text = await anyio.to_thread.run_sync(text_on_disk, items[0].file.path)
        plain = with_line_ending(text or "", "\n")
        news = (with_line_ending(without_last_end(item.hunk.new), "\n") for item in items)
        if text is None or not all(new in plain for new in news):
            return "the editor says that it saved the document, but the file does not show the edit"
        return "saved"

    def await_previewed(self, item: Item) -> None:
        """Follow what was decided while the editor's own preview shows it: its user may apply it there yet."""
        if (document := self._documents.at(item.file.path)) is not None:
            self._late.wait_for(document.key, document.rope, [(item.file, item.hunk)])

    async def _send_unopened(self, items: list[Item]) -> None:
        """Have a client of ours edit a file that it has not opened; those hunks that still fit the file."""
        path = items[0].file.path
        text = await anyio.to_thread.run_sync(text_on_disk, path)
        if text is None:
            self._settle([(item, item.as_outcome("notLanded", note="the file cannot be read")) for item in items])
            return
        if self._documents.at(path) is not None:
            return  # opened meanwhile: it is sent as what is open
        rope = Rope.of(text)
        lost = [item for file in {item.file for item in items} for item in file.rebase(file.text, rope)]
        self._settle((item, item.as_outcome("conflict", current=text)) for item in lost)
        items = apart([item for item in items if item.state == "accepted"])
        if not items:
            return
        for item in items:
            item.state = "sent"
        file = Document(items[0].file.uri, None, rope, self._documents.encoding)
        hunks = [item.hunk for item in items]
        seen = await attempt_unopened(self._documents, self._editor, file, path, hunks, label=LABEL, saves=self.saves)
        await self._settle_unopened(items, seen, rope)

    async def _settle_unopened(self, items: list[Item], seen: Seen, before: Rope) -> None:
        view = seen.document or Document(items[0].file.uri, None, seen.text, self._documents.encoding)
        landed: list[Item] = []
        rest: list[Item] = []
        for item in items:
            match seen.verdicts[item.hunk.id]:
                case Landed(span):
                    self.see(item, view, span)
                    landed.append(item)
                case _:
                    rest.append(item)
        if seen.final == "refused" and rest:
            self._wait_again(rest, seen)
            self._editor.warn(REFUSED.format(reason=seen.reason or NO_REASON))
        elif rest:
            self._late.wait_for(view.key, before, [(item.file, item.hunk) for item in rest])
            self._settle([(item, item.as_outcome("unconfirmed")) for item in rest])
        if seen.document is not None:
            await self.finish(seen.document, landed, before=before)
        else:
            self._settle((item, item.as_outcome("landed", lines=item.seen_at, note="saved")) for item in landed)

    def _wait_again(self, items: Sequence[Item], seen: Seen) -> None:
        """Let refused hunks wait where they would go in the text that is there now."""
        for item in items:
            match seen.verdicts[item.hunk.id]:
                case Absent(hunk):
                    item.hunk, item.state = ended(hunk, seen.text), "pending"
                case _:
                    self._settle([(item, item.as_outcome("conflict", current=str(seen.text)))])

    # -- files that no editor holds --------------------------------------------------------------------------

    async def _write(self, items: list[Item]) -> None:
        """Write accepted hunks of a file that the editor does not hold, those of one proposal at a time."""
        file = items[0].file
        items = [item for item in items if item.file is file]
        for item in items:
            item.state = "sent"
        try:
            base = file.text if file.changes_text else None
            made = await anyio.to_thread.run_sync(missing_folders, file.path)
            text, verdicts = await anyio.to_thread.run_sync(
                write_hunks, file.prepared, base, [item.hunk for item in items]
            )
        except ToolError as error:
            self._settle([(item, item.as_outcome("notLanded", note=str(error))) for item in items])
            return
        view = Document(file.uri, None, text, self._documents.encoding)
        settled: list[tuple[Item, HunkOutcome]] = []
        for item in items:
            match verdicts[item.hunk.id]:
                case Landed(span):
                    self._log_landed(file, view, item.hunk, span, made)
                    lines = lines_of(text, span)
                    settled.append((item, item.as_outcome("landed", lines=lines, note="saved")))
                case _:
                    settled.append((item, item.as_outcome("conflict", current=str(text))))
        lost = file.rebase(file.text, text)
        self._settle(settled + [(item, item.as_outcome("conflict", current=str(text))) for item in lost])

    def _log_landed(self, file: FileUnderReview, document: Document, hunk: Hunk, span: Span, made: int = 0) -> None:
        above, below = around(document.rope, span)
        self._log.append(
            EditLanded(
                proposal=file.proposal,
                hunk=hunk.id,
                uri=document.uri,
                version=document.version,
                range=document.range_of(span),
                before=hunk.old,
                after=document.rope[span.start : span.end],  # an editor may have its own line ends
                kind=file.change.kind,
                made=made or None,
                above=above,
                below=below,
            )
        )


def _refuse(items: Iterable[Item]) -> None:
    for item in items:
        item.refused = True
