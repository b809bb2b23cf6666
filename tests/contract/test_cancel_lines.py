"""Cancels, L121 to L134: what stops, what waits, what runs next, and whose cause counts."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import USER, Cause
from dsh_lsp.events import EndedByAbort
from dsh_lsp.llm.scripted import call, hold, say
from tests.support.headless import headless
from tests.support.loop import Waits, committed, ends, outcomes, settled, texts, until


async def mid_stream(h) -> None:
    """Run until the model is asked and says nothing."""
    h.agent.followup(h.say("a"))
    await until(lambda: h.model.requests)
    await settled()


def held():
    return hold(anyio.Event())


async def test_l121_a_cancel_of_an_idle_agent_arms_nothing() -> None:
    async with headless([say("ok")]) as h:
        assert not h.agent.cancel(USER, keep_inbox=False).was_running
        assert len(h.log) == 0
        await h.ask("a")
        assert ends(h.log) == ["completed"]
        h.agent.inject(h.say("waits"))
        h.agent.cancel(USER)
        assert h.agent.inbox.pending
        h.agent.cancel(USER, keep_inbox=False)
        assert not h.agent.inbox.pending


async def test_l122_a_cancel_right_after_followup_that_drops_the_inbox_drops_the_claim_too() -> None:
    async with headless([]) as h:
        h.agent.followup(h.say("a"))
        h.agent.followup(h.say("b"))
        h.agent.cancel(USER, keep_inbox=False)
        await h.idle()
        assert [tag for tag in h.types if tag != "agent/inbox/spliced"] == ["turn/start", "turn/end"]
        assert h.of("turn/end")[0].data.reason == EndedByAbort(reason=USER)
        assert outcomes(h.log) == ["canceled", "restored", "canceled"]
        assert h.types[-1] == "turn/end"
        assert not h.agent.inbox.pending


async def test_l123_a_cancel_that_keeps_the_inbox_gives_the_claim_back() -> None:
    async with headless([say("ok")]) as h:
        h.agent.followup(h.say("a"))
        h.agent.cancel(USER, keep_inbox=True)
        await h.idle()
        assert outcomes(h.log) == ["restored"]
        assert texts(h.agent.inbox.next_turn) == ["a"]
        assert ends(h.log) == ["aborted"]
        assert h.agent.resume()
        await h.idle()
        assert committed(h.log) == ["a"]


async def test_l124_kept_input_runs_before_what_wakes_it_in_a_turn_of_its_own() -> None:
    async with headless([held(), say("1"), say("2")]) as h:
        await mid_stream(h)
        h.agent.followup(h.say("old"))
        h.agent.cancel(USER, keep_inbox=True)
        await h.idle()
        assert ends(h.log) == ["aborted"]
        assert texts(h.agent.inbox.next_turn) == ["old"]
        await h.ask("new")
        assert ends(h.log) == ["aborted", "completed", "completed"]
        assert committed(h.log) == ["a", "old", "new"]


async def test_l125_a_wake_after_a_cancel_is_replayed_once() -> None:
    async with headless([held(), say("ok")]) as h:
        await mid_stream(h)
        h.agent.cancel(USER)
        h.agent.followup(h.say("b"))
        await h.idle()
        assert ends(h.log) == ["aborted", "completed"]
        assert committed(h.log) == ["a", "b"]


@pytest.mark.parametrize("how", ["cancelled", "removed"])
async def test_l126_a_latched_wake_whose_input_is_gone_runs_nothing(how) -> None:
    async with headless([held()]) as h:
        await mid_stream(h)
        h.agent.cancel(USER)
        message = h.say("b")
        h.agent.followup(message)
        if how == "cancelled":
            h.agent.cancel(USER, keep_inbox=False)
        else:
            assert h.agent.inbox.remove(message.id)
        await h.idle()
        assert h.types.count("turn/start") == 1
        assert ends(h.log) == ["aborted"]


async def test_l127_a_steer_after_a_cancel_becomes_a_turn_of_its_own() -> None:
    async with headless([held(), say("ok")]) as h:
        await mid_stream(h)
        h.agent.cancel(USER)
        h.agent.steer(h.say("b"))
        assert texts(h.agent.inbox.next_turn) == ["b"]
        h.agent.inject(h.say("context"))
        assert texts(h.agent.inbox.next_step) == ["context"]
        await h.idle()
        assert ends(h.log) == ["aborted", "completed"]
        assert committed(h.log) == ["a", "context", "b"]


async def test_l128_a_wake_is_latched_however_long_the_cancelled_turn_takes() -> None:
    tool = Waits(ignores_cancel=True)
    async with headless([call("waits"), say("ok")], tools=[tool]) as h:
        h.agent.followup(h.say("a"))
        await tool.started.wait()
        assert h.agent.cancel(USER).waiting_for_tool == "waits"
        await settled(100)
        h.agent.followup(h.say("b"))
        await settled(100)
        assert h.agent.status == "running"
        tool.release.set()
        await h.idle()
        assert ends(h.log) == ["aborted", "completed"]


async def test_l129_nothing_runs_once_disposal_has_begun_and_input_is_kept() -> None:
    tool = Waits(ignores_cancel=True)
    async with headless([call("waits")], tools=[tool]) as h:
        h.agent.followup(h.say("a"))
        await tool.started.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(h.agent.dispose)
            await settled()
            assert h.agent.status == "running"
            h.agent.followup(h.say("b"))
            tool.release.set()
        assert h.agent.status == "idle"
        h.agent.followup(h.say("c"))
        assert not h.agent.resume()
        await settled()
        assert h.of("turn/end")[0].data.reason == EndedByAbort(reason=Cause(kind="disposed"))
        assert h.types.count("turn/start") == 1
        assert texts(h.agent.inbox.next_turn) == ["b", "c"]


@pytest.mark.parametrize("replaced", [False, True], ids=["alone", "with a replacement"])
async def test_l130_a_cancel_in_the_running_listener_opens_no_turn(replaced) -> None:
    async with headless([say("ok")]) as h:
        seen: list[str] = []

        def listener(status) -> None:
            seen.append(status)
            if seen == ["running"]:
                h.agent.cancel(USER, keep_inbox=False)
                if replaced:
                    h.agent.followup(h.say("b"))

        h.agent.hooks.status.listen(listener)
        await h.ask("a")
        assert committed(h.log) == (["b"] if replaced else [])
        assert ends(h.log) == (["completed"] if replaced else [])
        assert seen == ["running", "idle"] * (2 if replaced else 1)
        assert h.of("turn/start")[0].data.turn == 1 if replaced else not h.of("turn/start")


@pytest.mark.parametrize("where", ["abort listener", "idle listener"])
async def test_l131_a_send_while_a_run_ends_is_a_run_of_its_own_and_waiters_wait_for_it(where) -> None:
    async with headless([held(), say("ok")]) as h:
        sent: list[int] = []

        def send(*_args) -> None:
            if not sent:
                sent.append(1)
                h.agent.followup(h.say("b"))

        if where == "idle listener":
            h.agent.hooks.status.listen(lambda status: send() if status == "idle" else None)
        else:

            async def hear(draft, call_next):
                draft.signal.listen(send)
                return await call_next(draft)

            h.agent.hooks.request.listen(hear)
        await mid_stream(h)
        h.agent.cancel(USER)
        await h.idle()
        assert ends(h.log) == ["aborted", "completed"]
        assert h.agent.status == "idle"


async def test_l131_a_cancel_in_the_idle_listener_is_a_cancel_of_nothing() -> None:
    async with headless([say("ok"), say("ok")]) as h:
        met = []
        h.agent.hooks.status.listen(lambda status: met.append(h.agent.cancel(USER)) if status == "idle" else None)
        await h.ask("a")
        await h.ask("b")
        assert [cancelled.was_running for cancelled in met] == [False, False]
        assert ends(h.log) == ["completed", "completed"]


async def test_l132_the_first_of_two_causes_is_the_reason() -> None:
    async with headless([held()]) as h:
        await mid_stream(h)
        h.agent.cancel(USER)
        await h.agent.dispose()
        assert h.of("turn/end")[0].data.reason == EndedByAbort(reason=USER)


@pytest.mark.parametrize("point", ["assemble", "pre_step"])
@pytest.mark.parametrize("how", ["cancelled", "disposed", "disposed and raised"])
async def test_l133_a_cancel_before_the_step_gives_the_input_back(point, how) -> None:
    async with headless([]) as h:
        errors = []
        h.agent.hooks.error.listen(errors.append)
        go_on = anyio.Event()

        async def listener(payload, call_next):
            await go_on.wait()
            if how == "disposed and raised":
                raise RuntimeError("torn down")
            return await call_next(payload)

        getattr(h.agent.hooks, point).listen(listener)
        h.agent.followup(h.say("a"))
        await settled()
        async with anyio.create_task_group() as tasks:
            if how == "cancelled":
                h.agent.cancel(USER)
            else:
                tasks.start_soon(h.agent.dispose)
            await settled()
            go_on.set()
        await h.idle()
        kind = "user" if how == "cancelled" else "disposed"
        assert h.of("turn/end")[0].data.reason == EndedByAbort(reason=Cause(kind=kind))
        assert not h.of("step/start", "assistant/chunk")
        assert not errors
        assert outcomes(h.log) == ["restored"]
        assert texts(h.agent.inbox.next_turn) == ["a"]


async def test_l134_the_prompt_after_a_cancelled_turn_is_an_ordinary_turn() -> None:
    async with headless([say("Half") + held(), say("whole")]) as h:
        await mid_stream(h)
        h.agent.cancel(USER)
        await h.idle()
        await h.ask("b")
        assert ends(h.log) == ["aborted", "completed"]
        assert [event.data.turn for event in h.of("turn/start")] == [1, 2]
        assert texts(h.log.derive_messages()) == ["a", "Half", "b", "whole"]
