"""Fake model server: real HTTP and real server-sent events on the loopback, scripted reply by reply.

Owns: a thread with a loop of its own, so that it serves tests in the loop and servers in other processes alike.
Rules: replies are given in the order of the script; a request too many is answered 400, so that a test fails at once
instead of retrying. Attributes are read from any thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

EVENT_STREAM = "text/event-stream"
POLL_S = 0.005
WAIT_S = 20.0  # a limit, not a delay: a machine under load takes long


@dataclass(frozen=True, slots=True)
class Pause:
    """Send nothing for a while."""

    seconds: float


@dataclass(slots=True)
class Gate:
    """Send nothing until `release()`; `reached` says that the server stands here."""

    reached: bool = False
    released: bool = False

    def release(self) -> None:
        self.released = True

    async def wait_reached(self, timeout_s: float = WAIT_S) -> None:
        await until(lambda: self.reached, timeout_s)


Packet: TypeAlias = bytes | Pause | Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One HTTP response; `cut` breaks the connection in the place of a clean end."""

    packets: tuple[Packet, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": EVENT_STREAM})
    cut: bool = False

    def before(self, *packets: Packet) -> Reply:
        """Pause or hold in front of the first packet."""
        return replace(self, packets=packets + self.packets)

    def every(self, seconds: float) -> Reply:
        """Pause in front of each packet."""
        return replace(self, packets=tuple(item for packet in self.packets for item in (Pause(seconds), packet)))

    def torn_after(self, count: int) -> Reply:
        """Break the connection after so many packets."""
        return replace(self, packets=self.packets[:count], cut=True)


@dataclass(slots=True)
class Request:
    """One request as it came; `torn` says that the client left before the answer was whole."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    torn: bool = False
    answered: bool = False


ScriptedReply: TypeAlias = Reply | Callable[[Request], Reply]

# -- replies -------------------------------------------------------------------------------------------------


def event(payload: Any) -> bytes:
    """One event with a JSON payload."""
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **top: Any) -> dict[str, Any]:
    """The JSON of one chunk."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "model": "fake-model", **top}


def answer(
    text: str = "",
    *,
    reasoning: str = "",
    calls: Iterable[tuple[str, dict[str, Any] | str]] = (),
    usage: tuple[int, int] = (10, 5),
    finish: str | None = None,
    delta_chars: int = 8,
) -> Reply:
    """A good answer as DeepSeek streams it; `calls` are tool names with arguments, as values or as raw text."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None, "reasoning_content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reasoning, delta_chars)]
    deltas += [{"content": piece} for piece in _pieces(text, delta_chars)]
    calls = list(calls)
    for index, (name, arguments) in enumerate(calls):
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        head = {"index": index, "id": f"call_{index}_{name}", "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
        for piece in _pieces(raw, delta_chars):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    tokens = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    end = chunk({}, finish or ("tool_calls" if calls else "stop"), usage=tokens)
    return Reply(packets=(*(event(chunk(delta)) for delta in deltas), event(end), b"data: [DONE]\n\n"))


def raw(
    *packets: Packet,
    content_type: str = EVENT_STREAM,
    status: int = 200,
    cut: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Exactly these bytes, packet by packet."""
    named = {"Content-Type": content_type, **(headers or {})}
    return Reply(packets=packets, status=status, headers=named, cut=cut)


def refusal(status: int, body: Any = None, *, headers: Mapping[str, str] | None = None) -> Reply:
    """An HTTP error; `body` is JSON, text or nothing."""
    text = body if isinstance(body, str) else json.dumps(body)
    packets = () if body is None else (text.encode(),)
    return raw(*packets, content_type="application/json", status=status, headers=headers)


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


async def until(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Wait until `condition` holds, from inside a loop.

    Raises:
        TimeoutError: it never did.
    """
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(POLL_S)


# -- server --------------------------------------------------------------------------------------------------


class FakeModelServer:
    """Serves `POST …/chat/completions` and `…/messages` on 127.0.0.1 while the context is open.

    What is asked for by GET is found in `documents`, by the end of its path, each time the same. `requests` are those
    received, in order; `connections` counts the sockets. `stop()` refuses new connections, as a server that is down.
    """

    def __init__(self, *replies: ScriptedReply) -> None:
        self.requests: list[Request] = []
        self.port = 0
        self.connections = 0
        self.documents: dict[str, Reply] = {}
        self._replies: deque[ScriptedReply] = deque(replies)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="fake-model-server", daemon=True
        )
        self._started = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transports: set[asyncio.WriteTransport] = set()
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    @property
    def url(self) -> str:
        """What to give as the base URL."""
        return f"http://127.0.0.1:{self.port}"

    def script(self, *replies: ScriptedReply) -> None:
        """Add replies to the script."""
        self._replies.extend(replies)

    def hang_up(self) -> None:
        """Close every connection, as a server does with those that are idle, before this returns; serve others."""
        closed = threading.Event()

        def close() -> None:
            for transport in list(self._transports):
                transport.abort()  # which closes its socket at the loop's next turn
            self._loop.call_soon(closed.set)

        self._loop.call_soon_threadsafe(close)
        closed.wait()

    def wait_for_requests(self, count: int, timeout_s: float = WAIT_S) -> None:
        """Wait, outside of a loop, until so many requests have come.

        Raises:
            TimeoutError: they did not come.
        """
        deadline = time.monotonic() + timeout_s
        while len(self.requests) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.requests)} of {count} requests came in {timeout_s} s")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop serving; a second call changes nothing."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(5)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(WAIT_S), "the fake model server has not started"
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**24)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._transports.add(writer.transport)
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                if not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            if self.requests and not self.requests[-1].answered:
                self.requests[-1].torn = True
        except asyncio.CancelledError:
            pass  # the server stops; a cancelled connection task would be reported as an error
        finally:
            self._tasks.discard(task)
            self._transports.discard(writer.transport)
            writer.transport.abort()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send one reply; False when the connection is over."""
        reply = self._next_reply(request)
        head = [f"HTTP/1.1 {reply.status} Scripted", "Transfer-Encoding: chunked"]
        head += [f"{name}: {value}" for name, value in reply.headers.items()]
        writer.write("\r\n".join([*head, "", ""]).encode())
        for packet in reply.packets:
            if isinstance(packet, bytes):
                writer.write(b"%x\r\n%b\r\n" % (len(packet), packet) if packet else b"")
                await writer.drain()
                await asyncio.sleep(0)
                gone = _is_gone(reader)
            else:
                gone = await _wait(packet, reader)
            if gone:
                request.torn = True
                return False
        if not reply.cut:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        request.answered = True
        if reply.cut:
            writer.close()  # after what was written, unlike an abort
            await writer.wait_closed()
        return not reply.cut

    def _next_reply(self, request: Request) -> Reply:
        path = request.path.partition("?")[0]
        found = (reply for end, reply in self.documents.items() if request.method == "GET" and path.endswith(end))
        if (document := next(found, None)) is not None:
            return document
        if request.method != "POST" or not path.endswith(("/chat/completions", "/messages")):
            return refusal(404, {"error": {"message": f"nothing at {request.method} {request.path}"}})
        if not self._replies:
            message = f"the fake model server has no reply for request {len(self.requests)}"
            return refusal(400, {"error": {"message": message}})
        reply = self._replies.popleft()
        return reply if isinstance(reply, Reply) else reply(request)


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    line = await reader.readline()
    if not line:
        return None
    method, path, _ = line.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method=method, path=path, headers=headers, body=json.loads(body) if body else None)


async def _wait(packet: Pause | Gate, reader: asyncio.StreamReader) -> bool:
    """Wait out a pause or a gate; True as soon as the client has left."""
    end = time.monotonic() + packet.seconds if isinstance(packet, Pause) else None
    if isinstance(packet, Gate):
        packet.reached = True
    while not _is_gone(reader):
        if time.monotonic() >= end if end is not None else isinstance(packet, Gate) and packet.released:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _is_gone(reader: asyncio.StreamReader) -> bool:
    return reader.at_eof() or reader.exception() is not None
