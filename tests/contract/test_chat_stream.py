"""What a provider sends over a real socket, and the message that comes of it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from typing import Any

import anyio
import pytest

from dsh_lsp.abort import Aborted, AbortSignal, Cause
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.deepseek import DeepSeekAdapter, DeepSeekSettings
from dsh_lsp.llm.http_adapter import HttpAdapter
from dsh_lsp.messages import (
    CallConfig,
    Chunk,
    TextDelta,
)
from tests.support.adapters import ADAPTERS, KEY
from tests.support.model_server import (
    FakeModelServer,
    Gate,
    Pause,
    Reply,
    answer,
    chunk,
    event,
    raw,
    refusal,
    until,
)
from tests.support.reading import assert_reads, finish_of
from tests.support.wire_vectors import TOOLS, VECTORS, Vector

USER = Cause(kind="user")


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as running:
        yield running


@pytest.fixture
async def adapter(server: FakeModelServer) -> AsyncIterator[HttpAdapter]:
    opened = adapter_for(server.url)
    yield opened
    await opened.aclose()


def adapter_for(url: str, name: str = "deepseek", **settings: Any) -> HttpAdapter:
    return ADAPTERS[name](url, **settings)


async def collect(adapter: HttpAdapter, signal: AbortSignal | None = None) -> list[Chunk]:
    prepared = adapter.prepare(CallConfig(provider="deepseek", model="deepseek-flash"))
    request = ModelRequest(
        config=prepared.config,
        messages=(),
        session_id="s",
        signal=signal or AbortSignal(),
        tools=TOOLS,
    )
    return [piece async for piece in prepared.stream(request)]


async def failure_text(adapter: HttpAdapter) -> tuple[str, str]:
    failure = finish_of(await collect(adapter)).failure
    assert failure is not None
    assert KEY not in repr(failure)
    return failure.code, failure.message


def readers(vector: Vector) -> tuple[str, ...]:
    """The adapters that a vector is for."""
    return ("deepseek", "tags") if vector.by is None else (vector.by,)


def test_every_quirk_has_a_vector() -> None:
    assert {int(vector.id[:2]) for vector in VECTORS} == set(range(1, 51))
    assert len({vector.id for vector in VECTORS}) == len(VECTORS)


@pytest.mark.parametrize(
    ("vector", "name"),
    [pytest.param(v, name, id=f"{v.id}-{name.replace(' ', '-')}") for v in VECTORS for name in readers(v)],
)
async def test_wire_quirk(vector: Vector, name: str, server: FakeModelServer) -> None:
    adapter = adapter_for(server.url, name)
    reply = raw(*vector.packets, content_type=vector.content_type, cut=vector.cut)
    server.script(reply, reply)  # twice: an empty stream is asked for again
    chunks = await collect(adapter)
    await adapter.aclose()
    assert_reads(vector, chunks)


async def test_a_stream_cut_at_any_byte_gives_the_same_chunks(server: FakeModelServer, adapter: HttpAdapter) -> None:
    whole = b"".join(
        (
            event(chunk({"reasoning_content": "é"})),
            b": ping\r\n\r\n",
            event(chunk({"content": "😀"})),
            event(chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]})),
            event(chunk({}, "tool_calls")).replace(b"\n", b"\r\n"),
            b"data: [DONE]\n\n",
        )
    )
    server.script(raw(whole))
    expected = await collect(adapter)
    for at in range(1, len(whole)):
        server.script(raw(whole[:at], Pause(0.0), whole[at:]))
        assert await collect(adapter) == expected


async def test_text_is_shown_before_the_stream_has_ended(server: FakeModelServer, adapter: HttpAdapter) -> None:
    gate = Gate()
    reply = answer("Hello")
    server.script(Reply(packets=(*reply.packets[:2], gate, *reply.packets[2:])))
    prepared = adapter.prepare(CallConfig(provider="deepseek", model="m"))
    request = ModelRequest(config=prepared.config, messages=(), session_id="s", signal=AbortSignal())
    seen: list[Chunk] = []
    async for item in prepared.stream(request):
        seen.append(item)
        if isinstance(item, TextDelta):
            assert not gate.released
            gate.release()
    assert finish_of(seen).reason == "stop"


async def test_cancelling_tears_the_connection(server: FakeModelServer, adapter: HttpAdapter) -> None:
    gate = Gate()
    server.script(answer("Hello").before(event(chunk({"content": "x"})), gate))
    signal = AbortSignal()
    began = time.monotonic()
    async with anyio.create_task_group() as tasks:

        async def cancel() -> None:
            await gate.wait_reached()
            signal.abort(USER)

        tasks.start_soon(cancel)
        with pytest.raises(Aborted):
            await collect(adapter, signal)
    await until(lambda: server.requests[0].torn, 2.0)
    assert time.monotonic() - began < 2.0


async def test_a_stream_left_by_its_reader_tears_the_connection(
    server: FakeModelServer, adapter: HttpAdapter
) -> None:
    server.script(answer("Hello").before(event(chunk({"content": "x"})), Gate()))
    prepared = adapter.prepare(CallConfig(provider="deepseek", model="m"))
    request = ModelRequest(config=prepared.config, messages=(), session_id="s", signal=AbortSignal())
    async with aclosing(prepared.stream(request)) as chunks:  # type: ignore[type-var]
        await anext(chunks)
    await until(lambda: server.requests[0].torn, 2.0)


async def test_a_signal_that_has_fired_sends_nothing(server: FakeModelServer, adapter: HttpAdapter) -> None:
    signal = AbortSignal()
    signal.abort(USER)
    with pytest.raises(Aborted):
        await collect(adapter, signal)
    assert server.requests == []


async def test_calls_share_one_connection(server: FakeModelServer, adapter: HttpAdapter) -> None:
    server.script(answer("one"), answer("two"))
    await collect(adapter)
    await collect(adapter)
    assert server.connections == 1


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(
    server: FakeModelServer, adapter: HttpAdapter
) -> None:
    server.script(answer("one"), answer("two"))
    await collect(adapter)
    server.hang_up()
    await anyio.sleep(0.05)
    assert finish_of(await collect(adapter)).failure is None
    assert server.connections == 2


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
        adapter = adapter_for(f"http://127.0.0.1:{full.getsockname()[1]}", connect_timeout_s=0.2, idle_timeout_s=0.5)
        code, _ = await failure_text(adapter)
        assert code == "TIMEOUT"
        await adapter.aclose()
        for one in taken:
            one.close()


async def test_a_request_says_who_asks_and_for_whom(server: FakeModelServer, adapter: HttpAdapter) -> None:
    server.script(answer("hi"))
    await collect(adapter)
    (request,) = server.requests
    assert request.path == "/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["user-agent"].startswith("dsh-lsp/")
    assert request.body["model"] == "deepseek-flash"
    assert request.body["max_tokens"] == 256_000
    assert request.body["stream_options"] == {"include_usage": True}


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


async def test_silence_is_a_timeout(server: FakeModelServer) -> None:
    server.script(answer("x").before(event(chunk({"content": "a"})), Gate()))
    adapter = adapter_for(server.url, idle_timeout_s=0.2)
    assert (await failure_text(adapter))[0] == "TIMEOUT"
    await adapter.aclose()


async def test_comments_alone_are_a_timeout_in_the_end(server: FakeModelServer) -> None:
    server.script(raw(*(b": keep-alive\n\n" for _ in range(100))).every(0.05))
    adapter = adapter_for(server.url, idle_timeout_s=2, event_timeout_s=0.3)
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
    adapter = adapter_for(server.url, context_window=9_000)
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
    adapter = adapter_for(server.url, "tags")
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


async def test_calls_wait_for_their_turn_after_the_provider_took_no_more(server: FakeModelServer) -> None:
    adapter, gates = adapter_for(server.url), [Gate(), Gate(), Gate()]
    server.script(
        answer("a").before(gates[0]), refusal(429), answer("b").before(gates[1]), answer("c").before(gates[2])
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect, adapter)
        await gates[0].wait_reached()
        assert finish_of(await collect(adapter)).failure is not None  # two were open: from now on one at a time
        tasks.start_soon(collect, adapter)
        await anyio.sleep(0.1)
        assert len(server.requests) == 2
        gates[0].release()
        await gates[1].wait_reached()
        gates[1].release()
    await adapter.aclose()


async def test_a_call_that_is_cancelled_as_its_turn_comes_leaves_its_place_to_the_next(
    server: FakeModelServer,
) -> None:
    adapter, gate = adapter_for(server.url), Gate()
    server.script(refusal(500, "{").before(gate), refusal(429), answer("b"))
    signal = AbortSignal()

    async def first() -> None:
        await collect(adapter)
        signal.abort(USER)  # in the very tick in which its place went to who waits

    async def cancelled() -> None:
        with pytest.raises(Aborted):
            await collect(adapter, signal)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await gate.wait_reached()
        assert finish_of(await collect(adapter)).failure is not None  # two were open: from now on one at a time
        tasks.start_soon(cancelled)
        await anyio.sleep(0.05)
        gate.release()
    with anyio.fail_after(5):
        assert finish_of(await collect(adapter)).failure is None
    assert len(server.requests) == 3
    await adapter.aclose()


async def test_a_call_that_is_cancelled_while_it_waits_gives_no_place_away(server: FakeModelServer) -> None:
    adapter, gate = adapter_for(server.url), Gate()
    server.script(refusal(500).before(gate), refusal(429), answer("b"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect, adapter)
        await gate.wait_reached()
        await collect(adapter)  # two were open: from now on one at a time
        signal = AbortSignal()

        async def cancelled() -> None:
            with pytest.raises(Aborted):
                await collect(adapter, signal)

        tasks.start_soon(cancelled)
        await anyio.sleep(0.05)
        signal.abort(USER)
        tasks.start_soon(collect, adapter)
        await anyio.sleep(0.1)
        assert len(server.requests) == 2, "the first call is still open"
        gate.release()
    assert len(server.requests) == 3
    await adapter.aclose()
