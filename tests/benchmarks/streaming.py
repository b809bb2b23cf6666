"""Streaming: what stands between a model's server and an editor costs, a chunk and a prompt at a time.

Two measures, each against a bare loop of httpx and JSON Lines in the same run, both in processes of their own and
against a model server in a third. *Chunks*: an answer of many small deltas, from the first byte to the last line in
the log; ours also assembles them, packs the log and sends the editor its frames as bytes. *First byte*: from the
command `dsh.followup` to the arrival of the request, which ours sends only once the prompt is on disk.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import Ratio, interleave, ratio

CHUNKS = 20_000
PROMPTS = 20
ROUNDS = 3
PACKET = 16  # events that come together, as from a fast server
WORDS = ("The ", "answer ", "goes ", "on", ", ", "word ", "by ", "word", ". ")
FIRST_BYTE_LIMIT_S = 0.005
CLIENTS = ("ours", "bare")


def run() -> list[Ratio]:
    """Measure both."""
    chunks = interleave(ROUNDS, {name: lambda name=name: _measure(name, "chunks")[0] for name in CLIENTS})
    first = interleave(ROUNDS, {name: lambda name=name: _measure(name, "prompts")[1] for name in CLIENTS})
    over = [(ours - bare) / FIRST_BYTE_LIMIT_S for ours, bare in zip(first["ours"], first["bare"], strict=True)]
    words = ", ".join(f"{name} {1e3 * statistics.median(first[name]):.2f} ms" for name in CLIENTS)
    return [
        ratio(
            f"time for {CHUNKS} chunks, to a bare loop",
            chunks["ours"],
            chunks["bare"],
            limit=1.0,
            scale=1.0,
            unit="s",
        ),
        Ratio(
            name="from dsh.followup to the request, over a bare client, in 5 ms",
            value=statistics.median(over),
            limit=1.0,
            detail=words,
        ),
    ]


def _measure(client: str, what: str) -> tuple[float, float]:
    """One client's run: seconds from the first request to the last line, median seconds from prompt to arrival."""
    with tempfile.TemporaryDirectory() as directory, _spawn("server", what) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        with _spawn(client, what, port, directory) as process:
            said, _ = process.communicate()
        arrived, _ = server.communicate()
    assert process.returncode == 0, f"{client} failed"
    sent = json.loads(said)
    times = json.loads(arrived)
    assert len(times) == len(sent["prompts"]), f"{client}: {len(times)} requests for {len(sent['prompts'])} prompts"
    gaps = [there - here for here, there in zip(sent["prompts"], times, strict=True)]
    return sent["ended"] - times[0], statistics.median(gaps[1:] or gaps)


def _spawn(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.streaming", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


# -- the model server ----------------------------------------------------------------------------------------


class _Server(asyncio.Protocol):
    """Notes when each request came and streams its answer."""

    def __init__(self, arrived: list[float], packets: Sequence[bytes]) -> None:
        self._arrived, self._packets = arrived, packets
        self._data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._data:
            self._arrived.append(time.perf_counter())
        self._data += data
        head, separator, body = bytes(self._data).partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            return
        self._data.clear()
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for packet in self._packets:
            self._transport.write(b"%x\r\n%b\r\n" % (len(packet), packet))
        self._transport.write(b"0\r\n\r\n")


def _packets(chunks: int) -> list[bytes]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None, "reasoning_content": ""}]
    deltas += [{"content": WORDS[number % len(WORDS)]} for number in range(chunks)]
    events = [_event(delta) for delta in deltas]
    events.append(_event({}, "stop", usage={"prompt_tokens": 10, "completion_tokens": chunks}))
    lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]
    return [b"".join(lines[at : at + PACKET]) for at in range(0, len(lines), PACKET)]


def _event(delta: dict[str, Any], finish: str | None = None, **top: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "model": "fake-model", "choices": [choice], **top}


async def _serve(what: str) -> None:
    arrived: list[float] = []
    packets = _packets(CHUNKS if what == "chunks" else 1)
    server = await asyncio.get_running_loop().create_server(lambda: _Server(arrived, packets), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)  # until the parent is done
    sys.stdout.write(json.dumps(arrived))


# -- the clients ---------------------------------------------------------------------------------------------


async def _bare(url: str, directory: Path, prompts: int) -> dict[str, Any]:
    """A request, and a line in a file for each chunk."""
    import httpx

    sent: list[float] = []
    headers = {"Authorization": "Bearer sk-none", "Content-Type": "application/json"}
    messages: list[dict[str, Any]] = []
    with (directory / "bare.jsonl").open("a") as log:
        async with httpx.AsyncClient(base_url=url) as client:
            for _ in range(prompts):
                await asyncio.sleep(0.01)
                sent.append(time.perf_counter())
                messages.append({"role": "user", "content": "Go."})
                body = {"model": "m", "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
                text = ""
                async with client.stream(
                    "POST", "/chat/completions", content=json.dumps(body), headers=headers
                ) as response:
                    async for line in response.aiter_lines():
                        if not line.startswith("data: ") or line == "data: [DONE]":
                            continue
                        event = json.loads(line[6:])
                        log.write(json.dumps({"type": "chunk", "time": time.time_ns(), "data": event}) + "\n")
                        text += event["choices"][0]["delta"].get("content") or ""
                messages.append({"role": "assistant", "content": text})
        log.flush()
    return {"prompts": sent, "ended": time.perf_counter()}


class RecordingClient:
    """A client that reads everything; what is sent to it is made bytes, as on a pipe."""

    def __init__(self) -> None:
        self.sent = 0
        self.text = ""
        self.ended = asyncio.Event()

    async def request(self, method: str, params: dict[str, Any], *, timeout_s: float | None) -> Any:
        return None

    def notify(self, method: str, params: Any | None = None) -> None:
        self.sent += len(
            json.dumps({"jsonrpc": "2.0", "method": method, "params": params}, ensure_ascii=False).encode()
        )
        value = (params or {}).get("value") or {}
        if value.get("type") == "assistant/stream":
            self.text += value["data"]["text"]
        elif value.get("type") == "turn/end":
            self.ended.set()

    def notify_live(self, method: str, params: Any) -> bool:
        self.notify(method, params)
        return True

    async def drain(self) -> None:
        return None


async def _ours(url: str, directory: Path, prompts: int) -> dict[str, Any]:
    """The server's own runtime: command, loop, adapter, log on disk, and the frames that an editor gets."""
    import anyio

    from dsh_lsp.lsp.commands import run_command
    from dsh_lsp.lsp.runtime import Runtime

    options = {
        "eventToken": "events",
        "model": {"baseUrl": url},
        "sessions": {"directory": str(directory)},
    }
    initialize = {
        "capabilities": {"experimental": {"dsh": {"version": 1}}, "window": {"workDoneProgress": True}},
        "initializationOptions": options,
        "rootUri": directory.as_uri(),
    }
    client, sent = RecordingClient(), []
    async with anyio.create_task_group() as tasks:
        runtime = Runtime(initialize, client=client, tasks=tasks, encoding="utf-16")
        await run_command(runtime, "dsh.status", {})
        for _ in range(prompts):
            await asyncio.sleep(0.01)
            client.ended.clear()
            sent.append(time.perf_counter())
            await run_command(runtime, "dsh.followup", {"text": "Go."})
            await client.ended.wait()
        live = runtime.sessions.get(None)
        await live.session.on_disk()
        ended = time.perf_counter()
        assert len(client.text) >= prompts, "the frames hold the text"
        await runtime.close()
        tasks.cancel_scope.cancel()
    return {"prompts": sent, "ended": ended}


def main(arguments: Sequence[str]) -> None:
    """Be one of the processes."""
    role, what, *where = arguments
    if role == "server":
        asyncio.run(_serve(what))
        return
    url, directory = f"http://127.0.0.1:{where[0]}", Path(where[1])
    client = _ours if role == "ours" else _bare
    sys.stdout.write(json.dumps(asyncio.run(client(url, directory, 1 if what == "chunks" else PROMPTS))))


if __name__ == "__main__":
    import os

    os.environ.setdefault("DEEPSEEK_API_KEY", "sk-none")
    main(sys.argv[1:])
