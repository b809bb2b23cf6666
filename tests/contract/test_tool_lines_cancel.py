"""Cancelling calls, L088 to L089, L104 to L108: what a call says that a cancel met before, in or after its body."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import anyio
import pytest

from dsh_lsp.abort import USER, AbortSignal, Cause
from dsh_lsp.llm.scripted import say
from dsh_lsp.tools.outcome import ABORTED_BEFORE_DISPATCH, Outcome
from dsh_lsp.tools.pipeline import Accept, Denied, ToolHooks, ToolPipeline
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Execution, ToolOutput
from tests.support.headless import headless
from tests.support.headless_tools import Does, answered, answers, calls, codes, errors, tool_events
from tests.support.loop import ends, notice, settled, texts, until

BEFORE = "ABORTED_BEFORE_DISPATCH"


def keeper(h, hook, *, cancels=True):
    """A listener that cancels and goes on, and counts how often it was asked."""
    asked = []

    async def listener(payload, call_next):
        asked.append(payload)
        if cancels:
            h.agent.cancel(USER)
        return await call_next(payload)

    hook.listen(listener)
    return asked


async def test_l088_calls_of_a_step_that_was_cancelled_before_them_are_answered_and_judged_by_nobody() -> None:
    tool = Does()
    async with headless([calls("does", *"abc")], tools=[tool]) as h:
        asked = keeper(h, h.agent.hooks.tools.pre_execute, cancels=False)
        h.log.appended.listen(lambda event: h.agent.cancel(USER) if event.type == "assistant/message" else None)
        await h.ask("go")
        assert not tool.ran
        assert not asked
        assert tool_events(h) == [f"{what} {key}" for key in "abc" for what in ("call", "result")]
        assert codes(h) == [BEFORE] * 3
        assert {event.data.error.name for event in h.of("tool/result")} == {"AbortError"}
        assert set(answers(h)) == {"Error: tool call aborted before dispatch"}
        assert ends(h.log) == ["aborted"]


async def test_l089_a_cancel_while_the_first_call_is_judged_runs_none() -> None:
    tool = Does()
    async with headless([calls("does", *"abc")], tools=[tool]) as h:
        asked = keeper(h, h.agent.hooks.tools.pre_execute)
        await h.ask("go")
        assert not tool.ran
        assert len(asked) == 1
        assert tool_events(h) == [f"{what} {key}" for key in "abc" for what in ("call", "result")]
        assert codes(h) == [BEFORE] * 3


@pytest.mark.parametrize("late", ["allows", "denies", "raises", "hears"])
async def test_l104_a_cancel_while_a_call_is_judged_keeps_a_refusal_and_hides_nothing_else(late) -> None:
    tool, seen = Does(), []
    async with headless([calls("does", "a")], tools=[tool]) as h:

        async def judge(execution, call_next):
            h.agent.cancel(USER)
            if late == "denies":
                return Denied("not this")
            if late == "raises":
                raise RuntimeError("policy bug")
            if late == "hears":
                execution.signal.check()
            return await call_next(execution)

        async def after(payload, call_next):
            seen.append(payload[1])
            return await call_next(payload)

        h.agent.hooks.tools.pre_execute.listen(judge)
        h.agent.hooks.tools.post_execute.listen(after)
        await h.ask("go")
        assert not tool.ran
        expected = {
            "allows": ("Error: tool call aborted before dispatch", BEFORE),
            "denies": ("Error: not this", None),
            "raises": ("Error: policy bug", None),
            "hears": ("Error: tool call aborted before dispatch", BEFORE),
        }
        assert (answers(h)[0], codes(h)[0]) == expected[late]
        assert len(seen) == (0 if late == "raises" else 1)
        assert ends(h.log) == ["aborted"]


async def test_l104_a_guard_that_hears_the_cancel_refuses_nothing_and_a_denial_of_one_stays() -> None:
    for hears in (True, False):
        tool = Does()
        async with headless([calls("does", "a")], tools=[tool]) as h:

            async def guard(execution, hears=hears, h=h):
                h.agent.cancel(USER)
                if hears:
                    execution.signal.check()
                return "guarded"

            h.registry.guard(guard)
            await h.ask("go")
            assert not tool.ran
            assert codes(h) == ([BEFORE] if hears else [None])
            assert ("guarded" in answers(h)[0]) is not hears


@pytest.mark.parametrize("how", ["delegates", "hears"])
async def test_l105_a_cancel_in_a_wrapper_before_the_body_keeps_it_from_running(how) -> None:
    tool = Does()
    async with headless([calls("does", "a")], tools=[tool]) as h:

        async def wrap(execution, call_next):
            h.agent.cancel(USER)
            if how == "hears":
                execution.signal.check()
            return await call_next(execution)

        h.agent.hooks.tools.execute.listen(wrap)
        await h.ask("go")
        assert not tool.ran
        assert codes(h) == [BEFORE]


async def test_l105_a_wrapper_that_answers_for_the_body_after_the_cancel_is_marked_and_its_contexts_are_kept() -> (
    None
):
    async with headless([calls("does", "a")], tools=[Does()]) as h:

        async def wrap(execution, call_next):
            h.agent.cancel(USER)
            return Outcome(text="cached", contexts=(notice("seen", "m1"),))

        h.agent.hooks.tools.execute.listen(wrap)
        await h.ask("go")
        assert codes(h) == [BEFORE]
        assert texts(h.agent.inbox.next_step) == ["seen"]


@pytest.mark.parametrize(
    ("how", "code"),
    [("succeeds", "ABORTED"), ("fails", None), ("says so", None), ("hears", "ABORTED")],
)
async def test_l105_a_cancel_in_the_body_marks_a_success_keeps_a_failure_and_waits(how, code) -> None:
    gate = anyio.Event()

    async def body(execution):
        await gate.wait()
        if how == "hears":
            execution.signal.check()
        if how == "fails":
            raise RuntimeError("my own")
        return ToolOutput(text="my own", is_error=how == "says so")

    tool = Does(body=body)
    async with headless([calls("does", "a")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await until(lambda: tool.ran)
        h.agent.cancel(USER)
        await settled()
        assert not answered(h), "the body is waited for"
        gate.set()
        await h.idle()
        assert codes(h) == [code]
        assert errors(h) == [True]
        assert ("my own" in answers(h)[0]) is (how != "hears"), "what it had done is not hidden"


async def test_l105_a_body_that_does_not_look_at_its_signal_is_torn_when_the_cancel_is_forced() -> None:
    torn = []

    async def body(execution):
        try:
            await anyio.sleep_forever()
        finally:
            torn.append(execution.call_id)

    tool = Does(body=body)
    async with headless([calls("does", "a", "b")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await until(lambda: tool.ran == ["a", "b"])
        h.agent.cancel(USER)
        await settled()
        assert not torn
        h.agent.cancel(USER)
        await h.idle()
        await until(lambda: len(torn) == 2)
        assert codes(h) == ["TOOL_OUTCOME_UNKNOWN"] * 2


@pytest.mark.parametrize("fails", [False, True])
async def test_l106_a_cancel_while_a_result_is_judged_marks_a_success_and_keeps_a_failure(fails) -> None:
    def body(execution):
        execution.defer_context(notice("deferred", "m1"))
        if fails:
            raise RuntimeError("my own")
        return "done"

    async with headless([calls("does", "a")], tools=[Does(body=body)]) as h:

        async def judge(payload, call_next):
            h.agent.cancel(USER)
            return Accept(contexts=(notice("judged", "m2"),))

        h.agent.hooks.tools.post_execute.listen(judge)
        await h.ask("go")
        assert codes(h) == [None if fails else "ABORTED"]
        assert errors(h) == [True]
        assert texts(h.agent.inbox.next_step) == ["deferred", "judged"]


async def test_l106_a_judge_that_hears_the_cancel_says_nothing_of_the_result() -> None:
    async with headless([calls("does", "a")], tools=[Does(body=lambda execution: "done")]) as h:

        async def judge(payload, call_next):
            h.agent.cancel(USER)
            payload[0].signal.check()

        h.agent.hooks.tools.post_execute.listen(judge)
        await h.ask("go")
        assert codes(h) == ["ABORTED"]
        assert "done" in answers(h)[0]


async def test_l107_a_body_under_a_wrappers_signal_hears_both_and_the_judges_have_the_callers() -> None:
    async def body(execution):
        with execution.signal.guard():
            await anyio.sleep_forever()

    for who in ("caller", "wrapper"):
        tool, own, judged = Does(body=body), AbortSignal(), []
        async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
            outer = []

            async def wrap(execution, call_next, own=own, outer=outer):
                outer.append(execution.signal)
                execution.signal = own
                outcome = await call_next(execution)
                assert execution.signal is own
                return outcome

            async def judge(payload, call_next, judged=judged):
                judged.append(payload[0].signal)
                return await call_next(payload)

            h.agent.hooks.tools.execute.listen(wrap)
            h.agent.hooks.tools.post_execute.listen(judge)
            h.agent.followup(h.say("go"))
            await until(lambda tool=tool: tool.ran)
            if who == "caller":
                h.agent.cancel(USER)
            else:
                own.abort(Cause(kind="hook", reason="deadline"))
            await h.idle()
            assert codes(h) == ["ABORTED"]
            assert judged == outer
            assert judged[0].aborted is (who == "caller")
            assert ends(h.log) == ["aborted" if who == "caller" else "completed"]


async def test_l107_a_wrapper_changes_the_signal_of_a_call_and_nothing_else() -> None:
    tool, other = Does("a"), Does("b")
    async with headless([calls("a", "x"), say("ok")], tools=[tool, other]) as h:

        async def wrap(execution, call_next):
            execution.arguments["key"] = "changed"
            return await call_next(replace(execution, name="b", arguments={"key": "other"}, tool=other))

        h.agent.hooks.tools.execute.listen(wrap)
        await h.ask("go")
        assert answers(h) == ["a x"]
        assert not other.ran


@pytest.mark.parametrize("raw", [{}, "not json"], ids=["arguments", "no JSON"])
async def test_l108_a_call_that_was_cancelled_before_it_began_is_told_once_and_judged_by_nobody(raw) -> None:
    registry, hooks = ToolRegistry(), ToolHooks()
    tool, told, asked = Does(), [], []
    registry.register(tool)
    pipeline = ToolPipeline(registry, hooks)

    async def listener(payload, call_next):
        asked.append(payload)
        return await call_next(payload)

    for hook in (hooks.pre_execute, hooks.execute, hooks.post_execute):
        hook.listen(listener)
    hooks.result.listen(told.append)
    signal = AbortSignal()
    signal.abort(USER)
    execution = Execution(call_id="c", name="does", arguments=raw, turn=1, step=1, signal=signal)
    outcome = await pipeline.admit(execution)
    assert outcome is not None
    settled = await pipeline.settle(execution, outcome)
    assert (settled.text, settled.error) == (ABORTED_BEFORE_DISPATCH.text, ABORTED_BEFORE_DISPATCH.error)
    assert told == [(execution, settled)]
    assert not asked
    assert not tool.ran


async def test_l105_a_body_that_waits_for_something_that_others_cancel_fails_and_the_session_lives() -> None:
    async def body(execution):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    tool = Does(body=body)
    async with headless([calls("does", "a"), say("ok"), say("fine")], tools=[tool]) as h:
        await h.ask("go")
        assert codes(h) == ["STRAY_CANCEL"]
        await h.ask("again")
        assert ends(h.log) == ["completed", "completed"]
