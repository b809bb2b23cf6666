"""Approvals: asking a person whether a tool call may run, and the pair of events that it leaves.

Rules: asked and decided are always a pair in the log; only an answer allows, never silence, a failure or time; a
cancel decides as cancelled, and an answer that comes later decides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dsh_lsp.abort import Aborted
from dsh_lsp.decisions import Allowed, ApprovalAsked, ApprovalDecided, ApprovalOutcome, Effect, Refused
from dsh_lsp.errors import UsageError
from dsh_lsp.hooks import Waterfall
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.tool import Execution

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question for a person; a listener that can ask answers, the others call `next`."""

    asked: ApprovalAsked
    execution: Execution


ApprovalHook = Waterfall[ApprovalRequest, ApprovalOutcome]

_KINDS = {
    Allowed: ("allowedOnce", "allowedSession"),
    Refused: ("rejected", "cancelled", "unavailable"),
}


class Approvals:
    """The approvals of one session."""

    def __init__(self, session_log: SessionLog, hook: ApprovalHook, new_id: Callable[[], str]) -> None:
        self._log = session_log
        self._hook = hook
        self._new_id = new_id

    def granted(self) -> frozenset[str]:
        """The grant keys that the user allowed for the whole session."""
        return frozenset(
            key
            for event in self._log.facts()
            if isinstance(event.data, ApprovalDecided)
            and isinstance(event.data.outcome, Allowed)
            and event.data.outcome.kind == "allowedSession"
            for key in event.data.outcome.grant_keys
        )

    async def request(
        self,
        execution: Execution,
        effects: Iterable[Effect],
        reason: str | None = None,
        *,
        unsaved: tuple[str, ...] = (),
    ) -> ApprovalOutcome:
        """Ask, and log the question and its outcome.

        Raises:
            UsageError: no turn is open; nothing is logged.
        """
        if not self._log.state.turn_open:
            raise UsageError("an approval needs an open turn")
        asked = ApprovalAsked(
            id=self._new_id(),
            tool_name=execution.name,
            call_id=execution.call_id,
            effects=tuple(effects),
            reason=reason,
            unsaved=unsaved or None,
        )
        self._log.append(asked)
        outcome: ApprovalOutcome = Refused(kind="cancelled")
        try:
            outcome = await self._ask(ApprovalRequest(asked=asked, execution=execution))
        finally:  # a torn wait was cancelled: the pair is logged on every path
            self._log.append(ApprovalDecided(id=asked.id, outcome=outcome))
        return outcome

    async def _ask(self, request: ApprovalRequest) -> ApprovalOutcome:
        signal = request.execution.signal
        if signal.aborted:
            return Refused(kind="cancelled")
        try:
            with signal.guard():
                outcome: object = await self._hook(request, _nobody)
        except Aborted:
            return Refused(kind="cancelled")
        except Exception:
            if signal.cause is not None:  # whatever comes after the cancel decides nothing
                return Refused(kind="cancelled")
            log.exception("asking for an approval failed")
            return Refused(kind="unavailable")
        if not isinstance(outcome, Allowed | Refused) or outcome.kind not in _KINDS[type(outcome)]:
            log.error("an approval was answered with %r", outcome)
            return Refused(kind="unavailable")
        return outcome


async def _nobody(_: ApprovalRequest) -> ApprovalOutcome:
    return Refused(kind="unavailable")
