"""Repair: the events that close a log whose writer died in the middle of a turn.

Nothing is taken back: what was logged happened. An unanswered call is answered with what is known of it, input that
was claimed and never became history waits again, and step and turn are closed.

Rules: pure; a balanced log needs nothing; only a log that no agent runs on may be repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dsh_lsp.events import (
    AssistantMessageLogged,
    Ended,
    EventData,
    InboxSpliced,
    LogEvent,
    SeqRange,
    StepEnd,
    StepStart,
    ToolCall,
    ToolFailure,
    ToolResult,
    TurnEnd,
)
from dsh_lsp.messages import TextBlock, ToolCallBlock, ToolResultBlock, ToolSource, UserMessage
from dsh_lsp.session.legality import LogState, advance
from dsh_lsp.session.pending import TARGETS, pending_of

PairCloser = Callable[[Sequence[LogEvent]], Sequence[EventData]]
"""Closes what one pair of events left open (asked and not decided); registered beside that pair."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a model is told of a call without a result."""

    text: str
    error: ToolFailure


NOT_STARTED = _Verdict(
    "Error: the session stopped before the tool call was started; it may be tried again",
    ToolFailure(name="ToolNotStartedError", code="TOOL_NOT_STARTED"),
)
OUTCOME_UNKNOWN = _Verdict(
    "Error: the session stopped while the tool ran and its outcome is unknown; look before trying it again",
    ToolFailure(name="ToolOutcomeUnknownError", code="TOOL_OUTCOME_UNKNOWN"),
)


def closers(events: Sequence[LogEvent], pairs: Sequence[PairCloser] = ()) -> list[LogEvent]:
    """The events to append to a log that ends inside a turn; none for one that does not.

    Args:
        events: The whole log.
        pairs: What closes the open pairs (approvals, questions, reviews), before the results of their calls.

    Returns:
        The closers in order, each with the next `seq` and the time of the last event.
    """
    state = LogState()
    for event in events:
        advance(state, event)
    if not state.turn_open:
        return []
    closing = _Closing(events)
    for close in pairs:
        for data in close(events):
            closing.append(data)
    if state.step_open:
        for call, call_seq in _unanswered(events, state):
            closing.answer(state, call, call_seq)
        closing.append(StepEnd(turn=state.turn, step=state.step))
    for data in _restored(events):
        closing.append(data)
    closing.append(TurnEnd(turn=state.turn, reason=Ended(kind="interrupted")))
    return closing.events


class _Closing:
    """Numbers what is appended."""

    def __init__(self, events: Sequence[LogEvent]) -> None:
        self.events: list[LogEvent] = []
        self._last = events[-1]

    @property
    def next_seq(self) -> int:
        return self._last.seq + 1 + len(self.events)

    def append(self, data: EventData, sources: tuple[SeqRange, ...] | None = None) -> None:
        self.events.append(LogEvent(seq=self.next_seq, time=self._last.time, data=data, sources=sources))

    def answer(self, state: LogState, call: ToolCallBlock, call_seq: int | None) -> None:
        verdict = NOT_STARTED if call_seq is None else OUTCOME_UNKNOWN
        block = ToolResultBlock(tool_call_id=call.id, content=(TextBlock(text=verdict.text),), is_error=True)
        message = UserMessage(
            id=f"interrupted-tool-result-{call.id}-{self.next_seq}",
            content=(block,),
            source=ToolSource(call_id=call.id),
        )
        self.append(
            ToolResult(turn=state.turn, step=state.step, message=message, error=verdict.error),
            sources=None if call_seq is None else ((call_seq, call_seq),),
        )


def _unanswered(events: Sequence[LogEvent], state: LogState) -> list[tuple[ToolCallBlock, int | None]]:
    """The open step's calls without a result, in the model's order, with the seq of their `tool/call`."""
    calls: list[ToolCallBlock] = []
    started: dict[str, int] = {}
    for event in events:
        match event.data:
            case StepStart():
                calls, started = [], {}
            case AssistantMessageLogged(message=message) if event.replaces is None:
                calls += message.tool_calls
            case ToolCall(call_id=call_id):
                started[call_id] = event.seq
            case _:
                pass
    return [(call, started.get(call.id)) for call in calls if call.id in state.unanswered]


def _restored(events: Sequence[LogEvent]) -> list[InboxSpliced]:
    """Put claims that never became history back to the head of their lists: accepted input does not vanish."""
    claims = pending_of(events).claimed.values()
    by_target = {target: tuple(message for of, message in claims if of == target) for target in TARGETS}
    return [
        InboxSpliced(target=target, start=0, inserted=messages, outcome="restored")
        for target, messages in by_target.items()
        if messages
    ]
