"""Answers that are none, that do not end, or that fail inside: what is said of them, and what is not waited for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import anyio
import httpx
import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.chat_decoder import ChatDecoder
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.http_adapter import HttpAdapter
from dsh_lsp.llm.model_client import KEEP_IDLE_S, Call, ModelClient
from dsh_lsp.messages import Chunk, UsageChunk
from dsh_lsp.wire import JsonObject
from tests.contract.test_cut_streams import FakeTransport
from tests.support.adapters import ADAPTERS
from tests.support.messages_vectors import VECTORS as MESSAGES
from tests.support.model_server import FakeModelServer, Gate, Pause, Reply, answer, chunk, event, raw, refusal
from tests.support.reading import collect, finish_of


async def failure_of(adapter: HttpAdapter) -> LlmFailure:
    failure = finish_of(await collect(adapter)).failure
    assert failure is not None
    return failure


HINTS = {"Retry-After": "3", "X-Request-Id": "r-1", "X-Should-Retry": "false"}


@pytest.mark.parametrize(
    "reply",
    [
        raw(event({"error": {"message": "slow down", "code": 429}}), headers=HINTS),
        raw(event(chunk({"content": "He"})), headers=HINTS),
        raw(event(chunk({"content": "He"})), headers=HINTS, cut=True),
        raw(event(chunk({}, "insufficient_system_resource")), headers=HINTS),
        refusal(503, headers=HINTS),
    ],
    ids=["error inside", "no end", "cut", "finish word", "refusal"],
)
async def test_every_failure_has_the_hints_of_its_response(
    reply: Reply, server: FakeModelServer, adapter: HttpAdapter
) -> None:
    server.script(reply)
    failure = await failure_of(adapter)
    assert (failure.provider_retry_after_ms, failure.request_id, failure.should_retry) == (3_000, "r-1", False)


@pytest.mark.parametrize(
    "reply",
    [
        raw(b"<!DOCTYPE html><html>log in</html>", content_type="text/html"),
        raw(b"log in", content_type="text/plain"),
        raw(b'{"status": "ok"}', content_type="application/json"),
        raw(event({"hello": "there"})),
    ],
    ids=["web page", "words", "other json", "other events"],
)
async def test_what_is_no_models_answer_is_told_with_what_to_check_and_not_asked_for_again(
    reply: Reply, server: FakeModelServer, adapter: HttpAdapter
) -> None:
    server.script(reply)
    failure = await failure_of(adapter)
    assert failure.code == "MALFORMED_RESPONSE"
    assert "check baseUrl" in failure.message
    assert len(server.requests) == 1


async def test_an_answer_that_is_over_is_not_waited_for(server: FakeModelServer) -> None:
    said = next(vector for vector in MESSAGES if vector.id == "text")
    server.script(raw(*said.packets, Gate()))
    adapter = ADAPTERS["anthropic"](server.url)
    with anyio.fail_after(1.5):  # less than what a missing count is waited for
        assert finish_of(await collect(adapter)).reason == "stop"
    await adapter.aclose()


async def test_after_its_end_an_answer_is_waited_for_a_little_since_its_cost_may_come(
    server: FakeModelServer,
) -> None:
    client = ModelClient(EndpointSettings(base_url=server.url), tail_s=0.5)
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    server.script(
        raw(event(chunk({"content": "Hi"}, "stop")), Pause(0.1), event(usage), Gate()),
    )
    began = time.monotonic()
    chunks = [piece async for piece in client.stream(call_of(path="/chat/completions"), AbortSignal())]
    assert finish_of(chunks).reason == "stop"
    assert any(isinstance(piece, UsageChunk) for piece in chunks)
    assert time.monotonic() - began < 10, "the connection stays open"
    await client.aclose()


async def test_a_redirect_is_not_followed(server: FakeModelServer, adapter: HttpAdapter) -> None:
    server.script(refusal(302, headers={"Location": f"{server.url}/chat/completions"}), answer("hi"))
    failure = await failure_of(adapter)
    assert (failure.code, len(server.requests)) == ("HTTP_302", 1)
    assert "redirects are not followed" in failure.message


class FakeBrokenDecoder(ChatDecoder):
    """Fails at what it reads, or at the end."""

    def __init__(self, *, at_end: bool) -> None:
        super().__init__()
        self.at_end = at_end

    def feed_all(self, events: Iterable[JsonObject]) -> Iterator[Chunk]:
        if not self.at_end:
            raise TypeError("unhashable type: 'list'")
        return super().feed_all(events)

    def end(self, *, done: bool) -> Iterator[Chunk]:
        raise ValueError("no end")


class RecordingTransport(FakeTransport):
    """Keeps the requests, too."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return await super().handle_async_request(request)


def call_of(**more: Any) -> Call:
    return Call(**{"path": "/c", "headers": {}, "encode": lambda stream: b"{}", "new_decoder": ChatDecoder, **more})


@pytest.mark.parametrize("at_end", [False, True])
async def test_what_a_decoder_cannot_read_is_a_failure_and_no_exception(at_end: bool) -> None:
    transport = FakeTransport()
    transport.packets = (event(chunk({"content": "Hi"}, "stop")),)
    client = ModelClient(EndpointSettings(base_url="http://server.test"), transport=transport)
    call = call_of(new_decoder=lambda: FakeBrokenDecoder(at_end=at_end))
    chunks = [piece async for piece in client.stream(call, AbortSignal())]
    failure = finish_of(chunks).failure
    assert failure is not None
    assert failure.code == "MALFORMED_RESPONSE"


async def test_every_wait_of_a_request_has_its_own_limit() -> None:
    transport = RecordingTransport()
    transport.packets = (event(chunk({"content": "Hi"}, "stop")),)
    limits = {"connect_timeout_s": 1, "idle_timeout_s": 2, "write_timeout_s": 3, "pool_timeout_s": 4}
    client = ModelClient(EndpointSettings(base_url="http://server.test", **limits), transport=transport)
    assert [piece async for piece in client.stream(call_of(), AbortSignal())]
    assert transport.requests[0].extensions["timeout"] == {"connect": 1, "read": 2, "write": 3, "pool": 4}
    await client.aclose()


@pytest.mark.parametrize(("idle_s", "connections"), [(0.05, 2), (KEEP_IDLE_S, 1)])
async def test_a_connection_that_was_idle_for_long_is_not_used_again(
    idle_s: float, connections: int, server: FakeModelServer
) -> None:
    assert KEEP_IDLE_S <= 20
    client = ModelClient(EndpointSettings(base_url=server.url), keep_idle_s=idle_s)
    for _ in range(2):
        server.script(answer("hi"))
        call = call_of(path="/chat/completions")
        assert finish_of([piece async for piece in client.stream(call, AbortSignal())]).failure is None
        await anyio.sleep(0.1)
    assert server.connections == connections
    await client.aclose()
