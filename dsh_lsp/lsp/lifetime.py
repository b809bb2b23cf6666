"""Lifetime: the process around a server, from its descriptors to its exit code.

Owns: the task group of the whole life, the order of messages, signals, the watch on the client's process.
Rules: `exit` gives 0 after `shutdown`, else 1; so does the end of input; a signal gives 128 + its number. The
shutdown hook runs in each case. Three seconds after the end began the process is gone, whatever still runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NoReturn

import anyio

from dsh_lsp.lsp.client_process import is_alive
from dsh_lsp.lsp.host import HostProtocol, HostServer
from dsh_lsp.lsp.transport import Descriptors, FrameReader, FrameWriter, claim_descriptors

if TYPE_CHECKING:
    from types import FrameType

log = logging.getLogger(__name__)

HARD_STOP_S: Final = 3.0
BLOCKED_LOOP_S: Final = 6.0  # from the end of input to the hard stop of a loop that does not even notice it
WATCH_S: Final = 2.0
FLUSH_S: Final = 1.0
STDERR_S: Final = 0.3
INPUT_PAUSE_BYTES: Final = 8 << 20
THREAD_SWITCH_S: Final = 0.0005  # a busy loop would else keep reader and writer waiting for 5 ms each


class Ending:
    """The exit code and the moment it was decided; the first decision stands."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.begun = asyncio.Event()
        self.code: int | None = None
        self._loop = loop
        # Its `put` may interrupt itself, as signal handlers do; a lock that the main thread holds would hang there.
        self._limits: SimpleQueue[tuple[float, int]] = SimpleQueue()
        threading.Thread(target=self._stop_hard, name="hard-stop", daemon=True).start()

    def begin(self, code: int) -> None:
        """Begin the end, in any thread or a signal handler, even if the loop is blocked."""
        if self.code is None:
            self.code = code
            self.limit(HARD_STOP_S, code)
            self._loop.call_soon_threadsafe(self.begun.set)

    def limit(self, after_s: float, code: int) -> None:
        """Let the process be gone after a time at the latest."""
        self._limits.put((after_s, code))

    def _stop_hard(self) -> None:
        after_s, code = self._limits.get()
        deadline = time.monotonic() + after_s
        while (left := deadline - time.monotonic()) > 0:
            with suppress(Empty):
                after_s, code = self._limits.get(timeout=left)
                deadline = min(deadline, time.monotonic() + after_s)
        os._exit(code)


def run(server: HostServer, descriptors: Descriptors | None = None) -> NoReturn:
    """Serve one client on stdin and stdout, then end the process; `descriptors` if they are claimed already."""
    code = 1
    claimed = descriptors or claim_descriptors()
    try:
        code = anyio.run(serve, server, claimed)
    except (Exception, SystemExit, KeyboardInterrupt):
        # An `exit()` somewhere inside must not hang, as it does under pygls.
        log.critical("the server crashed", exc_info=True)
    finally:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # none, broken, closed
                stream.flush()
        if claimed.errors is not None:
            claimed.errors.close(timeout_s=STDERR_S)
        os._exit(code)  # a worker thread that is stuck must not keep the process


async def serve(server: HostServer, descriptors: Descriptors | None = None) -> int:
    """Serve one client until the end and return the exit code; the whole process ends 3 s after that began.

    Raises:
        ExceptionGroup: a task that was started in `server.task_group` crashed.
    """
    sys.setswitchinterval(THREAD_SWITCH_S)
    protocol, loop = server.protocol, asyncio.get_running_loop()
    ending = Ending(loop)
    claimed = descriptors or claim_descriptors()
    _take_signals(ending)
    writer = FrameWriter(claimed.output, loop, on_broken=lambda: ending.begin(1))
    reader = FrameReader(claimed.input, loop, on_end=lambda: ending.limit(BLOCKED_LOOP_S, 1))
    protocol.attach(writer)
    protocol.on_exit = ending.begin
    try:
        async with anyio.create_task_group() as group:
            server.task_group = group
            group.start_soon(_pump, protocol, reader, writer, ending)
            group.start_soon(_watch_client, server, ending)
            await ending.begun.wait()
            await protocol.finish()
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            if ending.code is None:  # a task crashed
                ending.begin(1)
                await protocol.finish()
            await writer.close(timeout_s=FLUSH_S)
    return 1 if ending.code is None else ending.code


def _take_signals(ending: Ending) -> None:
    # Not `loop.add_signal_handler`: that one waits for a loop which may be blocked.
    def handle(number: int, _frame: FrameType | None) -> None:
        ending.begin(128 + number)

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    hang_up = getattr(signal, "SIGHUP", None)  # Windows has none, and `nohup` wants it ignored
    if hang_up is not None and signal.getsignal(hang_up) is signal.SIG_DFL:
        signal.signal(hang_up, handle)


async def _pump(protocol: HostProtocol, reader: FrameReader, writer: FrameWriter, ending: Ending) -> None:
    while (body := await reader.receive()) is not None:
        try:
            protocol.handle_body(body)
        except Exception:
            # The last net: one message that nobody foresaw must not end the connection.
            log.exception("a message could not be handled")
        await asyncio.sleep(0)  # the first step of an async handler comes before the next message
        if writer.pending_bytes > INPUT_PAUSE_BYTES:
            await writer.drain()  # a client that asks but does not read gets no more answers for now
    ending.begin(0 if protocol.closing else 1)


async def _watch_client(server: HostServer, ending: Ending) -> None:
    """End with the client's process; a sibling that holds the pipes would keep an orphan alive for ever."""
    while True:
        await anyio.sleep(WATCH_S)
        watched = server.protocol.client_pid
        if watched is not None and not is_alive(watched):
            log.error("the client's process %d is gone", watched)
            ending.begin(1)
            return
