"""Guards and approvals, L109, L110, L159: who may refuse a call, and who alone may allow it."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.decisions import Allowed, ApprovalAsked, ApprovalDecided, Effect, Refused
from dsh_lsp.errors import UsageError
from dsh_lsp.llm.scripted import say
from dsh_lsp.plugin import Context
from dsh_lsp.plugins import approval
from dsh_lsp.tools.pipeline import Ask, Denied, ToolHooks, ToolPipeline
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Execution
from tests.support.headless import headless
from tests.support.headless_tools import Does, answers, calls, codes, errors, with_plugins
from tests.support.loop import until

RUN = Effect(kind="command", detail="ls", grant_key="command:ls")


def says(answer):
    async def listener(payload, call_next):
        return answer

    return listener


def refuses(reason):
    async def guard(execution):
        return reason

    return guard


def decided(h):
    """The pairs of approval events: what each question was decided as."""
    asked = [event.data.id for event in h.log if isinstance(event.data, ApprovalAsked)]
    outcomes = {e.data.id: e.data.outcome.kind for e in h.log if isinstance(e.data, ApprovalDecided)}
    assert sorted(outcomes) == sorted(asked), "asked and decided are a pair"
    return [outcomes[key] for key in asked]


# -- guards ----------------------------------------------------------------------------------------------------


async def test_l109_guards_are_asked_after_everybody_allowed_and_the_first_reason_counts() -> None:
    tool, asked = Does(), []

    async def lets_pass(execution):
        asked.append(execution.call_id)

    async def judge(execution, call_next):
        asked.append("judge")
        return Denied("denied") if execution.call_id == "b" else await call_next(execution)

    async with headless([calls("does", "a", "b"), say("ok")], tools=[tool]) as h:
        h.agent.hooks.tools.pre_execute.listen(judge)
        for guard in (lets_pass, refuses("first"), refuses("second")):
            h.registry.guard(guard)
        await h.ask("go")
        assert answers(h) == ["Error: first", "Error: denied"]
        assert codes(h) == [None, None]
        assert asked == ["judge", "a", "judge"]
        assert not tool.ran


async def test_l109_a_guard_of_a_layer_is_asked_for_its_agent_alone_and_after_those_around_it() -> None:
    runtime, tool = ToolRegistry(), Does()
    runtime.register(tool)
    mine, other = ToolRegistry(runtime), ToolRegistry(runtime)

    async def outcome(registry):
        signal = AbortSignal()
        execution = Execution(call_id="c", name="does", arguments={}, turn=1, step=1, signal=signal)
        refused = await ToolPipeline(registry, ToolHooks()).admit(execution)
        return refused.text if refused is not None else "runs"

    dispose = mine.guard(refuses("mine"))
    assert [await outcome(one) for one in (mine, other, runtime)] == ["Error: mine", "runs", "runs"]
    undo = runtime.guard(refuses("all"))
    assert [await outcome(one) for one in (mine, other, runtime)] == ["Error: all"] * 3
    undo()
    dispose()
    assert [await outcome(one) for one in (mine, other, runtime)] == ["runs"] * 3


async def test_l109_a_guard_goes_with_its_plugin_and_one_that_fails_refuses() -> None:
    class Guarding:
        name = "guarding"

        @staticmethod
        def apply(ctx: Context, _settings):
            async def broken(execution):
                raise RuntimeError("guard bug")

            ctx.register(ctx.get(ToolRegistry).guard, broken)

    async with with_plugins([calls("does", "a"), say("1"), calls("does", "b"), say("2")], tools=[Does()]) as w:
        dispose = w.context.mount(Guarding())
        await w.h.ask("go")
        dispose()
        await w.h.ask("again")
        assert answers(w.h) == ["Error: guard bug", "does b"]


# -- approvals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [None, "because it writes"])
async def test_l110_without_anybody_to_ask_a_call_is_refused_with_the_reason_or_words_of_ours(reason) -> None:
    registry, hooks, tool = ToolRegistry(), ToolHooks(), Does()
    registry.register(tool)
    hooks.pre_execute.listen(says(Ask((RUN,), reason)))
    execution = Execution(call_id="c", name="does", arguments={}, turn=1, step=1, signal=AbortSignal())
    refused = await ToolPipeline(registry, hooks).admit(execution)
    assert refused is not None
    assert refused.is_error
    default = 'tool "does" needs an approval, and nobody can be asked'
    assert refused.text == f"Error: {reason or default}"


OUTCOMES = {
    "once": (Allowed(kind="allowedOnce"), "ran"),
    "session": (Allowed(kind="allowedSession", grant_keys=("command:ls",)), "ran"),
    "rejected": (Refused(kind="rejected"), 'Error: the user rejected tool "does"'),
    "with words": (Refused(kind="rejected", comment="no"), 'Error: the user rejected tool "does"; they said: no'),
    "cancelled": (Refused(kind="cancelled"), 'Error: the approval for tool "does" was cancelled'),
    "unavailable": (
        Refused(kind="unavailable"),
        'Error: tool "does" needs an approval, and nobody can be asked',
    ),
}


@pytest.mark.parametrize("case", OUTCOMES)
async def test_l110_each_decision_has_its_own_words(case) -> None:
    outcome, text = OUTCOMES[case]
    seen = []
    tool = Does(body=lambda execution: seen.append(execution.approved) or "ran")
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
        h.agent.hooks.tools.pre_execute.listen(says(Ask((RUN,), "it runs something")))
        h.agent.hooks.tools.approval.listen(says(outcome))
        await h.ask("go")
        assert answers(h) == [text]
        assert codes(h) == [None]
        assert seen == ([frozenset({"command:ls"})] if text == "ran" else [])
        assert decided(h) == [outcome.kind]
        asked = h.of("approval/asked")[0].data
        assert (asked.tool_name, asked.call_id, asked.effects) == ("does", "a", (RUN,))
        assert asked.reason == "it runs something"


async def test_l110_a_cancel_while_the_user_is_asked_says_that_the_call_never_began() -> None:
    tool = Does()
    async with headless([calls("does", "a")], tools=[tool]) as h:
        h.agent.hooks.tools.pre_execute.listen(says(Ask((RUN,))))

        async def never(request, call_next):
            await anyio.sleep_forever()

        h.agent.hooks.tools.approval.listen(never)
        h.agent.followup(h.say("go"))
        await until(lambda: h.of("approval/asked"))
        h.agent.cancel(USER)
        await h.idle()
        assert decided(h) == ["cancelled"]
        assert codes(h) == ["ABORTED_BEFORE_DISPATCH"]
        assert not tool.ran


ROGUES = ["yes", True, None, Allowed, Allowed(kind="always"), Refused(kind="allowedOnce")]  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", ROGUES, ids=repr)
async def test_l110_an_answer_that_is_none_is_an_error(answer) -> None:
    tool = Does()
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
        h.agent.hooks.tools.pre_execute.listen(says(Ask((RUN,))))
        h.agent.hooks.tools.approval.listen(says(answer))
        await h.ask("go")
        assert errors(h) == [True]
        assert decided(h) == ["unavailable"]
        assert not tool.ran


async def test_l159_without_an_open_turn_nobody_is_asked_and_nothing_is_logged() -> None:
    async with headless([]) as h:
        execution = Execution(call_id="c", name="does", arguments={}, turn=1, step=1, signal=AbortSignal())
        with pytest.raises(UsageError, match="open turn"):
            await h.agent.approvals.request(execution, [RUN])
        assert not list(h.log)


async def test_l159_what_a_mode_denies_reaches_no_answerer_wherever_it_listens() -> None:
    tool, asked = Does(effects=[RUN]), []

    async def allows(request, call_next):
        asked.append(request)
        return Allowed(kind="allowedOnce")

    async def wants_to_ask(execution, call_next):
        return Ask((RUN,))

    async with with_plugins([calls("does", "a"), say("ok")], approval, mode="read-only", tools=[tool]) as w:
        w.h.agent.hooks.tools.approval.listen(allows, prepend=True)
        w.h.agent.hooks.tools.pre_execute.listen(wants_to_ask)
        await w.h.ask("go")
        assert not asked
        assert not tool.ran
        assert decided(w.h) == []
        assert answers(w.h) == ["Error: in read-only mode the agent may not do this: command ls"]


@pytest.mark.parametrize("late", ["answers", "raises"])
async def test_l159_what_comes_after_the_cancel_decides_nothing(late) -> None:
    tool = Does()
    async with headless([calls("does", "a")], tools=[tool]) as h:
        h.agent.hooks.tools.pre_execute.listen(says(Ask((RUN,))))

        async def answer(request, call_next):
            h.agent.cancel(USER)
            if late == "raises":
                raise RuntimeError("too late")
            return Allowed(kind="allowedSession", grant_keys=("command:ls",))

        h.agent.hooks.tools.approval.listen(answer)
        await h.ask("go")
        assert decided(h) == ["cancelled"]
        assert h.agent.approvals.granted() == frozenset()
        assert not tool.ran


async def test_l159_a_cancel_before_the_question_asks_nobody_and_is_a_pair_all_the_same() -> None:
    asked = []
    async with headless([calls("does", "a")], tools=[Does()]) as h:

        async def judge(execution, call_next):
            h.agent.cancel(USER)
            return Ask((RUN,))

        async def answer(request, call_next):
            asked.append(request)

        h.agent.hooks.tools.pre_execute.listen(judge)
        h.agent.hooks.tools.approval.listen(answer)
        await h.ask("go")
        assert decided(h) == ["cancelled"]
        assert not asked


@pytest.mark.parametrize("who", ["nobody", "passes on", "raises"])
async def test_l159_nobody_and_one_that_fails_are_no_permission(who) -> None:
    tool = Does()
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
        h.agent.hooks.tools.pre_execute.listen(says(Ask((RUN,))))

        async def answer(request, call_next):
            if who == "raises":
                raise RuntimeError("screen bug")
            return await call_next(request)

        if who != "nobody":
            h.agent.hooks.tools.approval.listen(answer)
        await h.ask("go")
        assert decided(h) == ["unavailable"]
        assert errors(h) == [True]
        assert not tool.ran
