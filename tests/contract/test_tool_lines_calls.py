"""Calls and results, L084 to L087, L093, L094, L096: what goes into a body, and what may come out of it."""

from __future__ import annotations

import json
import logging

import pytest
from pydantic import Field

from dsh_lsp.errors import ToolError
from dsh_lsp.events import decode_event, encode_event
from dsh_lsp.llm.scripted import call, call_text, say
from dsh_lsp.tools.pipeline import Accept, Allow, Block, Outcome
from dsh_lsp.tools.tool import Execution, Tool, ToolArgs, ToolOutput
from tests.support.headless import Add, headless
from tests.support.headless_tools import Does, answered, answers, calls, codes, errors
from tests.support.loop import ends


def watch(hooks):
    """The calls that each kind of policy saw."""
    seen: list[str] = []

    def listener(name):
        async def listen(payload, call_next):
            seen.append(name)
            return await call_next(payload)

        return listen

    for name in ("pre_execute", "execute", "post_execute"):
        getattr(hooks.tools, name).listen(listener(name))
    return seen


@pytest.mark.parametrize("raw", ["", "  \n", "{}"])
async def test_l084_no_arguments_are_an_empty_object_and_the_log_has_the_raw_text(raw) -> None:
    seen = []
    tool = Does(body=lambda execution: seen.append(execution.arguments) or "ok")
    async with headless([call_text("does", raw), say("ok")], tools=[tool]) as h:
        await h.ask("go")
        assert seen == [{}]
        assert h.of("tool/call")[0].data.arguments == raw


UNREADABLE = {
    "cut": ('{"key": "a', "line 1 column 9"),
    "bad escape": ('{"key": "\\d"}', "Invalid \\escape at line 1 column"),
    "array": ("[1]", "not a JSON object: [1]"),
    "text": ('"key"', "not a JSON object"),
    "null": ("null", "not a JSON object"),
    "NaN": ('{"n": NaN}', "not a JSON object"),
    "infinity": ('{"n": 1e999}', "not a JSON object"),
    "too deep": ("[" * 100_000, "not a JSON object"),
    "a number nobody reads": ('{"n": ' + "9" * 5_000 + "}", "not a JSON object"),
    "two objects": ('{"key": "a"}{"key": "b"}', "line 1 column 13"),
}


@pytest.mark.parametrize("case", UNREADABLE)
async def test_l084_arguments_that_are_no_json_object_are_passed_on_as_text_and_refused(case) -> None:
    raw, words = UNREADABLE[case]
    seen, tool = [], Does()
    async with headless([call_text("does", raw), say("ok")], tools=[tool]) as h:

        async def judge(execution, call_next):
            seen.append(execution.arguments)
            return await call_next(execution)

        h.agent.hooks.tools.pre_execute.listen(judge)
        await h.ask("go")
        assert seen == [raw]
        assert h.of("tool/call")[0].data.arguments == raw
        assert codes(h) == ["INVALID_ARGS"]
        assert words in answers(h)[0]
        assert len(answers(h)[0]) < 500
        assert not tool.ran


@pytest.mark.parametrize("verdict", [Accept(text="other"), Accept(output=ToolOutput(text="other")), Block("other")])
async def test_l085_a_replaced_result_still_answers_the_models_call(verdict) -> None:
    async with headless([calls("does", "a", "b"), say("ok")], tools=[Does()]) as h:

        async def judge(payload, call_next):
            payload[0].call_id = "smuggled"
            return verdict

        h.agent.hooks.tools.post_execute.listen(judge)
        await h.ask("go")
        assert answered(h) == ["a", "b"]
        assert answers(h) == ["other", "other"]
        for event in h.of("tool/result"):
            block = event.data.message.content[0]
            assert (event.data.message.source.call_id, len(event.data.message.content)) == (block.tool_call_id, 1)
            called = h.log[event.sources[0][0]].data
            assert called.call_id == block.tool_call_id


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


FAILURES = {
    "ours": (ToolError("no such thing", code="NOT_FOUND"), "Error: no such thing", ("ToolError", "NOT_FOUND")),
    "plain": (RuntimeError("kaputt"), "Error: kaputt", None),
    "nameless": (RuntimeError(), "Error: RuntimeError", None),
    "unprintable": (UnprintableError(), "Error: <unrenderable value>", None),
    "group": (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "Error: two", None),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_l086_a_failure_of_ours_has_a_name_and_a_code_and_another_only_its_words(case, caplog) -> None:
    caplog.set_level(logging.CRITICAL)  # an error that cannot be printed cannot be logged either
    error, text, failure = FAILURES[case]

    def body(execution):
        raise error

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body)]) as h:
        await h.ask("go")
        assert answers(h)[0].startswith(text)
        assert errors(h) == [True]
        logged = h.of("tool/result")[0].data.error
        assert (logged and (logged.name, logged.code)) == failure
        assert ends(h.log) == ["completed"]


async def test_l087_what_screens_need_stands_beside_the_result_and_no_model_reads_it() -> None:
    meta = {"lines": [1, 2], "deep": {"a": None}}

    def body(execution):
        return ToolOutput(text="page", meta=meta)

    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=body)]) as h:
        await h.ask("go")
        event = h.of("tool/result")[0]
        assert event.data.meta == {"lines": [1, 2], "deep": {"a": None}}
        assert event.data.meta is not meta
        assert "lines" not in str(h.model.requests[1].messages)
        assert decode_event(json.loads(json.dumps(encode_event(event)))) == event


async def test_l093_an_unknown_tool_is_an_error_that_names_the_others_and_that_every_policy_sees() -> None:
    async with headless([call("nope"), say("ok")], tools=[Add(), Does()]) as h:
        seen = watch(h.agent.hooks)
        await h.ask("go")
        assert answers(h) == ['Error: unknown tool "nope"; the tools are: add, does']
        assert codes(h) == ["UNKNOWN_TOOL"]
        assert seen == ["pre_execute", "execute", "post_execute"]


class Inner(ToolArgs):
    kind: str


class Many(ToolArgs):
    count: int = Field(ge=1)
    names: tuple[str, ...]
    inner: Inner
    limit: int = 7


class Strict(Tool[Many]):
    name = "strict"
    description = "Take many arguments."
    Args = Many

    def __init__(self) -> None:
        self.got: list[Many] = []
        self.seen: list[object] = []

    async def execute(self, args: Many, execution: Execution) -> str:
        self.got.append(args)
        self.seen.append(execution.arguments)
        return "ok"

    def effects(self, args: Many) -> list:
        return []


async def test_l094_all_that_is_wrong_with_arguments_is_told_at_once_and_nothing_is_run() -> None:
    tool = Strict()
    script = [call("strict", count="1", names=["a", 2], inner={}), call("strict", count=0, names=[]), say("ok")]
    async with headless(script, tools=[tool]) as h:
        await h.ask("go")
        first, second = answers(h)
        assert codes(h) == ["INVALID_ARGS", "INVALID_ARGS"]
        for place in ("count: ", "names.1: ", "inner.kind: "):
            assert place in first
        for place in ("count: ", "inner: Field required"):
            assert place in second
        assert first.startswith("Error: invalid arguments: ")
        assert "\n" not in first, "and told once"
        assert not tool.got


async def test_l094_what_the_model_invents_is_dropped_and_defaults_are_the_bodys_alone() -> None:
    tool = Strict()
    given = {"count": 1, "names": ["a"], "inner": {"kind": "k", "more": 1}, "invented": True}
    async with headless([call("strict", **given), say("ok")], tools=[tool]) as h:
        await h.ask("go")
        assert tool.got == [Many(count=1, names=("a",), inner=Inner(kind="k"))]
        assert tool.got[0].limit == 7
        assert tool.seen == [given], "listeners and the log have what the model wrote"
        assert json.loads(h.of("tool/call")[0].data.arguments) == given


OUTPUTS = {
    "nothing": (None, "NoneType is neither"),
    "a number": (7, "int is neither"),
    "an object": ({"text": "a"}, "dict is neither"),
    "a class": (ToolOutput, "type is neither"),
    "text that is none": (ToolOutput(text=b"bytes"), "neither text"),  # type: ignore[arg-type]
    "meta that is no JSON": (ToolOutput(text="a", meta={"a": object()}), "not JSON"),
    "meta with NaN": (ToolOutput(text="a", meta={"a": float("nan")}), "its meta is"),
    "meta that is no object": (ToolOutput(text="a", meta=[1]), "no JSON object"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", OUTPUTS)
async def test_l096_a_body_that_gives_no_result_is_an_error_before_anybody_judges_it(case) -> None:
    output, words = OUTPUTS[case]
    seen = []
    async with headless([calls("does", "a"), say("ok")], tools=[Does(body=lambda execution: output)]) as h:

        async def judge(payload, call_next):
            seen.append(payload[1].error.code)
            return await call_next(payload)

        h.agent.hooks.tools.post_execute.listen(judge)
        await h.ask("go")
        assert codes(h) == seen == ["INVALID_TOOL_OUTPUT"]
        assert words in answers(h)[0]
        assert ends(h.log) == ["completed"]


async def test_l096_meta_that_holds_itself_is_no_json() -> None:
    meta: dict[str, object] = {}
    meta["self"] = meta
    tool = Does(body=lambda execution: ToolOutput(text="a", meta=meta))
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
        await h.ask("go")
        assert codes(h) == ["INVALID_TOOL_OUTPUT"]


async def test_l096_a_context_that_is_no_message_fails_the_body_that_left_it() -> None:
    tool = Does(body=lambda execution: execution.defer_context("words"))
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:
        await h.ask("go")
        assert "a context is a UserMessage" in answers(h)[0]
        assert ends(h.log) == ["completed"]


ROGUES = {
    "pre_execute": [None, True, "yes", Allow, Outcome(text="x")],
    "execute": [None, "done", Outcome(text=None), Outcome(text="a", contexts=("words",)), Accept()],  # type: ignore[arg-type]
    "post_execute": [None, True, Accept(text=5), Accept(output=7), Block(None), Outcome(text="x")],  # type: ignore[arg-type]
}


@pytest.mark.parametrize(
    ("point", "answer"),
    [(point, answer) for point, answers_ in ROGUES.items() for answer in answers_],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:40],
)
async def test_l096_a_listeners_answer_that_is_none_is_an_error_and_allows_nothing(point, answer) -> None:
    tool = Does()
    async with headless([calls("does", "a"), say("ok")], tools=[tool]) as h:

        async def rogue(payload, call_next):
            return answer

        getattr(h.agent.hooks.tools, point).listen(rogue)
        await h.ask("go")
        assert errors(h) == [True]
        assert codes(h) == ["INVALID_VERDICT" if point == "pre_execute" else "INVALID_TOOL_OUTPUT"]
        assert bool(tool.ran) is (point == "post_execute")
        assert ends(h.log) == ["completed"]


@pytest.mark.parametrize("field", ["name", "arguments", "in place", "tool"])
async def test_l096_a_listener_that_changes_the_call_it_judges_refuses_it(field) -> None:
    tool, other = Does("a"), Does("b")
    async with headless([calls("a", "x"), say("ok")], tools=[tool, other]) as h:

        async def rewrite(execution, call_next):
            verdict = await call_next(execution)
            if field == "in place":
                execution.arguments["key"] = True
            else:
                setattr(execution, field, {"name": "b", "arguments": {"key": "y"}, "tool": other}[field])
            return verdict

        h.agent.hooks.tools.pre_execute.listen(rewrite)
        await h.ask("go")
        assert codes(h) == ["INVALID_VERDICT"]
        assert not tool.ran + other.ran
