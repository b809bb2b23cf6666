"""Event cutter: the same frames as a reference reader of server-sent events, however the bytes are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from httpx import Response
from httpx_sse import EventSource
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.llm.event_stream import Frame, read_batches, read_frames

PIECES = st.lists(
    st.sampled_from(
        [
            *(b"data: a\n\n", b"data:b\r\n\r\n", b"data: \xc3", b"\xa9\n", b"data\n", b"data:  two\n", b"data: ["),
            *(b"event: x\r", b"id: 1\n", b"retry: 5\n", b": c\n", b"\n", b"\r", b"\r\n"),
            *(b"\xe2\x80\xa8", b"\xff", b"x", b" ", b":"),
        ]
    ),
    max_size=12,
)


async def packets(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def reference(parts: list[bytes]) -> list[Frame]:
    """What httpx-sse reads, with the last event's blank line supplied."""
    response = Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=packets([*parts, b"\n\n"]),
        default_encoding="utf-8-sig",
    )
    events = [Frame(event.data, event.event) async for event in EventSource(response).aiter_sse()]
    return [frame for frame in events if frame.data.strip()]


@settings(max_examples=max(300, settings.default.max_examples))
@given(PIECES, st.booleans())
def test_frames_are_those_of_a_reference_reader(parts: list[bytes], marked: bool) -> None:
    parts = [*([b"\xef\xbb\xbf"] if marked else []), b"data: first\n\n", *parts]

    async def both() -> tuple[list[Frame], list[Frame]]:
        return [frame async for frame in read_frames(packets(parts))], await reference(parts)

    ours, theirs = asyncio.run(both())
    assert ours == theirs


async def test_frames_that_a_packet_completes_come_together() -> None:
    parts = [b"data: 1\n\ndata: 2\n\nda", b"ta: 3\n\n: ping\n\n", b": ping\n\n", b"data: 4"]
    batches = [[frame.data for frame in batch] async for batch in read_batches(packets(parts))]
    assert batches == [["1", "2"], ["3"], ["4"]]
