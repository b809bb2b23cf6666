"""What the Messages API sends over a real socket, what goes back to it, and answers of it that are cut."""

from __future__ import annotations

import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.assemble import BlockAssembler
from dsh_lsp.messages import (
    AssistantMessage,
    CallConfig,
    Chunk,
    Message,
    ModelSource,
    TextBlock,
    UserMessage,
    UserSource,
)
from tests.contract.test_cut_streams import FakeTransport, assert_cut_short, assert_other_packets
from tests.support.adapters import ADAPTERS, KEY
from tests.support.messages_vectors import VECTORS, Vector
from tests.support.model_server import FakeModelServer, raw, refusal
from tests.support.reading import assert_reads, finish_of
from tests.support.wire_vectors.vector import TOOLS

MODEL = "claude-sonnet-4-6"


async def collect(url: str, *messages: Message, model: str = MODEL, effort: str | None = None) -> list[Chunk]:
    adapter = ADAPTERS["anthropic"](url)
    prepared = adapter.prepare(CallConfig(provider="anthropic", model=model, reasoning_effort=effort))
    request = ModelRequest(
        config=prepared.config, messages=messages, session_id="s", signal=AbortSignal(), tools=TOOLS, system="be good"
    )
    chunks = [piece async for piece in prepared.stream(request)]
    await adapter.aclose()
    return chunks


def reply_of(vector: Vector):
    return raw(*vector.packets, content_type=vector.content_type, cut=vector.cut)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
async def test_an_answer_of_the_messages_api(vector: Vector, server: FakeModelServer) -> None:
    server.script(reply_of(vector), reply_of(vector))
    assert_reads(vector, await collect(server.url))


CUTTABLE = [vector for vector in VECTORS if vector.packets]


@pytest.mark.parametrize("vector", CUTTABLE, ids=lambda vector: vector.id)
async def test_an_answer_cut_into_other_packets_is_the_same_answer(vector: Vector) -> None:
    await assert_other_packets(vector, FakeTransport())


@pytest.mark.parametrize("breaks", [False, True], ids=["ends", "breaks"])
@pytest.mark.parametrize("vector", CUTTABLE, ids=lambda vector: vector.id)
async def test_an_answer_cut_short_is_told_and_runs_no_call_that_is_not_whole(vector: Vector, breaks: bool) -> None:
    await assert_cut_short(vector, FakeTransport(), breaks=breaks)


def user(text: str) -> UserMessage:
    return UserMessage(id="u", content=(TextBlock(text=text),), source=UserSource())


async def test_a_request_carries_key_and_version_and_asks_for_what_the_model_can_give(server) -> None:
    server.script(reply_of(VECTORS[0]))
    await collect(server.url, user("hi"))
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in request.headers
    assert request.body["max_tokens"] == 64_000
    assert request.body["stream"] is True
    assert request.body["system"][0]["text"] == "be good"
    assert "thinking" not in request.body


@pytest.mark.parametrize(
    ("model", "effort", "fields"),
    [
        ("claude-sonnet-4-6", "low", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("claude-opus-5", "max", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
        ("claude-sonnet-4-5", "high", {"thinking": {"type": "enabled", "budget_tokens": 16_384}}),
        ("claude-sonnet-4-5-20250929", "low", {"thinking": {"type": "enabled", "budget_tokens": 4_096}}),
        ("claude-opus-4-20250514", "low", {"thinking": {"type": "enabled", "budget_tokens": 4_096}}),
        ("claude-sonnet-4-5", "off", {}),
    ],
)
async def test_thinking_is_asked_for_as_the_model_understands_it(model, effort, fields, server) -> None:
    server.script(reply_of(VECTORS[0]))
    await collect(server.url, user("hi"), model=model, effort=effort)
    body = server.requests[0].body
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == fields


async def test_thinking_goes_back_signed_to_its_maker_and_to_nobody_else(server) -> None:
    by_id = {vector.id: vector for vector in VECTORS}
    server.script(reply_of(by_id["thinking"]), *[reply_of(by_id["text"])] * 3)
    chunks = await collect(server.url, user("hi"))
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.push(chunk)

    def said_by(model: str) -> AssistantMessage:
        source = ModelSource(provider="anthropic", model=model, replay_state=finish_of(chunks).replay_state)
        return AssistantMessage(id="a", content=assembler.blocks(), source=source)

    await collect(server.url, user("hi"), said_by(MODEL), user("and?"))
    await collect(server.url, user("hi"), said_by("another"), user("and?"))
    signed, unsigned = (request.body["messages"][1]["content"] for request in server.requests[1:3])
    assert [block["type"] for block in signed] == ["thinking", "text"]
    assert (signed[0]["thinking"], signed[0]["signature"]) == ("why", "sig")
    assert [block["type"] for block in unsigned] == ["text"]


async def test_what_its_maker_wants_to_see_again_is_kept_whole(server) -> None:
    by_id = {vector.id: vector for vector in VECTORS}
    server.script(reply_of(by_id["redacted-thinking"]), reply_of(by_id["signature-in-pieces"]))
    hidden = finish_of(await collect(server.url, user("hi"))).replay_state
    signed = finish_of(await collect(server.url, user("hi"))).replay_state
    assert hidden is not None
    assert signed is not None
    assert hidden["blocks"] == [{"redacted": "xyz"}, {}]
    assert signed["blocks"] == [{"signature": "first second"}, {}]


@pytest.mark.parametrize(
    ("status", "kind", "message", "code"),
    [
        (401, "authentication_error", "invalid x-api-key", "AUTH"),
        (403, "permission_error", "not for you", "AUTH"),
        (400, "invalid_request_error", "Your credit balance is too low to access the API", "QUOTA"),
        (402, "billing_error", "pay", "QUOTA"),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 250000 tokens > 200000 maximum",
            "CONTEXT_WINDOW_EXCEEDED",
        ),
        (413, "request_too_large", "Request exceeds the maximum size", "CONTEXT_WINDOW_EXCEEDED"),
        (404, "not_found_error", "model: nope", "HTTP_404"),
        (429, "rate_limit_error", "slow down", "RATE_LIMIT"),
        (500, "api_error", "oops", "SERVER"),
        (529, "overloaded_error", "Overloaded", "SERVER"),
    ],
)
async def test_a_refusal_is_sorted_and_holds_no_key(status, kind, message, code, server) -> None:
    body = {"type": "error", "error": {"type": kind, "message": f"{message} {KEY}"}, "request_id": "r"}
    server.script(refusal(status, body, headers={"request-id": "r"}))
    failure = finish_of(await collect(server.url)).failure
    assert failure is not None
    assert (failure.code, failure.status, failure.request_id) == (code, status, "r")
    assert KEY not in repr(failure)
    if code == "CONTEXT_WINDOW_EXCEEDED" and status == 400:
        assert failure.context_window == 200_000
