"""Host fixture: a tiny server whose commands do what goes wrong in real ones."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import time
from typing import Any

import anyio

from dsh_lsp.errors import ConfigError, UsageError
from dsh_lsp.lsp.host import HostServer, create_server
from dsh_lsp.lsp.lifetime import run
from dsh_lsp.lsp.log_file import start_logging

log = logging.getLogger(__name__)


class Trouble:
    """The state of one fixture server."""

    def __init__(self, server: HostServer) -> None:
        self.server = server
        self.seen: list[Any] = []
        self.beats = 0

    async def _beat(self) -> None:
        """Count, as long as the loop is not blocked."""
        while True:
            await anyio.sleep(0.02)
            self.beats += 1

    # Commands

    async def echo(self, argument: dict[str, Any]) -> Any:
        return argument

    async def fail(self, argument: dict[str, Any]) -> Any:
        match argument["how"]:
            case "bug":
                raise RuntimeError("first line\nsecond line")
            case "dsh":
                raise ConfigError("No key: set DEEPSEEK_API_KEY.", code="NO_KEY")
            case "usage":
                raise UsageError("Unknown hunk.", code="NO_HUNK")
            case "key":
                raise RuntimeError(f"GET https://example.com/?key={os.environ['FIXTURE_API_KEY']} failed")
            case "exit":
                sys.exit(7)
            case "group":
                async with anyio.create_task_group() as group:
                    group.start_soon(self._raise_key)

    async def _raise_key(self) -> None:
        raise ConfigError("No key.", code="NO_KEY")

    async def validate(self, argument: dict[str, Any]) -> Any:
        from pydantic import BaseModel, ConfigDict

        class Range(BaseModel):
            model_config = ConfigDict(extra="forbid")
            line: int

        class Argument(BaseModel):
            range: Range

        return Argument.model_validate(argument).model_dump()

    async def bad_result(self, argument: dict[str, Any]) -> Any:
        circle: list[Any] = []
        circle.append(circle)
        results = {"nan": float("nan"), "set": {1}, "object": self, "circle": circle, "surrogate": "a\ud800b"}
        return results[argument["what"]]

    async def slow(self, argument: dict[str, Any]) -> Any:
        self.seen.append("slow began")
        try:
            await asyncio.sleep(30)
        finally:
            self.seen.append("slow ended")

    async def accept(self, argument: dict[str, Any]) -> Any:
        """Take an input: what has begun is not undone."""
        self.seen.append("accepting")
        with anyio.CancelScope(shield=True):
            await anyio.sleep(argument.get("seconds", 0.01))
        return {"accepted": True}

    async def complain(self, argument: dict[str, Any]) -> Any:
        """Write far more to stderr than a pipe holds."""
        for number in range(argument["lines"]):
            log.warning("complaint %d %s", number, "x" * 100)
        print("end of complaints", file=sys.stderr, flush=True)

    async def take_seen(self, argument: dict[str, Any]) -> Any:
        seen, self.seen = self.seen, []
        return seen

    async def token(self, argument: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return self.server.protocol.work_done_token

    async def flood(self, argument: dict[str, Any]) -> Any:
        """Send durable and live frames faster than anybody reads."""
        protocol = self.server.protocol
        text, dropped = "x" * 10_000, 0
        for number in range(argument["count"]):
            if number % 64 == 0:  # so many that they pass the mark for certain while nobody reads
                await protocol.drain()
            protocol.notify("test/durable", {"number": number, "text": text})
            dropped += not protocol.notify_live("test/live", {"number": number, "text": text})
            if number % 16 == 0:
                await asyncio.sleep(0)
        return {"dropped": dropped}

    async def progress(self, argument: dict[str, Any]) -> Any:
        """Send many small progress messages, as durable or as live frames, as fast as the client reads."""
        protocol, sent = self.server.protocol, 0
        for number in range(argument["count"]):
            params = {"token": "events", "value": {"dsh": 1, "number": number, "text": "x" * 60}}
            if argument["live"]:
                sent += protocol.notify_live("$/progress", params)
            else:
                await protocol.drain()
                protocol.notify("$/progress", params)
                sent += 1
            await asyncio.sleep(0)
        return {"sent": sent}

    async def ask(self, argument: dict[str, Any]) -> Any:
        result = await self.server.protocol.request(
            argument["method"], argument.get("params", {}), timeout_s=argument["timeout"]
        )
        return {"result": result}

    async def ask_typed(self, argument: dict[str, Any]) -> Any:
        from lsprotocol import types

        edit = types.ApplyWorkspaceEditParams(edit=types.WorkspaceEdit(changes={}))
        return await asyncio.wait_for(self.server.workspace_apply_edit_async(edit), argument["timeout"])

    async def stray(self, argument: dict[str, Any]) -> Any:
        print("a stray print")
        sys.stdout.flush()
        program = "import sys; print('a child says', repr(sys.stdin.read()))"
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
        await child.wait()

    async def block(self, argument: dict[str, Any]) -> Any:
        time.sleep(argument["seconds"])  # noqa: ASYNC251 - the mistake that the test is about

    async def measure(self, argument: dict[str, Any]) -> Any:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak_bytes = peak if sys.platform == "darwin" else peak * 1024
        return {"beats": self.beats, "peakBytes": peak_bytes, "heldFutures": len(self._held())}

    def _held(self) -> list[Any]:
        return list(self.server.protocol._request_futures)

    async def crash(self, argument: dict[str, Any]) -> Any:
        self.server.task_group.start_soon(self._raise_key)


def main() -> None:
    """Serve; the environment says what the shutdown hook does, and whether there is a log file."""
    if path := os.environ.get("FIXTURE_LOG"):
        start_logging(path)
    server = create_server("fixture", "1")
    trouble = Trouble(server)
    for name in dir(trouble):
        if asyncio.iscoroutinefunction(method := getattr(trouble, name)) and not name.startswith("_"):
            server.command_table[f"test.{name}"] = method

    async def on_shutdown() -> None:
        print("the hook began", file=sys.stderr, flush=True)
        seconds = float(os.environ.get("HOOK_SECONDS", "0"))
        with anyio.CancelScope(shield=True):
            await anyio.sleep(seconds)
        print("the hook ended", file=sys.stderr, flush=True)

    server.on_shutdown = on_shutdown

    @server.feature("initialized")
    async def initialized(_params: Any) -> None:
        server.task_group.start_soon(trouble._beat)

    @server.feature("textDocument/didOpen")
    async def did_open(params: Any) -> None:
        trouble.seen.append(f"open {params.text_document.uri}")

    @server.feature("textDocument/didChange")
    async def did_change(params: Any) -> None:
        trouble.seen.append(f"change {params.text_document.version}")
        await asyncio.sleep(0.01)
        trouble.seen.append("later")

    @server.feature("textDocument/didSave")
    def did_save(params: Any) -> None:
        raise RuntimeError("the save handler fails")

    @server.feature("textDocument/hover")
    def hover(params: Any) -> Any:
        return None

    @server.feature("test/raw")
    async def raw(params: Any) -> Any:
        return {"params": params}

    @server.feature("test/thread")
    @server.thread()
    def thread(params: Any) -> None:
        time.sleep(params["seconds"])

    run(server)


if __name__ == "__main__":
    main()
