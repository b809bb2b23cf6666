"""Legality: what a live log accepts a replay accepts, and what it refuses leaves no trace."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.errors import UsageError
from dsh_lsp.events import (
    AssistantAttempt,
    AssistantChunk,
    AssistantMessageLogged,
    Ended,
    EventData,
    InboxSpliced,
    PluginEvent,
    RequestContext,
    RequestHeader,
    RequestHeaderLogged,
    StepEnd,
    StepStart,
    ToolCall,
    ToolFailure,
    ToolResult,
    TurnEnd,
    TurnStart,
    decode_event,
    encode_event,
)
from dsh_lsp.messages import (
    AssistantMessage,
    CallConfig,
    ModelSource,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserMessage,
    UserSource,
)
from dsh_lsp.session.log import SessionHeader, SessionLog

HEADER = SessionHeader(id="s", created_at=0, cwd="/w")
CONFIG = CallConfig(provider="p", model="m")


def new_log(**parts: object) -> SessionLog:
    return SessionLog(HEADER, clock=lambda: 0, **parts)  # type: ignore[arg-type]


def words() -> UserMessage:
    return UserMessage(id="u", content=(TextBlock(text="x"),), source=UserSource())


def answer(turn: int, step: int, calls: list[str]) -> AssistantMessageLogged:
    blocks = tuple(ToolCallBlock(id=call_id, name="f", arguments="{}") for call_id in calls)
    source = ModelSource(provider="p", model="m")
    return AssistantMessageLogged(
        turn=turn, step=step, message=AssistantMessage(id="m", content=blocks, source=source)
    )


def result(turn: int, step: int, call_id: str, code: str | None) -> ToolResult:
    block = ToolResultBlock(tool_call_id=call_id, content=())
    message = UserMessage(id="r", content=(block,), source=ToolSource(call_id=call_id))
    error = ToolFailure(name="E", code=code) if code is not None else None
    return ToolResult(turn=turn, step=step, message=message, error=error)


TURNS, STEPS, CALLS = st.integers(1, 3), st.integers(1, 3), st.sampled_from(["a", "b"])

EVENTS: st.SearchStrategy[EventData] = st.one_of(
    st.builds(TurnStart, turn=TURNS),
    st.builds(TurnEnd, turn=TURNS, reason=st.just(Ended(kind="completed"))),
    st.builds(StepStart, turn=TURNS, step=STEPS),
    st.builds(StepEnd, turn=TURNS, step=STEPS),
    st.builds(answer, TURNS, STEPS, st.lists(CALLS, unique=True)),
    st.builds(AssistantChunk, turn=TURNS, step=STEPS, chunk=st.just(TextDelta(index=0, text="x"))),
    st.builds(AssistantAttempt, turn=TURNS, step=STEPS, attempt=st.just(1)),
    st.builds(ToolCall, turn=TURNS, step=STEPS, call_id=CALLS, name=st.just("f"), arguments=st.just("{}")),
    st.builds(result, TURNS, STEPS, CALLS, st.sampled_from([None, "TOOL_NOT_STARTED"])),
    st.just(RequestHeaderLogged(header=RequestHeader(config=CONFIG), reason="initial")),
    st.just(RequestContext(provider="p", model="m")),
    st.just(InboxSpliced(target="next-turn", start=0)),
    st.just(words()),
    st.builds(PluginEvent, tag=st.just("x/y"), data=st.just({}), needs_turn=st.booleans()),
)


def likely(log: SessionLog) -> list[EventData]:
    """What may come next, so that a random walk gets somewhere."""
    state = log.state
    if not state.turn_open:
        return [TurnStart(turn=state.turn + 1)]
    if not state.step_open:
        over = TurnEnd(turn=state.turn, reason=Ended(kind="completed"))
        return [StepStart(turn=state.turn, step=state.step + 1), over]
    here = {"turn": state.turn, "step": state.step}
    calls = [
        ToolCall(**here, call_id=call_id, name="f", arguments="{}") for call_id in sorted(state.asked - state.started)
    ]
    results = [result(state.turn, state.step, call_id, None) for call_id in sorted(state.started - state.answered)]
    return [answer(state.turn, state.step, ["a", "b"]), StepEnd(**here), *calls, *results]


def trace(log: SessionLog) -> tuple[object, ...]:
    """All that an append may change."""
    return list(log), copy.deepcopy(log.state), log.surface.nodes(), log.derive_messages(), log.surface.generation


@settings(max_examples=max(100, settings.default.max_examples))
@given(st.lists(st.one_of(EVENTS, st.integers(0, 5)), max_size=40))
def test_a_replay_accepts_what_a_log_accepted_and_a_refusal_leaves_no_trace(steps: list[EventData | int]) -> None:
    log, heard = new_log(), []
    log.appended.listen(heard.append)
    for step in steps:
        before = trace(log)
        data = likely(log)[step % len(likely(log))] if isinstance(step, int) else step
        refusal = None
        try:
            log.append(data)
        except UsageError as error:
            refusal = error
        if refusal is not None:
            assert refusal.code == "ILLEGAL_EVENT"
            assert trace(log) == before
    assert heard == list(log)
    assert [event.seq for event in log] == list(range(len(log)))
    assert trace(new_log(events=list(log))) == trace(log)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=25), st.data())
def test_a_log_that_lost_an_event_is_refused(steps: list[int], data: st.DataObject) -> None:
    log = new_log()
    for step in steps:
        log.append(likely(log)[step % len(likely(log))])
    lost = data.draw(st.integers(0, len(log) - 2))
    with pytest.raises(UsageError, match="cannot follow"):
        new_log(events=log[:lost] + log[lost + 1 :])


def test_the_next_append_after_a_refusal_has_the_seq_of_the_refused_one() -> None:
    log = new_log()
    log.append(TurnStart(turn=1))
    with pytest.raises(UsageError, match="turn 1 is open"):
        log.append(TurnStart(turn=2))
    assert log.append(words()).seq == 1


def test_a_check_that_refuses_an_event_leaves_no_trace() -> None:
    def veto(event: object) -> None:
        raise RuntimeError("no")

    log = new_log(checks=[veto])
    before = trace(log)
    with pytest.raises(RuntimeError, match="no"):
        log.append(words())
    assert trace(log) == before


def test_events_off_the_legal_path_survive_the_disk_as_they_are() -> None:
    log = new_log()
    for step in range(12):
        log.append(likely(log)[-1 if step % 3 else 0])
    assert [decode_event(encode_event(event)) for event in log] == list(log)
