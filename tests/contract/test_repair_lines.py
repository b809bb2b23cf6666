"""Repair and fork, L144 and L145: how a log that broke off is closed, and how another session goes on from one."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.agent.inbox import Inbox
from dsh_lsp.errors import SessionError
from dsh_lsp.events import (
    Ended,
    EndedByAbort,
    InboxSpliced,
    LogEvent,
    PluginEvent,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
)
from dsh_lsp.llm.scripted import call, hold, say, think
from dsh_lsp.session.fork import fork_events
from dsh_lsp.session.log import SessionLog
from dsh_lsp.session.repair import closers
from tests.contract.test_session_lines import (
    ASKED,
    CLOSED,
    DONE,
    ENDED,
    HEADER,
    OPEN,
    answer,
    called,
    new_log,
    result,
)
from tests.support.headless import Add, headless
from tests.support.loop import committed, notice, numbered, settled, texts, until


def row(event: LogEvent) -> str:
    """A closer in a word: its code, its outcome, or its type."""
    error = getattr(event.data, "error", None)
    outcome = getattr(event.data, "outcome", None)
    return error.code if error else outcome or event.type


@pytest.mark.parametrize(
    ("events", "closed"),
    [
        ((), []),
        (ENDED, []),
        ((TurnStart(turn=1),), ["turn/end"]),
        (OPEN, ["step/end", "turn/end"]),
        (CLOSED, ["turn/end"]),
        (ASKED, ["TOOL_NOT_STARTED", "step/end", "turn/end"]),
        ((*ASKED, called("c")), ["TOOL_OUTCOME_UNKNOWN", "step/end", "turn/end"]),
        ((*ASKED, called("c"), result("c")), ["step/end", "turn/end"]),
        ((*ASKED, called("c"), StepEnd(turn=1, step=1)), ["turn/end"]),
        ((*ASKED, StepEnd(turn=1, step=1), TurnEnd(turn=1, reason=DONE), TurnStart(turn=2)), ["turn/end"]),
        (
            (*OPEN, answer("a", "b", "c", "d"), called("a"), called("b"), result("b"), called("c")),
            ["TOOL_OUTCOME_UNKNOWN", "TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED", "step/end", "turn/end"],
        ),
    ],
    ids=[
        "empty",
        "balanced",
        "open turn",
        "open step",
        "closed step",
        "call not started",
        "call started",
        "call answered",
        "call of a closed step",
        "call of an earlier turn",
        "several calls",
    ],
)
def test_l144_a_log_that_broke_off_is_closed_and_nothing_is_taken_back(events, closed) -> None:
    log = numbered(*events)
    added = closers(log)
    assert [row(event) for event in added] == closed
    assert [event.seq for event in added] == list(range(len(log), len(log) + len(added)))
    assert all(event.time == log[-1].time for event in added)
    whole = SessionLog(new_log().header, events=[*log, *added])
    assert closers(list(whole)) == []
    if added:
        assert added[-1].data.reason == Ended(kind="interrupted")


def test_l144_a_started_call_is_cited_and_its_result_has_a_name() -> None:
    unknown, not_started = closers(numbered(*OPEN, answer("a", "b"), called("a")))[:2]
    assert (unknown.sources, not_started.sources) == (((3, 3),), None)
    assert unknown.data.message.id == "interrupted-tool-result-a-4"
    assert unknown.data.message.content[0].is_error
    assert "look before" in unknown.data.message.text


M1, M2, C1 = notice("one", "m1"), notice("two", "m2"), notice("context", "c1")
QUEUED = (
    InboxSpliced(target="next-step", start=0, inserted=(C1,)),
    InboxSpliced(target="next-turn", start=0, inserted=(M1,)),
    InboxSpliced(target="next-turn", start=1, inserted=(M2,)),
    TurnStart(turn=1),
    InboxSpliced(target="next-step", start=0, removed_count=1),
    InboxSpliced(target="next-turn", start=0, removed_count=1),
)
BACK = InboxSpliced(target="next-turn", start=0, inserted=(M1,), outcome="restored")
DROPPED = InboxSpliced(target="next-turn", start=0, removed_count=1, outcome="canceled")
STEP = StepStart(turn=1, step=1)


@pytest.mark.parametrize(
    ("after", "restored"),
    [
        ((), ["context", "one"]),
        ((STEP,), ["context", "one"]),
        ((STEP, StepEnd(turn=1, step=1)), ["context", "one"]),
        ((STEP, C1), ["one"]),
        ((STEP, C1, M1), []),
        ((STEP, C1, HEADER), []),
        ((BACK,), ["context"]),
        ((BACK, DROPPED), ["context"]),
        ((notice("a note between", "x"),), ["context", "one"]),
    ],
    ids=[
        "claimed",
        "step open",
        "step failed",
        "half committed",
        "committed",
        "rewritten away",
        "half restored",
        "restored and dropped",
        "a message of somebody else",
    ],
)
def test_l144_claims_that_never_became_history_wait_again(after, restored) -> None:
    log = numbered(*QUEUED, *after)
    added = closers(log)
    back = [event.data for event in added if isinstance(event.data, InboxSpliced)]
    assert [text for splice in back for text in texts(splice.inserted)] == restored
    assert all(splice.outcome == "restored" for splice in back)
    assert isinstance(added[-1].data, TurnEnd)
    inbox = Inbox(SessionLog(new_log().header, events=[*log, *added]))
    assert texts(inbox.next_turn)[-1] == "two"


def test_l144_open_pairs_are_closed_by_their_owners_and_first() -> None:
    def cancelled(events):
        return [PluginEvent(tag="question/answered", data={"outcome": "cancelled", "of": len(events)})]

    added = closers(numbered(*ASKED, called("c")), [cancelled])
    assert [row(event) for event in added] == ["question/answered", "TOOL_OUTCOME_UNKNOWN", "step/end", "turn/end"]


async def a_long_life() -> list[LogEvent]:
    script = [
        think("hm") + call("add", a=1, b=2) + call("add", a=3, b=4),
        say("ok"),
        say("Half") + hold(anyio.Event()),
    ]
    async with headless(script, tools=[Add()]) as h:
        h.agent.inject(h.say("context"))
        h.agent.followup(h.say("one"))
        h.agent.followup(h.say("two"))
        await until(lambda: len(h.model.requests) == 3)
        await settled()
        h.agent.cancel(USER)
        h.agent.followup(h.say("three"))
        h.agent.followup(h.say("four"))
        h.agent.cancel(USER)
        await h.idle()
        return list(h.log)


async def test_l144_wherever_a_log_breaks_off_its_repair_is_legal_and_loses_no_input() -> None:
    log = await a_long_life()
    for cut in range(len(log) + 1):
        prefix = log[:cut]
        whole = SessionLog(new_log().header, events=[*prefix, *closers(prefix)])
        assert not whole.state.turn_open
        assert not whole.state.step_open
        inbox = Inbox(whole)
        accepted = [
            message.text
            for event in prefix
            if isinstance(event.data, InboxSpliced) and event.data.outcome is None
            for message in event.data.inserted
        ]
        assert sorted([*committed(whole), *texts(inbox.next_step), *texts(inbox.next_turn)]) == sorted(accepted)


REASONS = (
    DONE,
    Ended(kind="blocked"),
    Ended(kind="max-tokens"),
    Ended(kind="interrupted"),
    EndedByAbort(reason=USER),
)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.kind)
def test_l145_a_fork_takes_the_whole_log_or_up_to_an_event_between_turns(reason) -> None:
    note = PluginEvent(tag="session/title", data={"title": "t"})
    log = numbered(*CLOSED, TurnEnd(turn=1, reason=reason), note, TurnStart(turn=2), StepStart(turn=2, step=1))
    assert fork_events(log, 4) == log[:5]
    assert fork_events(log, 3) == log[:4]
    assert fork_events(log[:5]) == log[:5]
    assert fork_events([]) == []
    child = SessionLog(new_log().header, events=fork_events(log, 4))
    assert child.append(TurnStart(turn=2)).seq == 5


@pytest.mark.parametrize(
    ("boundary", "code"),
    [
        (None, "OPEN_TURN"),
        (0, "OPEN_TURN"),
        (2, "OPEN_TURN"),
        (5, "OPEN_TURN"),
        (6, "INVALID_BOUNDARY"),
        (-1, "INVALID_BOUNDARY"),
    ],
)
def test_l145_a_fork_inside_a_turn_or_outside_the_log_is_refused(boundary, code) -> None:
    log = numbered(*ENDED, TurnStart(turn=2), StepStart(turn=2, step=1))
    with pytest.raises(SessionError) as refused:
        fork_events(log, boundary)
    assert refused.value.code == code


async def test_l145_a_fork_has_the_history_and_none_of_the_waiting_input() -> None:
    async with headless([say("ok")]) as h:
        await h.ask("a")
        h.agent.inject(h.say("context"))
        h.agent.inbox.insert("next-turn", h.say("waits"))
        source = list(h.log)
        child = SessionLog(new_log().header, events=fork_events(source))
    assert not Inbox(child).pending
    assert list(child)[: len(source)] == source
    assert [event.data.outcome for event in child[len(source) :]] == ["canceled", "canceled"]
    assert texts(child.derive_messages()) == ["a", "ok"]
    async with headless([say("more")], events=list(child)) as fork:
        await fork.ask("b")
        assert fork.of("turn/start")[-1].data.turn == 2
        assert texts(fork.model.requests[0].messages) == ["a", "ok", "b"]
