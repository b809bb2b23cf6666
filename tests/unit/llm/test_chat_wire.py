from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.chat_decoder import ChatDecoder, read_usage
from dsh_lsp.llm.chat_wire import Histories, dump_body, encode_request
from dsh_lsp.llm.deepseek import DIALECT
from dsh_lsp.llm.dialect import Dialect, Wording
from dsh_lsp.messages import (
    AssistantMessage,
    BlockEnd,
    BlockStart,
    CallConfig,
    Chunk,
    Finish,
    Message,
    ModelSource,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    ToolSource,
    ToolSpec,
    UserMessage,
    UserSource,
)

TOOL = ToolSpec(name="f", description="d", parameters={"type": "object"})
MODEL = ModelSource(provider="deepseek", model="m")
CONFIG = CallConfig(provider="deepseek", model="m", max_tokens=9)


def user(text: str) -> UserMessage:
    return UserMessage(id="u", content=(TextBlock(text=text),), source=UserSource())


def result(call_id: str, *texts: str) -> UserMessage:
    block = ToolResultBlock(tool_call_id=call_id, content=tuple(TextBlock(text=text) for text in texts))
    return UserMessage(id="r", content=(block,), source=ToolSource(call_id=call_id))


def assistant(*blocks: TextBlock | ReasoningBlock | ToolCallBlock) -> AssistantMessage:
    return AssistantMessage(id="a", content=blocks, source=MODEL)


def body_of(*messages: Message, effort: str | None = "high", **fields: Any) -> dict[str, Any]:
    request = ModelRequest(config=CONFIG, messages=messages, session_id="s", signal=AbortSignal(), **fields)
    return encode_request(request, DIALECT, histories=Histories(), effort=effort)


def test_a_whole_request_has_this_body() -> None:
    body = body_of(user("hi"), system="be good", tools=(TOOL,))
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": "hi"}],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
        ],
        "max_tokens": 9,
        "thinking": {"type": "enabled"},
        "reasoning_effort": "high",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_without_thinking_no_effort_and_no_reasoning_are_sent() -> None:
    body = body_of(assistant(ReasoningBlock(text="why"), TextBlock(text="so")), effort="off")
    assert body["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in body
    assert body["messages"] == [{"role": "assistant", "content": "so"}]


def test_with_thinking_every_assistant_message_carries_its_reasoning_unchanged() -> None:
    call = ToolCallBlock(id="c", name="f", arguments='{"x": 1}')
    messages = body_of(
        assistant(ReasoningBlock(text=" why\n"), call), result("c", "done"), assistant(TextBlock(text="so"))
    )["messages"]
    assert messages == [
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": " why\n",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "done"},
        {"role": "assistant", "content": "so", "reasoning_content": ""},
    ]


def test_a_tool_without_output_says_so() -> None:
    assert body_of(result("c"), result("d", ""))["messages"] == [
        {"role": "tool", "tool_call_id": "c", "content": "(no output)"},
        {"role": "tool", "tool_call_id": "d", "content": "(no output)"},
    ]


@pytest.mark.parametrize(
    "arguments", ['{"x":', '{"x":NaN}', '{"x":-Infinity}', '{"x":1e999}', '{"x":"\\ud83d"}', "[1]"]
)
def test_a_bad_call_is_sent_back_in_a_form_that_servers_take(arguments: str) -> None:
    call = ToolCallBlock(id="c", name="a b", arguments=arguments)
    function = body_of(assistant(call))["messages"][0]["tool_calls"][0]["function"]
    assert function["name"] == "a_b"
    assert json.loads(function["arguments"]) == {"unreadable_arguments": arguments}
    nameless = ToolCallBlock(id="c", name="", arguments="{}")
    assert body_of(assistant(nameless))["messages"][0]["tool_calls"][0]["function"]["name"] == "unknown"


def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter() -> None:
    turns: list[Message] = [user("one"), assistant(TextBlock(text="ä")), user("two"), assistant(TextBlock(text="b"))]
    bodies = [dump_body({"messages": body_of(*turns[:end])["messages"]}) for end in range(1, 5)]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))
    assert bodies[3] == dump_body({"messages": body_of(*turns)["messages"]})


def test_half_an_emoji_is_not_sent() -> None:
    assert dump_body({"text": "a\ud83d"}) == '{"text":"a\ufffd"}'.encode()


def decoded(*deltas: dict[str, Any], finish: str | None = "stop") -> list[Chunk]:
    decoder = ChatDecoder(tools=(TOOL,), new_id=iter(["new-1", "new-2"]).__next__)
    events: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "model": "m-1"})
    return [chunk for event in events for chunk in decoder.feed(event)] + list(decoder.end(done=True))


def test_blocks_end_when_the_stream_ends_and_in_order() -> None:
    call = {"index": 0, "function": {"name": "f", "arguments": "{}"}}
    assert decoded({"reasoning_content": "r"}, {"content": "t"}, {"tool_calls": [call]}) == [
        BlockStart(index=0, block_type="reasoning"),
        ReasoningDelta(index=0, text="r"),
        BlockStart(index=1, block_type="text"),
        TextDelta(index=1, text="t"),
        BlockStart(index=2, block_type="tool-call"),
        ToolCallDelta(index=2, id="new-1", name="f", arguments_delta="{}"),
        BlockEnd(index=0, block=ReasoningBlock(text="r")),
        BlockEnd(index=1, block=TextBlock(text="t")),
        BlockEnd(index=2, block=ToolCallBlock(id="new-1", name="f", arguments="{}")),
        Finish(reason="tool-calls", replay_state={"model": "m-1", "reasoningField": "reasoning_content"}),
    ]


def test_an_id_that_comes_late_does_not_rename_a_call_already_shown() -> None:
    first = {"index": 0, "function": {"name": "f", "arguments": '{"x"'}}
    second = {"index": 0, "id": "late", "function": {"arguments": ":1}"}}
    ends = [item for item in decoded({"tool_calls": [first]}, {"tool_calls": [second]}) if isinstance(item, BlockEnd)]
    assert [item.block for item in ends] == [ToolCallBlock(id="new-1", name="f", arguments='{"x":1}')]


def test_an_unfinished_call_that_nobody_finished_is_never_run() -> None:
    half = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}}
    finish = decoded({"tool_calls": [half]}, finish=None)[-1]
    assert isinstance(finish, Finish)
    assert finish.failure is not None
    assert finish.failure.code == "STREAM_CLOSED"


def test_cached_tokens_are_not_counted_twice() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 7},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert read_usage(usage) == TokenUsage(input_tokens=3, output_tokens=4, cache_read_tokens=7, reasoning_tokens=3)
    assert read_usage({"prompt_tokens": "x"}) is None
    assert read_usage(None) is None


OPEN = Dialect(wording=Wording(provider="p", host="h"))


def sent(source: ModelSource, dialect: Dialect = OPEN, **blocks: Any) -> dict[str, Any]:
    """An assistant's message with reasoning, as it goes to a server."""
    message = AssistantMessage(
        id="a", content=(ReasoningBlock(text="why"), TextBlock(text="so"), *blocks.values()), source=source
    )
    config = CallConfig(provider="p", model="m")
    request = ModelRequest(config=config, messages=(message,), session_id="s", signal=AbortSignal())
    return encode_request(request, dialect, histories=Histories(), effort=None)["messages"][0]


def test_reasoning_goes_back_in_its_field_to_the_server_that_it_came_from_and_to_no_other() -> None:
    state = {"reasoningField": "reasoning", "host": "h"}
    assert sent(ModelSource(provider="p", model="m", replay_state=state))["reasoning"] == "why"
    for source in (
        ModelSource(provider="p", model="m"),
        ModelSource(provider="other", model="m", replay_state=state),
        ModelSource(provider="p", model="m", replay_state={**state, "host": "elsewhere"}),
    ):
        assert set(sent(source)) == {"role", "content"}


def test_ids_and_names_are_those_that_a_server_takes_and_stay_the_same() -> None:
    call = ToolCallBlock(id="call:0/read", name="read file", arguments="{}")
    short = Dialect(wording=Wording(short_ids=True))
    for dialect, pattern in ((OPEN, r"[a-zA-Z0-9_-]{1,64}"), (short, r"[a-zA-Z0-9]{9}")):
        first, again = (sent(MODEL, dialect, call=call)["tool_calls"][0] for _ in range(2))
        assert re.fullmatch(pattern, first["id"])
        assert first == again
    history = (assistant(call), result("call:0/read", "done"))
    request = ModelRequest(config=CONFIG, messages=history, session_id="s", signal=AbortSignal())
    asked, answered = encode_request(request, short, histories=Histories(), effort=None)["messages"]
    assert answered["tool_call_id"] == asked["tool_calls"][0]["id"]


@pytest.mark.parametrize(
    ("takes_turns", "words"),
    [(True, ["one\n\ntwo", "", "r", "three\n\nfour"]), (False, ["one", "two", "", "r", "three", "four"])],
)
def test_what_a_user_says_in_several_messages_is_one_where_roles_take_turns(takes_turns, words) -> None:
    call = ToolCallBlock(id="c", name="f", arguments="{}")
    messages = (user("one"), user("two"), assistant(call), result("c", "r"), user("three"), user("four"))
    request = ModelRequest(config=CONFIG, messages=messages, session_id="s", signal=AbortSignal())
    dialect = Dialect(wording=Wording(takes_turns=takes_turns))
    body = encode_request(request, dialect, histories=Histories(), effort=None)
    assert [message["content"] for message in body["messages"]] == words
    roles = [message["role"] for message in body["messages"]]
    assert takes_turns == all(one != other for one, other in pairwise(roles))
