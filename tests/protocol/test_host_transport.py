"""The two threads of the transport over real pipes, with limits that are small enough to reach."""

from __future__ import annotations

import asyncio
import io
import json
import os
import select
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.lsp.host import create_server
from dsh_lsp.lsp.transport import HIGH_WATER_BYTES, MAX_FRAME_BYTES, FrameReader, FrameWriter, read_header
from tests.support.model_server import until
from tests.support.raw_client import RawClient

BODY = b"x" * 60_000
WAIT_S = 5.0
LEAST_BYTES = 64 << 20  # of questions that are taken while nobody reads the answers


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends; the test may close them itself."""
    ends = os.pipe()
    yield ends
    for descriptor in ends:
        with suppress(OSError):
            os.close(descriptor)


async def read_frames(descriptor: int, count: int) -> list[bytes]:
    """Read frames in a thread, as a client does."""

    def read() -> list[bytes]:
        with open(descriptor, "rb", closefd=False) as stream:
            bodies = []
            for _ in range(count):
                length = int(stream.readline().partition(b":")[2])
                stream.readline()
                bodies.append(stream.read(length))
            return bodies

    return await asyncio.wait_for(asyncio.to_thread(read), WAIT_S)


# Out


async def test_more_unread_output_than_the_limit_is_the_end_of_the_client(pipe) -> None:
    broken: list[bool] = []
    writer = FrameWriter(pipe[1], asyncio.get_running_loop(), lambda: broken.append(True), limit_bytes=12 * len(BODY))
    for _ in range(11):
        writer.send(BODY)
    await asyncio.sleep(0.05)
    assert not broken
    assert writer.pending_bytes <= 12 * len(BODY)
    for _ in range(20):
        writer.send(BODY)
    await until(lambda: broken)
    assert broken == [True]
    assert writer.pending_bytes <= 14 * len(BODY)
    await asyncio.wait_for(writer.drain(), 1)  # nobody waits for a dead client
    os.close(pipe[0])
    await writer.close(timeout_s=1)


async def test_a_client_that_reads_late_gets_all_that_the_limit_allows(pipe) -> None:
    writer = FrameWriter(pipe[1], asyncio.get_running_loop(), pytest.fail, limit_bytes=100 * len(BODY))
    sent = [b"%d " % number + BODY for number in range(50)]
    for body in sent:
        writer.send(body)
    await asyncio.sleep(0.05)
    assert await read_frames(pipe[0], 50) == sent
    await until(lambda: writer.pending_bytes == 0)
    await writer.close(timeout_s=1)


async def test_live_frames_are_refused_above_high_water_and_taken_again_below(pipe) -> None:
    writer = FrameWriter(pipe[1], asyncio.get_running_loop(), pytest.fail)
    taken = 0
    while writer.send_live(BODY):
        taken += 1
    assert taken * len(BODY) <= HIGH_WATER_BYTES + 3 * len(BODY)  # and what the pipe itself holds
    for _ in range(5):
        writer.send(BODY)
    drained = asyncio.create_task(writer.drain())
    await asyncio.sleep(0.05)
    assert not drained.done()
    await read_frames(pipe[0], taken + 5)
    await asyncio.wait_for(drained, WAIT_S)
    assert writer.send_live(BODY)
    await read_frames(pipe[0], 1)
    await writer.close(timeout_s=1)


async def test_a_client_that_closes_its_end_is_noticed_once(pipe) -> None:
    broken: list[bool] = []
    writer = FrameWriter(pipe[1], asyncio.get_running_loop(), lambda: broken.append(True))
    os.close(pipe[0])
    for _ in range(3):
        writer.send(BODY)
        await asyncio.sleep(0.02)
    await until(lambda: broken)
    assert broken == [True]
    await writer.close(timeout_s=1)


# In


async def test_unhandled_input_is_bounded_and_keeps_its_order(pipe) -> None:
    reader = FrameReader(pipe[0], asyncio.get_running_loop(), lambda: None, limit_bytes=2 * len(BODY))
    sent = [b"%d " % number + BODY for number in range(20)]
    written = 0

    def write() -> None:
        nonlocal written
        for body in sent:
            os.write(pipe[1], b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            written += 1
        os.close(pipe[1])

    writing = asyncio.create_task(asyncio.to_thread(write))
    await asyncio.sleep(0.2)
    assert written <= 7  # three that wait, one in hand, the rest in buffer and pipe: then the client must wait
    received = [await reader.receive() for _ in sent]
    assert received == sent
    assert await asyncio.wait_for(reader.receive(), WAIT_S) is None
    await writing


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"\r\n", b"\n", b"Content-Length: 7\r\n", b":"])))
def test_a_header_of_any_bytes_gives_a_length_or_the_end(pieces: list[bytes]) -> None:
    length = read_header(io.BytesIO(b"".join(pieces)).readline)
    assert length is None or 0 <= length <= MAX_FRAME_BYTES


# A client that asks and does not read


def test_questions_without_end_are_answered_later_and_cost_bounded_memory() -> None:
    """Beyond 8 MiB of unread answers, no more questions are taken from the pipe."""
    with RawClient.start_host() as client:
        client.initialize()
        before = client.command("test.measure")["result"]["peakBytes"]
        client.stop_reading()
        asked = 0
        body = json.dumps({"text": "x" * 100_000})
        process = client.process
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        data = b""
        while asked < 2000:
            if not data:
                asked += 1
                message = b'{"jsonrpc":"2.0","id":"q%d","method":"test/raw","params":%b}' % (asked, body.encode())
                data = b"Content-Length: %d\r\n\r\n%b" % (len(message), message)
            patience_s = (
                0.5 if asked * 100_000 > LEAST_BYTES else WAIT_S
            )  # a slow server is not yet one that has enough
            if not select.select([], [process.stdin], [], patience_s)[1]:
                break
            data = data[os.write(process.stdin.fileno(), data) :]
        os.set_blocking(process.stdin.fileno(), True)
        client.resume_reading()
        client.send_bytes(data)
        for number in (1, asked // 2, asked):
            assert "result" in client.reply(f"q{number}")
        answered = [m["id"] for m in client.messages if str(m.get("id", "")).startswith("q")]
        assert answered == [f"q{number}" for number in range(1, asked + 1)]
        assert LEAST_BYTES < asked * 100_000 < 96 << 20
        after = client.command("test.measure")["result"]["peakBytes"]
        assert after - before < 120 << 20  # 64 MiB that wait to be handled and 8 MiB of answers, with their copies
        assert client.close() == 0


def test_an_unserved_host_says_so_and_goes_on() -> None:
    protocol = create_server("unserved", "1").protocol
    protocol.notify("test/x", {})
    assert not protocol.notify_live("test/x", {})
