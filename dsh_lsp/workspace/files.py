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
    EffectKind,
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
from dsh_lsp.workspace.disk import create_file, list_folder, read_file, replace_file
from dsh_lsp.workspace.edits import (
    Absent,
    FileEdit,
    Hunk,
    HunkOutcome,
    Landed,
    Snapshot,
    Touched,
    Verdict,
    applied,
    judge,
    plan_hunks,
)
from dsh_lsp.workspace.paths import NOTHING, check_writable, effects_of, resolve, shown
from dsh_lsp.workspace.port import Listing, OpenDocument
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class HunkQuestion:
    """One hunk to decide on: the `number`th of `count` in its file, whose text is `text` now."""

    path: str
    kind: Literal["edit", "create"]
    text: Rope
    hunk: Hunk
    number: int
    count: int


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
    edit: FileEdit
    path: Path
    uri: str
    text: Rope
    hunks: list[Hunk]
    outcomes: dict[str, HunkOutcome] = field(default_factory=dict)

    def outcome(self, hunk: Hunk, outcome: Outcome, **more: Any) -> HunkOutcome:
        """What a hunk would become."""
        return HunkOutcome(hunk=hunk, path=self.edit.path, outcome=outcome, **more)

    def undecided(self) -> list[Hunk]:
        """The hunks without an outcome."""
        return [hunk for hunk in self.hunks if hunk.id not in self.outcomes]

    def rebase(self, text: Rope) -> list[HunkOutcome]:
        """Move the hunks to another text; those whose own lines changed are conflicts."""
        verdicts = judge(self.text, self.undecided(), text)
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
        return ReviewFile(uri=self.uri, kind=self.edit.kind, hunks=hunks)


class FileWorkspace:
    """The `Workspace` of one session without an editor; `decide` is asked for each hunk."""

    def __init__(self, root: Path, log: SessionLog, *, decide: Decide, new_id: Callable[[], str]) -> None:
        self.root = root
        self._log = log
        self._decide = decide
        self._new_id = new_id
        self._one_at_a_time = anyio.Lock()

    def effects(self, path: str, kind: Literal["read", "edit"]) -> list[Effect]:
        """What touching a path means."""
        return effects_of(self.root, path, kind)

    async def read(self, path: str, approved: frozenset[EffectKind] = NOTHING) -> Snapshot:
        """Read a file."""

        def read() -> Snapshot:
            real = resolve(self.root, path, approved)
            name = shown(self.root, real)
            return Snapshot(uri=real.as_uri(), path=name, rope=Rope.of(read_file(real, name).text))

        return await anyio.to_thread.run_sync(read)

    async def list_files(self, path: str, approved: frozenset[EffectKind] = NOTHING, *, limit: int) -> Listing:
        """List the files below a folder."""
        return await anyio.to_thread.run_sync(
            lambda: list_folder(self.root, resolve(self.root, path, approved), limit=limit)
        )

    def open_documents(self) -> list[OpenDocument]:
        """Nobody holds any."""
        return []

    async def propose(
        self, edits: Sequence[FileEdit], approved: frozenset[EffectKind] = NOTHING, *, signal: AbortSignal
    ) -> list[HunkOutcome]:
        """Have every hunk decided, write those that are accepted, and tell what became of each."""
        proposal = self._new_id()
        files = await anyio.to_thread.run_sync(lambda: [self._plan(proposal, edit, approved) for edit in edits])
        self._log.append(ReviewOpened(proposal=proposal, files=tuple(file.describe() for file in files)))
        for file in files:
            async with self._one_at_a_time:
                await self._review(file, signal)
        return [file.outcomes[hunk.id] for file in files for hunk in file.hunks]

    def _plan(self, proposal: str, edit: FileEdit, approved: frozenset[EffectKind]) -> _File:
        """Cut an edit into hunks.

        Raises:
            ToolError: it may not be written, or changes nothing.
        """
        real = resolve(self.root, edit.path, approved)
        check_writable(self.root, real, approved)
        if edit.base is None and real.exists():
            raise ToolError(f"{edit.path} exists already", code="EXISTS")
        hunks = plan_hunks(edit, self._new_id)
        if not hunks:
            raise ToolError(f"{edit.path} would not change", code="NO_CHANGE")
        text = edit.base.rope if edit.base else Rope.of("")
        return _File(proposal=proposal, edit=edit, path=real, uri=real.as_uri(), text=text, hunks=hunks)

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
        if file.edit.base is not None:  # an earlier edit of the same step may have changed it
            try:
                now = await anyio.to_thread.run_sync(read_file, file.path, file.edit.path)
            except ToolError as error:
                self._settle(file, [file.outcome(h, "notLanded", note=str(error)) for h in file.hunks])
                return set()
            self._settle(file, file.rebase(Rope.of(now.text)))
        accepted = set()
        waiting = file.undecided()
        for number, hunk in enumerate(waiting, 1):
            choice = await self._decide(
                HunkQuestion(
                    path=file.edit.path,
                    kind=file.edit.kind,
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
        """Write the accepted hunks, log what landed, and tell what became of each."""
        hunks = [hunk for hunk in file.hunks if hunk.id in accepted]
        base = None if file.edit.base is None else file.text
        try:
            # Never torn: a thread that writes is waited for, and what it did is logged before the next await.
            text, verdicts = await anyio.to_thread.run_sync(write_hunks, file.path, file.edit.path, base, hunks)
        except ToolError as error:
            return [file.outcome(hunk, "notLanded", note=str(error)) for hunk in hunks]
        outcomes = []
        for hunk in hunks:
            match verdicts[hunk.id]:
                case Landed(span):
                    place = range_of(text, span)
                    self._log.append(
                        EditLanded(
                            proposal=file.proposal,
                            hunk=hunk.id,
                            uri=file.uri,
                            range=place,
                            before=hunk.old,
                            after=hunk.new,
                        )
                    )
                    lines = lines_of(text, span)
                    outcomes.append(file.outcome(hunk, "landed", lines=lines, note="saved"))
                case _:
                    outcomes.append(file.outcome(hunk, "conflict", current=str(text)))
        return outcomes

    def _settle(self, file: _File, outcomes: Sequence[HunkOutcome]) -> None:
        """Keep and log what hunks became."""
        if not outcomes:
            return
        file.outcomes |= {outcome.hunk.id: outcome for outcome in outcomes}
        decided = (HunkDecided(id=o.hunk.id, outcome=o.outcome, comment=o.comment) for o in outcomes)
        self._log.append(ReviewDecided(proposal=file.proposal, hunks=tuple(decided)))


def write_hunks(path: Path, name: str, base: Rope | None, hunks: Sequence[Hunk]) -> tuple[Rope, dict[str, Verdict]]:
    """Write hunks of `base` into a file as it is now, or create it (None): its text after, and what became of each.

    Raises:
        ToolError: nothing was written.
    """
    if base is None:
        create_file(path, hunks[0].new, name)
        return Rope.of(hunks[0].new), {hunks[0].id: Landed(Span(0, len(hunks[0].new)))}
    found = read_file(path, name)
    before = Rope.of(found.text)
    verdicts = judge(base, hunks, before)
    ready = [verdict.hunk for verdict in verdicts.values() if isinstance(verdict, Absent)]
    if not ready:
        return before, verdicts
    replace_file(path, found, str(applied(before, ready)), name)
    try:
        after = Rope.of(read_file(path, name).text)  # what counts is what stands there
    except ToolError:  # somebody took it away at once
        return Rope.of(""), {hunk.id: Touched() for hunk in hunks}
    return after, verdicts | judge(before, ready, after)


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
