"""What a provider sends over a real socket, and the message that comes of it."""

from __future__ import annotations

import time
from contextlib import aclosing

import anyio
import pytest

from dsh_lsp.abort import USER, Aborted, AbortSignal
from dsh_lsp.llm.adapter import ModelRequest
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
from tests.support.reading import assert_reads, collect, finish_of
from tests.support.wire_vectors import VECTORS
from tests.support.wire_vectors.vector import Vector


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
    adapter = ADAPTERS[name](server.url)
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
    assert finish_of(await collect(adapter)).failure is None
    assert server.connections == 2


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


async def test_calls_wait_for_their_turn_after_the_provider_took_no_more(server: FakeModelServer) -> None:
    adapter, gates = ADAPTERS["deepseek"](server.url), [Gate(), Gate(), Gate()]
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
    adapter, gate = ADAPTERS["deepseek"](server.url), Gate()
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
    adapter, gate = ADAPTERS["deepseek"](server.url), Gate()
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
