"""Hosts: what is known of a server is what it is sent, and what settings say goes before that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.hosts import find_host
from dsh_lsp.llm.openai_compatible import OpenAiCompatibleAdapter, OpenAiCompatibleSettings, dialect_for
from dsh_lsp.messages import (
    AssistantMessage,
    CallConfig,
    Finish,
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
from tests.support.model_server import FakeModelServer, answer, chunk, event, raw, refusal

THOUGHT = AssistantMessage(
    id="a",
    content=(ReasoningBlock(text="why"), ToolCallBlock(id="call_long_0123", name="f", arguments="{}")),
    source=ModelSource(
        provider="openai_compatible", model="m", replay_state={"reasoningField": "reasoning", "host": "elsewhere"}
    ),
)
HISTORY: tuple[Message, ...] = (
    UserMessage(id="u", content=(TextBlock(text="go"),), source=UserSource()),
    THOUGHT,
    UserMessage(
        id="r",
        content=(ToolResultBlock(tool_call_id="call_long_0123", content=(TextBlock(text="r"),)),),
        source=ToolSource(call_id="call_long_0123"),
    ),
)


def body_for(base_url: str, **settings: Any) -> dict[str, Any]:
    """What a server at an address would be sent."""
    adapter = OpenAiCompatibleAdapter(
        OpenAiCompatibleSettings(base_url=base_url, api_key_env="K", **settings), environ={"K": "k"}
    )
    prepared = adapter.prepare(CallConfig(provider="openai_compatible", model="m"))
    request = ModelRequest(config=prepared.config, messages=HISTORY, session_id="s", signal=AbortSignal())
    return json.loads(adapter.call(request, None).encode(True))


def test_mistral_is_sent_short_ids_and_no_field_that_it_does_not_know() -> None:
    body = body_for("https://api.mistral.ai/v1")
    assert "stream_options" not in body
    assistant, result = body["messages"][1:]
    assert not {"reasoning", "reasoning_content"} & assistant.keys()
    assert len(assistant["tool_calls"][0]["id"]) == 9
    assert result["tool_call_id"] == assistant["tool_calls"][0]["id"]


def test_reasoning_goes_back_to_the_host_that_sent_it_alone() -> None:
    assert "reasoning" not in body_for("http://127.0.0.1:9/v1")["messages"][1]
    assert body_for("http://elsewhere/v1")["messages"][1]["reasoning"] == "why"


async def test_an_answer_says_which_field_of_which_host_its_reasoning_came_in() -> None:
    reply = raw(event(chunk({"reasoning": "why"})), event(chunk({"content": "so"}, "stop")), b"data: [DONE]\n\n")
    with FakeModelServer(reply, answer("so")) as server:
        told = (await finish_of(adapter_at(server.url))).replay_state
        plain = (await finish_of(adapter_at(server.url))).replay_state
        assert told is not None
        assert (told["reasoningField"], told["host"]) == ("reasoning", f"127.0.0.1:{server.port}")
    assert plain is not None
    assert "host" not in plain


def test_a_deepseek_model_on_any_host_gets_its_reasoning_back_with_every_message() -> None:
    assistant = body_for("http://gateway.test/v1", thinking="deepseek")["messages"][1]
    assert assistant["reasoning_content"] == "why"
    off = body_for("http://gateway.test/v1", thinking="deepseek", reasoning_effort="off")
    assert "reasoning_content" not in off["messages"][1]


@pytest.mark.parametrize("thinking", ["none", "openai", "toggle"])
def test_another_way_to_think_changes_nothing_of_that(thinking: Any) -> None:
    settings = OpenAiCompatibleSettings(base_url="http://gateway.test", thinking=thinking)
    assert dialect_for(settings, find_host("http://gateway.test")).wording.reasoning == "as received"


async def finish_of(adapter: OpenAiCompatibleAdapter, **request: Any) -> Finish:
    prepared = adapter.prepare(CallConfig(provider="openai_compatible", model="m"))
    asked = ModelRequest(config=prepared.config, messages=(), session_id="s", signal=AbortSignal(), **request)
    finish = [piece async for piece in prepared.stream(asked)][-1]
    await adapter.aclose()
    assert isinstance(finish, Finish)
    return finish


@pytest.mark.parametrize("status", [400, 413])
async def test_cerebras_says_nothing_of_too_long_a_prompt(status: int) -> None:
    with FakeModelServer(refusal(status)) as server:
        # a server on this machine whose path names the host, since only its address is looked at
        url = f"{server.url}/api.cerebras.ai"
        settings = OpenAiCompatibleSettings(base_url=url)
        failure = (await finish_of(OpenAiCompatibleAdapter(settings, environ={}))).failure
    assert failure is not None
    assert failure.code == "CONTEXT_WINDOW_EXCEEDED"


def adapter_at(url: str, **settings: Any) -> OpenAiCompatibleAdapter:
    return OpenAiCompatibleAdapter(OpenAiCompatibleSettings(base_url=url, **settings), environ={})


@pytest.mark.parametrize(("setting", "window"), [(8_000, 4_000), (2_000, 2_000), (None, 4_000)])
async def test_the_smaller_of_what_is_set_and_what_the_server_says_is_the_window(setting, window) -> None:
    with FakeModelServer() as server:
        server.documents["/models"] = refusal(200, {"data": [{"id": "m", "context_length": 4_000}]})
        adapter = adapter_at(server.url, context_window=setting)
        assert (await adapter.models())[0].context_window == window
        await adapter.aclose()


async def test_a_list_of_models_has_each_name_that_people_can_read_once_and_counts_that_are_ones() -> None:
    rows = [
        None,
        {"id": 7},
        {"id": " "},
        {"id": "a\nb"},
        {"id": "a\ud83d"},
        {"id": "m", "context_length": 0, "max_tokens": -1, "meta": {"n_ctx": 0}},
        {"id": "m", "context_length": 1},
        {"id": "n", "context_length": True, "max_tokens": "9", "meta": {"n_ctx": 4_000}, "max_output_tokens": 500},
    ]
    with FakeModelServer() as server:
        server.documents["/models"] = refusal(200, {"data": rows})
        adapter = adapter_at(server.url, context_window=9_000)
        found = [(model.name, model.context_window, model.max_output) for model in await adapter.models()]
        await adapter.aclose()
    assert found == [("m", 9_000, None), ("n", 4_000, 500)]


async def test_no_more_output_is_asked_for_than_the_model_can_give() -> None:
    with FakeModelServer(answer("hi")) as server:
        server.documents["/models"] = refusal(200, {"data": [{"id": "m", "max_tokens": 500}]})
        adapter = adapter_at(server.url, max_tokens=9_000)
        await adapter.models()
        assert (await finish_of(adapter)).failure is None
        assert server.requests[-1].body["max_tokens"] == 500


def test_addresses_are_hosts_by_their_end() -> None:
    assert find_host("https://api.mistral.ai/v1").key_env == "MISTRAL_API_KEY"
    assert find_host("https://api.mistral.ai.evil.test/v1").key_env is None
