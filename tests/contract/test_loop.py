"""The loop in one place: a whole tool turn, and what no numbered line says."""

from __future__ import annotations

import pytest

from dsh_lsp.abort import USER
from dsh_lsp.events import (
    ToolResult,
    decode_event,
    encode_event,
)
from dsh_lsp.llm.scripted import call, call_text, say, think
from dsh_lsp.session.surface import derive_messages
from tests.support.headless import Add, headless
from tests.support.loop import Waits, ends


async def test_a_tool_turn_logs_question_call_result_answer_and_its_boundaries() -> None:
    async with headless([call("add", a=1, b=2), say("It is 3.")], tools=[Add()]) as h:
        await h.ask("What is 1 + 2?")
        messages = [t for t in h.types if t in ("user/message", "assistant/message", "tool/result")]
        assert messages == ["user/message", "assistant/message", "tool/result", "assistant/message"]
        boundaries = [t for t in h.types if t.startswith(("turn/", "step/"))]
        assert boundaries == ["turn/start", "step/start", "step/end", "step/start", "step/end", "turn/end"]
        assert h.types == [
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "step/start",
            "user/message",
            "request/header",
            "request/context",
            "assistant/message",
            "tool/call",
            "tool/result",
            "step/end",
            "step/start",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
        result = h.of("tool/result")[0].data
        assert isinstance(result, ToolResult)
        assert result.message.content[0].text == "3"
        assert ends(h.log) == ["completed"]


async def test_the_whole_log_survives_the_disk() -> None:
    async with headless([think("hm") + call("add", a=1, b=2), say("3")], tools=[Add()]) as h:
        await h.ask("one")
        assert [decode_event(encode_event(event)) for event in h.log] == list(h.log)
        assert h.log.derive_messages() == derive_messages(h.log)


async def test_what_a_tool_had_done_before_a_cancel_is_not_hidden() -> None:
    tool = Waits(ignores_cancel=True)
    async with headless([call("waits")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await tool.started.wait()
        h.agent.cancel(USER)
        tool.release.set()
        await h.idle()
        text = h.of("tool/result")[0].data.message.content[0].text
        assert "aborted" in text
        assert text.endswith("\ndone")


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (call("nope"), "UNKNOWN_TOOL", "add"),
        (call("add", a="x"), "INVALID_ARGS", "b: Field required"),
        (call_text("add", '{"a": 1,'), "INVALID_ARGS", "not a JSON object"),
        (call_text("add", '{"a": NaN, "b": 1}'), "INVALID_ARGS", "not a JSON object"),
        (call_text("add", '{"a": 1e999, "b": 1}'), "INVALID_ARGS", "not a JSON object"),
        (call_text("add", '{"b": 1, "a": ' + "[" * 500 + "]" * 500 + "}"), "INVALID_ARGS", "nested too deeply"),
    ],
    ids=["unknown tool", "wrong arguments", "cut arguments", "NaN", "infinity", "nested"],
)
async def test_a_bad_call_is_a_result_that_the_model_reads(reply, code, words) -> None:
    async with headless([reply, say("sorry")], tools=[Add()]) as h:
        await h.ask("go")
        result = h.of("tool/result")[0].data
        assert result.error.code == code
        assert words in result.message.content[0].text
        assert ends(h.log) == ["completed"]
