"""Files: the workspace port over files alone, where no editor holds anything.

Rules: whoever composes decides on hunks, one question at a time; an accepted hunk is written over what was read or
where its own lines still stand, never over anything else; what the file is seen to hold afterwards is what landed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from dsh_lsp.abort import Aborted, AbortSignal
from dsh_lsp.decisions import (
    EditLanded,
    Effect,
    FileKind,
    GrantKey,
    HunkDecided,
    Outcome,
    Position,
    Range,
    ReviewDecided,
    ReviewFile,
    ReviewHunk,
    ReviewOpened,
)
from dsh_lsp.errors import ToolError
from dsh_lsp.session.log import SessionLog
from dsh_lsp.workspace.changes import Prepared, carry_out, copy_of, prepare
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.disk import create_file, missing_folders, read_file, replace_file
from dsh_lsp.workspace.edits import (
    FileChange,
    FileEdit,
    FileRename,
    Hunk,
    HunkOutcome,
    Snapshot,
    applied,
    outcome_of,
    plan_hunks,
    text_before,
)
from dsh_lsp.workspace.order import Order, Ticket
from dsh_lsp.workspace.pages import is_large, read_page
from dsh_lsp.workspace.passage import Absent, Landed, Touched, Verdict, judge, judge_unsent
from dsh_lsp.workspace.paths import NOTHING, Guarded, effects_of, resolve, shown
from dsh_lsp.workspace.places import around
from dsh_lsp.workspace.port import Found, Listing, OpenDocument, Page, Query
from dsh_lsp.workspace.ripgrep import ripgrep
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.search import search
from dsh_lsp.workspace.text import Span
from dsh_lsp.workspace.threads import Stop, in_thread
from dsh_lsp.workspace.walk import list_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class HunkQuestion:
    """One hunk to decide on: the `number`th of `count` in its file, whose text is `text` now."""

    path: str
    kind: FileKind
    text: Rope
    hunk: Hunk
    number: int
    count: int
    new_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was decided; the model reads the comment of a refusal."""

    accepts: bool
    comment: str | None = None


Decide = Callable[[HunkQuestion], Awaitable[Choice]]


async def accept_all(_: HunkQuestion) -> Choice:
    """Accept whatever is proposed."""
    return Choice(accepts=True)


@dataclass(slots=True, eq=False)
class _File:
    """One file of a proposal; the spans of `hunks` count in `text`, and `outcomes` fills up."""

    proposal: str
    prepared: Prepared
    text: Rope
    hunks: list[Hunk]
    outcomes: dict[str, HunkOutcome] = field(default_factory=dict)

    @property
    def change(self) -> FileChange:
        """What is proposed."""
        return self.prepared.change

    def outcome(self, hunk: Hunk, outcome: Outcome, **more: Any) -> HunkOutcome:
        """What a hunk would become."""
        return outcome_of(self.change, hunk, outcome, **more)

    def undecided(self) -> list[Hunk]:
        """The hunks without an outcome."""
        return [hunk for hunk in self.hunks if hunk.id not in self.outcomes]

    def rebase(self, text: Rope) -> list[HunkOutcome]:
        """Move the hunks to another text; those whose own lines changed are conflicts."""
        verdicts = judge_unsent(self.text, self.undecided(), text)
        self.text = text
        self.hunks = [
            verdict.hunk if isinstance(verdict := verdicts.get(hunk.id), Absent) else hunk for hunk in self.hunks
        ]
        return [
            self.outcome(hunk, "conflict", current=str(text))
            for hunk in self.undecided()
            if not isinstance(verdicts[hunk.id], Absent)
        ]

    def describe(self) -> ReviewFile:
        """The file as events show it."""
        hunks = tuple(
            ReviewHunk(id=h.id, range=range_of(self.text, h.span), old_text=h.old, new_text=h.new) for h in self.hunks
        )
        target = self.prepared.new_path
        return ReviewFile(
            uri=self.prepared.path.as_uri(),
            kind=self.change.kind,
            hunks=hunks,
            new_uri=target.as_uri() if target is not None else None,
        )


class FileWorkspace:
    """The `Workspace` of one session without an editor; `decide` is asked for each hunk."""

    def __init__(
        self,
        root: Path,
        log: SessionLog,
        *,
        decide: Decide,
        new_id: Callable[[], str],
        copies: Copies,
        guarded: Guarded | None = None,
    ) -> None:
        self.root = root
        self._guarded = guarded
        self._copies = copies
        self._log = log
        self._decide = decide
        self._new_id = new_id
        self._one_at_a_time = anyio.Lock()
        self.order = Order()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The other folders of the window."""
        return tuple(self._guarded.folders()) if self._guarded is not None else ()

    def effects(self, path: str, kind: Literal["read", "edit"]) -> list[Effect]:
        """What touching a path means."""
        return effects_of(self.root, path, kind, self._guarded)

    async def read(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> Snapshot:
        """Read a file."""

        def read() -> Snapshot:
            real = resolve(self.root, path, approved, self._guarded)
            name = shown(self.root, real)
            return Snapshot(uri=real.as_uri(), path=name, rope=Rope.of(read_file(real, name).text))

        return await anyio.to_thread.run_sync(read)

    async def list_files(self, path: str, approved: frozenset[GrantKey] = NOTHING, *, limit: int) -> Listing:
        """List the files below a folder."""
        return await in_thread(
            lambda stop: list_folder(
                self.root, resolve(self.root, path, approved, self._guarded), limit=limit, stop=stop
            )
        )

    async def read_page(
        self, path: str, approved: frozenset[GrantKey] = NOTHING, *, first: int, limit: int
    ) -> Page | None:
        """Read some lines of a large file."""

        def read(stop: Stop) -> Page | None:
            real = resolve(self.root, path, approved, self._guarded)
            if not is_large(real):
                return None
            return read_page(real, shown(self.root, real), first=first, limit=limit, stop=stop)

        return await in_thread(read)

    async def search(self, query: Query, approved: frozenset[GrantKey] = NOTHING) -> Found:
        """Search the files below a folder."""
        root, folder, program = await anyio.to_thread.run_sync(
            lambda: (resolve(self.root, "."), resolve(self.root, query.path, approved, self._guarded), ripgrep())
        )
        return await search(root, folder, query, self.open_documents(), program=program)

    def open_documents(self) -> list[OpenDocument]:
        """Nobody holds any."""
        return []

    async def propose(
        self,
        edits: Sequence[FileChange],
        approved: frozenset[GrantKey] = NOTHING,
        *,
        signal: AbortSignal,
        ticket: Ticket | None = None,
    ) -> list[HunkOutcome]:
        """Have every hunk decided, carry out those that are accepted, and tell what became of each."""
        proposal = self._new_id()
        files = await anyio.to_thread.run_sync(lambda: [self._plan(proposal, edit, approved) for edit in edits])
        if ticket is not None:
            await ticket.wait()
        self._log.append(ReviewOpened(proposal=proposal, files=tuple(file.describe() for file in files)))
        for file in files:
            async with self._one_at_a_time:
                await self._review(file, signal)
        return [file.outcomes[hunk.id] for file in files for hunk in file.hunks]

    def _plan(self, proposal: str, change: FileChange, approved: frozenset[GrantKey]) -> _File:
        """Cut a change into hunks.

        Raises:
            ToolError: it may not be made, or changes nothing.
        """
        prepared = prepare(self.root, change, approved, is_open=lambda _: False, guarded=self._guarded)
        hunks = plan_hunks(prepared.change, self._new_id)
        if not hunks:
            raise ToolError(f"{change.path} would not change", code="NO_CHANGE")
        return _File(proposal=proposal, prepared=prepared, text=text_before(prepared.change), hunks=hunks)

    async def _review(self, file: _File, signal: AbortSignal) -> None:
        """Decide on a file's hunks, and write it once; a cancel before that leaves the file as it is."""
        try:
            with signal.guard():
                accepted = await self._ask(file)
        except Aborted:
            self._settle(file, [file.outcome(hunk, "cancelled") for hunk in file.undecided()])
            return
        if accepted:
            self._settle(file, await self._write(file, accepted))

    async def _ask(self, file: _File) -> set[str]:
        """Ask for each hunk that still fits the file; the accepted ones."""
        if isinstance(file.change, FileEdit) and file.change.base is not None:  # an earlier edit may have changed it
            try:
                now = await anyio.to_thread.run_sync(read_file, file.prepared.path, file.change.path)
            except ToolError as error:
                self._settle(file, [file.outcome(h, "notLanded", note=str(error)) for h in file.hunks])
                return set()
            self._settle(file, file.rebase(Rope.of(now.text)))
        accepted = set()
        waiting = file.undecided()
        for number, hunk in enumerate(waiting, 1):
            choice = await self._decide(
                HunkQuestion(
                    path=file.change.path,
                    kind=file.change.kind,
                    new_path=file.change.new_path if isinstance(file.change, FileRename) else None,
                    text=file.text,
                    hunk=hunk,
                    number=number,
                    count=len(waiting),
                )
            )
            if choice.accepts:
                accepted.add(hunk.id)
            else:
                self._settle(file, [file.outcome(hunk, "rejected", comment=choice.comment)])
        return accepted

    async def _write(self, file: _File, accepted: set[str]) -> list[HunkOutcome]:
        """Carry out what is accepted, log what was seen of it, and tell what became of each."""
        hunks = [hunk for hunk in file.hunks if hunk.id in accepted]
        try:
            # Never torn: a thread that writes is waited for, and what it did is logged before the next await.
            if isinstance(file.change, FileEdit):
                base = None if file.change.base is None else file.text
                made = await anyio.to_thread.run_sync(missing_folders, file.prepared.lands_at)
                text, verdicts = await anyio.to_thread.run_sync(write_hunks, file.prepared, base, hunks)
            else:
                return [await self._carry_out(file, hunks[0])]
        except ToolError as error:
            return [file.outcome(hunk, "notLanded", note=str(error)) for hunk in hunks]
        return [self._landed(file, hunk, verdicts[hunk.id], text, made) for hunk in hunks]

    async def _carry_out(self, file: _File, hunk: Hunk) -> HunkOutcome:
        def act() -> tuple[str | None, int]:
            copy, made = copy_of(file.prepared, hunk.id, self._copies), missing_folders(file.prepared.lands_at)
            carry_out(file.prepared)
            return copy, made

        copy, made = await anyio.to_thread.run_sync(act)
        self._log.append(landed_on_disk(file.proposal, hunk, file.describe(), copy=copy, made=made))
        return file.outcome(hunk, "landed")

    def _landed(self, file: _File, hunk: Hunk, verdict: Verdict, text: Rope, made: int) -> HunkOutcome:
        if not isinstance(verdict, Landed):
            return file.outcome(hunk, "conflict", current=str(text))
        above, below = around(text, verdict.span)
        self._log.append(
            EditLanded(
                proposal=file.proposal,
                hunk=hunk.id,
                uri=file.prepared.path.as_uri(),
                range=range_of(text, verdict.span),
                before=hunk.old,
                after=hunk.new,
                kind=file.change.kind,
                made=made or None,
                above=above,
                below=below,
            )
        )
        return file.outcome(hunk, "landed", lines=lines_of(text, verdict.span), note="saved")

    def _settle(self, file: _File, outcomes: Sequence[HunkOutcome]) -> None:
        """Keep and log what hunks became."""
        if not outcomes:
            return
        file.outcomes |= {outcome.hunk.id: outcome for outcome in outcomes}
        decided = (HunkDecided(id=o.hunk.id, outcome=o.outcome, comment=o.comment) for o in outcomes)
        self._log.append(ReviewDecided(proposal=file.proposal, hunks=tuple(decided)))


def write_hunks(prepared: Prepared, base: Rope | None, hunks: Sequence[Hunk]) -> tuple[Rope, dict[str, Verdict]]:
    """Write hunks of `base` into a file as it is now, or create it (None): its text after, and what became of each.

    Raises:
        ToolError: nothing was written.
    """
    path, name = prepared.path, prepared.change.path
    prepared.check()
    if base is None:
        create_file(path, hunks[0].new, name)
        return Rope.of(hunks[0].new), {hunks[0].id: Landed(Span(0, len(hunks[0].new)))}
    found = read_file(path, name)
    before = Rope.of(found.text)
    verdicts = judge_unsent(base, hunks, before)
    ready = [verdict.hunk for verdict in verdicts.values() if isinstance(verdict, Absent)]
    if not ready:
        return before, verdicts
    replace_file(path, found, str(applied(before, ready)), name)
    try:
        after = Rope.of(read_file(path, name).text)  # what counts is what stands there
    except ToolError:  # somebody took it away at once
        return Rope.of(""), {hunk.id: Touched() for hunk in hunks}
    return after, verdicts | judge(before, ready, after)


def landed_on_disk(proposal: str, hunk: Hunk, file: ReviewFile, *, copy: str | None, made: int) -> EditLanded:
    """What is logged when a file was moved, deleted or restored."""
    nowhere = Range(start=Position(line=0, character=0), end=Position(line=0, character=0))
    return EditLanded(
        proposal=proposal,
        hunk=hunk.id,
        uri=file.uri,
        range=nowhere,
        before="",
        after="",
        kind=file.kind,
        new_uri=file.new_uri,
        copy=copy,
        made=made or None,
    )


def range_of(text: Rope, span: Span) -> Range:
    """A span of a text as lines and UTF-16 columns."""
    return Range(start=_position_at(text, span.start), end=_position_at(text, span.end))


def _position_at(text: Rope, offset: int) -> Position:
    line, column = text.place_at(offset)
    head = text.line(line)[:column] if column else ""
    return Position(line=line, character=len(head.encode("utf-16-le", "surrogatepass")) // 2)


def lines_of(text: Rope, span: Span) -> tuple[int, int]:
    """The lines, counted from 1, that a span covers."""
    (first, _), (last, column) = text.place_at(span.start), text.place_at(span.end)
    return first + 1, max(last + (column > 0), first + 1)
