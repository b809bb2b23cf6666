"""Hosted: a headless agent with the services and the host that its plugins get."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import anyio.to_thread

from dsh_lsp.agent.driver import Agent
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.agent.snapshot import RuntimeContext
from dsh_lsp.llm.scripted import ScriptedReply
from dsh_lsp.plugin import Context
from dsh_lsp.plugin_host import PluginEntry, PluginHost
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.registry import ToolRegistry
from tests.support.headless import Headless, headless

_ticks = count(1)


@dataclass
class Hosted:
    headless: Headless
    context: Context
    prompt: SystemPrompt
    plugins: PluginHost

    @property
    def agent(self) -> Agent:
        return self.headless.agent

    def systems(self) -> list[str]:
        """The system text of each request that the model got."""
        return [request.system for request in self.headless.model.requests]


def write(path: Path, source: str) -> Path:
    """Write a plugin's file so that its time differs from all that were written before."""
    path.write_text(source)
    moment = path.stat().st_mtime_ns + next(_ticks) * 1_000_000
    os.utime(path, ns=(moment, moment))
    return path


def read_entries(*raw: Any) -> list[PluginEntry]:
    return [PluginEntry.model_validate(one) for one in raw]


@asynccontextmanager
async def hosted(
    script: Iterable[ScriptedReply],
    *plugins: Any,
    root: Path = Path("/no/such/workspace"),
    folders: Sequence[Path] = (),
    trusted: bool = True,
    provide: Sequence[tuple[type[Any], Any]] = (),
    **options: Any,
) -> AsyncIterator[Hosted]:
    """Build an agent with plugins as the setting `plugins` names them."""
    prompt = SystemPrompt()
    prompt.register(Section(name="identity", order=0, text="You are a test."))
    async with headless(script, prompt=prompt, **options) as h:
        context = Context()
        services = {
            Agent: h.agent,
            AgentHooks: h.agent.hooks,
            RuntimeContext: h.agent.context,
            SessionLog: h.log,
            SystemPrompt: prompt,
            ToolRegistry: h.registry,
            **dict(provide),
        }
        for kind, service in services.items():
            context.provide(kind, service)
        host = PluginHost(context, read_entries(*plugins), root=root, folders=lambda: folders, trusted=trusted)
        await anyio.to_thread.run_sync(host.start)  # it imports, and the tests let nothing block the loop
        yield Hosted(h, context, prompt, host)
        await h.idle()
        context.scope.close()
