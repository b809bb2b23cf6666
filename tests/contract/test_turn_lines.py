"""Turns, L001 to L023: what starts one, what it takes in, and what pre-step may do with that."""

from __future__ import annotations

import asyncio

import anyio

from dsh_lsp.agent.hooks import Enter, PreStep, Reject
from dsh_lsp.errors import UsageError
from dsh_lsp.llm.scripted import call, fail, hold, say
from tests.support.headless import Add, headless
from tests.support.loop import Waits, committed, ends, notice, outcomes, splices, texts


async def test_l001_a_text_turn_logs_its_events_in_one_order() -> None:
    async with headless([say("hello you")]) as h:
        await h.ask("hi")
        chunks = len(h.of("assistant/chunk"))
        assert chunks > 3
        assert [event.type for event in h.log] == [
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "step/start",
            "user/message",
            "request/header",
            "request/context",
            *["assistant/chunk"] * chunks,
            "assistant/message",
            "step/end",
            "turn/end",
        ]
        inserted, claimed = splices(h.log)
        assert (texts(inserted.inserted), inserted.removed_count) == (["hi"], None)
        assert (claimed.inserted, claimed.removed_count, claimed.outcome) == ((), 1, None)
        assert h.of("request/header")[0].data.reason == "initial"
        assert ends(h.log) == ["completed"]


async def test_l002_followup_returns_with_the_turn_open_and_its_input_claimed() -> None:
    async with headless([say("ok")]) as h:
        h.agent.followup(h.say("hi"))
        assert h.types == ["agent/inbox/spliced", "turn/start", "agent/inbox/spliced"]
        assert h.agent.status == "running"
        await h.idle()


async def test_l003_a_turn_is_one_running_and_one_idle() -> None:
    async with headless([call("add", a=1, b=2), say("3")], tools=[Add()]) as h:
        statuses: list[str] = []
        h.agent.hooks.status.listen(statuses.append)
        await h.ask("hi")
        assert statuses == ["running", "idle"]


async def test_l004_three_followups_in_one_tick_are_three_turns_of_one_run() -> None:
    async with headless([say("1"), say("2"), say("3")]) as h:
        statuses: list[str] = []
        h.agent.hooks.status.listen(statuses.append)
        for text in "abc":
            h.agent.followup(h.say(text))
        await h.idle()
        assert [event.data.turn for event in h.of("turn/start")] == [1, 2, 3]
        assert [texts(request.messages)[-1] for request in h.model.requests] == ["a", "b", "c"]
        assert statuses == ["running", "idle"]


async def test_l005_sends_after_idle_are_turns_in_a_row() -> None:
    async with headless([say("1"), say("2")]) as h:
        await h.ask("a")
        await h.ask("b")
        assert [event.data.turn for event in h.of("turn/start")] == [1, 2]
        assert [event.data.turn for event in h.of("turn/end")] == [1, 2]
        assert committed(h.log) == ["a", "b"]


async def test_l006_a_steer_of_an_idle_agent_opens_a_turn_and_keeps_its_source() -> None:
    async with headless([say("ok")]) as h:
        message = notice("look", "n1")
        h.agent.steer(message)
        await h.idle()
        assert h.of("user/message")[0].data == message
        assert splices(h.log)[0].target == "next-step"
        assert ends(h.log) == ["completed"]


async def test_l007_two_steers_in_one_tick_enter_two_steps_of_one_turn() -> None:
    async with headless([say("1"), say("2")]) as h:
        h.agent.steer(h.say("a"))
        h.agent.steer(h.say("b"))
        await h.idle()
        assert [event.data.step for event in h.of("step/start")] == [1, 2]
        assert h.types.count("turn/start") == 1
        assert [texts(request.messages) for request in h.model.requests] == [["a"], ["a", "1", "b"]]


async def test_l008_an_inject_waits_while_idle_and_comes_before_the_next_prompt() -> None:
    async with headless([say("ok")]) as h:
        h.agent.inject(h.say("context"))
        assert (h.types, h.agent.status) == (["agent/inbox/spliced"], "idle")
        await h.ask("prompt")
        assert texts(h.model.requests[0].messages) == ["context", "prompt"]
        assert h.types.count("step/start") == 1


async def test_l009_a_steer_during_a_tool_begins_the_next_step_of_the_turn() -> None:
    tool = Waits()
    async with headless([call("waits"), say("ok")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await tool.started.wait()
        h.agent.steer(h.say("this too"))
        tool.release.set()
        await h.idle()
        second = h.types.index("step/start", h.types.index("step/end"))
        assert h.types[second - 2 : second + 2] == ["step/end", "agent/inbox/spliced", "step/start", "user/message"]
        assert h.types.count("turn/start") == 1
        assert committed(h.log) == ["go", "this too"]


async def test_l010_an_inject_during_a_tool_stands_between_its_result_and_the_next_request() -> None:
    tool = Waits()
    async with headless([call("waits"), say("ok")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await tool.started.wait()
        h.agent.inject(h.say("context"))
        tool.release.set()
        await h.idle()
        assert texts(h.model.requests[1].messages) == ["go", "", "done", "context"]


async def test_l011_an_inject_before_the_stop_adds_a_step_and_delays_turn_stopping() -> None:
    gate = anyio.Event()
    async with headless([hold(gate) + say("one"), say("two")]) as h:
        stops: list[int] = []

        async def stopping(_payload) -> None:
            stops.append(len(h.model.requests))

        h.agent.hooks.turn_stopping.listen(stopping)
        h.agent.followup(h.say("go"))
        h.agent.inject(h.say("context"))
        gate.set()
        await h.idle()
        assert stops == [2]
        assert h.types.count("turn/start") == 1
        assert texts(h.model.requests[1].messages) == ["go", "one", "context"]


async def test_l012_a_followup_during_a_model_call_is_a_turn_of_its_own() -> None:
    def sends(_request):
        h.agent.followup(h.say("b"))
        return say("one")

    async with headless([sends, say("two")]) as h:
        await h.ask("a")
        assert ends(h.log) == ["completed", "completed"]
        assert h.types.count("step/start") == 2


async def test_l013_an_observer_may_send_on_a_later_tick_and_not_at_once() -> None:
    async with headless([say("one"), say("two")]) as h:
        refused: list[str] = []

        def observer(event) -> None:
            if event.type == "step/start" and event.data.turn == 1:
                asyncio.get_running_loop().call_soon(lambda: h.agent.followup(h.say("later")))
                try:
                    h.agent.followup(h.say("now"))
                except UsageError as error:
                    refused.append(error.code)
                    raise

        h.log.appended.listen(observer)
        await h.ask("a")
        assert refused == ["REENTRANT"]
        assert ends(h.log) == ["completed", "completed"]
        assert committed(h.log) == ["a", "later"]
        assert not h.agent.inbox.pending


async def test_l014_waiting_for_idle_returns_at_once_or_after_the_run_even_a_failed_one() -> None:
    async with headless([fail("SERVER")]) as h:
        with anyio.fail_after(0.5):
            await h.agent.when_idle()
        await h.ask("a")
        assert ends(h.log) == ["error"]


async def test_l015_a_wake_whose_message_is_gone_is_a_turn_without_a_step() -> None:
    async with headless([]) as h:
        h.agent.hooks.inbox.listen(
            lambda change: h.agent.inbox.remove(change.message.id) if change.kind == "inserted" else None
        )
        await h.ask("a")
        assert [tag for tag in h.types if tag != "agent/inbox/spliced"] == ["turn/start", "turn/end"]
        assert ends(h.log) == ["completed"]
        assert not h.model.requests


async def test_l016_entering_without_messages_completes_and_parks_the_queue() -> None:
    async with headless([say("ok")]) as h:

        async def empty(payload: PreStep, call_next):
            return Enter(messages=())

        dispose = h.agent.hooks.pre_step.listen(empty)
        h.agent.followup(h.say("a"))
        h.agent.followup(h.say("b"))
        await h.idle()
        dispose()
        assert ends(h.log) == ["completed"]
        assert not h.of("step/start")
        assert texts(h.agent.inbox.next_turn) == ["b"]
        assert not outcomes(h.log)


async def test_l017_a_rejected_turn_is_blocked_and_the_queue_waits_for_a_wake() -> None:
    async with headless([say("1"), say("2")]) as h:

        async def reject(payload: PreStep, call_next):
            return Reject() if texts(payload.messages) == ["a"] else await call_next(payload)

        h.agent.hooks.pre_step.listen(reject)
        h.agent.followup(h.say("a"))
        h.agent.followup(h.say("b"))
        await h.idle()
        assert ends(h.log) == ["blocked"]
        assert not h.of("step/start")
        assert not h.model.requests
        assert texts(h.agent.inbox.next_turn) == ["b"]
        await h.ask("c")
        assert ends(h.log) == ["blocked", "completed", "completed"]
        assert committed(h.log) == ["b", "c"]


async def test_l018_a_second_step_may_be_rejected() -> None:
    async with headless([say("1")]) as h:

        async def reject(payload: PreStep, call_next):
            return Reject() if payload.step == 2 else await call_next(payload)

        async def more(_payload) -> None:
            h.agent.inject(h.say("more"))

        h.agent.hooks.pre_step.listen(reject)
        h.agent.hooks.turn_stopping.listen(more)
        await h.ask("a")
        assert ends(h.log) == ["blocked"]
        assert len(h.model.requests) == 1
        assert committed(h.log) == ["a"]


async def test_l019_input_that_comes_after_the_rejected_claim_stays() -> None:
    async with headless([say("ok")]) as h:

        async def reject(payload: PreStep, call_next):
            h.agent.inject(h.say("later"))
            return Reject()

        dispose = h.agent.hooks.pre_step.listen(reject)
        await h.ask("a")
        dispose()
        assert ends(h.log) == ["blocked"]
        assert texts(h.agent.inbox.next_step) == ["later"]


async def test_l020_a_finished_turn_whose_new_input_is_rewritten_away_just_ends() -> None:
    async with headless([say("one")]) as h:
        stops: list[int] = []

        async def more(_payload) -> None:
            stops.append(1)
            h.agent.inject(h.say("more"))

        async def empty(payload: PreStep, call_next):
            return Enter(messages=()) if payload.step == 2 else await call_next(payload)

        h.agent.hooks.turn_stopping.listen(more)
        h.agent.hooks.pre_step.listen(empty)
        await h.ask("a")
        assert h.types.count("step/start") == 1
        assert stops == [1]
        assert ends(h.log) == ["completed"]
        assert not h.agent.inbox.pending


async def test_l021_a_tool_continuation_asks_pre_step_with_no_messages() -> None:
    async with headless([call("add", a=1, b=2), say("3")], tools=[Add()]) as h:
        asked: list[tuple[int, int, int]] = []

        async def note(payload: PreStep, call_next):
            asked.append((payload.turn, payload.step, len(payload.messages)))
            return await call_next(payload)

        h.agent.hooks.pre_step.listen(note)
        await h.ask("a")
        assert asked == [(1, 1, 1), (1, 2, 0)]
        assert len(h.model.requests) == 2


async def test_l022_what_pre_step_adds_is_a_message_of_its_own_after_the_prompt() -> None:
    async with headless([say("ok")]) as h:
        prompt, extra = h.say("a"), notice("context", "n1")
        seen = []

        async def add(payload: PreStep, call_next):
            seen.extend(payload.messages)
            decision = await call_next(payload)
            return Enter(messages=(*decision.messages, extra))

        h.agent.hooks.pre_step.listen(add)
        h.agent.followup(prompt)
        await h.idle()
        logged = [event.data for event in h.of("user/message")]
        assert seen[0] is prompt
        assert logged[0] is prompt
        assert logged[1] == extra


async def test_l023_a_pre_step_that_raises_gives_its_input_back_and_parks_the_rest() -> None:
    async with headless([say("1"), say("2"), say("3")]) as h:
        errors = []
        h.agent.hooks.error.listen(errors.append)

        async def breaks(payload: PreStep, call_next):
            raise RuntimeError("plugin bug")

        dispose = h.agent.hooks.pre_step.listen(breaks)
        h.agent.followup(h.say("a"))
        h.agent.followup(h.say("b"))
        await h.idle()
        dispose()
        assert ends(h.log) == ["error"]
        assert [(error.turn, error.step) for error in errors] == [(1, 0)]
        assert not h.of("step/start")
        assert outcomes(h.log) == ["restored"]
        assert texts(h.agent.inbox.next_turn) == ["a", "b"]
        await h.ask("c")
        assert committed(h.log) == ["a", "b", "c"]
        assert ends(h.log) == ["error", "completed", "completed", "completed"]
