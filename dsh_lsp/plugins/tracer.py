"""Tracer: writes every turn, step, tool call and change of status to the log; off unless the settings name it.

It knows the agent by its extension points alone, and is the plugin that `docs/writing-a-plugin.md` walks through.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from dsh_lsp.agent.hooks import AgentFailed, AgentHooks, Status
from dsh_lsp.events import LogEvent, StepEnd, StepStart, TurnEnd, TurnStart
from dsh_lsp.plugin import Context
from dsh_lsp.session.log import SessionLog
from dsh_lsp.settings import SettingsModel
from dsh_lsp.tools.pipeline import Outcome
from dsh_lsp.tools.tool import Execution

name = "tracer"
inject = (AgentHooks, SessionLog)


class Settings(SettingsModel):
    """How loud it is."""

    level: Literal["debug", "info"] = "info"


def apply(ctx: Context, settings: Settings) -> None:
    """Listen."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    hooks = ctx.get(AgentHooks)

    def status(now: Status) -> None:
        ctx.log.log(level, "status %s", now)

    def event(logged: LogEvent) -> None:
        match logged.data:
            case TurnStart(turn=turn):
                ctx.log.log(level, "turn %d starts", turn)
            case StepStart(turn=turn, step=step):
                ctx.log.log(level, "turn %d step %d starts", turn, step)
            case StepEnd(turn=turn, step=step):
                ctx.log.log(level, "turn %d step %d ends", turn, step)
            case TurnEnd(turn=turn, reason=reason):
                ctx.log.log(level, "turn %d ends: %s", turn, reason.kind)
            case _:
                pass

    async def call(execution: Execution, call_next: Callable[[Execution], Awaitable[Outcome]]) -> Outcome:
        start = time.perf_counter()
        ctx.log.log(level, "call %s of %s starts", execution.call_id, execution.name)
        outcome = await call_next(execution)
        took_ms = (time.perf_counter() - start) * 1_000
        word = "fails" if outcome.is_error else "is done"
        ctx.log.log(level, "call %s of %s %s after %.0f ms", execution.call_id, execution.name, word, took_ms)
        return outcome

    def error(failed: AgentFailed) -> None:
        ctx.log.log(level, "turn %d step %d failed: %s", failed.turn, failed.step, failed.error)

    ctx.listen(hooks.status, status)
    ctx.listen(ctx.get(SessionLog).appended, event)
    ctx.listen(hooks.tools.execute, call, prepend=True)
    ctx.listen(hooks.error, error)
