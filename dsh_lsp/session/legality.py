"""Legality: which event may follow which, as one table.

The same table guards appends and validates a log that is loaded.

Rules: turns are numbered from 1 without gaps over the whole session, steps from 1 within their turn; neither nests;
what names a turn and a step names the open ones; a result answers a call of its step, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dsh_lsp.decisions import ApprovalAsked, QuestionAsked, ReviewOpened
from dsh_lsp.errors import UsageError
from dsh_lsp.events import (
    AssistantAttempt,
    AssistantChunk,
    AssistantMessageLogged,
    EventData,
    LogEvent,
    PluginEvent,
    RequestContext,
    RequestHeaderLogged,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from dsh_lsp.messages import ToolResultBlock
from dsh_lsp.notes import TodoWritten
from dsh_lsp.upkeep import CompactionPrune, CompactionStart, RetryPlanned, RetryStarted


@dataclass(slots=True)
class LogState:
    """Where a log stands: the last turn and step, whether they are open, and the step's calls."""

    turn: int = 0
    turn_open: bool = False
    step: int = 0
    step_open: bool = False
    asked: set[str] = field(default_factory=set)  # calls of the step's assistant message
    started: set[str] = field(default_factory=set)  # those with a tool/call
    answered: set[str] = field(default_factory=set)  # those with a tool/result

    @property
    def unanswered(self) -> set[str]:
        """The calls that somebody still owes a result."""
        return self.asked - self.answered


Rule: TypeAlias = Callable[[LogState, Any], str | None]  # what is wrong, or None


def _opens_turn(state: LogState, data: TurnStart) -> str | None:
    if state.turn_open:
        return f"turn {state.turn} is open"
    return None if data.turn == state.turn + 1 else f"the next turn is {state.turn + 1}"


def _closes_turn(state: LogState, data: TurnEnd) -> str | None:
    if state.step_open:
        return f"step {state.step} is open"
    return _in_turn(state, data) or (None if data.turn == state.turn else f"the open turn is {state.turn}")


def _opens_step(state: LogState, data: StepStart) -> str | None:
    if state.step_open:
        return f"step {state.step} is open"
    if (wrong := _in_turn(state, data)) is not None:
        return wrong
    expected = (state.turn, state.step + 1)
    return None if (data.turn, data.step) == expected else f"the next step is {expected[1]} of turn {expected[0]}"


def _in_turn(state: LogState, _data: Any) -> str | None:
    return None if state.turn_open else "no turn is open"


def _asks(state: LogState, data: ReviewOpened) -> str | None:
    """The agent asks within a turn; a person takes back what landed whenever they like."""
    taken_back = all(hunk.undoes is not None for file in data.files for hunk in file.hunks)
    return None if taken_back else _in_turn(state, data)


def _in_step(state: LogState, data: Any) -> str | None:
    if not state.step_open:
        return "no step is open"
    here = (state.turn, state.step)
    return None if (data.turn, data.step) == here else f"the open step is {here[1]} of turn {here[0]}"


def _calls(state: LogState, data: ToolCall) -> str | None:
    if (wrong := _in_step(state, data)) is not None:
        return wrong
    if data.call_id not in state.asked:
        return f"the model did not ask for call {data.call_id!r} in this step"
    return f"call {data.call_id!r} was started already" if data.call_id in state.started else None


def _answers(state: LogState, data: ToolResult) -> str | None:
    if (wrong := _in_step(state, data)) is not None:
        return wrong
    call_id = _call_id(data)
    if call_id not in state.asked:
        return f"the model did not ask for call {call_id!r} in this step"
    if call_id in state.answered:
        return f"call {call_id!r} was answered already"
    never_started = data.error is not None and data.error.code == "TOOL_NOT_STARTED"
    return None if call_id in state.started or never_started else f"call {call_id!r} was not started"


def _opens_compaction(state: LogState, data: CompactionStart) -> str | None:
    open_turn = state.turn if state.turn_open else None
    return None if data.turn == open_turn else f"the open turn is {open_turn}"


RULES: dict[type[EventData], Rule] = {
    TurnStart: _opens_turn,
    TurnEnd: _closes_turn,
    StepStart: _opens_step,
    StepEnd: _in_step,
    AssistantChunk: _in_step,
    AssistantAttempt: _in_step,
    AssistantMessageLogged: _in_step,
    ToolCall: _calls,
    ToolResult: _answers,
    RequestHeaderLogged: _in_turn,
    RequestContext: _in_turn,
    ReviewOpened: _asks,
    ApprovalAsked: _in_turn,
    QuestionAsked: _in_turn,
    RetryPlanned: _in_step,
    RetryStarted: _in_step,
    CompactionStart: _opens_compaction,
    CompactionPrune: _in_turn,
    TodoWritten: _in_turn,
}  # an event that is not here may come at any time


def check(state: LogState, event: LogEvent) -> None:
    """Refuse an event that may not come now.

    Raises:
        UsageError: `ILLEGAL_EVENT`.
    """
    if isinstance(event.data, PluginEvent):
        wrong = _in_turn(state, event.data) if event.data.needs_turn else None
    elif event.replaces is not None:
        wrong = _in_turn(state, event.data) if isinstance(event.data, ToolResult) else None
    else:
        rule = RULES.get(type(event.data))
        wrong = rule(state, event.data) if rule is not None else None
    if wrong is not None:
        raise UsageError(f"{event.type} may not come as event {event.seq}: {wrong}", code="ILLEGAL_EVENT")


def advance(state: LogState, event: LogEvent) -> None:
    """Take a legal event."""
    match event.data:
        case TurnStart(turn=turn):
            state.turn, state.turn_open, state.step = turn, True, 0
        case TurnEnd():
            state.turn_open = False
        case StepStart(step=step):
            state.step, state.step_open = step, True
            state.asked, state.started, state.answered = set(), set(), set()
        case StepEnd():
            state.step_open = False
        case AssistantMessageLogged(message=message):
            state.asked |= {call.id for call in message.tool_calls}
        case ToolCall(call_id=call_id):
            state.started.add(call_id)
        case ToolResult() as result if event.replaces is None:
            state.answered.add(_call_id(result))
        case _:
            pass


def _call_id(result: ToolResult) -> str:
    return next((block.tool_call_id for block in result.message.content if isinstance(block, ToolResultBlock)), "")
