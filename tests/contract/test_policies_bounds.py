"""Policies: how often and how long a turn may go on: the plugins `repeat` and `limits`."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.agent.hooks import Enter, PreStep
from dsh_lsp.decisions import (
    Allowed,
    ApprovalAsked,
    ApprovalDecided,
    Effect,
    HunkDecided,
    Position,
    QuestionAnswered,
    QuestionAsked,
    Range,
    Refused,
    ReviewDecided,
    ReviewFile,
    ReviewHunk,
    ReviewOpened,
)
from dsh_lsp.events import TurnStart
from dsh_lsp.llm.scripted import Reply, call, call_text, say
from dsh_lsp.plugins import approval, limits, repeat
from dsh_lsp.plugins.limits import Stopwatch
from dsh_lsp.settings import Live
from dsh_lsp.tools.pipeline import Block, Denied
from dsh_lsp.tools.tool import Execution
from tests.support.headless_tools import Does, answers, calls, codes, errors, with_plugins
from tests.support.loop import Waits, ends, notice, numbered, texts, until


def effect(kind, detail="x") -> Effect:
    return Effect(kind=kind, detail=detail, grant_key=f"{kind}:{detail}")


def says(answer):
    async def listener(payload, call_next):
        return answer

    return listener


# -- repeat ----------------------------------------------------------------------------------------------------


def reminders(h) -> list[str]:
    return [text for text in texts(e.data for e in h.of("user/message")) if "in a row" in text]


def same(times: int, **arguments) -> list[Reply]:
    return [call("does", **(arguments or {"key": "a"})) for _ in range(times)]


async def test_after_three_five_and_eight_equal_calls_the_model_is_reminded_twice_and_then_stopped() -> None:
    async with with_plugins(same(10), repeat, tools=[Does()]) as w:
        w.h.agent.followup(w.h.say("go"))
        w.h.agent.followup(w.h.say("later"))
        await w.h.idle()
        assert [text.split(" times")[0].rsplit(" ", 1)[1] for text in reminders(w.h)] == ["3", "5"]
        reason = w.h.of("turn/end")[0].data.reason.reason
        assert (reason.kind, reason.reason) == ("hook", "the model made the same call 8 times: does")
        assert len(answers(w.h)) == 8
        assert "does a" in answers(w.h)[7], "what the last one had done is not hidden"
        assert texts(w.h.agent.inbox.next_turn) == ["later"]


async def test_another_call_or_new_words_of_the_user_begin_the_count_anew() -> None:
    other = [call("does", key="b")]
    script = [*same(2), *other, *same(2), say("1"), *same(2), say("2")]
    async with with_plugins(script, repeat, tools=[Does()]) as w:
        await w.h.ask("go")
        await w.h.ask("again")
        assert len(answers(w.h)) == 7
        assert not reminders(w.h)


async def test_words_that_join_a_running_turn_begin_anew_and_those_of_a_plugin_do_not() -> None:
    for mine, expected in ((True, 0), (False, 1)):
        async with with_plugins([*same(4), say("ok")], repeat, tools=[Does()]) as w:
            said = []

            def steer(payload, w=w, said=said, mine=mine):
                said.append(1)
                if len(said) == 2:
                    w.h.agent.steer(w.h.say("go on") if mine else notice("go on", "m1"))

            w.h.agent.hooks.tools.result.listen(steer)
            await w.h.ask("go")
            assert len(reminders(w.h)) == expected


async def test_neither_the_order_of_keys_nor_white_space_make_another_call() -> None:
    raw = ['{"key": "a", "n": 1}', '{"n":1,"key":"a"}', '{ "n": 1, "key": "a" }']
    async with with_plugins([*(call_text("does", text) for text in raw), say("ok")], repeat, tools=[Does()]) as w:
        await w.h.ask("go")
        assert len(reminders(w.h)) == 1


@pytest.mark.parametrize("how", ["denied", "failed", "unknown", "unreadable"])
async def test_calls_that_did_not_succeed_count(how) -> None:
    def body(execution):
        raise RuntimeError("kaputt")

    raw = "not json" if how == "unreadable" else "{}"
    script = [call_text("nope" if how == "unknown" else "does", raw) for _ in range(3)]
    async with with_plugins([*script, say("ok")], repeat, tools=[Does(body=body)]) as w:
        if how == "denied":
            w.h.agent.hooks.tools.pre_execute.listen(says(Denied("no")))
        await w.h.ask("go")
        assert errors(w.h) == [True] * 3
        assert len(reminders(w.h)) == 1


async def test_an_earlier_listener_cannot_hide_a_call_or_its_reminder() -> None:
    async with with_plugins([*same(3), say("ok")], tools=[Does()]) as w:
        w.h.agent.hooks.tools.post_execute.listen(says(Block("blocked")))
        w.context.mount(repeat)
        await w.h.ask("go")
        assert answers(w.h) == ["blocked"] * 3
        assert len(reminders(w.h)) == 1


async def test_a_later_listener_cannot_hide_a_reminder() -> None:
    async with with_plugins([*same(3), say("ok")], repeat, tools=[Does()]) as w:
        w.h.agent.hooks.tools.post_execute.listen(says(Block("blocked")))
        await w.h.ask("go")
        assert answers(w.h) == ["blocked"] * 3
        assert len(reminders(w.h)) == 1


async def test_calls_count_although_a_later_listener_fails_on_every_one() -> None:
    async with with_plugins(same(10), repeat, tools=[Does()]) as w:

        async def broken(payload, call_next):
            raise RuntimeError("judge bug")

        w.h.agent.hooks.tools.post_execute.listen(broken)
        await w.h.ask("go")
        assert len(answers(w.h)) == 8
        assert ends(w.h.log) == ["aborted"]


async def test_the_detailed_reminder_shows_no_more_than_a_preview_and_the_numbers_can_be_set() -> None:
    settings = repeat.Settings(remind_at=(2, 3), stop_at=4)
    async with with_plugins(same(5, key="x" * 2_000), (repeat, settings), tools=[Does()]) as w:
        await w.h.ask("go")
        gentle, detailed = reminders(w.h)
        assert len(gentle) < 200
        assert 500 < len(detailed) < 900
        assert len(answers(w.h)) == 4


# -- limits ----------------------------------------------------------------------------------------------------


async def test_a_turn_ends_with_the_tools_of_its_last_step_and_what_waits_stays() -> None:
    settings = limits.Settings(steps=2)
    script = [calls("does", "a"), calls("does", "b"), say("ok")]
    async with with_plugins(script, (limits, settings), tools=[Does()]) as w:
        w.h.agent.followup(w.h.say("go"))
        w.h.agent.followup(w.h.say("later"))
        await w.h.idle()
        cause = w.h.of("turn/end")[0].data.reason.reason
        assert (cause.kind, cause.reason) == ("hook", "the turn reached its limit of 2 steps")
        assert w.h.types.count("step/start") == 2
        assert codes(w.h) == [None, None], "what ran before the limit is whole"
        assert texts(w.h.agent.inbox.next_turn) == ["later"]
        assert w.h.agent.resume()
        await w.h.idle()
        assert ends(w.h.log) == ["aborted", "completed"]


async def test_each_turn_has_its_steps_anew() -> None:
    script = [calls("does", "a"), say("1"), calls("does", "b"), say("2")]
    async with with_plugins(script, (limits, limits.Settings(steps=2)), tools=[Does()]) as w:
        await w.h.ask("go")
        await w.h.ask("again")
        assert ends(w.h.log) == ["completed", "completed"]


async def test_a_turn_that_takes_too_long_is_cancelled_by_a_timer() -> None:
    tool = Waits()
    async with with_plugins([call("waits")], (limits, limits.Settings(seconds=0.02)), tools=[tool]) as w:
        await w.h.ask("go")
        cause = w.h.of("turn/end")[0].data.reason.reason
        assert (cause.kind, cause.reason) == ("hook", "the turn reached its limit of 0.02 seconds")
        assert codes(w.h) == ["ABORTED"]


async def test_a_time_limit_that_is_set_while_a_turn_runs_holds_from_its_next_event_on() -> None:
    live = Live(limits.Settings())

    def hurry(_execution: Execution) -> None:
        live.value = limits.Settings(seconds=0.02)

    script = [calls("does", "a"), call("waits")]
    async with with_plugins(script, (limits, live), tools=[Waits(), Does(body=hurry)]) as w:
        await w.h.ask("go")
        assert w.h.of("turn/end")[0].data.reason.reason.reason == "the turn reached its limit of 0.02 seconds"


async def test_the_timer_of_a_turn_ends_with_it_or_with_its_plugin() -> None:
    tool, gate = Does(body=lambda execution: gate.wait()), anyio.Event()
    settings = limits.Settings(seconds=3_600)
    script = [say("ok"), calls("does", "a"), say("ok")]
    with anyio.fail_after(5):
        async with with_plugins(script, tools=[tool]) as w:
            dispose = w.context.mount(limits, settings)
            await w.h.ask("go")
            w.h.agent.followup(w.h.say("again"))
            await until(lambda: tool.ran)
            dispose()
            gate.set()
            await w.h.idle()


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


PLACE = Range(start=Position(line=0, character=0), end=Position(line=0, character=0))


def opened(key: str, hunks: int) -> ReviewOpened:
    parts = tuple(ReviewHunk(id=f"{key}{n}", range=PLACE, old_text="", new_text="x") for n in range(hunks))
    return ReviewOpened(proposal=key, files=(ReviewFile(uri="file:///a", kind="edit", hunks=parts),))


def settled_hunk(key: str, number: int) -> ReviewDecided:
    return ReviewDecided(proposal=key, hunks=(HunkDecided(id=f"{key}{number}", outcome="landed"),))


def asked(key: str) -> ApprovalAsked:
    return ApprovalAsked(id=key, tool_name="t", call_id="c", effects=())


def decided(key: str) -> ApprovalDecided:
    return ApprovalDecided(id=key, outcome=Refused(kind="rejected"))


def test_the_stopwatch_leaves_out_the_time_that_people_take_also_when_questions_overlap() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock)
    story = [
        (0, TurnStart(turn=1), 0),
        (5, asked("q"), 5),
        (7, opened("r", 2), 5),
        (3, decided("q"), 5),
        (4, settled_hunk("r", 0), 5),
        (6, settled_hunk("r", 1), 5),
        (2, asked("q2"), 7),
        (9, decided("q2"), 7),
        (0, QuestionAsked(id="q3", text="Which?"), 7),
        (8, QuestionAnswered(id="q3", answer="this"), 7),
        (1, decided("unknown"), 8),
        (1, TurnStart(turn=2), 0),
    ]
    for passed, data, worked in story:
        clock.now += passed
        watch.note(numbered(data)[0])
        assert watch.seconds() == pytest.approx(worked), data
    clock.now += 2
    assert watch.seconds() == pytest.approx(2)


@given(st.lists(st.tuples(st.sampled_from(["work", "ask", "decide"]), st.integers(0, 3)), max_size=30))
def test_the_stopwatch_counts_exactly_the_seconds_in_which_nobody_is_asked(story) -> None:
    clock, waiting, worked = FakeClock(), [], 0
    watch = Stopwatch(clock)
    watch.note(numbered(TurnStart(turn=1))[0])
    for number, (what, value) in enumerate(story):
        if what == "work":
            clock.now += value
            worked += 0 if waiting else value
        elif what == "ask":
            waiting.append(f"q{number}")
            watch.note(numbered(asked(waiting[-1]))[0])
        elif waiting:
            watch.note(numbered(decided(waiting.pop(value % len(waiting))))[0])
        assert watch.seconds() == pytest.approx(worked)


async def test_a_turn_in_which_a_person_thinks_reaches_no_limit(monkeypatch) -> None:
    clock, answer = FakeClock(), anyio.Event()
    monkeypatch.setattr(limits, "Stopwatch", lambda: Stopwatch(clock))
    tool = Does(effects=[effect("command")])
    settings = limits.Settings(seconds=0.05)
    async with with_plugins([calls("does", "a"), say("ok")], approval, (limits, settings), tools=[tool]) as w:

        async def person(request, call_next):
            await answer.wait()
            return Allowed(kind="allowedOnce")

        w.h.agent.hooks.tools.approval.listen(person)
        w.h.agent.followup(w.h.say("go"))
        await until(lambda: w.h.of("approval/asked"))
        clock.now += 10_000
        await anyio.sleep(0.06)  # so that the timer looks again
        assert w.h.agent.status == "running"
        answer.set()
        await w.h.idle()
        assert ends(w.h.log) == ["completed"]


async def test_a_limit_is_never_met_before_a_step() -> None:
    """A cancel in pre-step would leave a turn that took input and said nothing."""
    async with with_plugins([calls("does", "a"), say("ok")], (limits, limits.Settings(steps=1)), tools=[Does()]) as w:
        proposed = []

        async def note(payload: PreStep, call_next):
            proposed.append(payload.signal.aborted)
            decision = await call_next(payload)
            assert isinstance(decision, Enter)
            return decision

        w.h.agent.hooks.pre_step.listen(note)
        await w.h.ask("go")
        assert proposed == [False]
