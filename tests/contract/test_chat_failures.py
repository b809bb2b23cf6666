"""What is refused, breaks or stays away while a provider is asked, and the failure that comes of it."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.deepseek import DeepSeekAdapter, DeepSeekSettings
from dsh_lsp.llm.http_adapter import HttpAdapter
from dsh_lsp.messages import (
    CallConfig,
    TextDelta,
)
from tests.support.adapters import ADAPTERS, KEY
from tests.support.model_server import (
    FakeModelServer,
    Gate,
    Pause,
    answer,
    chunk,
    event,
    raw,
    refusal,
)
from tests.support.reading import collect, finish_of


async def failure_text(adapter: HttpAdapter) -> tuple[str, str]:
    failure = finish_of(await collect(adapter)).failure
    assert failure is not None
    assert KEY not in repr(failure)
    return failure.code, failure.message


async def test_a_connection_that_is_never_taken_is_a_timeout() -> None:
    with socket.socket() as full:  # a backlog that nobody empties: the next connection is not taken
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        taken = [socket.socket() for _ in range(2)]
        for one in taken:
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(full.getsockname())
        await anyio.sleep(0.05)
        adapter = ADAPTERS["deepseek"](
            f"http://127.0.0.1:{full.getsockname()[1]}", connect_timeout_s=0.2, idle_timeout_s=0.5
        )
        code, _ = await failure_text(adapter)
        assert code == "TIMEOUT"
        await adapter.aclose()
        for one in taken:
            one.close()


OVERFLOW = "This model's maximum context length is 10 tokens. However, you requested 12 tokens"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, {"error": {"message": f"bad key {KEY}", "type": "authentication_error"}}, "AUTH"),
        (402, {"error": {"message": "Insufficient Balance"}}, "QUOTA"),
        (400, {"error": {"message": OVERFLOW, "code": "invalid_request_error"}}, "CONTEXT_WINDOW_EXCEEDED"),
        (400, {"error": {"message": "no"}}, "INVALID_REQUEST"),
        (404, None, "HTTP_404"),
        (429, {"error": {"message": "slow down"}}, "RATE_LIMIT"),
        (500, "<html>oops</html>", "SERVER"),
        (503, f"overloaded {KEY}", "SERVER"),
        (302, None, "HTTP_302"),
    ],
)
async def test_a_refused_request_becomes_a_failure_without_the_key(
    status: int, body: Any, code: str, server: FakeModelServer, adapter: HttpAdapter
) -> None:
    server.script(refusal(status, body, headers={"Retry-After": "1.5", "X-Request-Id": f"r-{KEY}"}))
    failure = finish_of(await collect(adapter)).failure
    assert failure is not None
    assert (failure.code, failure.status, failure.provider_retry_after_ms) == (code, status, 1500)
    assert KEY not in repr(failure)
    assert failure.request_id == "r-[key]"


async def test_an_auth_failure_names_the_variable(server: FakeModelServer, adapter: HttpAdapter) -> None:
    server.script(refusal(401))
    assert "DEEPSEEK_API_KEY" in (await failure_text(adapter))[1]


async def test_an_error_inside_a_stream_does_not_hold_the_key(server: FakeModelServer, adapter: HttpAdapter) -> None:
    server.script(raw(event({"error": {"message": f"Bearer {KEY} is bad", "code": 401}})))
    assert (await failure_text(adapter))[0] == "AUTH"


async def test_nobody_listening_is_told_with_the_host_and_what_to_check(
    server: FakeModelServer, adapter: HttpAdapter
) -> None:
    server.stop()
    code, message = await failure_text(adapter)
    assert code == "TRANSPORT"
    assert f"127.0.0.1:{server.port}" in message
    assert "baseUrl" in message


@pytest.mark.parametrize(
    ("status", "code", "more"),
    [
        (401, "AUTH", {"cut": True}),
        (402, "QUOTA", {"cut": True}),
        (429, "RATE_LIMIT", {"cut": True}),
        (401, "AUTH", {"packets": (b'{"error":', Gate())}),
        (503, "SERVER", {"packets": tuple(packet for _ in range(2_000) for packet in (b" ", Pause(0.05)))}),
    ],
    ids=["401 cut", "402 cut", "429 cut", "401 that stays open", "503 that never ends"],
)
async def test_a_refusal_is_known_by_its_status_where_its_words_do_not_come(
    status: int, code: str, more: dict[str, Any], server: FakeModelServer
) -> None:
    cut_short = replace(refusal(status, '{"error":', headers={"Retry-After": "7"}), **more)
    server.script(cut_short)
    adapter = ADAPTERS["deepseek"](server.url, idle_timeout_s=0.3)
    failure = finish_of(await collect(adapter)).failure
    await adapter.aclose()
    assert failure is not None
    assert (failure.code, failure.status, failure.provider_retry_after_ms) == (code, status, 7_000)


async def test_silence_is_a_timeout(server: FakeModelServer) -> None:
    server.script(answer("x").before(event(chunk({"content": "a"})), Gate()))
    adapter = ADAPTERS["deepseek"](server.url, idle_timeout_s=0.2)
    assert (await failure_text(adapter))[0] == "TIMEOUT"
    await adapter.aclose()


async def test_comments_alone_are_a_timeout_in_the_end(server: FakeModelServer) -> None:
    server.script(raw(*(b": keep-alive\n\n" for _ in range(100))).every(0.05))
    adapter = ADAPTERS["deepseek"](server.url, idle_timeout_s=2, event_timeout_s=0.3)
    assert (await failure_text(adapter))[0] == "TIMEOUT"
    await adapter.aclose()


async def test_an_empty_stream_is_asked_for_again_to_learn_the_error(
    server: FakeModelServer, adapter: HttpAdapter
) -> None:
    server.script(raw(), refusal(400, {"error": {"code": "context_length_exceeded"}}))
    assert (await failure_text(adapter))[0] == "CONTEXT_WINDOW_EXCEEDED"
    assert [request.body["stream"] for request in server.requests] == [True, False]
    assert "stream_options" not in server.requests[1].body


async def test_the_answer_to_the_second_asking_counts(server: FakeModelServer, adapter: HttpAdapter) -> None:
    body = {"choices": [{"message": {"content": "here"}, "finish_reason": "stop"}]}
    server.script(raw(), raw(json.dumps(body).encode(), content_type="application/json"))
    chunks = await collect(adapter)
    assert finish_of(chunks).reason == "stop"
    assert any(isinstance(item, TextDelta) and item.text == "here" for item in chunks)


async def test_a_server_that_hides_an_overflow_is_found_out_by_its_own_count(server: FakeModelServer) -> None:
    adapter = ADAPTERS["deepseek"](server.url, context_window=9_000)
    server.script(answer("Hm.", usage=(9_500, 2)))
    code, message = await failure_text(adapter)
    assert code == "CONTEXT_WINDOW_EXCEEDED"
    assert "9500" in message
    server.script(answer("", usage=(8_950, 0), finish="length"))
    assert (await failure_text(adapter))[0] == "CONTEXT_WINDOW_EXCEEDED"
    server.script(answer("Fine.", usage=(8_950, 2)))
    assert finish_of(await collect(adapter)).failure is None
    await adapter.aclose()


async def test_a_limit_that_a_refusal_names_bounds_the_next_request(server: FakeModelServer) -> None:
    adapter = ADAPTERS["tags"](server.url)
    told = "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens"
    server.script(refusal(400, {"error": {"message": told}}), answer("Fine."))
    config = CallConfig(provider="openai_compatible", model="small")
    assert adapter.prepare(config).context_window is None
    for prompt_tokens in (1_000, 1_000):
        prepared = adapter.prepare(config)
        request = ModelRequest(
            config=prepared.config, messages=(), session_id="s", signal=AbortSignal(), prompt_tokens=prompt_tokens
        )
        chunks = [piece async for piece in prepared.stream(request)]
    assert finish_of(chunks).failure is None
    assert adapter.prepare(config).context_window == 4_096
    first, second = (request.body["max_tokens"] for request in server.requests)
    assert first == 8_192
    assert second <= 4_096 - 1_000
    await adapter.aclose()


async def test_a_key_that_is_mended_after_a_refusal_is_noticed(server: FakeModelServer) -> None:
    environ = {"DEEPSEEK_API_KEY": "old"}
    adapter = DeepSeekAdapter(DeepSeekSettings(base_url=server.url), environ=environ)
    prepared = adapter.prepare(CallConfig(provider="deepseek", model="m"))
    assert not prepared.key_changed()
    environ["DEEPSEEK_API_KEY"] = "new"
    assert prepared.key_changed()
    del environ["DEEPSEEK_API_KEY"]
    assert not prepared.key_changed(), "without a key another try would not help"
