"""Transport: framed messages between two descriptors and the event loop, one thread for each direction.

Owns: descriptors 0 and 1, the frames that wait to be read and those that wait to be written.
Rules: the loop never blocks on a pipe; memory is bounded in both directions; frames keep their order and are
never torn; a frame passed to `send` is dropped only when the client is gone; `send`, `send_live` are safe in
every thread, all else belongs to the loop's.
Knows nothing of: JSON, LSP, pygls.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from dsh_lsp.lsp.log_file import StderrRelay

log = logging.getLogger(__name__)

HIGH_WATER_BYTES: Final = 256 << 10  # small, because replies queue behind what is buffered
LOW_WATER_BYTES: Final = 64 << 10
OUTPUT_LIMIT_BYTES: Final = 64 << 20  # a client that leaves this much unread is taken for dead
INPUT_LIMIT_BYTES: Final = 64 << 20
MAX_FRAME_BYTES: Final = 256 << 20
_PIECE_BYTES: Final = 64 << 10
_MAX_HEADER_LINES: Final = 100


class Descriptors(NamedTuple):
    """The two private descriptors that the protocol runs on, and what stands between us and the client's stderr."""

    input: int
    output: int
    errors: StderrRelay | None = None


def claim_descriptors() -> Descriptors:
    """Take descriptors 0, 1 and 2; afterwards stdin is empty, and stdout is a stderr that never blocks.

    So a stray `print()` or a child that inherits stdout cannot corrupt the stream, and a child cannot eat
    input (openlawlibrary/pygls#214). The copies are not inheritable: no child keeps the pipes open.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # the client closed it; what is opened next must not take its number
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    private = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    errors = None if os.name == "nt" else StderrRelay()  # Windows cannot ask a pipe whether it has room
    os.dup2(2, 1)
    for descriptor in private:
        with suppress(OSError, AttributeError):  # Windows has this for pipes since Python 3.12 only
            os.set_blocking(descriptor, True)  # a parent may have left it non-blocking
    return Descriptors(*private, errors)


def _resolve(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


class FrameSink(Protocol):
    """Where frames go: a `FrameWriter`, or a list in a test."""

    def send(self, body: bytes) -> None:
        """Queue a frame that must arrive."""

    def send_live(self, body: bytes) -> bool:
        """Queue a frame that may be lost; False when it was refused."""

    async def drain(self) -> None:
        """Wait until the client has caught up."""


class FrameWriter:
    """The way out: a buffer with a byte budget that a daemon thread empties.

    `on_broken` is called once, in the loop, when the client cannot be written to any more.
    """

    def __init__(
        self,
        descriptor: int,
        loop: asyncio.AbstractEventLoop,
        on_broken: Callable[[], None],
        *,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._on_broken = on_broken
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._frames: deque[bytes] = deque()
        self._pending_bytes = 0
        self._closed = False
        self._broken = False
        self._waiters: list[asyncio.Future[None]] = []
        self._ended: asyncio.Future[None] = loop.create_future()
        threading.Thread(target=self._run, name="lsp-writer", daemon=True).start()

    @property
    def pending_bytes(self) -> int:
        """How much waits for the client to read."""
        return self._pending_bytes

    def send(self, body: bytes) -> None:
        """Queue a frame that must arrive; never blocks. Producers of many await `drain()` between them."""
        with self._changed:
            if self._pending_bytes > self._limit_bytes:
                self._break("the client does not read")
            self._put(body)

    def send_live(self, body: bytes) -> bool:
        """Queue a frame that may be lost; refuse it (False) while the buffer is above the high-water mark."""
        with self._changed:
            if self._pending_bytes > HIGH_WATER_BYTES:
                return False
            self._put(body)
            return True

    async def drain(self) -> None:
        """Wait, if the buffer is above the high-water mark, until it is below the low one or nobody reads."""
        if self._pending_bytes <= HIGH_WATER_BYTES:
            return
        with self._changed:
            if self._pending_bytes <= HIGH_WATER_BYTES or self._broken or self._closed:
                return
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
        await waiter

    async def close(self, *, timeout_s: float) -> None:
        """Accept no more frames and wait until the buffered ones are written, at most `timeout_s`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        await asyncio.wait([self._ended], timeout=timeout_s)

    def _put(self, body: bytes) -> None:
        if self._broken or self._closed:
            return
        frame = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        self._frames.append(frame)
        self._pending_bytes += len(frame)
        self._changed.notify()

    def _break(self, reason: str) -> None:
        if self._broken:
            return
        self._broken = True
        self._frames.clear()
        log.error("output ended: %s", reason)
        self._call_loop(self._on_broken)
        self._call_loop(_resolve, self._waiters)

    def _call_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        try:
            while (chunk := self._next_chunk()) and not self._broken:
                self._write(memoryview(chunk))
        except OSError as error:
            with self._changed:
                self._break(str(error))
        self._call_loop(_resolve, [self._ended])

    def _next_chunk(self) -> bytes:
        with self._changed:
            while not self._frames and not self._closed:
                self._changed.wait()
            chunk = b"".join(self._frames)  # one system call for many frames
            self._frames.clear()
            return chunk

    def _write(self, rest: memoryview) -> None:
        while rest:
            count = os.write(self._descriptor, rest[:_PIECE_BYTES])
            rest = rest[count:]
            with self._changed:
                self._pending_bytes -= count
                if self._waiters and self._pending_bytes <= LOW_WATER_BYTES:
                    self._call_loop(_resolve, self._waiters)
                    self._waiters = []


class FrameReader:
    """The way in: a daemon thread reads frames ahead of the loop, up to a byte budget.

    `on_end` is called once, in that thread, when the input ends or cannot be understood any more.
    """

    def __init__(
        self,
        descriptor: int,
        loop: asyncio.AbstractEventLoop,
        on_end: Callable[[], None],
        *,
        limit_bytes: int = INPUT_LIMIT_BYTES,
    ) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._on_end = on_end
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._bodies: deque[bytes | None] = deque()
        self._waiting_bytes = 0
        self._arrived = asyncio.Event()
        threading.Thread(target=self._run, name="lsp-reader", daemon=True).start()

    async def receive(self) -> bytes | None:
        """Return the next body, or None when the input has ended."""
        while not self._bodies:
            self._arrived.clear()  # before the wait, and both in the loop: no arrival is missed
            await self._arrived.wait()
        with self._changed:
            body = self._bodies.popleft()
            self._waiting_bytes -= len(body or b"")
            self._changed.notify()
        return body

    def _put(self, body: bytes | None) -> None:
        with self._changed:
            while self._waiting_bytes > self._limit_bytes:
                self._changed.wait()
            self._bodies.append(body)
            self._waiting_bytes += len(body or b"")
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _run(self) -> None:
        try:
            with open(self._descriptor, "rb", closefd=False) as stream:
                while (length := read_header(stream.readline)) is not None:
                    body = stream.read(length)
                    if len(body) < length:
                        break
                    self._put(body)
        except OSError as error:
            log.error("input ended: %s", error)
        finally:
            self._put(None)
            self._on_end()


def read_header(readline: Callable[[int], bytes]) -> int | None:
    """Read one header and return its Content-Length; None ends the input.

    Names in any case and bare line feeds pass. A header without a usable length loses the place in the stream
    for good, where stock pygls waits for ever: that is the end of the input.
    """
    length: int | None = None
    lines = 0
    while (line := readline(_PIECE_BYTES)) not in (b"\r\n", b"\n") or not lines:
        if not line or lines > _MAX_HEADER_LINES:
            break
        if line in (b"\r\n", b"\n"):
            continue  # blank lines between two messages
        lines += 1
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            digits = value.strip()
            length = int(digits) if digits.isdigit() and len(digits) < 10 else -1
    if not line:
        return None
    if length is None or not 0 <= length <= MAX_FRAME_BYTES or lines > _MAX_HEADER_LINES:
        log.critical("input ended: a header without a usable Content-Length")
        return None
    return length
