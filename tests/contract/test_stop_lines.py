"""Stops, L024 to L045: how a turn ends, what a log that refuses does to it, and what may run beside it."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.agent.hooks import RequestDraft
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.errors import UsageError
from dsh_lsp.events import Ended, StepEnd, StepStart, TurnEnd, TurnStart
from dsh_lsp.llm.scripted import Reply, call, fail, finish_as, hold, say
from dsh_lsp.messages import BlockEnd, CallConfig, Finish, TextBlock, ToolCallBlock
from dsh_lsp.session.surface import derive_messages
from tests.support.headless import Add, headless
from tests.support.loop import RAW, Acts, RawAdapter, Refuse, Waits, committed, ends, numbered, outcomes, texts


def steer_once(h) -> None:
    steered: list[int] = []

    async def stopping(_payload) -> None:
        if not steered:
            steered.append(1)
            h.agent.steer(h.say("more"))

    h.agent.hooks.turn_stopping.listen(stopping)


async def test_l024_a_steer_in_turn_stopping_adds_a_step_to_the_turn() -> None:
    async with headless([say("1"), say("2")]) as h:
        steer_once(h)
        await h.ask("a")
        assert h.types.count("turn/start") == 1
        assert h.types.count("step/start") == 2
        assert ends(h.log) == ["completed"]
        assert not h.agent.inbox.pending


async def test_l025_turn_stopping_that_raises_is_an_error_turn_and_no_more() -> None:
    async with headless([say("1"), say("2")]) as h:

        async def breaks(_payload) -> None:
            raise RuntimeError("plugin bug")

        dispose = h.agent.hooks.turn_stopping.listen(breaks)
        await h.ask("a")
        dispose()
        await h.ask("b")
        assert ends(h.log) == ["error", "completed"]


@pytest.mark.parametrize("steers", [False, True])
async def test_l026_a_cancel_in_turn_stopping_aborts_the_turn(steers) -> None:
    async with headless([say("1")]) as h:

        async def stop(_payload) -> None:
            if steers:
                h.agent.steer(h.say("more"))
            h.agent.cancel(USER)

        h.agent.hooks.turn_stopping.listen(stop)
        await h.ask("a")
        assert ends(h.log) == ["aborted"]
        assert h.types.count("step/start") == 1


async def test_l027_a_tool_that_concludes_the_turn_spares_the_next_request() -> None:
    async with headless([call("acts")], tools=[Acts(lambda execution: execution.conclude_turn())]) as h:
        await h.ask("a")
        assert len(h.model.requests) == 1
        assert ends(h.log) == ["completed"]


async def test_l028_a_steer_during_a_concluding_tool_still_gets_its_step() -> None:
    tool = Waits(concludes=True)
    async with headless([call("waits"), say("ok")], tools=[tool]) as h:
        h.agent.followup(h.say("a"))
        await tool.started.wait()
        h.agent.steer(h.say("more"))
        tool.release.set()
        await h.idle()
        assert texts(h.model.requests[1].messages)[-1] == "more"
        assert (h.types.count("turn/start"), ends(h.log)) == (1, ["completed"])


async def test_l029_a_turn_that_hit_its_limit_once_says_so_whatever_comes_after() -> None:
    async with headless([say("cut") + finish_as("max-tokens"), say("whole")]) as h:
        steer_once(h)
        await h.ask("a")
        assert h.types.count("step/start") == 2
        assert ends(h.log) == ["max-tokens"]


async def test_l030_the_next_turn_does_not_inherit_the_limit() -> None:
    async with headless([say("cut") + finish_as("max-tokens"), say("whole")]) as h:
        h.agent.followup(h.say("a"))
        h.agent.followup(h.say("b"))
        await h.idle()
        assert ends(h.log) == ["max-tokens", "completed"]


@pytest.mark.parametrize("entries", [1, 2], ids=["misaligned", "aligned"])
async def test_l031_a_cut_answer_keeps_its_text_and_drops_its_calls(entries) -> None:
    state = {"blocks": [{"n": n} for n in range(entries)]}
    called = ToolCallBlock(id="c1", name="add", arguments='{"a": 1,')
    chunks = [
        BlockEnd(index=0, block=TextBlock(text="let me")),
        BlockEnd(index=1, block=called),
        Finish(reason="max-tokens", replay_state=state),
    ]
    async with headless([], tools=[Add()], adapters=[RawAdapter(chunks)], **RAW) as h:
        await h.ask("a")
        message = h.of("assistant/message")[0].data.message
        assert message.content == (TextBlock(text="let me"),)
        assert message.source.replay_state == (state if entries == 1 else None)
        assert not h.of("tool/call")
        assert ends(h.log) == ["max-tokens"]


@pytest.mark.parametrize("reason", ["stop", "max-tokens"])
async def test_l032_an_empty_answer_is_logged_and_no_part_of_history(reason) -> None:
    async with headless([Reply() + finish_as(reason), say("ok")]) as h:
        await h.ask("a")
        assert h.of("assistant/message")[0].data.message.content == ()
        assert texts(h.log.derive_messages()) == ["a"]
        assert derive_messages(h.log) == h.log.derive_messages()


async def test_l033_a_session_goes_on_counting_its_turns() -> None:
    seed = numbered(
        TurnStart(turn=1),
        TurnEnd(turn=1, reason=Ended(kind="completed")),
        TurnStart(turn=2),
        StepStart(turn=2, step=1),
        StepEnd(turn=2, step=1),
        TurnEnd(turn=2, reason=Ended(kind="interrupted")),
    )
    async with headless([say("ok")], events=seed) as h:
        assert h.agent.turn == 2
        await h.ask("a")
        assert h.of("turn/start")[-1].data.turn == 3
        assert h.of("step/start")[-1].data == StepStart(turn=3, step=1)


async def test_l034_a_refused_turn_start_keeps_the_queue_and_the_number() -> None:
    async with headless([say("1"), say("2"), say("3")], checks=[refuse := Refuse("turn/start")]) as h:
        errors = []
        h.agent.hooks.error.listen(errors.append)
        h.agent.followup(h.say("a"))
        await h.idle()
        assert h.types == ["agent/inbox/spliced"]
        assert [(error.turn, error.step) for error in errors] == [(0, 0)]
        assert texts(h.agent.inbox.next_turn) == ["a"]
        h.agent.followup(h.say("b"))
        refuse.times = 1
        await h.idle()
        assert [event.data.turn for event in h.of("turn/start")] == [1]
        assert [(error.turn, error.step) for error in errors] == [(0, 0), (1, 0)]
        await h.ask("c")
        assert [event.data.turn for event in h.of("turn/start")] == [1, 2, 3]
        assert committed(h.log) == ["a", "b", "c"]


async def test_l035_a_refused_step_start_is_a_balanced_error_turn_that_gives_back() -> None:
    async with headless([say("1"), say("2")], checks=[Refuse("step/start")]) as h:
        await h.ask("a")
        assert not h.of("step/start", "step/end")
        assert ends(h.log) == ["error"]
        assert outcomes(h.log) == ["restored"]
        await h.ask("b")
        assert committed(h.log) == ["a", "b"]


@pytest.mark.parametrize("times", [1, 2], ids=["once", "always"])
async def test_l036_a_refused_step_end_surfaces_and_the_agent_comes_to_rest(times) -> None:
    async with headless([say("1"), say("2")], checks=[Refuse("step/end", times)]) as h:
        errors, statuses = [], []
        h.agent.hooks.error.listen(errors.append)
        h.agent.hooks.status.listen(statuses.append)
        await h.ask("a")
        assert "no step/end now" in str(errors[0].error)
        assert statuses == ["running", "idle"]
        if times == 1:  # closed with its turn
            assert h.types[-2:] == ["step/end", "turn/end"]
            assert ends(h.log) == ["error"]
            await h.ask("b")
            assert ends(h.log) == ["error", "completed"]


async def test_l037_a_refused_turn_end_is_reported_and_not_tried_again() -> None:
    async with headless([say("1"), say("2")], checks=[refuse := Refuse("turn/end")]) as h:
        errors = []
        h.agent.hooks.error.listen(errors.append)
        h.agent.followup(h.say("a"))
        h.agent.followup(h.say("b"))
        await h.idle()
        assert refuse.times == 0
        assert [str(error.error) for error in errors] == ["no turn/end now"]
        assert not h.of("turn/end")
        assert h.agent.status == "idle"
        assert texts(h.agent.inbox.next_turn) == ["b"]


@pytest.mark.parametrize("tag", ["turn/start", "step/start", "step/end", "turn/end"])
async def test_l038_an_observer_that_raises_changes_nothing(tag) -> None:
    async with headless([say("1"), say("2")]) as h:

        def breaks(event) -> None:
            if event.type == tag:
                raise RuntimeError("observer bug")

        h.log.appended.listen(breaks)
        await h.ask("a")
        await h.ask("b")
        assert ends(h.log) == ["completed", "completed"]


async def test_l039_listeners_of_errors_and_status_are_contained() -> None:
    async with headless([fail("SERVER"), say("ok")]) as h:

        def breaks(_payload) -> None:
            raise RuntimeError("listener bug")

        h.agent.hooks.error.listen(breaks)
        h.agent.hooks.status.listen(breaks)
        await h.ask("a")
        await h.ask("b")
        assert ends(h.log) == ["error", "completed"]
        assert h.types.count("step/start") == h.types.count("step/end") == 2


async def test_l040_without_a_model_the_turn_says_who_could_name_one() -> None:
    async with headless([say("1"), say("2")], provider="", model="") as h:
        await h.ask("a")
        error = h.of("turn/end")[0].data.reason.error
        assert "agent/request" in error.message
        assert outcomes(h.log) == ["restored"]

        async def choose(draft: RequestDraft, call_next):
            return CallConfig(provider="scripted", model="script")

        h.agent.hooks.request.listen(choose)
        await h.ask("b")
        assert ends(h.log) == ["error", "completed", "completed"]
        assert committed(h.log) == ["a", "b"]


@pytest.mark.parametrize("fault", ["variable", "tool order"])
async def test_l041_a_prompt_that_cannot_be_assembled_fails_the_turn_and_not_the_loop(fault) -> None:
    prompt = SystemPrompt()
    prompt.register(Section(name="s", order=0, text="In {{nowhere}}." if fault == "variable" else "x"))
    order = ("missing",) if fault == "tool order" else None
    async with headless([say("ok"), say("ok")], prompt=prompt, tool_order=order) as h:
        await h.ask("a")
        assert ends(h.log) == ["error"]
        assert not h.model.requests
        assert h.types.count("step/start") == (1 if fault == "variable" else 0)
        if fault == "variable":
            prompt.define("nowhere", "here")
        else:
            h.registry.register(Acts(lambda execution: None, "missing"))
        await h.ask("b")
        assert ends(h.log)[-1] == "completed"
        assert committed(h.log) == ["a", "b"]


async def test_l042_a_driver_starts_only_for_what_is_owed_and_only_once() -> None:
    gate = anyio.Event()
    async with headless([hold(gate) + say("ok")]) as h:
        assert not h.agent.resume()
        with pytest.raises(UsageError) as nothing:
            h.agent.retry()
        assert (nothing.value.code, h.agent.status, h.types) == ("NOTHING_OWED", "idle", [])
        h.agent.followup(h.say("a"))
        h.agent.inject(h.say("b"))
        assert not h.agent.resume()
        with pytest.raises(UsageError):
            h.agent.retry()
        gate.set()
        await h.idle()
        assert h.types.count("turn/start") == 1


async def test_l043_input_during_maintenance_runs_after_it() -> None:
    gate = anyio.Event()
    async with headless([say("ok")]) as h:
        statuses: list[str] = []
        h.agent.hooks.status.listen(statuses.append)

        async def job(signal):
            h.agent.followup(h.say("a"))
            await gate.wait()
            return "compacted", list(statuses), list(h.types)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: release_later(h, gate))
            result, seen, types = await h.agent.run_maintenance(job)
        assert (result, seen, types) == ("compacted", [], ["agent/inbox/spliced"])
        await h.idle()
        assert statuses == ["running", "idle"]
        assert ends(h.log) == ["completed"]


async def release_later(h, gate: anyio.Event) -> None:
    assert (h.agent.phase, h.agent.status) == ("maintenance", "idle")
    gate.set()


@pytest.mark.parametrize("how", ["removed", "cancelled"])
async def test_l044_input_that_is_gone_when_maintenance_ends_is_not_replayed(how) -> None:
    async with headless([]) as h:
        aborted = []

        async def job(signal):
            message = h.say("a")
            h.agent.followup(message)
            if how == "removed":
                assert h.agent.inbox.remove(message.id)
            else:
                h.agent.cancel(USER, keep_inbox=False)
            aborted.append(signal.aborted)

        await h.agent.run_maintenance(job)
        assert aborted == [how == "cancelled"]
        await h.idle()
        assert not h.of("turn/start")
        assert outcomes(h.log) == ["canceled"]


async def test_l045_maintenance_waits_for_nobody() -> None:
    async def job(signal):
        with pytest.raises(UsageError, match="active work"):
            h.agent.run_maintenance(job)

    async with headless([say("ok")]) as h:
        h.agent.followup(h.say("a"))
        with pytest.raises(UsageError) as busy:
            h.agent.run_maintenance(job)
        assert busy.value.code == "BUSY"
        await h.idle()
        await h.agent.run_maintenance(job)
        assert ends(h.log) == ["completed"]
