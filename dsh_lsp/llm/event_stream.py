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
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import NamedTuple

MAX_STREAM_BYTES = 64 * 2**20
_BOM = codecs.BOM_UTF8
_FIELDS = ("data", "event", "id", "retry")


class Frame(NamedTuple):
    """One event: its text and its name; a tuple, since there are thousands in a second."""

    data: str
    event: str = "message"


class StreamTooLargeError(Exception):
    """More bytes came than one answer may have."""


class NotAStreamError(Exception):
    """What came is neither events nor JSON: a web page, most often."""


class _Packets:
    """The packets of a response, the first ones put back after the look at them; counts the bytes."""

    def __init__(self, source: AsyncIterator[bytes], *, max_bytes: int) -> None:
        self._source = source
        self._left = max_bytes
        self._head: bytes | None = None

    def __aiter__(self) -> _Packets:
        return self

    async def __anext__(self) -> bytes:
        if self._head is not None:
            head, self._head = self._head, None
            return head
        packet = await anext(self._source)
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


async def read_batches(
    packets: AsyncIterator[bytes], *, max_bytes: int = MAX_STREAM_BYTES
) -> AsyncGenerator[list[Frame]]:
    """Read frames, those that a packet completes together: who reads waits once a packet and not once a frame.

    Raises:
        StreamTooLargeError: more than `max_bytes` came.
        NotAStreamError: all of it came, and nothing in it is an event.
    """
    source = _Packets(packets, max_bytes=max_bytes)
    first = await source.look()
    if not first:
        return
    cutter = _JsonCutter() if first in b"{[" else _EventCutter()
    async for packet in source:
        if batch := [frame for frame in cutter.feed(packet) if frame.data.strip()]:
            yield batch
    if batch := [frame for frame in cutter.end() if frame.data.strip()]:
        yield batch
    if cutter.strange:
        raise NotAStreamError


class _EventCutter:
    """Cuts server-sent events with the parts of httpx-sse.

    Its `EventSource` is not used: it believes the type and charset that the response claims, and waits once an event.
    """

    def __init__(self) -> None:
        from httpx_sse._decoders import SSEDecoder, SSELineDecoder

        self._text = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._lines = SSELineDecoder()
        self._events = SSEDecoder()
        self._first: str | None = None  # the data line that an event began with, and that may be all of it
        self._inside = False  # an event that the library has begun to read
        self._strangers = False  # lines that are of no event
        self._events_came = False

    @property
    def strange(self) -> bool:
        return self._strangers and not self._events_came

    def feed(self, packet: bytes) -> Iterator[Frame]:
        text = self._text.decode(packet)
        for line in self._lines.decode(text) if text else ():
            if self._first is not None:
                first, self._first = self._first, None
                if not line:  # nearly all events are one line of data
                    self._events_came = True
                    yield Frame(first[6:] if first[5:6] == " " else first[5:])
                    continue
                self._events.decode(first)
            elif not self._inside and line.startswith("data:"):
                self._first = line
                continue
            self._inside = bool(line)
            self._strangers |= not _may_be_field(line)
            event = self._events.decode(line)
            if event is not None:
                self._events_came = True
                yield Frame(event.data, event.event)

    def end(self) -> Iterator[Frame]:
        """Complete an event whose blank line is missing."""
        return self.feed(b"\n\n")


def _may_be_field(line: str) -> bool:
    """Whether a line is of an event, if only the beginning of one; nothing before the colon is a comment."""
    name = line.partition(":")[0]
    return any(known.startswith(name) for known in _FIELDS)


class _JsonCutter:
    """Cuts one JSON value per line, if the first line is one; else the whole body is one value."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._pending: list[str] = []
        self._by_line: bool | None = None
        self.strange = False

    def feed(self, packet: bytes) -> Iterator[Frame]:
        self._pending.append(self._decoder.decode(packet))
        if self._by_line is False or "\n" not in self._pending[-1]:
            return
        *lines, rest = "".join(self._pending).split("\n")
        if self._by_line is None and any(line.strip() for line in lines):
            self._by_line = _is_json(next(line for line in lines if line.strip()))
        if not self._by_line:
            return
        self._pending = [rest]
        yield from map(Frame, lines)

    def end(self) -> Iterator[Frame]:
        yield Frame("".join(self._pending) + self._decoder.decode(b"", final=True))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
