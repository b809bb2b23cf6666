"""Headless tools: a tool of given parts, and a headless agent with plugins and the services that they inject."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.agent.driver import Agent
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.agent.modes import Modes
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.agent.snapshot import RuntimeContext
from dsh_lsp.decisions import Effect, Mode
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.llm.scripted import Reply, ScriptedReply, call
from dsh_lsp.plugin import Context
from dsh_lsp.secrets import Keys
from dsh_lsp.session.log import SessionLog
from dsh_lsp.shell.rules import CommandRules, ShellSettings
from dsh_lsp.tools.approvals import Approvals
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.spills import Spills
from dsh_lsp.tools.tool import Execution, Tool, ToolArgs
from dsh_lsp.tools.tool import Mode as ExecutionMode
from tests.support.headless import Headless, headless


class Given(ToolArgs):
    """Arguments for whatever a test wants to tell its tool."""

    key: str = ""
    n: int = 0


class Does(Tool[Given]):
    """A tool of given parts; `body` is called with the execution, and may be async."""

    description = "Do what the test says."
    Args = Given

    def __init__(
        self,
        name: str = "does",
        body: Callable[[Execution], Any] | None = None,
        *,
        mode: ExecutionMode = "parallel",
        classify: Callable[[Given], Any] | None = None,
        effects: Sequence[Effect] = (),
        finalize: Callable[[str], Any] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.name, self.mode, self.timeout_s = name, mode, timeout_s
        self.ran: list[str] = []  # the ids of the calls whose bodies ran
        self._body, self._classify, self._effects, self._finalize = body, classify, list(effects), finalize

    async def execute(self, args: Given, execution: Execution) -> Any:
        self.ran.append(execution.call_id)
        answer = self._body(execution) if self._body is not None else f"{self.name} {args.key}".strip()
        return await answer if inspect.isawaitable(answer) else answer

    def mode_of(self, args: Given) -> Any:
        return self._classify(args) if self._classify is not None else self.mode

    def effects(self, args: Given) -> list[Effect]:
        return self._effects

    def finalize(self, text: str) -> Any:
        return self._finalize(text) if self._finalize is not None else None


class Gated(Does):
    """A tool whose calls run until the test lets them end, each by its `key`; `running` are those that do."""

    def __init__(self, name: str = "gated", **parts: Any) -> None:
        super().__init__(name, **parts)
        self.running: list[str] = []
        self.gates: dict[str, anyio.Event] = {}
        self.most = 0

    def gate(self, key: str) -> anyio.Event:
        return self.gates.setdefault(key, anyio.Event())

    async def execute(self, args: Given, execution: Execution) -> Any:
        self.ran.append(execution.call_id)
        self.running.append(args.key)
        self.most = max(self.most, len(self.running))
        try:
            await self.gate(args.key).wait()
        finally:
            self.running.remove(args.key)
        return args.key


def calls(name: str, *keys: str) -> Reply:
    """One call for each key, and the key is its id too."""
    reply = Reply()
    for key in keys:
        reply += call(name, id=key, key=key)
    return reply


def answers(h: Headless) -> list[str]:
    """The texts of the results, as the log has them."""
    return [event.data.message.content[0].text for event in h.of("tool/result")]


def codes(h: Headless) -> list[str | None]:
    return [event.data.error.code if event.data.error else None for event in h.of("tool/result")]


def errors(h: Headless) -> list[bool]:
    return [event.data.message.content[0].is_error for event in h.of("tool/result")]


def answered(h: Headless) -> list[str]:
    """The calls that have a result, in the log's order."""
    return [event.data.message.content[0].tool_call_id for event in h.of("tool/result")]


def tool_events(h: Headless) -> list[str]:
    """`call a, result a, ...`, as the log has them."""
    return [
        f"call {event.data.call_id}"
        if event.type == "tool/call"
        else f"result {event.data.message.content[0].tool_call_id}"
        for event in h.of("tool/call", "tool/result")
    ]


@dataclass
class WithPlugins:
    """A headless agent, and what its plugins were given."""

    h: Headless
    context: Context
    modes: Modes
    prompt: SystemPrompt


@asynccontextmanager
async def with_plugins(
    script: Iterable[ScriptedReply],
    *plugins: Any,
    mode: Mode = "ask",
    outputs: Path = Path("/no/such/outputs"),
    **options: Any,
) -> AsyncIterator[WithPlugins]:
    """Build an agent with plugins; one that has settings is a pair of both."""
    prompt = SystemPrompt()
    prompt.register(Section(name="identity", order=0, text="You are a test."))
    async with headless(script, prompt=prompt, **options) as h, anyio.create_task_group() as tasks:
        context = Context()
        modes = Modes(h.log, mode)
        services: dict[type[Any], Any] = {
            Agent: h.agent,
            AgentHooks: h.agent.hooks,
            Approvals: h.agent.approvals,
            CommandRules: CommandRules(Path("/w"), ShellSettings()),
            Keys: Keys(),
            Llm: h.llm,
            Modes: modes,
            RuntimeContext: h.agent.context,
            SessionLog: h.log,
            Spills: Spills(outputs),
            SystemPrompt: prompt,
            TaskGroup: tasks,
            ToolRegistry: h.registry,
        }
        for kind, service in services.items():
            context.provide(kind, service)
        for plugin in plugins:
            module, settings = plugin if isinstance(plugin, tuple) else (plugin, None)
            context.mount(module, settings)
        yield WithPlugins(h, context, modes, prompt)
        context.scope.close()
