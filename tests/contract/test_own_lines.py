"""Own rules, L201 to L211: what this loop promises beyond the numbered lines that it shares with others."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import USER, Aborted
from dsh_lsp.agent.hooks import Enter, PreStep, Retry
from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.llm.scripted import call, fail, hold, say
from tests.support.headless import Add, headless
from tests.support.loop import Refuse, Waits, committed, ends, notice, outcomes, settled, splices, texts, until


async def test_l201_input_is_history_only_once_its_request_is_prepared() -> None:
    async with headless([say("ok")]) as h:

        async def cancel(draft, call_next):
            h.agent.cancel(USER)
            return await call_next(draft)

        dispose = h.agent.hooks.request.listen(cancel)
        await h.ask("a")
        dispose()
        assert [tag for tag in h.types if tag != "agent/inbox/spliced"] == [
            "turn/start",
            "step/start",
            "step/end",
            "turn/end",
        ]
        assert outcomes(h.log) == ["restored"]
        assert h.agent.resume()
        await h.idle()
        assert committed(h.log) == ["a"]


async def test_l202_a_step_that_starts_a_series_logs_its_header_though_it_is_equal() -> None:
    async with headless([say("1"), say("2") + fail("SERVER"), say("2")]) as h:

        async def again(failed, call_next):
            return Retry()

        async def series(payload: PreStep, call_next):
            decision = await call_next(payload)
            return Enter(messages=decision.messages, starts_request_series=payload.turn == 2)

        h.agent.hooks.request_error.listen(again)
        h.agent.hooks.pre_step.listen(series)
        await h.ask("a")
        await h.ask("b")
        logged = [(event.data.reason, event.data.starts_series) for event in h.of("request/header")]
        assert logged == [("initial", None), ("change", True)]


@pytest.mark.parametrize("history", ["unanswered", "interrupted", "none"])
async def test_l203_a_retry_gives_the_answer_that_is_owed(history) -> None:
    lost = {"unanswered": fail("SERVER"), "interrupted": say("Half") + hold(anyio.Event()), "none": say("ok")}
    checks = [Refuse("step/start")] if history == "none" else []
    async with headless([lost[history], say("whole"), say("2")], checks=checks) as h:
        h.agent.followup(h.say("a"))
        if history == "interrupted":
            await until(lambda: len(h.of("assistant/chunk")) > 1)
            h.agent.followup(h.say("b"))
            h.agent.cancel(USER)
        await h.idle()
        h.agent.retry()
        await h.idle()
        assert ends(h.log)[-1] == "completed"
        assert committed(h.log) == (["a", "b"] if history == "interrupted" else ["a"])
        with pytest.raises(UsageError) as owed:
            h.agent.retry()
        assert owed.value.code == "NOTHING_OWED"


@pytest.mark.parametrize("how", ["second cancel", "time"])
async def test_l204_a_hook_that_ignores_its_cancel_is_torn(how) -> None:
    async with headless([], force_s=0.01 if how == "time" else 10.0) as h:

        async def never(payload, call_next):
            await anyio.Event().wait()

        h.agent.hooks.pre_step.listen(never)
        h.agent.followup(h.say("a"))
        await settled()
        h.agent.cancel(USER)
        await settled()
        if how == "second cancel":
            assert h.agent.status == "running"
            h.agent.cancel(USER)
        await h.idle()
        assert ends(h.log) == ["aborted"]
        assert outcomes(h.log) == ["restored"]


async def test_l205_a_tool_that_ignores_its_cancel_is_left_behind_with_an_unknown_outcome() -> None:
    tool = Waits(ignores_cancel=True)
    async with headless([call("waits") + call("add", a=1, b=2)], tools=[tool, Add()]) as h:
        h.agent.followup(h.say("a"))
        await tool.started.wait()
        h.agent.cancel(USER)
        h.agent.cancel(USER)
        await h.idle()
        assert [event.data.error.code for event in h.of("tool/result")] == [
            "TOOL_OUTCOME_UNKNOWN",
            "TOOL_NOT_STARTED",
        ]
        assert h.types[-2:] == ["step/end", "turn/end"]
        length = len(h.log)
        tool.release.set()
        await settled()
        assert len(h.log) == length


async def test_l206_maintenance_that_ignores_its_cancel_is_torn() -> None:
    async with headless([say("ok")]) as h:

        async def never(signal):
            await anyio.Event().wait()

        async def stop() -> None:
            h.agent.cancel(USER)
            h.agent.cancel(USER)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            with pytest.raises(Aborted):
                await h.agent.run_maintenance(never)
        assert h.agent.phase == "idle"
        await h.ask("a")
        assert ends(h.log) == ["completed"]


@pytest.mark.parametrize("refused", ["next-step", "next-turn"])
async def test_l207_a_refused_claim_is_an_error_turn_that_takes_nothing(refused) -> None:
    times = [1]

    def refuse(event) -> None:
        claims = event.type == "agent/inbox/spliced" and event.data.removed_count
        if claims and event.data.target == refused and times:
            times.pop()
            raise RuntimeError("no claim now")

    async with headless([say("ok"), say("ok")], checks=[refuse]) as h:
        h.agent.inject(h.say("context"))
        await h.ask("a")
        assert ends(h.log) == ["error"]
        assert (texts(h.agent.inbox.next_step), texts(h.agent.inbox.next_turn)) == (["context"], ["a"])
        await h.ask("b")
        assert committed(h.log) == ["context", "a", "b"]


async def test_l208_a_claim_that_was_sent_again_is_not_restored_beside_itself() -> None:
    async with headless([say("ok")]) as h:
        message = notice("a", "m1")
        errors = []
        h.agent.hooks.error.listen(errors.append)

        async def breaks(payload, call_next):
            h.agent.inject(message)
            raise RuntimeError("plugin bug")

        dispose = h.agent.hooks.pre_step.listen(breaks)
        h.agent.followup(message)
        await h.idle()
        dispose()
        assert ends(h.log) == ["error"]
        assert h.agent.inbox.next_step == (message,)
        assert not h.agent.inbox.next_turn
        assert len(splices(h.log)) == 3
        assert [str(error.error) for error in errors] == ["plugin bug"]
        await h.ask("b")
        assert committed(h.log) == ["a", "b"]


async def test_l208_a_claim_that_was_sent_again_after_its_cancel_runs() -> None:
    async with headless([say("ok")]) as h:
        message = notice("a", "m1")

        async def stop(payload, call_next):
            if payload.turn == 1:
                h.agent.cancel(USER, keep_inbox=False)
                h.agent.followup(message)
            return await call_next(payload)

        h.agent.hooks.pre_step.listen(stop)
        h.agent.followup(message)
        await h.idle()
        assert ends(h.log) == ["aborted", "completed"]
        assert committed(h.log) == ["a"]


@pytest.mark.parametrize("fails", [False, True], ids=["on disk", "not writable"])
async def test_l209_a_request_is_sent_only_after_its_log_is_on_disk(fails) -> None:
    seen: list[tuple[str, int]] = []

    async def barrier() -> None:
        seen.append((h.types[-1], len(h.model.requests)))
        if fails:
            raise SessionError("the disk is full", code="LOG_NOT_WRITABLE")

    async with headless([say("ok")], parts={"barrier": barrier}) as h:
        await h.ask("a")
        assert seen == [("request/context", 0)]
        if fails:
            assert not h.model.requests
            assert h.of("turn/end")[0].data.reason.error.code == "LOG_NOT_WRITABLE"
        else:
            assert ends(h.log) == ["completed"]


@pytest.mark.parametrize("times", [1, 2], ids=["once", "always"])
async def test_l210_a_refused_result_ends_the_step_and_is_made_good_if_it_can_be(times) -> None:
    async with headless(
        [call("add", a=1, b=2), say("ok")], tools=[Add()], checks=[Refuse("tool/result", times)]
    ) as h:
        await h.ask("a")
        assert ends(h.log) == ["error"]
        assert h.types[-2:] == ["step/end", "turn/end"]
        codes = [event.data.error.code for event in h.of("tool/result")]
        assert codes == (["TOOL_OUTCOME_UNKNOWN"] if times == 1 else [])


async def test_l211_a_cancel_at_the_start_of_a_step_asks_nobody_for_its_request() -> None:
    async with headless([]) as h:
        asked: list[int] = []

        async def note(draft, call_next):
            asked.append(1)
            return await call_next(draft)

        h.agent.hooks.request.listen(note)
        h.log.appended.listen(lambda event: h.agent.cancel(USER) if event.type == "step/start" else None)
        await h.ask("a")
        assert not asked
        assert [tag for tag in h.types if tag.startswith(("step/", "turn/"))] == [
            "turn/start",
            "step/start",
            "step/end",
            "turn/end",
        ]
        assert ends(h.log) == ["aborted"]
