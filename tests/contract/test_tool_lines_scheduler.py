"""Scheduling, L075 to L083, L090 to L092, L095: which calls of a step overlap, and how they are answered."""

from __future__ import annotations

import pytest

from dsh_lsp.abort import USER
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import read_settings
from dsh_lsp.tools.pipeline import Denied
from tests.support.headless import headless
from tests.support.headless_tools import (
    Does,
    Gated,
    answered,
    answers,
    calls,
    codes,
    errors,
    tool_events,
)
from tests.support.loop import Refuse, ends, notice, settled, texts, until


async def test_l075_two_calls_that_may_overlap_both_run_before_either_ends() -> None:
    tool = Gated()
    async with headless([calls("gated", "a", "b"), say("ok")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await until(lambda: tool.running == ["a", "b"])
        assert not h.of("tool/result")
        for key in "ab":
            tool.gate(key).set()
        await h.idle()
        assert answers(h) == ["a", "b"]


async def test_l076_nothing_overlaps_an_exclusive_call_between_others() -> None:
    shared, alone = Gated("shared"), Gated("alone", mode="exclusive")
    script = [calls("shared", "a") + calls("alone", "x") + calls("shared", "b"), say("ok")]
    async with headless(script, tools=[shared, alone]) as h:
        h.agent.followup(h.say("go"))
        for tool, other, key in ((shared, alone, "a"), (alone, shared, "x"), (shared, alone, "b")):
            await until(lambda tool=tool, key=key: tool.running == [key])
            await settled()
            assert not other.running
            tool.gate(key).set()
        await h.idle()
        assert tool_events(h) == ["call a", "result a", "call x", "result x", "call b", "result b"]


async def test_l077_a_tool_replaced_by_the_call_before_runs_by_its_new_definition() -> None:
    old = Does("later", lambda execution: "old")
    new = Gated("later", mode="exclusive")
    async with headless([calls("swap", "s") + calls("later", "a", "b"), say("ok")]) as h:
        dispose = h.registry.register(old)

        def swap(_execution):
            dispose()
            h.registry.register(new)
            return "swapped"

        h.registry.register(Does("swap", swap, mode="exclusive"))
        h.agent.followup(h.say("go"))
        await until(lambda: new.running == ["a"])
        await settled()
        assert new.running == ["a"], "the new one is exclusive"
        for key in "ab":
            new.gate(key).set()
        await h.idle()
        assert not old.ran
        assert answers(h) == ["swapped", "a", "b"]


async def test_l077_a_tool_replaced_after_its_call_was_judged_runs_as_it_was_judged() -> None:
    judged, other = Does("tool", lambda execution: "judged"), Does("tool", lambda execution: "other")
    async with headless([calls("tool", "a"), say("ok")]) as h:
        dispose = h.registry.register(judged)

        async def swap(execution):
            dispose()
            h.registry.register(other)

        h.registry.guard(swap)
        await h.ask("go")
        assert answers(h) == ["judged"]


async def test_l078_a_call_that_became_exclusive_in_the_middle_waits_for_the_pool() -> None:
    mode = {"now": "parallel"}
    tool = Gated(classify=lambda args: mode["now"])
    async with headless([calls("gated", "a", "b", "c"), say("ok")], tools=[tool], max_parallel_tool_calls=2) as h:
        h.agent.hooks.tools.result.listen(lambda payload: mode.update(now="exclusive"))
        h.agent.followup(h.say("go"))
        await until(lambda: tool.running == ["a", "b"])
        tool.gate("a").set()
        await until(lambda: answered(h) == ["a"])
        await settled()
        assert tool.running == ["b"]
        assert "call c" not in tool_events(h)
        tool.gate("b").set()
        tool.gate("c").set()
        await h.idle()
        assert tool_events(h)[-4:] == ["result a", "result b", "call c", "result c"]


async def test_l079_a_call_that_ends_first_is_answered_in_its_turn() -> None:
    tool = Gated()
    async with headless([calls("gated", "a", "b"), say("ok")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await until(lambda: tool.running == ["a", "b"])
        tool.gate("b").set()
        await until(lambda: tool.running == ["a"])
        await settled()
        assert not answered(h)
        tool.gate("a").set()
        await h.idle()
        assert answered(h) == ["a", "b"]


@pytest.mark.parametrize("cap", [1, 2])
async def test_l080_no_more_bodies_than_the_cap_run_and_it_is_filled_again(cap) -> None:
    tool = Gated()
    async with headless([calls("gated", *"abcd"), say("ok")], tools=[tool], max_parallel_tool_calls=cap) as h:
        h.agent.followup(h.say("go"))
        for index, key in enumerate("abcd"):
            await until(lambda index=index: len(tool.ran) == min(4, index + cap))
            tool.gate(key).set()
        await h.idle()
        assert tool.most == cap
        assert answered(h) == list("abcd")
        if cap == 2:
            assert tool_events(h)[:5] == ["call a", "call b", "result a", "call c", "result b"]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True])
def test_l080_a_cap_that_is_no_positive_whole_number_is_a_problem_of_the_settings(wrong) -> None:
    settings, problems = read_settings(Settings, {"maxParallelToolCalls": wrong})
    assert [problem.path for problem in problems] == ["maxParallelToolCalls"]
    assert settings.max_parallel_tool_calls == Settings().max_parallel_tool_calls == 10


async def test_l081_policies_see_the_calls_of_a_group_in_the_models_order() -> None:
    tool, seen = Gated(), []
    async with headless([calls("gated", *"abc"), say("ok")], tools=[tool]) as h:

        async def before(execution, call_next):
            seen.append(f"before {execution.call_id}")
            return await call_next(execution)

        async def after(payload, call_next):
            seen.append(f"after {payload[0].call_id}")
            return await call_next(payload)

        h.agent.hooks.tools.pre_execute.listen(before)
        h.agent.hooks.tools.post_execute.listen(after)
        h.agent.followup(h.say("go"))
        await until(lambda: len(tool.running) == 3)
        for key in "cba":
            tool.gate(key).set()
        await h.idle()
        assert seen == [f"{when} {key}" for when in ("before", "after") for key in "abc"]


async def test_l082_contexts_of_several_calls_come_after_all_results_in_the_models_order() -> None:
    def body(execution):
        for number in (1, 2):
            execution.defer_context(notice(f"{execution.call_id}{number}", f"m{execution.call_id}{number}"))
        return execution.call_id

    async with headless([calls("does", *"ab"), say("ok")], tools=[Does(body=body)]) as h:
        await h.ask("go")
        assert texts(h.model.requests[1].messages)[-6:] == ["a", "b", "a1", "a2", "b1", "b2"]
        order = [event.type for event in h.of("tool/result", "user/message", "step/end")]
        assert order[:5] == ["user/message", "tool/result", "tool/result", "step/end", "user/message"]


async def test_l083_refused_calls_among_others_are_answered_in_order_and_not_run() -> None:
    tool = Does()

    async def judge(execution, call_next):
        if execution.call_id == "denied":
            return Denied("no")
        if execution.call_id == "broken":
            raise RuntimeError("policy bug")
        return await call_next(execution)

    async with headless([calls("does", "a", "denied", "broken", "b"), say("ok")], tools=[tool]) as h:
        h.agent.hooks.tools.pre_execute.listen(judge)
        await h.ask("go")
        assert tool.ran == ["a", "b"]
        assert answers(h) == ["does a", "Error: no", "Error: policy bug", "does b"]
        assert errors(h) == [False, True, True, False]


async def test_l083_a_refused_call_is_answered_before_the_next_one_is_judged() -> None:
    async def judge(execution, call_next):
        return Denied("no") if execution.call_id == "a" else await call_next(execution)

    async with headless([calls("does", "a", "b"), say("ok")], tools=[Does()]) as h:
        h.agent.hooks.tools.pre_execute.listen(judge)
        await h.ask("go")
        assert tool_events(h) == ["call a", "result a", "call b", "result b"]


async def test_l090_a_cancel_keeps_what_runs_and_answers_the_rest_in_order() -> None:
    gates = Gated()

    async def body(execution):
        execution.defer_context(notice(f"about {execution.call_id}", f"m-{execution.call_id}"))
        await gates.gate(execution.call_id).wait()
        return "done"

    tool = Does(body=body)
    script = [calls("does", *"abcd"), say("ok")]
    async with headless(script, tools=[tool], max_parallel_tool_calls=2) as h:
        told: list[str] = []
        h.agent.hooks.tools.result.listen(lambda payload: told.append(payload[0].call_id))
        h.agent.followup(h.say("go"))
        await until(lambda: tool.ran == ["a", "b"])
        h.agent.cancel(USER)
        for key in "ba":
            gates.gate(key).set()
        await h.idle()
        assert tool.ran == told == ["a", "b"], "what never began is told to nobody"
        assert answered(h) == list("abcd")
        assert codes(h) == ["ABORTED", "ABORTED", "ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]
        assert ends(h.log) == ["aborted"]
        assert texts(h.agent.inbox.next_step) == ["about a", "about b"]
        await h.ask("again")
        assert texts(h.model.requests[1].messages)[-3:] == ["about a", "about b", "again"]


async def test_l091_a_cancel_in_a_group_leaves_a_later_exclusive_call_unrun() -> None:
    shared, alone = Gated("shared"), Does("alone", mode="exclusive")
    async with headless([calls("shared", "a") + calls("alone", "x")], tools=[shared, alone]) as h:
        told: list[str] = []
        h.agent.hooks.tools.result.listen(lambda payload: told.append(payload[0].call_id))
        h.agent.followup(h.say("go"))
        await until(lambda: shared.running == ["a"])
        h.agent.cancel(USER)
        shared.gate("a").set()
        await h.idle()
        assert not alone.ran
        assert told == ["a"]
        assert codes(h) == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]
        assert tool_events(h) == ["call a", "result a", "call x", "result x"]


@pytest.mark.parametrize("refused", ["tool/call", "tool/result"])
async def test_l092_a_failure_of_the_scheduler_waits_for_its_bodies_and_every_call_is_answered(refused) -> None:
    tool = Gated()
    refuse = Refuse(refused, times=0)
    script = [calls("gated", "a") + call("does", id="b") + calls("gated", "c"), say("ok")]
    async with headless(script, tools=[tool, Does()], checks=[refuse], max_parallel_tool_calls=2) as h:

        def arm(event):
            if event.type == "tool/call" and event.data.call_id == "a":
                refuse.times = 1

        h.log.appended.listen(arm)
        h.agent.followup(h.say("go"))
        await until(lambda: tool.running == ["a"])
        await settled()
        assert h.agent.status == "running", "the body that runs is waited for"
        tool.gate("a").set()
        tool.gate("c").set()
        await h.idle()
        end = h.of("turn/end")[0].data.reason
        assert end.error.message == f"no {refused} now"
        assert answered(h) == ["a", "b", "c"]
        started = {event.data.call_id for event in h.of("tool/call")}
        expected = ["TOOL_OUTCOME_UNKNOWN" if key in started else "TOOL_NOT_STARTED" for key in "abc"]
        assert codes(h) == expected
        assert ends(h.log) == ["error"]
        assert h.types[-2:] == ["step/end", "turn/end"]


async def test_l092_one_result_that_the_log_refuses_keeps_no_other_from_coming() -> None:
    refused = []

    def never_b(event):
        if event.type == "tool/result" and event.data.message.content[0].tool_call_id == "b":
            refused.append(event)
            raise RuntimeError(f"not b, time {len(refused)}")

    async with headless([calls("does", *"abc"), say("ok")], tools=[Does(mode="exclusive")], checks=[never_b]) as h:
        await h.ask("go")
        assert answered(h) == ["a", "c"]
        assert h.of("turn/end")[0].data.reason.error.message == "not b, time 1", "the first failure counts"
        assert ends(h.log) == ["error"]


def broken(args):
    raise RuntimeError("classifier bug")


@pytest.mark.parametrize(
    "classify",
    [None, lambda args: "exclusive", broken, lambda args: True, lambda args: "PARALLEL", lambda args: None],
    ids=["missing", "exclusive", "raises", "truthy", "case", "nothing"],
)
async def test_l095_only_a_clear_answer_lets_a_call_overlap_and_the_model_sees_none_of_it(classify) -> None:
    parts = {"mode": "exclusive"} if classify is None else {"classify": classify}
    tool = Gated(**parts)
    async with headless([calls("gated", "a", "b"), say("ok")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        for key in "ab":
            await until(lambda key=key: tool.running == [key])
            await settled()
            tool.gate(key).set()
        await h.idle()
        assert tool.most == 1
        assert "mode" not in str(h.model.requests[0].tools)


async def test_l095_a_call_that_cannot_be_classified_runs_alone() -> None:
    tool = Gated()
    script = [calls("gated", "a") + call("gated", id="bad", key=1) + call("nope", id="unknown"), say("ok")]
    async with headless(script, tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await until(lambda: tool.running == ["a"])
        await settled()
        assert tool_events(h) == ["call a"]
        tool.gate("a").set()
        await h.idle()
        assert codes(h) == [None, "INVALID_ARGS", "UNKNOWN_TOOL"]
