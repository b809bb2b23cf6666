"""Pending: what waits in the inbox at the end of a log, and what a turn claimed and never made history.

Rules: a pure fold over events; it knows the splices of the inbox and not the inbox itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dsh_lsp.events import (
    AssistantAttempt,
    AssistantChunk,
    AssistantMessageLogged,
    InboxSpliced,
    InboxTarget,
    LogEvent,
    RequestContext,
    RequestHeaderLogged,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
)
from dsh_lsp.messages import UserMessage

TARGETS: tuple[InboxTarget, ...] = ("next-step", "next-turn")  # the order of clears and restores

# A step that has come so far has committed its messages; what it claimed and left out is pre-step's verdict.
_AFTER_COMMIT = (RequestHeaderLogged, RequestContext, AssistantChunk, AssistantAttempt, AssistantMessageLogged)


@dataclass(slots=True)
class Pending:
    """Where accepted input stands: what waits, by list, and what is claimed and not in history."""

    waiting: dict[InboxTarget, list[UserMessage]] = field(default_factory=lambda: {t: [] for t in TARGETS})
    claimed: dict[str, tuple[InboxTarget, UserMessage]] = field(default_factory=dict)
    _step_open: bool = False

    def add(self, event: LogEvent) -> None:
        """Take one more event."""
        match event.data:
            case InboxSpliced() as splice:
                self._splice(splice)
            case TurnStart() | TurnEnd():
                self.claimed.clear()
            case StepStart():
                self._step_open = True
            case StepEnd():
                self._step_open = False
            case UserMessage(id=message_id) if self._step_open and event.replaces is None:
                self.claimed.pop(message_id, None)
            case data if isinstance(data, _AFTER_COMMIT) and self._step_open and event.replaces is None:
                self.claimed.clear()
            case _:
                pass

    def _splice(self, splice: InboxSpliced) -> None:
        waiting = self.waiting[splice.target]
        end = splice.start + (splice.removed_count or 0)
        removed = waiting[splice.start : end]
        waiting[splice.start : end] = splice.inserted
        for message in splice.inserted:
            self.claimed.pop(message.id, None)
        if splice.outcome is None:
            self.claimed |= {message.id: (splice.target, message) for message in removed}


def pending_of(events: Iterable[LogEvent]) -> Pending:
    """Fold a whole log."""
    pending = Pending()
    for event in events:
        pending.add(event)
    return pending
