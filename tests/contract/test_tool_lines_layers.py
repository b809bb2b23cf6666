"""Layers and bounds, L113 to L115: which tools a model sees, how long one may take, how often it may be called."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import USER, Cause
from dsh_lsp.errors import UsageError
from dsh_lsp.llm.scripted import call, call_text, say
from dsh_lsp.plugins import repeat, timeout
from dsh_lsp.tools.pipeline import Denied
from dsh_lsp.tools.registry import ToolRegistry
from tests.support.headless_tools import Does, answers, calls, codes, with_plugins
from tests.support.loop import ends, texts, until


def says(answer):
    async def listener(payload, call_next):
        return answer

    return listener


# -- the time of a body ----------------------------------------------------------------------------------------


async def cooperates(execution):
    with execution.signal.guard():
        await anyio.sleep_forever()


@pytest.mark.parametrize("first", ["timer", "caller"])
async def test_l113_whoever_fires_first_says_why_a_limited_body_ended(first) -> None:
    gate = anyio.Event()

    async def body(execution):
        try:
            await cooperates(execution)
        finally:
            with anyio.CancelScope(shield=True):
                await gate.wait()

    tool = Does(body=body, timeout_s=0.01 if first == "timer" else 60)
    async with with_plugins([calls("does", "a"), say("ok")], timeout, tools=[tool]) as w:
        signals = []

        async def inner(execution, call_next):
            signals.append(execution.signal)
            return await call_next(execution)

        w.h.agent.hooks.tools.execute.listen(inner)
        w.h.agent.followup(w.h.say("go"))
        await until(lambda: signals)
        if first == "timer":
            await until(lambda: signals[0].aborted)
        w.h.agent.cancel(USER)
        gate.set()
        await w.h.idle()
        assert codes(w.h) == ["TOOL_TIMEOUT" if first == "timer" else "ABORTED"]
        if first == "timer":
            assert answers(w.h) == ["Error: tool call timed out after 0.01 s"]


async def test_l113_a_body_without_a_limit_keeps_its_signal() -> None:
    seen = []
    tool = Does(body=lambda execution: seen.append(execution.signal) or "ok")
    async with with_plugins([calls("does", "a"), say("ok")], timeout, tools=[tool]) as w:

        async def judge(execution, call_next):
            seen.append(execution.signal)
            return await call_next(execution)

        w.h.agent.hooks.tools.pre_execute.listen(judge)
        await w.h.ask("go")
        assert seen[0] is seen[1]


# -- layers ----------------------------------------------------------------------------------------------------


def test_l114_a_name_is_taken_once_a_layer_and_an_inner_one_shadows_it() -> None:
    outer = ToolRegistry()
    inner = ToolRegistry(outer)
    first, second = Does("a"), Does("a")
    dispose_outer = outer.register(first)
    with pytest.raises(UsageError) as error:
        outer.register(second)
    assert error.value.code == "DUPLICATE_TOOL"
    dispose = inner.register(second)
    assert (outer.get("a"), inner.get("a")) == (first, second)
    dispose()
    dispose()
    assert inner.get("a") is first
    dispose_outer()
    assert inner.get("a") is None


def test_l114_a_restriction_hides_inherited_tools_alone_and_several_hold_together() -> None:
    outer = ToolRegistry()
    middle = ToolRegistry(outer)
    inner = ToolRegistry(middle)
    for name in "abc":
        outer.register(Does(name))
    inner.register(Does("mine"))
    undo_deny = middle.restrict(deny=["a"])
    undo_allow = inner.restrict(allow=["b"])
    assert inner.names() == ["b", "mine"]
    assert [spec.name for spec in inner.specs()] == ["b", "mine"]
    assert inner.get("a") is inner.get("c") is None
    for known in (["a"], ["mine"], ["nope"]):
        with pytest.raises(UsageError) as error:
            inner.restrict(allow=known)
        assert error.value.code == "UNKNOWN_TOOL", "hidden, own or unknown: not inherited"
    undo_allow()
    undo_deny()
    assert inner.names() == ["a", "b", "c", "mine"]
    assert outer.names() == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "x" * 65])
def test_l114_a_name_that_a_provider_would_refuse_is_refused(name) -> None:
    with pytest.raises(UsageError) as error:
        ToolRegistry().register(Does(name))
    assert error.value.code == "INVALID_TOOL"


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf")])
def test_l113_a_limit_that_is_none_is_refused(limit) -> None:
    with pytest.raises(UsageError) as error:
        ToolRegistry().register(Does(timeout_s=limit))
    assert error.value.code == "INVALID_TOOL"


async def test_l114_whoever_looks_at_the_tools_is_told_of_each_change_below_and_here() -> None:
    outer = ToolRegistry()
    inner = ToolRegistry(outer)
    told = []
    inner.changed.listen(lambda _: told.append(inner.names()))
    dispose = outer.register(Does("a"))
    undo = inner.restrict(deny=["a"])
    undo()
    dispose()
    assert told == [["a"], [], ["a"], []]


# -- repetition ------------------------------------------------------------------------------------------------


async def test_l115_the_same_call_again_and_again_is_reminded_of_twice_and_then_stopped() -> None:
    script = [call("does", key="a"), call_text("does", '{"key":  "a"}')] * 5
    async with with_plugins(script, repeat, tools=[Does()]) as w:
        h = w.h
        await h.ask("go")
        reminders = [text for text in texts(e.data for e in h.of("user/message")) if "in a row" in text]
        assert [text.split(" times")[0].split()[-1] for text in reminders] == ["3", "5"]
        assert "The arguments" not in reminders[0]
        assert '{"key": "a"}' in reminders[1]
        end = h.of("turn/end")[0].data.reason
        assert end.reason == Cause(kind="hook", reason="the model made the same call 8 times: does")
        assert len(answers(h)) == 8
        assert ends(h.log) == ["aborted"]


@pytest.mark.parametrize("how", ["another call", "new words", "another order of keys", "denied"])
async def test_l115_another_call_or_new_words_begin_anew_and_the_order_of_keys_or_a_denial_does_not(how) -> None:
    same = [call_text("does", '{"key": "a", "n": 1}')] * 2
    script = [*same, *same[:1], say("ok"), say("ok")]
    if how == "another call":
        script.insert(2, call("does", key="b"))
    if how == "new words":
        script.insert(2, say("ok"))
    if how == "another order of keys":
        script[1] = call_text("does", '{"n":1,"key":"a"}')
    async with with_plugins(script, repeat, tools=[Does()]) as w:
        if how == "denied":
            w.h.agent.hooks.tools.pre_execute.listen(says(Denied("no")))
        await w.h.ask("go")
        if how == "new words":
            await w.h.ask("again")
        told = [text for text in texts(e.data for e in w.h.of("user/message")) if "in a row" in text]
        assert len(told) == (0 if how in ("another call", "new words") else 1)
        assert len(answers(w.h)) == len(script) - (3 if how == "new words" else 2)
