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
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.tool import Execution

name = "timeout"
inject = (AgentHooks,)


def apply(ctx: Context, _settings: Any) -> None:
    """Wrap each body that has a limit."""

    async def bound(execution: Execution, call_next: Callable[[Execution], Awaitable[Outcome]]) -> Outcome:
        tool = execution.tool
        if tool is None or tool.timeout_s is None:
            return await call_next(execution)
        caller, deadline = execution.signal, AbortSignal()
        fired_first = False

        async def watch(limit_s: float) -> None:
            nonlocal fired_first
            await anyio.sleep(limit_s)
            fired_first = not caller.aborted
            deadline.abort(Cause(kind="hook", reason="timeout"))

        outcome: Outcome | Exception
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, tool.timeout_s)
            try:
                with AbortSignal.fuse(caller, deadline) as fused:
                    execution.signal = fused
                    outcome = await call_next(execution)
            except Exception as error:  # noqa: BLE001 - raised below: a task group would wrap it
                outcome = error
            finally:
                execution.signal = caller
            tasks.cancel_scope.cancel()
        if isinstance(outcome, Exception):
            raise outcome
        return replace(timed_out(tool.timeout_s), contexts=outcome.contexts) if fired_first else outcome

    ctx.listen(ctx.get(AgentHooks).tools.execute, bound)


def timed_out(limit_s: float) -> Outcome:
    """The result of a body that ran into its limit."""
    return Outcome(
        text=f"Error: tool call timed out after {limit_s:g} s",
        is_error=True,
        error=ToolFailure(name="ToolTimeoutError", code="TOOL_TIMEOUT"),
    )
