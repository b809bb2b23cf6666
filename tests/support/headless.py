"""Headless: an agent in memory over a scripted model, for tests of the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import anyio
from pydantic import Field

from dsh_lsp.agent.driver import Agent, AgentParts
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.agent.request import AgentOptions
from dsh_lsp.decisions import Effect
from dsh_lsp.events import AssistantChunk, LogEvent
from dsh_lsp.llm.adapter import Adapter, Llm
from dsh_lsp.llm.scripted import ScriptedAdapter, ScriptedReply
from dsh_lsp.messages import UserMessage
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import (
    Execution,
    Tool,
    ToolArgs,
    ToolOutput,
)


class AddArgs(ToolArgs):
    a: int = Field(description="one number")
    b: int = Field(description="another number")


class Add(Tool[AddArgs]):
    """A pure tool."""

    name = "add"
    description = "Add two numbers."
    Args = AddArgs
    mode = "parallel"

    async def execute(self, args: AddArgs, execution: Execution) -> ToolOutput:
        return ToolOutput(text=str(args.a + args.b))

    def effects(self, args: AddArgs) -> list[Effect]:
        return []


@dataclass
class Headless:
    agent: Agent
    log: SessionLog
    model: ScriptedAdapter
    registry: ToolRegistry
    llm: Llm

    @property
    def types(self) -> list[str]:
        """The log without chunks."""
        return [event.type for event in self.log if not isinstance(event.data, AssistantChunk)]

    def of(self, *tags: str) -> list[LogEvent]:
        return [event for event in self.log if event.type in tags]

    def say(self, text: str) -> UserMessage:
        return self.agent.message(text)

    async def ask(self, text: str) -> None:
        self.agent.followup(self.say(text))
        await self.idle()

    async def idle(self) -> None:
        with anyio.fail_after(5):
            await self.agent.when_idle()


@asynccontextmanager
async def headless(
    script: Iterable[ScriptedReply],
    *,
    tools: Sequence[Tool[Any]] = (),
    events: Sequence[LogEvent] = (),
    prompt: SystemPrompt | None = None,
    force_s: float = 10.0,
    checks: Sequence[Callable[[LogEvent], None]] = (),
    adapters: Sequence[Adapter] = (),
    parts: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Headless]:
    """Build an agent, run the body, and stop it.

    `checks` may refuse an append, `adapters` come beside the scripted one, `parts` are those of `AgentParts`.
    """
    ids, clock = count(1), count(1_000)
    header = SessionHeader(id="s1", created_at=0, cwd="/w")
    log = SessionLog(header, events=events, clock=lambda: next(clock), checks=checks)
    model = ScriptedAdapter(script)
    llm, registry = Llm(), ToolRegistry()
    for adapter in (model, *adapters):
        llm.register(adapter)
    for tool in tools:
        registry.register(tool)
    if prompt is None:
        prompt = SystemPrompt()
        prompt.register(Section(name="identity", order=0, text="You are a test."))
    async with anyio.create_task_group() as tasks:
        agent = Agent(
            AgentParts(
                log=log,
                llm=llm,
                tools=registry,
                prompt=prompt,
                options=AgentOptions(**{"provider": "scripted", "model": "script", **options}),
                tasks=tasks,
                new_id=lambda: f"id{next(ids)}",
                force_s=force_s,
                **(parts or {}),
            )
        )
        yield Headless(agent, log, model, registry, llm)
        with anyio.fail_after(5):
            await agent.dispose()
