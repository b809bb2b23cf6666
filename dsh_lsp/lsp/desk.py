"""Desk: what waits for a person's answer, and how it is shown to them.

Rules: answered by a command, whatever showed it; a prompt is raised only where it cannot take somebody's keystrokes,
or when the user asks for it; no answer means later; a person has no time limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.errors import SessionError
from dsh_lsp.hooks import Emit
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import Editor


class Asked(Protocol):
    """What is asked; its `id` is what the command names."""

    @property
    def id(self) -> str:
        """The question's id."""


A = TypeVar("A", bound=Asked)
O = TypeVar("O")  # noqa: E741 - an outcome


@dataclass(slots=True, eq=False)
class Waiting(Generic[A, O]):
    """One thing that waits, until it has an outcome."""

    asked: A
    answered: anyio.Event = field(default_factory=anyio.Event)
    outcome: O | None = None


class Desk(ABC, Generic[A, O]):
    """What waits in one session for answers of one kind, oldest first."""

    noun: ClassVar[str]
    wanted: ClassVar[str]

    def __init__(self, *, documents: Documents, editor: Editor, tasks: TaskGroup) -> None:
        self.changed: Emit[None] = Emit("what waits has changed")
        self._documents = documents
        self._editor = editor
        self._tasks = tasks
        self._pending: dict[str, Waiting[A, O]] = {}

    def pending(self) -> list[A]:
        """What waits, oldest first."""
        return [waiting.asked for waiting in self._pending.values()]

    def settle(self, asked: str, outcome: O) -> None:
        """Answer what waits.

        Raises:
            SessionError: `NOT_PENDING`, it does not wait (any more).
        """
        waiting = self._find(asked)
        waiting.outcome = outcome
        waiting.answered.set()

    def prompt(self, asked: str) -> None:
        """Raise the editor's own prompt: the user asked for it.

        Raises:
            SessionError: `NOT_PENDING`, or no prompt can take its answer.
        """
        self._tasks.start_soon(self._prompt, self._find(asked))

    async def wait_for(self, asked: A) -> O | None:
        """Show it and wait."""
        waiting: Waiting[A, O] = Waiting(asked)
        self._pending[asked.id] = waiting
        self.changed(None)
        try:
            async with anyio.create_task_group() as views:
                views.start_soon(self._show, waiting)
                await waiting.answered.wait()
                views.cancel_scope.cancel()  # closes a prompt that is still open
        finally:
            del self._pending[asked.id]
            self.changed(None)
        return waiting.outcome

    def _find(self, asked: str) -> Waiting[A, O]:
        waiting = self._pending.get(asked)
        if waiting is None or waiting.outcome is not None:
            raise SessionError(f"{self.noun} {asked} is not waiting for {self.wanted}", code="NOT_PENDING")
        return waiting

    async def _show(self, waiting: Waiting[A, O]) -> None:
        """Show it by the best means that the editor has; the command is there in any case."""
        if await self._show_in_client(waiting.asked):
            return
        self._editor.tell(self._announce(waiting.asked))
        if not self._editor.profile.is_modal:
            await self._documents.wait_until_nobody_types()
            if not self._editor.refuses_prompts:
                await self._prompt(waiting)

    @abstractmethod
    async def _show_in_client(self, asked: A) -> bool:
        """Let a client show it that has a view for it; False for others."""

    @abstractmethod
    def _announce(self, asked: A) -> str:
        """One line that says what waits, for a client without a view for it."""

    @abstractmethod
    async def _prompt(self, waiting: Waiting[A, O]) -> None:
        """Raise the editor's own prompt, and take its answer."""
