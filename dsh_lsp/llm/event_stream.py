"""Frames: the bytes of a streamed answer, cut into the texts of its events.

Owns: what real servers do to server-sent events: a byte order mark, a wrong charset, a last event without its
blank line, JSON or one JSON value per line instead of events.
Rules: UTF-8 always, a bad byte is replaced; lines end at CR, LF or CRLF and nowhere else; the same bytes give the
same frames however they are cut into packets. The type that the response claims is not believed: the first byte
decides.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

MAX_STREAM_BYTES = 64 * 2**20
_BOM = codecs.BOM_UTF8


@dataclass(frozen=True, slots=True)
class Frame:
    """One event: its text and its name."""

    data: str
    event: str = "message"


class StreamTooLargeError(Exception):
    """More bytes came than one answer may have."""


class _Packets:
    """The packets of a response, the first ones put back after the look at them; counts the bytes.

    `ending` follows the last packet: it completes an event whose blank line is missing.
    """

    def __init__(self, source: AsyncIterator[bytes], *, max_bytes: int) -> None:
        self._source = source
        self._left = max_bytes
        self._head: bytes | None = None
        self.ending: bytes | None = None

    def __aiter__(self) -> _Packets:
        return self

    async def __anext__(self) -> bytes:
        if self._head is not None:
            head, self._head = self._head, None
            return head
        try:
            packet = await anext(self._source)
        except StopAsyncIteration:
            if self.ending is None:
                raise
            ending, self.ending = self.ending, None
            return ending
        self._left -= len(packet)
        if self._left < 0:
            raise StreamTooLargeError
        return packet

    async def look(self) -> bytes:
        """Read until the first byte that means something, and give it; empty if there is none."""
        head = b""
        async for packet in self:
            head += packet
            meaning = head.removeprefix(_BOM).lstrip()
            if meaning and not _BOM.startswith(head):
                self._head = head
                return meaning[:1]
        return b""


async def read_frames(packets: AsyncIterator[bytes], *, max_bytes: int = MAX_STREAM_BYTES) -> AsyncGenerator[Frame]:
    """Read frames from packets; a frame without text is left out.

    Raises:
        StreamTooLargeError: more than `max_bytes` came.
    """
    source = _Packets(packets, max_bytes=max_bytes)
    first = await source.look()
    if not first:
        return
    async with aclosing(_json_frames(source) if first in b"{[" else _event_frames(source)) as frames:
        async for frame in frames:
            if frame.data.strip():
                yield frame


async def _event_frames(packets: _Packets) -> AsyncGenerator[Frame]:
    from httpx import Response
    from httpx_sse import EventSource

    packets.ending = b"\n\n"
    # a response of our own: without the charset and the type that the server claims
    response = Response(
        200, headers={"content-type": "text/event-stream"}, content=packets, default_encoding="utf-8-sig"
    )
    async with aclosing(EventSource(response).aiter_sse()) as events:
        async for event in events:
            yield Frame(event.data, event.event)


async def _json_frames(packets: _Packets) -> AsyncGenerator[Frame]:
    """Read one JSON value per line, if the first line is one; else the whole body as one value."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    pending: list[str] = []
    by_line: bool | None = None
    async for packet in packets:
        pending.append(decoder.decode(packet))
        if by_line is False or "\n" not in pending[-1]:
            continue
        *lines, rest = "".join(pending).split("\n")
        if by_line is None and any(line.strip() for line in lines):
            by_line = _is_json(next(line for line in lines if line.strip()))
        if not by_line:
            continue
        pending = [rest]
        for line in lines:
            yield Frame(line)
    yield Frame("".join(pending) + decoder.decode(b"", final=True))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
