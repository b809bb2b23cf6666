"""Hooks of a call, L097 to L103, L111, L112: what listeners see of a result, and what becomes of their answers."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError, replace

import pytest

from dsh_lsp.errors import ToolError
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.pipeline import Accept, Block, Denied
from dsh_lsp.tools.tool import ToolOutput
from tests.support.headless import Add, headless
from tests.support.headless_tools import Does, answers, calls, codes, errors
from tests.support.loop import ends, notice, texts


def contexts(h):
    """The contexts that the second request has, after the result."""
    return texts(h.model.requests[1].messages)[3:]


def breaks(error):
    async def listener(payload, call_next):
        raise error

    return listener


def says(answer):
    async def listener(payload, call_next):
        return answer

    return listener


async def test_l097_a_body_that_raises_is_a_result_for_its_wrappers_and_its_judges() -> None:
    def body(execution):
        raise ToolError("gone", code="NOT_FOUND")

    seen = []
    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body)]) as h:

        async def wrap(execution, call_next):
            seen.append(await call_next(execution))
            return seen[0]

        async def judge(payload, call_next):
            seen.append(payload[1])
            return await call_next(payload)

        h.agent.hooks.tools.execute.listen(wrap)
        h.agent.hooks.tools.post_execute.listen(judge)
        await h.ask("go")
        assert [(o.text, o.is_error, o.error.code) for o in seen] == [("Error: gone", True, "NOT_FOUND")] * 2


@pytest.mark.parametrize("fails", [False, True])
async def test_l097_a_body_that_says_it_failed_concludes_nothing(fails) -> None:
    def body(execution):
        execution.conclude_turn()
        return ToolOutput(text="done", is_error=fails)

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body)]) as h:
        await h.ask("go")
        assert len(h.model.requests) == (2 if fails else 1)


@pytest.mark.parametrize("point", ["pre_execute", "execute", "post_execute"])
async def test_l098_a_listener_that_raises_is_an_error_and_only_a_judges_own_passes_the_judges(point) -> None:
    judged = []
    async with headless([calls("does", "a"), say("ok")], tools=[Does()]) as h:

        async def judge(payload, call_next):
            judged.append(payload)
            return await call_next(payload)

        h.agent.hooks.tools.post_execute.listen(judge)
        getattr(h.agent.hooks.tools, point).listen(breaks(ToolError("policy bug", code="BUG")))
        await h.ask("go")
        assert answers(h) == ["Error: policy bug"]
        assert codes(h) == ["BUG"]
        assert len(judged) == (1 if point == "post_execute" else 0)
        assert ends(h.log) == ["completed"]


@pytest.mark.parametrize("point", ["pre_execute", "execute", "post_execute", "guard"])
async def test_l098_a_listener_whose_future_others_cancel_fails_its_call_and_nothing_else(point) -> None:
    async def stray(*_):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    async with headless([calls("does", "a"), say("ok"), say("fine")], tools=[Does()]) as h:
        dispose = h.registry.guard(stray) if point == "guard" else getattr(h.agent.hooks.tools, point).listen(stray)
        await h.ask("go")
        assert errors(h) == [True]
        assert "was cancelled" in answers(h)[0]
        dispose()
        await h.ask("again")
        assert ends(h.log) == ["completed", "completed"]


async def test_l098_a_wrapper_that_raises_after_the_body_keeps_the_contexts_of_the_body() -> None:
    def body(execution):
        execution.defer_context(notice("deferred", "m1"))
        return "done"

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body)]) as h:

        async def wrap(execution, call_next):
            await call_next(execution)
            raise RuntimeError("wrapper bug")

        h.agent.hooks.tools.execute.listen(wrap)
        await h.ask("go")
        assert answers(h) == ["Error: wrapper bug"]
        assert contexts(h) == ["deferred"]


async def test_l099_a_wrapper_may_answer_for_the_body_which_then_does_not_run() -> None:
    tool, cached = Does(), Outcome(text="cached", meta={"hit": True}, contexts=(notice("from cache", "m1"),))
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
        h.agent.hooks.tools.execute.listen(says(cached))
        await h.ask("go")
        assert not tool.ran
        assert answers(h) == ["cached"]
        assert contexts(h) == ["from cache"]
        assert h.of("tool/result")[0].data.meta == {"hit": True}
        assert h.of("tool/result")[0].data.meta is not cached.meta


async def test_l099_a_result_of_another_call_is_looked_at_like_any_other() -> None:
    kept: list[Outcome] = []
    async with headless([calls("does", "a", "b"), say("ok")], tools=[Does(mode="exclusive")]) as h:

        async def wrap(execution, call_next):
            if not kept:
                kept.append(await call_next(execution))
                return kept[0]
            return replace(kept[0], meta={"bad": object()})

        h.agent.hooks.tools.execute.listen(wrap)
        await h.ask("go")
        assert answers(h)[0] == "does a"
        assert codes(h) == [None, "INVALID_TOOL_OUTPUT"]


async def test_l099_a_wrapper_cannot_end_the_turn_by_an_outcome() -> None:
    async with headless([calls("does", "a"), say("ok")], tools=[Does()]) as h:
        h.agent.hooks.tools.execute.listen(says(Outcome(text="x", concludes_turn=True)))
        await h.ask("go")
        assert len(h.model.requests) == 2


@pytest.mark.parametrize(
    ("verdict", "fails"),
    [
        (Accept(text="a", output=ToolOutput(text="b")), False),
        (Accept(output=ToolOutput(text="b")), True),
        (Accept(text="a", output=ToolOutput(text="b")), True),
    ],
    ids=["both", "an output for a failure", "both for a failure"],
)
async def test_l100_text_and_output_at_once_or_an_output_for_a_failure_are_an_error(verdict, fails) -> None:
    tool = Does(body=lambda execution: ToolOutput(text="own", is_error=fails))
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
        h.agent.hooks.tools.post_execute.listen(says(verdict))
        await h.ask("go")
        assert codes(h) == ["INVALID_TOOL_OUTPUT"]
        assert errors(h) == [True]


async def test_l100_the_text_of_a_failure_may_change_and_it_stays_a_failure_with_its_code() -> None:
    async with headless([call("nope"), say("ok")], tools=[Add()]) as h:
        h.agent.hooks.tools.post_execute.listen(says(Accept(text="look at the list of tools")))
        await h.ask("go")
        assert answers(h) == ["look at the list of tools"]
        assert (errors(h), codes(h)) == ([True], ["UNKNOWN_TOOL"])


async def test_l100_another_output_brings_its_own_meta() -> None:
    tool = Does(body=lambda execution: ToolOutput(text="own", meta={"own": 1}))
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
        h.agent.hooks.tools.post_execute.listen(says(Accept(output=ToolOutput(text="b", meta={"b": 2}))))
        await h.ask("go")
        assert answers(h) == ["b"]
        assert h.of("tool/result")[0].data.meta == {"b": 2}


async def test_l101_a_block_is_an_error_with_its_words_and_only_its_own_contexts() -> None:
    def body(execution):
        execution.defer_context(notice("of the tool", "m1"))
        execution.conclude_turn()
        return ToolOutput(text="secret", meta={"secret": 1})

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body)]) as h:

        async def wrap(execution, call_next):
            return replace(await call_next(execution), contexts=(notice("of the wrapper", "m2"),))

        h.agent.hooks.tools.execute.listen(wrap)
        h.agent.hooks.tools.post_execute.listen(says(Block("not for you", (notice("of the block", "m3"),))))
        await h.ask("go")
        assert answers(h) == ["not for you"]
        assert (errors(h), codes(h)) == ([True], [None])
        assert contexts(h) == ["of the block"]
        assert h.of("tool/result")[0].data.meta is None
        assert "secret" not in str(h.model.requests[1].messages)
        assert len(h.model.requests) == 2, "a blocked call concludes nothing"


async def test_l102_contexts_stand_as_the_tool_its_wrapper_and_its_judge_left_them() -> None:
    def body(execution):
        execution.defer_context(notice("tool 1", "m1"))
        execution.defer_context(notice("tool 2", "m2"))
        return "done"

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body)]) as h:

        async def wrap(execution, call_next):
            return replace(await call_next(execution), contexts=(notice("wrapper", "m3"),))

        h.agent.hooks.tools.execute.listen(wrap)
        h.agent.hooks.tools.post_execute.listen(says(Accept(contexts=(notice("judge", "m4"),))))
        await h.ask("go")
        assert contexts(h) == ["tool 1", "tool 2", "wrapper", "judge"]


@pytest.mark.parametrize("judge_fails", [False, True])
async def test_l103_contexts_that_a_body_left_before_it_raised_are_kept(judge_fails) -> None:
    def body(execution):
        execution.defer_context(notice("deferred", "m1"))
        raise RuntimeError("kaputt")

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body)]) as h:
        if judge_fails:
            h.agent.hooks.tools.post_execute.listen(breaks(RuntimeError("judge bug")))
        await h.ask("go")
        assert answers(h) == ["Error: judge bug" if judge_fails else "Error: kaputt"]
        assert contexts(h) == ["deferred"]


LAST_WORDS = {
    "success": ("done", None, False),
    "failure": ("Error: kaputt", None, True),
    "denied": ("Error: no", None, True),
    "wrapper": ("Error: wrapper bug", None, True),
    "blocked": ("blocked", None, True),
}


@pytest.mark.parametrize("case", LAST_WORDS)
async def test_l111_the_tool_has_the_last_word_once_on_every_outcome(case) -> None:
    text, _, is_error = LAST_WORDS[case]
    heard = []

    def last(said):
        heard.append(said)
        return f"<{said}>"

    def body(execution):
        if case == "failure":
            raise RuntimeError("kaputt")
        return "done"

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body, finalize=last)]) as h:
        hooks = h.agent.hooks.tools
        if case == "denied":
            hooks.pre_execute.listen(says(Denied("no")))
        if case == "wrapper":
            hooks.execute.listen(breaks(RuntimeError("wrapper bug")))
        if case == "blocked":
            hooks.post_execute.listen(says(Block("blocked")))
        await h.ask("go")
        assert heard == [text]
        assert answers(h) == [f"<{text}>"]
        assert errors(h) == [is_error]


def broken(text):
    raise RuntimeError("secret")


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        (lambda text: None, "done"),
        (lambda text: "", ""),
        (broken, "Error: the result of tool does could not be shown"),
        (lambda text: 7, "Error: the result of tool does could not be shown"),
    ],
    ids=["nothing", "empty", "raises", "no text"],
)
async def test_l111_nothing_keeps_the_text_and_a_broken_last_word_is_an_error_that_tells_nothing(
    last, answer
) -> None:
    told = []

    def body(execution):
        execution.defer_context(notice("deferred", "m1"))
        execution.conclude_turn()
        return ToolOutput(text="done", meta={"a": 1})

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body, finalize=last)]) as h:
        h.agent.hooks.tools.result.listen(lambda payload: told.append(payload[1].text))
        await h.ask("go")
        assert answers(h) == told == [answer]
        wrong = answer.startswith("Error")
        assert errors(h) == [wrong]
        assert "secret" not in str(list(h.log))
        assert contexts(h) == ["deferred"]


async def test_l112_every_observer_hears_of_each_result_and_none_can_change_or_stop_it() -> None:
    heard: list[Outcome] = []

    def meddle(payload):
        heard.append(payload[1])
        payload[1].meta["changed"] = True
        payload[1].text = "changed"

    def fail(payload):
        raise RuntimeError("observer bug")

    tool = Does(body=lambda execution: ToolOutput(text="done", meta={"a": 1}))
    async with headless([calls("does", "a") + call("nope"), say("ok")], tools=[tool]) as h:
        hook = h.agent.hooks.tools.result
        for listener in (meddle, fail, lambda payload: heard.append(payload[1])):
            hook.listen(listener)
        await h.ask("go")
        assert [outcome.text for outcome in heard[::2]] == answers(h)
        assert heard[0] is heard[1]
        assert h.of("tool/result")[0].data.meta == {"a": 1}
        with pytest.raises(FrozenInstanceError):
            heard[0].is_error = True
        assert ends(h.log) == ["completed"]
