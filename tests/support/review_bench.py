"""Review bench: the reviews of one session over a simulated editor, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import EditLanded, ReviewDecided
from dsh_lsp.events import TurnStart
from dsh_lsp.lsp.arguments import ClientOffers
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import ClientProfile, Editor
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.lsp.workspace import EditorWorkspace
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.edits import FileChange, FileEdit, HunkOutcome
from dsh_lsp.workspace.rope import Rope
from tests.support.simulated_editor import SimulatedEditor
from tests.support.simulated_manners import Manners
from tests.support.virtual_loop import VirtualLoop

T = TypeVar("T")
HONEST = Manners(name="an honest one", saves=True)
SOON_S = 2.0  # virtual; by then an honest editor has done what it was asked


@dataclass
class Bench:
    """A folder, an editor, a session; `at_once` is the mode in which nobody is asked."""

    root: Path
    editor: SimulatedEditor
    documents: Documents
    log: SessionLog
    reviews: Reviews
    workspace: EditorWorkspace
    tasks: TaskGroup
    at_once: bool = False

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    def text(self, name: str) -> str:
        """What the editor holds."""
        return self.editor.buffers[self.uri(name)].state.text

    async def open(self, name: str) -> None:
        self.editor.open(self.root / name)
        await anyio.sleep(0.1)

    async def type(self, name: str, old: str, new: str) -> None:
        """The user replaces a piece of a buffer."""
        start = self.text(name).index(old)
        self.editor.type(self.uri(name), start, start + len(old), new)
        await anyio.sleep(0.5)

    def propose(self, *changes: FileChange) -> Proposed:
        """The agent proposes; what became of it is in the result's `outcomes`."""
        proposed = Proposed()

        async def run() -> None:
            proposed.outcomes = await self.workspace.propose(changes, signal=proposed.signal)

        self.tasks.start_soon(run)
        return proposed

    async def edit(self, name: str, new: str) -> FileEdit:
        """A change of a whole text."""
        base = await self.workspace.read(name)
        return FileEdit(path=name, base=base, new=Rope.of(new))

    async def land(self, *changes: FileChange) -> list[HunkOutcome]:
        """Propose, accept and see it through."""
        proposed = self.propose(*changes)
        await anyio.sleep(0.5)
        self.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(SOON_S)
        assert proposed.outcomes is not None, "the review does not end"
        return proposed.outcomes

    async def rewind(self, turn: int = 1) -> list[str | None]:
        """Take back a turn; the reasons why not, in the order of the edits, the last first."""
        undone = await self.reviews.take_back(self.reviews.landed.of_turn(turn), signal=AbortSignal())
        return [one.reason for one in undone]

    def landed(self) -> list[EditLanded]:
        return [event.data for event in self.log if isinstance(event.data, EditLanded)]

    def decided(self) -> list[str]:
        """The outcomes in the log, in order."""
        decisions = (event.data for event in self.log if isinstance(event.data, ReviewDecided))
        return [hunk.outcome for decision in decisions for hunk in decision.hunks]


Story = Callable[[Bench], Awaitable[None]]


class Proposed:
    """A proposal under way."""

    def __init__(self) -> None:
        self.signal = AbortSignal()
        self.outcomes: list[HunkOutcome] | None = None


def make_bench(
    root: Path,
    tasks: TaskGroup,
    manners: Manners,
    log: SessionLog | None = None,
    beside: Bench | None = None,
    **profile: Any,
) -> Bench:
    """Build a bench in the running loop; a log is that of an earlier life; one `beside` shares its editor."""
    documents = beside.documents if beside else Documents(manners.encoding, splits_at_return=manners.splits_at_return)
    editor = beside.editor if beside else SimulatedEditor(documents, manners)
    session = "s2" if beside else "s1"
    if log is None:
        log = SessionLog(SessionHeader(id=session, created_at=0, cwd=str(root)), clock=lambda: 0)
        log.append(TurnStart(turn=1))
    ids = count(len(log))
    offers = ClientOffers(review=manners.reviews, save=True) if manners.saves else None
    bench: Bench
    reviews = Reviews(
        log=log,
        documents=documents,
        editor=Editor(editor, ClientProfile(dsh=offers, **{"name": manners.client, **profile})),
        tasks=tasks,
        new_id=lambda: f"{'k' if beside else 'h'}{next(ids)}",
        root=root,
        copies=Copies(root.parent / f"{root.name}-copies"),
        applies_at_once=lambda: bench.at_once,
    )
    workspace = EditorWorkspace(root, documents, reviews)
    bench = Bench(root, editor, documents, log, reviews, workspace, tasks)
    return bench


def run_virtually(main: Callable[[TaskGroup], Awaitable[T]]) -> T:
    """Run something in virtual time, with a task group that is cancelled at its end."""

    async def run() -> T:
        asyncio.get_running_loop().watch_threads()  # type: ignore[attr-defined]
        async with anyio.create_task_group() as tasks:
            result = await main(tasks)
            tasks.cancel_scope.cancel()
        return result

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


def play(root: Path, story: Story, manners: Manners = HONEST, **profile: Any) -> None:
    """Play a story on a bench of its own."""

    async def main(tasks: TaskGroup) -> None:
        await story(make_bench(root, tasks, manners, **profile))

    run_virtually(main)
