from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.llm.event_stream import Frame, StreamTooLargeError, read_batches

EVENTS = "\ufeffdata: é😀\r\n\r\n: ping\n\nevent: x\rdata: 1\r\rid: 3\n\ndata: a\u2028b\n\ndata:last".encode()
FRAMES = [Frame("é😀"), Frame("1", "x"), Frame("a\u2028b"), Frame("last")]


async def packets(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def frames(*parts: bytes, **limits: int) -> list[Frame]:
    return [frame async for batch in read_batches(packets(*parts), **limits) for frame in batch]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, len(EVENTS)), max_size=5))
async def test_events_cut_anywhere_give_the_same_frames(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(EVENTS)]
    parts = [EVENTS[start:end] for start, end in pairwise(edges)]
    assert await frames(*parts) == FRAMES


@pytest.mark.parametrize("at", range(12))
async def test_json_lines_cut_anywhere_give_the_same_frames(at: int) -> None:
    data = b'\n{"a":1}\r\n\n{"b":2}'
    assert [frame.data.strip() for frame in await frames(data[:at], data[at:])] == ['{"a":1}', '{"b":2}']


async def test_a_json_body_on_many_lines_is_one_frame() -> None:
    assert [frame.data.strip() for frame in await frames(b" \n{\n", b' "a":\n1}', b"\n")] == ['{\n "a":\n1}']


@pytest.mark.parametrize("parts", [(), (b"",), (b"\n \n",), (b"\xef\xbb",), (b"\xef\xbb\xbf",)])
async def test_nothing_gives_no_frame(parts: tuple[bytes, ...]) -> None:
    assert await frames(*parts) == []


async def test_a_stream_over_the_cap_is_refused() -> None:
    with pytest.raises(StreamTooLargeError):
        await frames(*[b"data: 12345\n\n"] * 10, max_bytes=100)


async def test_frames_that_a_packet_completes_come_together() -> None:
    parts = [b"data: 1\n\ndata: 2\n\nda", b"ta: 3\n\n: ping\n\n", b": ping\n\n", b"data: 4"]
    batches = [[frame.data for frame in batch] async for batch in read_batches(packets(*parts))]
    assert batches == [["1", "2"], ["3"], ["4"]]


@pytest.mark.parametrize(("mebibytes", "fits"), [(63, True), (65, False)])
async def test_an_answer_is_read_up_to_its_largest_size(mebibytes: int, fits: bool) -> None:
    comment = b":" + b"x" * (2**20 - 2) + b"\n"
    with nullcontext() if fits else pytest.raises(StreamTooLargeError):
        assert [batch async for batch in read_batches(packets(*[comment] * mebibytes))] == []
