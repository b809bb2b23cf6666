"""Call ids: servers that count anew in each answer make ids that repeat; what is sent never does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm import chat_wire, messages_wire
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.call_ids import with_own_ids
from dsh_lsp.llm.dialect import Dialect, Wording
from dsh_lsp.messages import (
    AssistantMessage,
    CallConfig,
    Message,
    ModelSource,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserMessage,
)

SOURCE = ModelSource(provider="p", model="m")


def asked(*ids: str) -> AssistantMessage:
    blocks = tuple(ToolCallBlock(id=call_id, name="f", arguments="{}") for call_id in ids)
    return AssistantMessage(id="a", content=blocks, source=SOURCE)


def answered(call_id: str) -> UserMessage:
    block = ToolResultBlock(tool_call_id=call_id, content=(TextBlock(text="r"),))
    return UserMessage(id="r", content=(block,), source=ToolSource(call_id=call_id))


def exchange(*ids: str) -> list[Message]:
    return [asked(*ids), *map(answered, ids)]


def ids_of(messages: tuple[Message, ...]) -> tuple[list[str], list[str]]:
    """Those of the calls, and those of the results."""
    blocks = [block for message in messages for block in message.content]
    return (
        [block.id for block in blocks if isinstance(block, ToolCallBlock)],
        [block.tool_call_id for block in blocks if isinstance(block, ToolResultBlock)],
    )


EXCHANGES = st.lists(st.lists(st.sampled_from(["a", "b", "a-2", "a-2-2"]), min_size=1, max_size=3), max_size=6)


@given(EXCHANGES)
def test_every_call_has_an_id_of_its_own_and_its_result_the_same(ids: list[list[str]]) -> None:
    history: list[Message] = [message for one in ids for message in exchange(*one)]
    calls, results = ids_of(with_own_ids(history))
    assert len(set(calls)) == len(calls)
    assert sorted(results) == sorted(calls)
    for shorter, longer in pairwise(range(len(history) + 1)):
        assert with_own_ids(history[:longer])[:shorter] == with_own_ids(history[:shorter])


def test_what_repeats_nothing_stays_as_it_is() -> None:
    history = [*exchange("a", "b"), *exchange("c")]
    assert all(new is old for new, old in zip(with_own_ids(history), history, strict=True))
    renamed = with_own_ids([*history, *exchange("a")])
    assert renamed[: len(history)] == tuple(history)
    assert ids_of(renamed[-2:]) == (["a-2"], ["a-2"])


def request() -> ModelRequest:
    messages = (*exchange("call_0"), *exchange("call_0"), *exchange("call_0"))
    config = CallConfig(provider="p", model="m", max_tokens=9)
    return ModelRequest(config=config, messages=messages, session_id="s", signal=AbortSignal())


@pytest.mark.parametrize("short", [False, True])
def test_chat_completions_are_sent_own_ids(short: bool) -> None:
    dialect = Dialect(wording=Wording(short_ids=short))
    body = chat_wire.encode_request(request(), dialect, histories=chat_wire.Histories(), effort=None)
    calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls", [])]
    assert len(set(calls)) == 3
    assert [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"] == calls


def test_the_messages_api_is_sent_own_ids() -> None:
    blocks = [
        block
        for message in messages_wire.encode_request(request(), host="h", thinking="adaptive")["messages"]
        for block in message["content"]
    ]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert len(set(calls)) == 3
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == calls
