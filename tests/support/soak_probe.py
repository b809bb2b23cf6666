"""Soak probe: a plugin whose tool tells what a server holds: objects, tasks, futures, descriptors, threads, memory.

Loaded by its path, through the setting `plugins`; it looks from inside, so that the server needs no door of its own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import typing
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from dsh_lsp.plugin import Context
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Card, Effect, Execution, Mode, Tool, ToolArgs, ToolOutput

name = "soak-probe"
inject = (ToolRegistry,)


class Nothing(ToolArgs):
    """It takes no arguments."""


class Probe(Tool[Nothing]):
    """Counts."""

    name = "probe"
    description = "Tell what the server holds."
    Args = Nothing
    mode: Mode = "parallel"  # type: ignore[misc]

    async def execute(self, _args: Nothing, _execution: Execution) -> ToolOutput:
        """Count what is left after a collection."""
        for forget in typing._cleanups:  # type: ignore[attr-defined]
            forget()  # the last 128 classes that were looked up, those of plugins loaded before among them
        gc.collect()
        return ToolOutput(text=json.dumps(_held()))

    def effects(self, _args: Nothing) -> list[Effect]:
        """It looks at the server alone."""
        return []

    def present_call(self, _args: Nothing) -> Card:
        """Name it."""
        return Card(kind="generic", title="Probe")


def apply(ctx: Context, _settings: Any) -> None:
    """Register the tool."""
    ctx.register(ToolRegistry, Probe())


def _held() -> dict[str, Any]:
    objects = gc.get_objects()
    kinds = Counter(type(each) for each in objects)
    named = {f"{kind.__module__}.{kind.__qualname__}": number for kind, number in kinds.items()}
    futures = (each for each in objects if isinstance(each, asyncio.Future | Future))
    return {
        "objects": {name: number for name, number in named.items() if name.startswith("dsh_lsp.")},
        "tasks": len(asyncio.all_tasks()),
        "futures": sum(not future.done() for future in futures),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
        "threads": threading.active_count(),
        "blocks": sys.getallocatedblocks(),
        "memory": _resident(),
    }


def _resident() -> int:
    """Bytes."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines["VmRSS"].split()[0])
