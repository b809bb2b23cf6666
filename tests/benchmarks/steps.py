"""Steps: what the harness costs between an answer and the next request, at steps 10 to 1,000 of one turn.

The baseline is a bare loop of httpx and json: a list of messages, a JSON Lines log with an event a chunk, and an
fsync at the same two points of a step, before the tool's body and before the request. `bare` touches the disk in a
thread, as everything must that shares its loop with an editor; `blocking` does it in the loop, which is the least
that it can cost. All ask a fake model server in another process, which answers at once and notes when an answer had
ended and when the next request came: the gap between them is all that the client did. Each step calls one tool that
reads a small file.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import Ratio, interleave, ratio

ROUNDS = 4
STEPS = 1_000
AT = {10: (6, 14), 100: (90, 110), 400: (390, 410), 1_000: (980, 1_000)}  # the steps whose median is taken
LIMIT = 1.5
MEMORY_LIMIT = 2.0
FILE = "notes.txt"
TEXT = "".join(f"{number}: a line of a small file\n" for number in range(12))
TASK = "Read the notes again and again."
SYSTEM = "You are a coding agent. " * 40
TOOLS = ("read_file", "list_files", "search", "edit_file", "write_file", "shell", "fetch", "todo")  # all of them read
DESCRIPTION = "Read a text file of the workspace. " * 10


def run() -> list[Ratio]:
    """Compare the gaps and, after the last step, the memory."""
    gaps: dict[tuple[str, int], list[float]] = {}
    memory: dict[str, list[float]] = {"ours": [], "bare": [], "blocking": []}

    def measure(client: str) -> float:
        result = _measure(client)
        for step, value in result.gaps.items():
            gaps.setdefault((client, step), []).append(value)
        memory[client].append(result.memory)
        return result.memory

    interleave(ROUNDS, {client: lambda client=client: measure(client) for client in memory})
    return [
        *(ratio(f"gap at step {n}", gaps["ours", n], gaps["bare", n], limit=LIMIT) for n in AT),
        *(ratio(f"gap at step {n}, to a loop that blocks", gaps["ours", n], gaps["blocking", n]) for n in AT),
        ratio(
            f"memory after {STEPS} steps",
            memory["ours"],
            memory["bare"],
            limit=MEMORY_LIMIT,
            scale=2**-20,
            unit="MB",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Result:
    """One client's run: seconds by step, bytes in memory at the end."""

    gaps: dict[int, float]
    memory: float


def _measure(client: str) -> Result:
    """Run one client against a server of its own, both in processes of their own."""
    with tempfile.TemporaryDirectory() as directory, _spawn("server") as server:
        Path(directory, FILE).write_text(TEXT)
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        with _spawn(client, port, directory) as process:
            said, _ = process.communicate()
        told, _ = server.communicate()
    assert process.returncode == 0, f"{client} failed"
    gaps = json.loads(told)
    assert len(gaps) == STEPS, f"{client} made {len(gaps)} steps"
    middle = {step: statistics.median(gaps[first - 1 : last]) for step, (first, last) in AT.items()}
    return Result(middle, float(said))


def _spawn(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__ if __name__ != "__main__" else "tests.benchmarks.steps", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def _memory() -> int:
    """Bytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# -- the model server ----------------------------------------------------------------------------------------


class _Server(asyncio.Protocol):
    """Answers each request at once: with a call of the tool, and after the last step with text."""

    def __init__(self, gaps: list[float]) -> None:
        self._gaps = gaps
        self._data = bytearray()
        self._expected = -1
        self._answered = 0
        self._ended_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answered and not self._data:
            self._gaps.append(time.perf_counter() - self._ended_at)
        self._data += data
        if self._expected < 0 and (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._data[:end]).lower()
            length = head.split(b"content-length:")[1].split(b"\r\n")[0]
            self._expected = end + 4 + int(length)
        if 0 <= self._expected <= len(self._data):
            self._data.clear()
            self._expected = -1
            self._answer()

    def _answer(self) -> None:
        self._answered += 1
        body = _answer_body(self._answered)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._transport.write(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        self._ended_at = time.perf_counter()


def _answer_body(number: int) -> bytes:
    """An answer as DeepSeek streams it: thinking, a word, a call; `number` counts the requests from 1."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None, "reasoning_content": ""}]
    deltas += [{"reasoning_content": f" thought {piece}"} for piece in range(8)]
    deltas += [{"content": f" word {piece}"} for piece in range(4)]
    calls = number <= STEPS
    if calls:
        head = {"index": 0, "id": f"call_{number}", "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": "read_file", "arguments": ""}}]})
        for piece in ('{"pa', 'th": "', FILE, '"}'):
            deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    events = [_chunk(delta) for delta in deltas]
    events.append(_chunk({}, finish="tool_calls" if calls else "stop", usage=usage))
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"


def _chunk(delta: dict[str, Any], finish: str | None = None, **top: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "model": "fake-model", **top}


async def _serve() -> None:
    gaps: list[float] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Server(gaps), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)  # until the parent is done
    sys.stdout.write(json.dumps(gaps))


# -- the bare loop -------------------------------------------------------------------------------------------


async def _bare(url: str, directory: Path, *, blocking: bool) -> None:
    import httpx

    async def apart(work: Callable[[], Any]) -> Any:
        return work() if blocking else await asyncio.get_running_loop().run_in_executor(None, work)

    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": DESCRIPTION,
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
            },
        }
        for name in TOOLS
    ]
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    with (directory / "bare.jsonl").open("a") as log:

        def note(kind: str, data: Any) -> None:
            log.write(json.dumps({"type": kind, "time": time.time_ns() // 1_000_000, "data": data}) + "\n")

        def sync() -> None:
            log.flush()
            os.fsync(log.fileno())

        async with httpx.AsyncClient(base_url=url) as client:
            while True:
                body = {
                    "model": "m",
                    "messages": messages,
                    "tools": tools,
                    "max_tokens": 256_000,
                    "stream": True,
                    "stream_options": {"include_usage": True},
                }
                await apart(sync)
                answer = await _bare_answer(client, body, note)
                messages.append(answer)
                note("message", answer)
                if "tool_calls" not in answer:
                    return
                for call in answer["tool_calls"]:
                    note("call", call)
                    await apart(sync)
                    text = await apart((directory / json.loads(call["function"]["arguments"])["path"]).read_text)
                    result = {"role": "tool", "tool_call_id": call["id"], "content": text}
                    messages.append(result)
                    note("result", result)


async def _bare_answer(client: Any, body: dict[str, Any], note: Any) -> dict[str, Any]:
    """Stream one answer and put it together."""
    answer: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": ""}
    calls: dict[int, dict[str, Any]] = {}
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {"Authorization": "Bearer sk-none", "Content-Type": "application/json"}
    async with client.stream("POST", "/chat/completions", content=content, headers=headers) as response:
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            event = json.loads(line[6:])
            note("chunk", event)
            delta = event["choices"][0]["delta"]
            answer["content"] += delta.get("content") or ""
            answer["reasoning_content"] += delta.get("reasoning_content") or ""
            for piece in delta.get("tool_calls", ()):
                call = calls.setdefault(piece["index"], piece)
                if call is not piece:
                    call["function"]["arguments"] += piece["function"]["arguments"]
    if calls:
        answer["tool_calls"] = list(calls.values())
    return answer


# -- ours ----------------------------------------------------------------------------------------------------


async def _ours(url: str, directory: Path) -> None:
    """The same turn by the agent with its store and the DeepSeek adapter; no editor."""
    import anyio

    from dsh_lsp.agent.driver import Agent, AgentParts
    from dsh_lsp.agent.prompt import Section, SystemPrompt
    from dsh_lsp.agent.request import AgentOptions
    from dsh_lsp.events import ToolResult
    from dsh_lsp.llm.adapter import Llm
    from dsh_lsp.llm.deepseek import DeepSeekAdapter, DeepSeekSettings
    from dsh_lsp.session.log import SessionHeader, SessionLog
    from dsh_lsp.session.store import SessionStore
    from dsh_lsp.tools.registry import ToolRegistry

    llm, registry, prompt = Llm(), ToolRegistry(), SystemPrompt()
    adapter = DeepSeekAdapter(DeepSeekSettings(base_url=url), environ={"DEEPSEEK_API_KEY": "sk-none"})
    llm.register(adapter)
    for name in TOOLS:
        registry.register(_reader(name, directory))
    prompt.register(Section(name="identity", order=0, text=SYSTEM))
    log = SessionLog(SessionHeader(id="s", created_at=0, cwd=str(directory)))
    store = SessionStore.create(directory, log)
    async with anyio.create_task_group() as tasks:
        agent = Agent(
            AgentParts(
                log=log,
                llm=llm,
                tools=registry,
                prompt=prompt,
                options=AgentOptions(provider="deepseek", model="m"),
                tasks=tasks,
                barrier=store.flush,
            )
        )
        agent.followup(agent.message(TASK))
        await agent.when_idle()
    await store.flush()
    results = [event.data.message.text for event in log if isinstance(event.data, ToolResult)]
    assert results == [TEXT] * STEPS
    await adapter.aclose()


def _reader(tool_name: str, directory: Path) -> Any:
    import anyio.to_thread

    from dsh_lsp.tools.tool import Effect, Execution, Tool, ToolArgs, ToolOutput

    class Args(ToolArgs):
        path: str

    class Reads(Tool[Args]):
        name = tool_name
        description = DESCRIPTION
        mode = "parallel"

        async def execute(self, args: Args, execution: Execution) -> ToolOutput:
            return ToolOutput(text=await anyio.to_thread.run_sync((directory / args.path).read_text))

        def effects(self, args: Args) -> list[Effect]:
            return [Effect(kind="read", detail=args.path, grant_key=args.path)]

    Reads.Args = Args
    return Reads()


def main(arguments: Sequence[str]) -> None:
    """Be one of the processes."""
    role, *where = arguments
    if role == "server":
        asyncio.run(_serve())
        return
    url, directory = f"http://127.0.0.1:{where[0]}", Path(where[1])
    asyncio.run(_ours(url, directory) if role == "ours" else _bare(url, directory, blocking=role == "blocking"))
    sys.stdout.write(str(_memory()))


if __name__ == "__main__":
    main(sys.argv[1:])
