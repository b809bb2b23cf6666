"""Messages wire: any history becomes a conversation that the Messages API takes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.chat_wire import dump_body
from dsh_lsp.llm.messages_wire import Thinking, encode_request
from dsh_lsp.messages import (
    AssistantMessage,
    CallConfig,
    Message,
    ModelSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserMessage,
    UserSource,
)

TEXTS = st.sampled_from(["", " \n", "a", "é", "\ud83d"])
ARGUMENTS = st.sampled_from(["", "{}", '{"x":', '{"x":NaN}', '{"x":1e999}', '{"x":"\\ud83d"}', "[1]", "\ud83d"])
IDS = st.sampled_from(["toolu_1", "call:0/x", "x" * 80])


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    """What a session may hold: prompts, answers of any model, and a result for each call."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            messages.append(UserMessage(id="u", content=(TextBlock(text=draw(TEXTS)),), source=UserSource()))
            continue
        calls = draw(st.lists(IDS, max_size=2, unique=True))
        texts = tuple(TextBlock(text=text) for text in draw(st.lists(TEXTS, max_size=1)))
        thought = tuple(ReasoningBlock(text=text) for text in draw(st.lists(TEXTS, max_size=1)))
        content = (*thought, *texts, *(ToolCallBlock(id=i, name="a b", arguments=draw(ARGUMENTS)) for i in calls))
        messages.append(AssistantMessage(id="a", content=content, source=ModelSource(provider="deepseek", model="m")))
        messages += [result(call_id, draw(TEXTS)) for call_id in calls]
    return tuple(messages)


def result(call_id: str, text: str) -> UserMessage:
    block = ToolResultBlock(tool_call_id=call_id, content=(TextBlock(text=text),), is_error=text == "a")
    return UserMessage(id="r", content=(block,), source=ToolSource(call_id=call_id))


def body_of(*messages: Message, thinking: Thinking = "adaptive", **config: Any) -> dict[str, Any]:
    request = ModelRequest(
        config=CallConfig(provider="anthropic", model="m", **{"max_tokens": 100_000, **config}),
        messages=messages,
        session_id="s",
        signal=AbortSignal(),
    )
    return encode_request(request, host="h", thinking=thinking)


@given(histories())
def test_roles_take_turns_and_every_call_is_answered_at_once(history: tuple[Message, ...]) -> None:
    body = body_of(*history)
    dump_body(body)
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    assert all(one != other for one, other in pairwise(roles))
    assert not roles or roles[-1] == "user"
    for message in messages:
        assert message["content"]
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
    for message, following in pairwise(messages):
        asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in following["content"] if block["type"] == "tool_result"]
        assert answered == asked
        kinds = [block["type"] == "tool_result" for block in following["content"]]
        assert kinds == sorted(kinds, reverse=True), "results come first"


def test_a_turn_that_began_without_thinking_does_not_begin_to_think() -> None:
    call = ToolCallBlock(id="c", name="f", arguments="{}")
    source = ModelSource(provider="deepseek", model="m")
    history = (
        UserMessage(id="u", content=(TextBlock(text="hi"),), source=UserSource()),
        AssistantMessage(id="a", content=(call,), source=source),
        result("c", "done"),
    )
    assert "thinking" not in body_of(*history, thinking="budget", reasoning_effort="high")
    assert "thinking" in body_of(history[0], thinking="budget", reasoning_effort="high")


def test_a_budget_leaves_room_for_the_answer() -> None:
    prompt = UserMessage(id="u", content=(TextBlock(text="hi"),), source=UserSource())
    body = body_of(prompt, thinking="budget", reasoning_effort="max", max_tokens=8_000)
    assert body["thinking"]["budget_tokens"] == 4_000
    assert "thinking" not in body_of(prompt, thinking="budget", reasoning_effort="low", max_tokens=1_500)


def thought(replay: dict[str, Any], *blocks: ReasoningBlock | TextBlock) -> AssistantMessage:
    source = ModelSource(provider="anthropic", model="m", replay_state={"host": "h", **replay})
    return AssistantMessage(id="a", content=blocks, source=source)


def test_thinking_that_is_hidden_goes_back_as_it_came() -> None:
    message = thought({"blocks": [{"redacted": "xyz"}, {}]}, ReasoningBlock(text=""), TextBlock(text="so"))
    (sent,) = (message for message in body_of(message)["messages"] if message["role"] == "assistant")
    assert sent["content"][0] == {"type": "redacted_thinking", "data": "xyz"}


def test_a_result_says_whether_it_is_an_error() -> None:
    call = ToolCallBlock(id="t", name="f", arguments="{}")
    asked = AssistantMessage(id="a", content=(call,), source=ModelSource(provider="p", model="m"))
    for text, is_error in (("a", True), ("b", False)):
        (block,) = body_of(asked, result("t", text))["messages"][-1]["content"]
        assert block.get("is_error", False) is is_error


def test_the_prefix_up_to_the_last_message_is_marked_for_the_cache() -> None:
    user = UserMessage(id="u", content=(TextBlock(text="a"),), source=UserSource())
    said = AssistantMessage(id="a", content=(TextBlock(text="b"),), source=ModelSource(provider="p", model="m"))
    messages = body_of(user, said, user)["messages"]
    marked = [block.get("cache_control") for message in messages for block in message["content"]]
    assert marked == [None, None, {"type": "ephemeral"}]
