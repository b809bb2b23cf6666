"""Repeat: notices a model that makes the same call again and again: reminds it, then stops and asks the user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pydantic import Field

from dsh_lsp.abort import Cause
from dsh_lsp.agent.driver import Agent, new_id
from dsh_lsp.agent.hooks import AgentHooks, Enter, PreStep, Reject
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage, UserSource
from dsh_lsp.plugin import Context
from dsh_lsp.settings import SettingsModel
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.pipeline import Accept, Block
from dsh_lsp.tools.tool import Execution
from dsh_lsp.wire import JsonObject

name = "repeat"
inject = (AgentHooks, Agent)

PREVIEW_CHARS = 500


class Settings(SettingsModel):
    """After how many equal calls in a row to remind, and after how many to stop."""

    remind_at: tuple[int, ...] = (3, 5)
    stop_at: int = Field(default=8, ge=2)


def apply(ctx: Context, settings: Any) -> None:
    """Count equal calls in a row; a person's words or another call begin anew."""
    limits = settings if isinstance(settings, Settings) else Settings()
    hooks, agent = ctx.get(AgentHooks), ctx.get(Agent)
    last: tuple[str, str] | None = None
    count = 0

    async def judge(
        payload: tuple[Execution, Outcome],
        call_next: Callable[[tuple[Execution, Outcome]], Awaitable[Accept | Block]],
    ) -> Accept | Block:
        nonlocal last, count
        execution = payload[0]
        call = (execution.name, canonical(execution.arguments))
        last, count = call, count + 1 if call == last else 1
        number = count
        try:
            verdict = await call_next(payload)
        finally:  # also when a later listener fails each time
            if number >= limits.stop_at:
                agent.cancel(Cause(kind="hook", reason=f"the model made the same call {number} times: {call[0]}"))
        if number < limits.stop_at and number in limits.remind_at:
            message = reminder(*call, number, gentle=number == min(limits.remind_at))
            return replace(verdict, contexts=(*verdict.contexts, message))
        return verdict

    async def begin_anew(
        payload: PreStep, call_next: Callable[[PreStep], Awaitable[Enter | Reject]]
    ) -> Enter | Reject:
        nonlocal last, count
        if any(isinstance(message.source, UserSource) for message in payload.messages):
            last, count = None, 0
        return await call_next(payload)

    ctx.listen(hooks.tools.post_execute, judge, prepend=True)  # so that no other listener can hide a reminder
    ctx.listen(hooks.pre_step, begin_anew)


def canonical(arguments: JsonObject | str) -> str:
    """Arguments as text that does not depend on the order of keys."""
    import json

    return arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)


def reminder(tool: str, arguments: str, count: int, *, gentle: bool) -> UserMessage:
    """What the model reads after a repetition."""
    text = f"You have called {tool} {count} times in a row with the same arguments; the result will not change."
    if not gentle:
        text += f" The arguments: {arguments[:PREVIEW_CHARS]}. Try something else, or say what keeps you from it."
    source = PluginSource(plugin=name, form="notice", summary=f"{tool} repeated {count} times")
    return UserMessage(id=new_id(), content=(TextBlock(text=text),), source=source)
