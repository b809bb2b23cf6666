"""Approvals: the questions that wait for the user's permission, and every way of answering them.

Rules: decided by the command `dsh.approve`, whatever showed the question; a prompt is raised only where it cannot
take somebody's keystrokes, or when the user asks for it; its first button is harmless, and no answer means later.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.decisions import Allowed, ApprovalAsked, ApprovalOutcome, Refused
from dsh_lsp.errors import SessionError
from dsh_lsp.hooks import Emit
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.tools.approvals import ApprovalHook, ApprovalRequest
from dsh_lsp.tools.cards import words_of

Decision = Literal["allowOnce", "allowSession", "reject"]

QUIET_S = 2.0  # no prompt within this time of the last keystroke

# Harmless first, since an accidental Enter takes it; the button that allows most comes last.
LATER, REJECT, SESSION, ONCE = "Later", "Reject", "Allow for this session", "Allow"
BUTTONS: dict[str, Decision | None] = {LATER: None, REJECT: "reject", SESSION: "allowSession", ONCE: "allowOnce"}


@dataclass(slots=True, eq=False)
class _Question:
    """One pending approval."""

    asked: ApprovalAsked
    answered: anyio.Event = field(default_factory=anyio.Event)
    outcome: ApprovalOutcome | None = None


class ApprovalDesk:
    """The pending approvals of one session."""

    def __init__(self, *, hook: ApprovalHook, documents: Documents, editor: Editor, tasks: TaskGroup) -> None:
        self.changed: Emit[None] = Emit("approvals changed")
        self._documents = documents
        self._editor = editor
        self._tasks = tasks
        self._pending: dict[str, _Question] = {}
        hook.listen(self._answer)

    def pending(self) -> list[ApprovalAsked]:
        """What waits, oldest first."""
        return [question.asked for question in self._pending.values()]

    def decide(self, approval: str, decision: Decision, comment: str | None = None) -> None:
        """Answer a question.

        Raises:
            SessionError: `NOT_PENDING`, it does not wait (any more).
        """
        question = self._question(approval)
        if decision == "reject":
            question.outcome = Refused(kind="rejected", comment=comment)
        else:
            keys = tuple(effect.grant_key for effect in question.asked.effects)
            once = decision == "allowOnce"
            question.outcome = (
                Allowed(kind="allowedOnce") if once else Allowed(kind="allowedSession", grant_keys=keys)
            )
        question.answered.set()

    def prompt(self, approval: str) -> None:
        """Raise the editor's own prompt: the user asked for it.

        Raises:
            SessionError: `NOT_PENDING`.
        """
        self._tasks.start_soon(self._prompt, self._question(approval))

    def _question(self, approval: str) -> _Question:
        question = self._pending.get(approval)
        if question is None or question.outcome is not None:
            raise SessionError(f"approval {approval} is not waiting for a decision", code="NOT_PENDING")
        return question

    async def _answer(
        self, request: ApprovalRequest, _call_next: Callable[[ApprovalRequest], Awaitable[ApprovalOutcome]]
    ) -> ApprovalOutcome:
        """Show the question and wait; people have no time limit."""
        question = _Question(request.asked)
        self._pending[request.asked.id] = question
        self.changed(None)
        try:
            async with anyio.create_task_group() as views:
                views.start_soon(self._show, question)
                await question.answered.wait()
                views.cancel_scope.cancel()  # closes a prompt that is still open
        finally:
            del self._pending[request.asked.id]
            self.changed(None)
        return question.outcome or Refused(kind="unavailable")

    async def _show(self, question: _Question) -> None:
        """Show a question by the best means that the editor has; the command is there in any case."""
        if self._editor.profile.offers_approve:
            await self._editor.show_approval(question.asked.id, question.asked.tool_name, *describe(question.asked))
            return
        self._editor.tell(f"DSH asks: {describe(question.asked)[0]}. Decide by code action")
        if not self._editor.profile.is_modal:
            await self._wait_for_quiet()
            await self._prompt(question)

    async def _wait_for_quiet(self) -> None:
        """Wait until nobody has typed for a while."""
        while True:
            last = max((document.changed_at for document in self._documents), default=float("-inf"))
            left = last + QUIET_S - time.monotonic()
            if left <= 0:
                return
            await anyio.sleep(left)

    async def _prompt(self, question: _Question) -> None:
        title, detail = describe(question.asked)
        chosen = await self._editor.choose(f"DSH: {title}\n{detail}", list(BUTTONS))
        decision = BUTTONS.get(chosen or LATER)
        if decision is not None and question.outcome is None:
            self.decide(question.asked.id, decision)


def describe(asked: ApprovalAsked) -> tuple[str, str]:
    """A question as a title and the details below it."""
    title = f"may {asked.tool_name} run?"
    lines = [words_of(effect) for effect in asked.effects]
    return title, "\n".join([*lines, *([asked.reason] if asked.reason else [])])
