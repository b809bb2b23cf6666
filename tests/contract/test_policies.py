"""Policies: who may run a call, and for how long: the plugins `approval` and `timeout`."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.abort import USER, AbortSignal, Cause
from dsh_lsp.decisions import (
    Allowed,
    ApprovalAsked,
    ApprovalDecided,
    Effect,
    EffectKind,
    Mode,
    Refused,
)
from dsh_lsp.errors import ToolError
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugins import approval, timeout
from dsh_lsp.plugins.approval import TABLE, decide, joined
from dsh_lsp.tools.pipeline import Allow, Ask, Denied
from tests.support.headless_tools import Does, answers, calls, codes, errors, with_plugins
from tests.support.loop import ends, notice, texts, until

MODES = get_args(Mode)
KINDS = get_args(EffectKind)


def effect(kind, detail="x") -> Effect:
    return Effect(kind=kind, detail=detail, grant_key=f"{kind}:{detail}")


def says(answer):
    async def listener(payload, call_next):
        return answer

    return listener


def pairs(h) -> list[str]:
    """How each question was decided; every one has exactly one decision, after it."""
    asked = {e.data.id: e.seq for e in h.log if isinstance(e.data, ApprovalAsked)}
    decisions = [e for e in h.log if isinstance(e.data, ApprovalDecided)]
    assert [e.data.id for e in decisions] == list(asked)
    assert all(e.seq > asked[e.data.id] for e in decisions)
    return [e.data.outcome.kind for e in decisions]


# -- approval: the table ---------------------------------------------------------------------------------------

EXPECTED = {
    #             read     edit     outside  rights   command  network
    "read-only": ("allow", "deny", "ask", "deny", "deny", "deny"),
    "plan": ("allow", "deny", "ask", "deny", "deny", "deny"),
    "ask": ("allow", "allow", "ask", "ask", "ask", "ask"),
    "auto-edit": ("allow", "allow", "ask", "ask", "ask", "ask"),
}
ORDER = ("read", "edit", "outside", "rights", "command", "network")


def test_the_table_says_one_thing_for_every_mode_and_effect() -> None:
    assert {mode: tuple(rules[kind] for kind in ORDER) for mode, rules in TABLE.items()} == EXPECTED
    assert set(MODES) == set(EXPECTED)
    assert set(KINDS) == set(ORDER)


effects = st.lists(st.builds(effect, st.sampled_from(KINDS), st.sampled_from("ab")), max_size=4)
keys = st.builds(lambda kind, detail: f"{kind}:{detail}", st.sampled_from(KINDS), st.sampled_from("ab"))
grants = st.frozensets(keys)


@given(st.sampled_from(MODES), effects, grants)
def test_a_verdict_follows_from_the_table_and_the_keys_that_were_granted(mode, wanted, granted) -> None:
    verdict = decide(mode, wanted, granted)
    rules = {one: TABLE[mode][one.kind] for one in wanted}
    if "deny" in rules.values():
        assert isinstance(verdict, Denied)
        return
    guarded = [one for one in wanted if rules[one] == "ask"]
    uncovered = [one for one in guarded if one.grant_key not in granted]
    assert isinstance(verdict, Ask if uncovered else Allow)
    if isinstance(verdict, Ask):
        assert list(verdict.effects) == uncovered
    assert not isinstance(verdict, Denied)
    covered = {one.grant_key for one in guarded if one not in uncovered}
    assert verdict.approved == covered, "what was granted counts, also beside what is still asked"


@given(st.sampled_from(["read-only", "plan"]), effects, grants)
def test_modes_that_only_read_ask_for_nothing_but_reading_outside(mode, wanted, granted) -> None:
    verdict = decide(mode, wanted, granted)
    if isinstance(verdict, Ask):
        assert {one.kind for one in verdict.effects} == {"outside"}
        assert {one.kind for one in wanted} <= {"read", "outside"}


verdicts = st.one_of(
    st.builds(Allow, grants),
    st.builds(Ask, effects.map(tuple), st.none() | st.just("why"), grants),
)


@given(verdicts, verdicts | st.builds(Denied, st.just("no")))
def test_two_verdicts_together_allow_no_more_than_each_of_them(mine, others) -> None:
    both = joined(mine, others)
    if isinstance(others, Denied):
        assert both == others
        return
    asked = {one for one in (mine, others) if isinstance(one, Ask)}
    assert isinstance(both, Ask if asked else Allow)
    if isinstance(both, Ask):
        assert set(both.effects) == {single for one in asked for single in one.effects}
    assert not isinstance(both, Denied)
    assert both.approved == mine.approved | others.approved


ANSWERS = [
    Allowed(kind="allowedOnce"),
    Allowed(kind="allowedSession", grant_keys=("command:x",)),
    Refused(kind="rejected"),
    Refused(kind="cancelled"),
    Refused(kind="unavailable"),
    "yes",
    None,
    RuntimeError("screen bug"),
    "nobody listens",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_but_an_answer_allows_what_has_to_be_asked_for(mode, kind) -> None:
    for answer in ANSWERS:
        tool, asked = Does(effects=[effect(kind)]), []
        async with with_plugins([calls("does", "a"), say("ok")], approval, mode=mode, tools=[tool]) as w:

            async def listen(request, call_next, answer=answer, asked=asked):
                asked.append(request)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            if answer != "nobody listens":
                w.h.agent.hooks.tools.approval.listen(listen)
            await w.h.ask("go")
            rule = TABLE[mode][kind]
            allowed = rule == "allow" or (rule == "ask" and isinstance(answer, Allowed))
            assert bool(tool.ran) is allowed
            assert errors(w.h) == [not allowed]
            assert bool(asked) is (rule == "ask" and answer != "nobody listens")
            assert len(pairs(w.h)) == (1 if rule == "ask" else 0)


async def test_a_call_without_effects_asks_nobody_and_a_call_that_cannot_be_judged_is_not_run() -> None:
    quiet, broken = Does("quiet"), Does("broken")

    def no_effects(args):
        raise RuntimeError("effects bug")

    broken.effects = no_effects  # type: ignore[method-assign]
    script = [calls("quiet", "a") + call("broken", id="b") + call("broken", id="c", key=1) + call("nope"), say("ok")]
    async with with_plugins(script, approval, mode="read-only", tools=[quiet, broken]) as w:
        await w.h.ask("go")
        assert quiet.ran == ["a"]
        assert not broken.ran
        assert errors(w.h) == [False, True, True, True]
        assert codes(w.h)[2:] == ["INVALID_ARGS", "UNKNOWN_TOOL"]


# -- approval: grants ------------------------------------------------------------------------------------------


async def test_a_grant_of_the_session_covers_its_keys_and_no_other() -> None:
    a, b = effect("command", "a"), effect("command", "b")
    tools = [Does("one", effects=[a]), Does("two", effects=[b]), Does("both", effects=[a, b])]
    script = [call("one", id=f"{n}") + call("two", id=f"{n}2") + call("both", id=f"{n}3") for n in range(2)]
    async with with_plugins([*script, say("ok")], approval, tools=tools) as w:
        asked = []

        async def answer(request, call_next):
            asked.append(request.asked)
            if request.asked.tool_name == "one":
                return Allowed(kind="allowedSession", grant_keys=("command:a",))
            return Allowed(kind="allowedOnce", grant_keys=("command:b",))  # once is once, whatever it names

        w.h.agent.hooks.tools.approval.listen(answer)
        await w.h.ask("go")
        assert [(one.tool_name, one.effects) for one in asked] == [
            ("one", (a,)),
            ("two", (b,)),
            ("both", (b,)),
            ("two", (b,)),
            ("both", (b,)),
        ]
        assert w.h.agent.approvals.granted() == {"command:a"}
        events = list(w.h.log)
    async with with_plugins([script[0], say("ok")], approval, tools=tools, events=events) as w:
        assert w.h.agent.approvals.granted() == {"command:a"}, "a grant lives as long as its session"


async def test_what_was_granted_counts_beside_what_is_asked_now() -> None:
    seen = []
    outside, rights = effect("outside"), effect("rights")

    def body(execution):
        seen.append(execution.approved)
        return "ok"

    tools = [Does("out", body, effects=[outside]), Does("both", body, effects=[outside, rights])]
    async with with_plugins([call("out") + call("both"), say("ok")], approval, tools=tools) as w:
        w.h.agent.hooks.tools.approval.listen(says(Allowed(kind="allowedSession", grant_keys=("outside:x",))))
        await w.h.ask("go")
        assert seen == [frozenset({"outside:x"}), frozenset({"outside:x", "rights:x"})]


@pytest.mark.parametrize("others", [Denied("not that"), Ask((effect("network"),), "why")], ids=["denies", "asks"])
async def test_a_later_listener_is_heard_although_the_mode_asks(others) -> None:
    tool, asked = Does(effects=[effect("command")]), []
    async with with_plugins([calls("does", "a"), say("ok")], approval, tools=[tool]) as w:

        async def answer(request, call_next):
            asked.append(request.asked)
            return Allowed(kind="allowedOnce")

        w.h.agent.hooks.tools.pre_execute.listen(says(others))
        w.h.agent.hooks.tools.approval.listen(answer)
        await w.h.ask("go")
        if isinstance(others, Denied):
            assert not asked
            assert answers(w.h) == ["Error: not that"]
        else:
            assert [one.effects for one in asked] == [(effect("command"), effect("network"))]
            assert asked[0].reason == "why"


async def test_a_switch_of_the_mode_counts_from_the_next_call_on() -> None:
    tool = Does(effects=[effect("edit")], mode="exclusive")
    async with with_plugins([calls("does", "a", "b"), say("ok")], approval, tools=[tool]) as w:
        w.h.agent.hooks.tools.result.listen(lambda payload: w.modes.set("read-only"))
        await w.h.ask("go")
        assert tool.ran == ["a"]
        assert answers(w.h)[1] == "Error: in read-only mode the agent may not do this: edit x"


@pytest.mark.parametrize("how", ["cancelled", "forced", "torn"])
async def test_a_question_and_its_decision_are_a_pair_however_the_wait_ends(how) -> None:
    tool, heard = Does(effects=[effect("command")]), anyio.Event()
    async with with_plugins([calls("does", "a")], approval, tools=[tool]) as w:

        async def deaf(request, call_next):
            with anyio.CancelScope(shield=how == "forced"):
                await heard.wait()
            return Allowed(kind="allowedOnce")

        w.h.agent.hooks.tools.approval.listen(deaf)
        if how == "torn":  # somebody around the question tears it, without any cancel of the turn

            async def impatient(execution, call_next):
                with anyio.CancelScope() as scope:
                    w.h.log.appended.listen(lambda e: scope.cancel() if isinstance(e.data, ApprovalAsked) else None)
                    return await w.h.agent.approvals.request(execution, [effect("network")])
                return Denied("too slow")

            w.h.agent.hooks.tools.pre_execute.listen(impatient, prepend=True)
        w.h.agent.followup(w.h.say("go"))
        await until(lambda: w.h.of("approval/asked"))
        if how != "torn":
            w.h.agent.cancel(USER)
        if how == "forced":
            w.h.agent.cancel(USER)
            heard.set()
        await w.h.idle()
        assert pairs(w.h) == ["cancelled"]
        assert not tool.ran
        assert len(answers(w.h)) == 1


async def test_in_plan_mode_the_prompt_says_so_and_only_then() -> None:
    async with with_plugins([say("1"), say("2"), say("3")], approval) as w:
        for mode in ("ask", "plan", "auto-edit"):
            w.modes.set(mode)
            await w.h.ask("go")
        told = ["plan mode" in request.system for request in w.h.model.requests]
        assert told == [False, True, False]
        assert w.h.model.requests[1].system.startswith("You are a test."), "after what others say"
        headers = [event.data.reason for event in w.h.of("request/header")]
        assert headers == ["initial", "change", "change"]


# -- timeout ---------------------------------------------------------------------------------------------------


async def stops(execution):
    execution.defer_context(notice("half", f"m-{execution.call_id}"))
    with execution.signal.guard():
        await anyio.sleep_forever()


async def test_a_body_that_runs_into_its_limit_is_asked_to_stop_and_its_contexts_are_kept() -> None:
    tool = Does(body=stops, timeout_s=0.01)
    async with with_plugins([calls("does", "a"), say("ok")], timeout, tools=[tool]) as w:
        await w.h.ask("go")
        assert codes(w.h) == ["TOOL_TIMEOUT"]
        assert texts(w.h.model.requests[1].messages)[-1] == "half"
        assert ends(w.h.log) == ["completed"]


async def test_a_body_that_succeeds_too_late_has_timed_out_and_one_in_time_has_not() -> None:
    async def late(execution):
        fired = anyio.Event()
        execution.signal.listen(fired.set)
        await fired.wait()
        return "late"

    tools = [Does("late", late, timeout_s=0.01), Does("prompt", lambda e: "prompt", timeout_s=60)]
    async with with_plugins([call("late") + call("prompt"), say("ok")], timeout, tools=tools) as w:
        await w.h.ask("go")
        assert codes(w.h) == ["TOOL_TIMEOUT", None]
        assert answers(w.h)[1] == "prompt"


async def test_a_limit_that_passes_after_the_cancel_is_not_the_reason() -> None:
    async def deaf(execution):
        await anyio.sleep(0.03)  # longer than its limit
        return "done"

    tool = Does(body=deaf, timeout_s=0.01)
    async with with_plugins([calls("does", "a")], timeout, tools=[tool]) as w:
        w.h.agent.followup(w.h.say("go"))
        await until(lambda: tool.ran)
        w.h.agent.cancel(USER)
        await w.h.idle()
        assert codes(w.h) == ["ABORTED"]


async def test_contexts_of_a_wrapper_inside_the_limit_are_kept_too() -> None:
    tool = Does(body=stops, timeout_s=0.01)
    async with with_plugins([calls("does", "a"), say("ok")], timeout, tools=[tool]) as w:

        async def wrap(execution, call_next):
            outcome = await call_next(execution)
            return replace(outcome, contexts=(*outcome.contexts, notice("wrapped", "m9")))

        w.h.agent.hooks.tools.execute.listen(wrap)
        await w.h.ask("go")
        assert codes(w.h) == ["TOOL_TIMEOUT"]
        assert texts(w.h.model.requests[1].messages)[-2:] == ["half", "wrapped"]


async def test_a_limit_keeps_the_name_and_code_of_what_is_raised_inside_it() -> None:
    tool = Does(timeout_s=60)
    async with with_plugins([calls("does", "a"), say("ok")], timeout, tools=[tool]) as w:

        async def broken(execution, call_next):
            raise ToolError("wrapper bug", code="BUG")

        w.h.agent.hooks.tools.execute.listen(broken)
        await w.h.ask("go")
        assert answers(w.h) == ["Error: wrapper bug"]
        assert codes(w.h) == ["BUG"]


async def test_a_body_with_a_limit_still_hears_a_wrapper_around_it() -> None:
    own = AbortSignal()
    tool = Does(body=stops, timeout_s=60)
    async with with_plugins([calls("does", "a"), say("ok")], timeout, tools=[tool]) as w:

        async def wrap(execution, call_next):
            execution.signal = own
            return await call_next(execution)

        w.h.agent.hooks.tools.execute.listen(wrap, prepend=True)
        w.h.agent.followup(w.h.say("go"))
        await until(lambda: tool.ran)
        own.abort(Cause(kind="hook"))
        await w.h.idle()
        assert codes(w.h) == ["ABORTED"]
        assert ends(w.h.log) == ["completed"]
