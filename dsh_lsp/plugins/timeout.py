"""Timeout: bounds the body of a tool that names a limit; it asks the body to stop and waits for it.

Time that a person takes to decide is no time of the body's: tools that wait for people name no limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio

from dsh_lsp.abort import AbortSignal, Cause
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.events import ToolFailure
from dsh_lsp.plugin import Context
from dsh_lsp.tools.pipeline import Outcome
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Execution

name = "timeout"
inject = (AgentHooks, ToolRegistry)


def apply(ctx: Context, _settings: Any) -> None:
    """Wrap each body that has a limit."""
    tools = ctx.get(ToolRegistry)

    async def bound(execution: Execution, call_next: Callable[[Execution], Awaitable[Outcome]]) -> Outcome:
        tool = tools.get(execution.name)
        if tool is None or tool.timeout_s is None:
            return await call_next(execution)
        caller, deadline = execution.signal, AbortSignal()
        fired_first = False

        async def watch(limit_s: float) -> None:
            nonlocal fired_first
            await anyio.sleep(limit_s)
            fired_first = not caller.aborted
            deadline.abort(Cause(kind="hook", reason="timeout"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, tool.timeout_s)
            execution.signal = deadline
            outcome = await call_next(execution)
            execution.signal = caller
            tasks.cancel_scope.cancel()
        return replace(timed_out(tool.timeout_s), contexts=outcome.contexts) if fired_first else outcome

    ctx.listen(ctx.get(AgentHooks).tools.execute, bound)


def timed_out(limit_s: float) -> Outcome:
    """The result of a body that ran into its limit."""
    return Outcome(
        text=f"Error: tool call timed out after {limit_s:g} s",
        is_error=True,
        error=ToolFailure(name="ToolTimeoutError", code="TOOL_TIMEOUT"),
    )
