"""Sessions, L135 to L143 and L146: what a log admits, who hears of it, and what a model sees of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.abort import USER
from dsh_lsp.errors import UsageError
from dsh_lsp.events import (
    AssistantChunk,
    AssistantMessageLogged,
    Ended,
    EndedByAbort,
    LogEvent,
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
    Finish,
    ModelSource,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserMessage,
)
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.surface import derive_messages
from tests.support.loop import Refuse, notice, numbered, texts

DONE = Ended(kind="completed")
CONFIG = CallConfig(provider="p", model="m")


def new_log(*data, checks=()) -> SessionLog:
    log = SessionLog(SessionHeader(id="s", created_at=0, cwd="/w"), clock=lambda: 5, checks=checks)
    for item in data:
        log.append(item)
    return log


def answer(*calls: str, text: str = "", turn: int = 1, step: int = 1) -> AssistantMessageLogged:
    said = (TextBlock(text=text),) if text else ()
    blocks = (*said, *(ToolCallBlock(id=call, name="t", arguments="{}") for call in calls))
    message = AssistantMessage(id="a", content=blocks, source=ModelSource(provider="p", model="m"))
    return AssistantMessageLogged(turn=turn, step=step, message=message)


def called(call: str, turn: int = 1, step: int = 1) -> ToolCall:
    return ToolCall(turn=turn, step=step, call_id=call, name="t", arguments="{}")


def result(
    call: str, text: str = "r", turn: int = 1, step: int = 1, code: str | None = None, meta=None
) -> ToolResult:
    block = ToolResultBlock(tool_call_id=call, content=(TextBlock(text=text),))
    message = UserMessage(id=f"r-{call}", content=(block,), source=ToolSource(call_id=call))
    error = ToolFailure(name="E", code=code) if code else None
    return ToolResult(turn=turn, step=step, message=message, error=error, meta=meta)


OPEN = (TurnStart(turn=1), StepStart(turn=1, step=1))

CYCLE: dict[str, object] = {}
CYCLE["self"] = CYCLE


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), object(), {1, 2}, CYCLE, b"bytes"], ids=lambda value: type(value).__name__
)
def test_l135_what_is_not_json_is_refused_and_what_was_appended_is_the_logs_own(value) -> None:
    log = new_log(*OPEN, answer("c"), called("c"))
    before = list(log)
    for data in (
        PluginEvent(tag="x/y", data={"value": value}),
        result("c", meta={"value": value}),
        AssistantChunk(turn=1, step=1, chunk=Finish(reason="stop", replay_state={"value": value})),
    ):
        with pytest.raises(UsageError) as refused:
            log.append(data)
        assert refused.value.code == "ILLEGAL_EVENT"
    assert list(log) == before
    mine = {"list": [1]}
    log.append(PluginEvent(tag="x/y", data=mine))
    log.append(AssistantChunk(turn=1, step=1, chunk=Finish(reason="stop", replay_state=mine)))
    log.append(result("c", meta=mine))
    mine["list"].append(2)
    assert log[-3].data.data == log[-2].data.chunk.replay_state == log[-1].data.meta == {"list": [1]}


def test_l136_only_what_stands_on_the_surface_has_a_place_there() -> None:
    log = new_log(notice("x", "m1"))
    for kwargs in ({"sources": ((0, 0),)}, {"replaces": (0, 0)}):
        with pytest.raises(UsageError, match="not on the surface"):
            log.append(TurnStart(turn=1), **kwargs)
        seed = [log[0], LogEvent(seq=1, time=0, data=TurnStart(turn=1), **kwargs)]
        with pytest.raises(UsageError, match="not on the surface"):
            SessionLog(log.header, events=seed)
    assert len(log) == 1
    row = encode_event(log[0])
    assert row["surfaceOp"] == "append"
    with pytest.raises(ValueError, match="surface"):
        decode_event({key: value for key, value in row.items() if key != "surfaceOp"})
    with pytest.raises(ValueError, match="surface"):
        decode_event({**encode_event(replace(log[0], data=TurnStart(turn=1))), "surfaceOp": "append"})


def test_l137_a_seed_with_a_gap_a_bad_envelope_or_an_unknown_event_is_refused() -> None:
    seed = numbered(TurnStart(turn=1), TurnEnd(turn=1, reason=DONE))
    for wrong in (seed[1:], [seed[0], replace(seed[1], seq=2)], [seed[0], seed[0]]):
        with pytest.raises(UsageError, match="cannot follow"):
            SessionLog(new_log().header, events=wrong)
    row = encode_event(seed[0])
    for broken in (
        {key: value for key, value in row.items() if key != "seq"},
        {**row, "data": {"turn": "one"}},
        {**row, "type": "request/header-delta"},
        {**row, "type": "request/header", "data": {"header": {"config": {}}, "reason": "fallback"}},
    ):
        with pytest.raises((KeyError, ValueError)):
            decode_event(broken)


@pytest.mark.parametrize("length", [0, 2])
def test_l138_a_seeded_log_is_its_seed_and_nothing_else(length) -> None:
    seed = numbered(TurnStart(turn=1), TurnEnd(turn=1, reason=DONE))[:length]
    once = SessionLog(new_log().header, events=seed)
    twice = SessionLog(once.header, events=list(once))
    assert list(twice) == list(once) == seed
    assert twice.append(notice("x", "m")).seq == length


def test_l139_an_observer_that_appends_is_refused_and_the_others_keep_the_order() -> None:
    log = new_log()
    refused, heard = [], []

    def appends(event) -> None:
        try:
            log.append(notice("again", "m9"))
        except UsageError as error:
            refused.append(error.code)
            raise

    log.appended.listen(appends)
    log.appended.listen(lambda event: heard.append(event.seq))
    for number in range(3):
        log.append(notice("x", f"m{number}"))
    assert refused == ["REENTRANT"] * 3
    assert heard == [0, 1, 2]
    assert len(log) == 3


def test_l140_a_vetoed_append_never_was() -> None:
    log = new_log(notice("x", "m0"), checks=[refuse := Refuse("user/message", 0)])
    heard = []
    log.appended.listen(heard.append)
    refuse.times = 1
    with pytest.raises(RuntimeError, match="no user/message now"):
        log.append(notice("y", "m1"))
    assert (len(log), heard, texts(log.derive_messages())) == (1, [], ["x"])
    assert log.append(notice("z", "m2")).seq == 1
    assert texts(log.derive_messages()) == ["x", "z"]


@pytest.mark.parametrize(
    ("span", "sources", "left"),
    [
        ((0, 1), ((0, 1),), ["new", "2", "3"]),
        ((1, 2), ((1, 2),), ["0", "new", "3"]),
        ((2, 3), ((2, 3),), ["0", "1", "new"]),
        ((1, 1), ((0, 1),), ["0", "new", "2", "3"]),
        ((0, 9), ((0, 3),), "not both on the surface"),
        ((2, 1), ((1, 2),), "ends before it starts"),
        ((0, 2), ((0, 0), (2, 2)), "without citing"),
        ((0, 2), None, "without citing"),
        ((1, 1), ((1, 1), (1, 1)), "twice"),
        ((1, 1), ((1, 4),), "comes after"),
        ((1, 1), (), "empty list"),
    ],
)
def test_l141_a_replacement_takes_the_place_of_a_run_that_it_cites(span, sources, left) -> None:
    log = new_log(*(notice(str(number), f"m{number}") for number in range(4)))
    if isinstance(left, str):
        with pytest.raises(UsageError, match=left):
            log.append(notice("new", "m9"), sources=sources, replaces=span)
        assert (texts(log.derive_messages()), log.surface.generation) == (["0", "1", "2", "3"], 0)
    else:
        log.append(notice("new", "m9"), sources=sources, replaces=span)
        assert (texts(log.derive_messages()), log.surface.generation) == (left, 1)
    assert derive_messages(log) == log.derive_messages()


@pytest.mark.parametrize(
    ("changed", "span", "fits"),
    [
        (result("c", "short", meta={"n": 1}), (4, 4), True),
        (result("c", "short", meta={"n": 2}), (4, 4), False),
        (result("c", "short", meta={"n": 1}, code="E"), (4, 4), False),
        (result("other", "short", meta={"n": 1}), (4, 4), False),
        (result("c", "short", meta={"n": 1}), (2, 4), False),
        (result("c", "short", meta={"n": 1}), (2, 2), False),
        (result("c", "short", meta={"n": 1}), (4, 6), False),
    ],
    ids=["content", "meta", "error", "another call", "from the call on", "no result", "two results"],
)
def test_l142_a_result_may_be_rewritten_in_its_content_alone(changed, span, fits) -> None:
    log = new_log(*OPEN, answer("c", "d"), called("c"), result("c", "long", meta={"n": 1}), called("d"), result("d"))
    if fits:
        log.append(changed, sources=(span,), replaces=span)
        assert log.derive_messages()[1].content[0].text == "short"
    else:
        with pytest.raises(UsageError, match="only change the content"):
            log.append(changed, sources=(span,), replaces=span)
        assert log.derive_messages()[1].content[0].text == "long"


@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 9), st.integers(0, 9))), max_size=12))
def test_l143_the_kept_messages_equal_a_fresh_derivation_and_a_held_list_stays(moves) -> None:
    log = new_log(notice("first", "m"))
    expected = ["m"]
    for move in moves:
        held = log.derive_messages()
        copy = tuple(held)
        nodes = [event.seq for event in log.surface.nodes()]
        if move is None:
            expected.append(f"m{len(log)}")
            log.append(notice("x", f"m{len(log)}"))
        else:
            first, last = sorted(index % len(nodes) for index in move)
            sources = tuple((seq, seq) for seq in sorted(nodes[first : last + 1]))
            expected[first : last + 1] = [f"m{len(log)}"]
            log.append(notice("y", f"m{len(log)}"), sources=sources, replaces=(nodes[first], nodes[last]))
        assert held == copy
        assert log.derive_messages() == derive_messages(log)
        assert [message.id for message in log.derive_messages()] == expected


HEADER = RequestHeaderLogged(header=RequestHeader(config=CONFIG), reason="initial")
CHUNK = AssistantChunk(turn=1, step=1, chunk=TextDelta(index=0, text="x"))
ASKED = (*OPEN, answer("c"))
ANSWERED = (*ASKED, called("c"), result("c"))
CLOSED = (*OPEN, StepEnd(turn=1, step=1))
ENDED = (*CLOSED, TurnEnd(turn=1, reason=DONE))


@pytest.mark.parametrize(
    ("before", "legal", "illegal"),
    [
        ((), TurnStart(turn=1), TurnStart(turn=2)),
        (ENDED, TurnStart(turn=2), TurnStart(turn=1)),
        (OPEN, StepEnd(turn=1, step=1), TurnStart(turn=2)),
        (CLOSED, TurnEnd(turn=1, reason=DONE), TurnEnd(turn=2, reason=DONE)),
        (OPEN, CHUNK, TurnEnd(turn=1, reason=EndedByAbort(reason=USER))),
        (CLOSED, StepStart(turn=1, step=2), StepStart(turn=1, step=3)),
        (CLOSED, StepStart(turn=1, step=2), StepStart(turn=2, step=2)),
        (OPEN, CHUNK, StepStart(turn=1, step=2)),
        (ENDED, TurnStart(turn=2), StepStart(turn=1, step=2)),
        (OPEN, CHUNK, replace(CHUNK, step=2)),
        (OPEN, answer(text="x"), answer(text="x", turn=2)),
        (CLOSED, HEADER, CHUNK),
        (ASKED, called("c"), called("c", step=2)),
        (ASKED, called("c"), called("d")),
        (ASKED, result("c", code="TOOL_NOT_STARTED"), result("c")),
        ((*ASKED, called("c")), result("c"), result("d")),
        (ANSWERED, StepEnd(turn=1, step=1), result("c")),
        ((*ASKED, called("c")), StepEnd(turn=1, step=1), called("c")),
        ((*ANSWERED, StepEnd(turn=1, step=1), StepStart(turn=1, step=2)), answer("c", step=2), called("c", step=2)),
        ((), notice("x", "m"), HEADER),
        ((), notice("x", "m"), RequestContext(provider="p", model="m")),
        ((), PluginEvent(tag="a/b", data={}), PluginEvent(tag="a/b", data={}, needs_turn=True)),
        (OPEN, PluginEvent(tag="a/b", data={}, needs_turn=True), StepEnd(turn=1, step=2)),
    ],
)
def test_l146_each_event_has_its_place_and_a_veto_does_not_move_it(before, legal, illegal) -> None:
    refuse = Refuse(legal.tag if isinstance(legal, PluginEvent) else LogEvent(seq=0, time=0, data=legal).type, 0)
    log = new_log(*before, checks=[refuse])
    with pytest.raises(UsageError, match="may not come"):
        log.append(illegal)
    refuse.times = 1
    with pytest.raises(RuntimeError):
        log.append(legal)
    log.append(legal)
    assert len(log) == len(before) + 1
    with pytest.raises(UsageError):
        SessionLog(log.header, events=numbered(*before, illegal))


@pytest.mark.parametrize("open_turn", [True, False])
def test_l146_a_result_is_rewritten_while_any_turn_is_open(open_turn) -> None:
    log = new_log(*ANSWERED, StepEnd(turn=1, step=1), TurnEnd(turn=1, reason=DONE))
    if open_turn:
        log.append(TurnStart(turn=2))
        log.append(result("c", "short"), sources=((4, 4),), replaces=(4, 4))
        assert log.derive_messages()[-1].content[0].text == "short"
    else:
        with pytest.raises(UsageError, match="no turn is open"):
            log.append(result("c", "short"), sources=((4, 4),), replaces=(4, 4))
