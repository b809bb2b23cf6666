"""Surface: grown event by event it is what a fresh derivation gives, and what it refuses changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.errors import UsageError
from dsh_lsp.events import (
    AssistantMessageLogged,
    EventData,
    LogEvent,
    SeqRange,
    StepEnd,
    StepStart,
    ToolCall,
    ToolFailure,
    ToolResult,
    TurnStart,
)
from dsh_lsp.messages import (
    AssistantMessage,
    ModelSource,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserMessage,
    UserSource,
)
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.surface import Surface, derive_messages

MODEL = ModelSource(provider="p", model="m")


def words(text: str) -> UserMessage:
    return UserMessage(id=text, content=(TextBlock(text=text),), source=UserSource())


def answer(text: str, *calls: str) -> AssistantMessageLogged:
    blocks = (*([TextBlock(text=text)] if text else []), *(_call(call_id) for call_id in calls))
    return AssistantMessageLogged(turn=1, step=1, message=AssistantMessage(id=text, content=blocks, source=MODEL))


def _call(call_id: str) -> ToolCallBlock:
    return ToolCallBlock(id=call_id, name="f", arguments="{}")


def result(call_id: str, text: str, **fields: Any) -> ToolResult:
    block = ToolResultBlock(tool_call_id=call_id, content=(TextBlock(text=text),))
    message = UserMessage(id=f"result of {call_id}", content=(block,), source=ToolSource(call_id=call_id))
    return ToolResult(turn=1, step=1, message=message, **fields)


def new_log() -> SessionLog:
    """A log in an open step, whose model called `a` and `b`."""
    log = SessionLog(SessionHeader(id="s", created_at=0, cwd="/w"), clock=lambda: 0)
    log.append(TurnStart(turn=1))
    log.append(StepStart(turn=1, step=1))
    log.append(answer("", "a", "b"))
    log.append(ToolCall(turn=1, step=1, call_id="a", name="f", arguments="{}"))
    return log


def surface_of(log: SessionLog) -> tuple[Any, ...]:
    return log.surface.nodes(), log.surface.messages(), log.surface.generation, len(log)


# Each builder gives an append from the log as it stands; the numbers choose among what is there. Many are illegal.

DATA = st.one_of(
    *[st.builds(words, st.sampled_from(["x", "y", "z"]))] * 3,
    st.builds(words, st.sampled_from(["a summary"])),
    st.builds(answer, st.sampled_from(["", "so"])),
    st.builds(result, st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "done"])),
    st.builds(
        result, st.just("a"), st.just("pruned"), error=st.sampled_from([None, ToolFailure(name="E", code="NO")])
    ),
    st.just(StepEnd(turn=1, step=9)),
)
NODES = st.integers(0, 6)
PLACES = st.one_of(
    st.none(),
    st.tuples(NODES, NODES).map(sorted).map(tuple),
    st.tuples(st.integers(-1, 12), st.integers(-1, 12)),
)
CITES = st.sampled_from(
    ["the run", "the run", "the run", "all", "none", "none", "the run but one", "the future", "twice", "nothing"]
)


def _positions(log: SessionLog, place: tuple[int, int]) -> SeqRange:
    """A run of nodes, by number; a negative number is a seq that is on no surface."""
    seqs = [node.seq for node in log.surface.nodes()]
    first, last = (seqs[number % len(seqs)] if number >= 0 else 99 for number in place)
    return first, last


def _sources(log: SessionLog, cites: str, run: SeqRange | None) -> tuple[SeqRange, ...] | None:
    first, last = run or (0, len(log) - 1)
    match cites:
        case "all":
            return ((0, len(log) - 1),)
        case "the run":
            return ((first, last),)
        case "the run but one":
            return ((first + 1, last),)
        case "the future":
            return ((first, len(log)),)
        case "twice":
            return ((first, last), (first, last))
        case "nothing":
            return ()
        case _:
            return None


@settings(max_examples=max(100, settings.default.max_examples))
@given(st.lists(st.tuples(DATA, PLACES, CITES), max_size=25))
def test_the_grown_surface_equals_a_fresh_derivation_and_handed_out_lists_stay(
    appends: list[tuple[EventData, tuple[int, int] | None, str]],
) -> None:
    log = new_log()
    handed_out: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
    for data, place, cites in appends:
        before = surface_of(log)
        run = _positions(log, place) if place is not None else None
        refusal = None
        try:
            log.append(data, sources=_sources(log, cites, run), replaces=run)
        except UsageError as error:
            refusal = error
        if refusal is not None:
            assert refusal.code == "ILLEGAL_EVENT"
            assert surface_of(log) == before, "a refused event changed something"
        else:
            assert log.surface.generation == before[2] + (run is not None)
        assert log.derive_messages() == derive_messages(list(log))
        messages = log.derive_messages()
        handed_out.append((messages, tuple(messages)))
    assert all(messages == copy for messages, copy in handed_out)


@pytest.mark.parametrize(
    ("first", "last", "left"),
    [
        (0, 0, ["new", "1", "2", "3"]),
        (1, 1, ["0", "new", "2", "3"]),
        (1, 2, ["0", "new", "3"]),
        (3, 3, ["0", "1", "2", "new"]),
        (0, 3, ["new"]),
    ],
)
def test_a_replacement_takes_the_place_of_its_run(first: int, last: int, left: list[str]) -> None:
    log = SessionLog(SessionHeader(id="s", created_at=0, cwd="/w"))
    for number in range(4):
        log.append(words(str(number)))
    log.append(words("new"), sources=((first, last),), replaces=(first, last))
    assert [message.text for message in log.derive_messages()] == left
    assert log.surface.holds(4)
    assert not any(log.surface.holds(seq) for seq in range(first, last + 1))


def test_a_result_may_be_rewritten_in_its_content_alone() -> None:
    log = new_log()
    seq = log.append(result("a", "long", meta={"lines": 3})).seq
    cited = {"sources": ((seq, seq),), "replaces": (seq, seq)}
    for other in (result("b", "short", meta={"lines": 3}), result("a", "short"), words("a summary of one result")):
        if isinstance(other, ToolResult):
            with pytest.raises(UsageError, match="content of one tool result"):
                log.append(other, **cited)
    log.append(result("a", "short", meta={"lines": 3}), **cited)
    assert [block.text for block in log.derive_messages()[-1].content] == ["short"]  # type: ignore[union-attr]


def test_an_answer_without_content_is_a_node_that_no_model_sees() -> None:
    surface = Surface()
    surface.add(LogEvent(seq=0, time=0, data=answer("")))
    assert len(surface.nodes()) == 1
    assert surface.messages() == ()
