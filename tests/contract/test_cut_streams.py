"""Answers that are cut: into other packets, which changes nothing, and short, which is told and runs nothing."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from itertools import count

import httpx
import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm.answer import Decoder
from dsh_lsp.llm.chat_decoder import ChatDecoder
from dsh_lsp.llm.dialect import Dialect
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.messages_decoder import MessagesDecoder
from dsh_lsp.llm.model_client import Call, ModelClient
from dsh_lsp.messages import BlockEnd, Chunk, Finish, ToolCallBlock
from tests.support.wire_vectors import VECTORS
from tests.support.wire_vectors.vector import TOOLS, Vector

MAX_BYTES = 5_000  # of a vector that is cut at every byte
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
STRIDE = 1 if LONG else 61  # a prime, so that the places differ from vector to vector

CUTTABLE = [vector for vector in VECTORS if 1 < sum(map(len, vector.packets)) <= MAX_BYTES]
CLEAN = {"STREAM_CLOSED", "EMPTY_RESPONSE", "TRANSPORT", "MALFORMED_RESPONSE"}
AS_TEXT = "22-error-event-as-text"  # half of its words are words all the same


class FakeTransport(httpx.AsyncBaseTransport):
    """Answers every request with the packets of the moment; `breaks` ends them as a broken connection does."""

    def __init__(self) -> None:
        self.packets: Iterable[bytes] = ()
        self.breaks = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=_Stream(self.packets, breaks=self.breaks))


class _Stream(httpx.AsyncByteStream):
    def __init__(self, packets: Iterable[bytes], *, breaks: bool) -> None:
        self._packets, self._breaks = packets, breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for packet in self._packets:
            yield packet
        if self._breaks:
            raise httpx.RemoteProtocolError("peer closed connection")


def client_of(vector: Vector, transport: FakeTransport) -> Callable[[], Awaitable[list[Chunk]]]:
    """What reads a vector's answer, with ids that are the same each time."""
    dialect = Dialect(think_tags=vector.by in {"tags", "text calls"}, text_calls=vector.by == "text calls")

    def new_decoder() -> Decoder:
        ids = count()
        if vector.by == "anthropic":
            return MessagesDecoder(tools=TOOLS, new_id=lambda: f"id-{next(ids)}")
        return ChatDecoder(tools=TOOLS, dialect=dialect, new_id=lambda: f"id-{next(ids)}")

    client = ModelClient(EndpointSettings(base_url="http://server.test"), transport=transport)
    call = Call(path="/c", headers={}, encode=lambda stream: b"{}", new_decoder=new_decoder)

    async def collect() -> list[Chunk]:
        return [chunk async for chunk in client.stream(call, AbortSignal())]

    return collect


def joined(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks with neighbouring deltas of one block made one."""
    whole: list[Chunk] = []
    for chunk in chunks:
        last = whole[-1] if whole else None
        text = getattr(chunk, "text", None)
        if text is not None and type(last) is type(chunk) and last.index == chunk.index:
            whole[-1] = replace(last, text=last.text + text)
        elif hasattr(chunk, "arguments_delta") and type(last) is type(chunk) and last.index == chunk.index:
            whole[-1] = replace(last, arguments_delta=last.arguments_delta + chunk.arguments_delta)
        else:
            whole.append(chunk)
    return whole


def places(size: int) -> range:
    return range(1 + size % STRIDE, size, STRIDE)


async def assert_other_packets(vector: Vector, transport: FakeTransport) -> None:
    """Cut an answer into two packets at every place: nothing changes."""
    whole, collect = b"".join(vector.packets), client_of(vector, transport)
    transport.packets, transport.breaks = (whole,), vector.cut
    expected = joined(await collect())
    for at in places(len(whole)):
        transport.packets = (whole[:at], whole[at:])
        assert joined(await collect()) == expected, at


async def assert_cut_short(vector: Vector, transport: FakeTransport, *, breaks: bool) -> None:
    """Leave the end of an answer away, at every place: it is complete all the same, or fails and runs nothing."""
    whole, collect = b"".join(vector.packets), client_of(vector, transport)
    transport.packets, transport.breaks = (whole,), vector.cut
    full = await collect()
    told = {getattr(full[-1].failure, "code", None)} | ({"UNKNOWN"} if vector.id == AS_TEXT else set())
    for at in places(len(whole)):
        transport.packets, transport.breaks = (whole[:at],), breaks
        chunks = await collect()
        finish = chunks[-1]
        assert isinstance(finish, Finish)
        if finish.failure is None:
            assert calls_of(chunks) <= calls_of(full), at
            assert finish.reason == full[-1].reason, at
        else:
            assert finish.failure.code in CLEAN | told, at
            assert not any(isinstance(chunk, BlockEnd) for chunk in chunks), at


def calls_of(chunks: list[Chunk]) -> set[tuple[str, str]]:
    blocks = [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)]
    return {(block.name, block.arguments) for block in blocks if isinstance(block, ToolCallBlock)}


@pytest.mark.parametrize("vector", CUTTABLE, ids=lambda vector: vector.id)
async def test_an_answer_cut_into_other_packets_is_the_same_answer(vector) -> None:
    await assert_other_packets(vector, FakeTransport())


@pytest.mark.parametrize("breaks", [False, True], ids=["ends", "breaks"])
@pytest.mark.parametrize("vector", CUTTABLE, ids=lambda vector: vector.id)
async def test_an_answer_cut_short_is_told_and_runs_no_call_that_is_not_whole(vector, breaks) -> None:
    await assert_cut_short(vector, FakeTransport(), breaks=breaks)
