"""Approvals: the questions that wait for the user's permission, and every way of answering them.

Rules: the first button of a prompt is harmless, and the one that allows most comes last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal
from urllib.parse import unquote

from anyio.abc import TaskGroup

from dsh_lsp.decisions import Allowed, ApprovalAsked, ApprovalOutcome, Refused
from dsh_lsp.errors import SessionError
from dsh_lsp.lsp.desk import Desk, Waiting
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.tools.approvals import ApprovalHook, ApprovalRequest
from dsh_lsp.tools.cards import asked_card, words_of
from dsh_lsp.tools.tool import Card

Decision = Literal["allowOnce", "allowSession", "reject"]

# Harmless first, since an accidental Enter takes it.
LATER, REJECT, SESSION, ONCE = "Later", "Reject", "Allow for this session", "Allow"
BUTTONS: dict[str, Decision | None] = {LATER: None, REJECT: "reject", SESSION: "allowSession", ONCE: "allowOnce"}
SAVE_AND_RUN, RUN_ANYWAY = "Save and run", "Run anyway"  # the last two where something is unsaved


class ApprovalDesk(Desk[ApprovalAsked, ApprovalOutcome]):
    """The pending approvals of one session."""

    noun = "approval"
    wanted = "a decision"

    def __init__(self, *, hook: ApprovalHook, documents: Documents, editor: Editor, tasks: TaskGroup) -> None:
        super().__init__(documents=documents, editor=editor, tasks=tasks)
        self._cards: dict[str, Card] = {}
        hook.listen(self._answer)

    def decide(self, approval: str, decision: Decision, comment: str | None = None) -> None:
        """Decide on a call.

        Raises:
            SessionError: `NOT_PENDING`, it does not wait (any more).
        """
        asked = self._find(approval).asked
        match decision:
            case "reject":
                self.settle(approval, Refused(kind="rejected", comment=comment))
            case "allowOnce":
                self.settle(approval, Allowed(kind="allowedOnce"))
            case "allowSession":
                keys = tuple(effect.grant_key for effect in asked.effects)
                self.settle(approval, Allowed(kind="allowedSession", grant_keys=keys))

    async def save(self, approval: str) -> None:
        """Have the editor save what the call would not see.

        Raises:
            SessionError: `NOT_PENDING`, or `NOT_SAVED`: nothing is decided.
        """
        for uri in self._find(approval).asked.unsaved or ():
            if await self._editor.save(uri) is not True:
                name = uri.rsplit("/", 1)[-1]
                raise SessionError(f"{name} could not be saved; nothing was decided", code="NOT_SAVED")

    async def _answer(
        self, request: ApprovalRequest, _call_next: Callable[[ApprovalRequest], Awaitable[ApprovalOutcome]]
    ) -> ApprovalOutcome:
        self._cards[request.asked.id] = asked_card(request.execution)
        try:
            return await self.wait_for(request.asked) or Refused(kind="unavailable")
        finally:
            del self._cards[request.asked.id]

    async def _show_in_client(self, asked: ApprovalAsked) -> bool:
        if not self._editor.profile.offers("approve"):
            return False
        title, detail = describe(asked)
        await self._editor.show_approval(asked, title, detail, self._cards[asked.id])
        return True

    def _announce(self, asked: ApprovalAsked) -> str:
        return f"DSH asks: {describe(asked)[0]}. Decide by code action"

    async def _prompt(self, waiting: Waiting[ApprovalAsked, ApprovalOutcome]) -> None:
        title, detail = describe(waiting.asked)
        chosen = await self._editor.choose(f"DSH: {title}\n{detail}", self._buttons(waiting.asked))
        decision = BUTTONS.get(chosen or LATER, "allowOnce")
        if decision is None or waiting.outcome is not None:
            return
        try:
            if chosen == SAVE_AND_RUN:
                await self.save(waiting.asked.id)
            self.decide(waiting.asked.id, decision)
        except SessionError as error:
            self._editor.warn(f"DSH: {error}")

    def _buttons(self, asked: ApprovalAsked) -> list[str]:
        if not asked.unsaved:
            return list(BUTTONS)
        saves = [SAVE_AND_RUN] if self._editor.profile.offers("save") else []
        return [LATER, REJECT, *saves, RUN_ANYWAY]


def describe(asked: ApprovalAsked) -> tuple[str, str]:
    """A question as a title and the details below it."""
    title = f"may {asked.tool_name} run?"
    lines = [words_of(effect) for effect in asked.effects]
    if asked.unsaved:
        names = ", ".join(unquote(uri.rsplit("/", 1)[-1]) for uri in asked.unsaved)
        lines.append(f"unsaved, so not seen by it: {names}")
    return title, "\n".join([*lines, *([asked.reason] if asked.reason else [])])
