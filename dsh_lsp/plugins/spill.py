"""Spill: keeps a result that is too large for the model aside, and shows its head, its tail and where the rest is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pydantic import Field

from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.plugin import Context
from dsh_lsp.settings import SettingsModel
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.pipeline import Accept, Block
from dsh_lsp.tools.spills import Spills
from dsh_lsp.tools.tool import Execution

name = "spill"
inject = (AgentHooks, Spills)

PAGED = frozenset({"read_file", "read_output"})  # they bound themselves, and spilling them would only move the text


class Settings(SettingsModel):
    """How much text of one result the model reads at once."""

    max_chars: int = Field(default=48_000, ge=1_000)


def apply(ctx: Context, settings: Any) -> None:
    """Judge each result by its size."""
    limit = (settings if isinstance(settings, Settings) else Settings()).max_chars
    spills = ctx.get(Spills)

    async def judge(
        payload: tuple[Execution, Outcome],
        call_next: Callable[[tuple[Execution, Outcome]], Awaitable[Accept | Block]],
    ) -> Accept | Block:
        execution, outcome = payload
        verdict = await call_next(payload)
        if not isinstance(verdict, Accept) or execution.name in PAGED:
            return verdict
        text = outcome.text if verdict.text is None else verdict.text
        if verdict.output is not None:
            text = verdict.output.text
        if not isinstance(text, str) or len(text) <= limit:
            return verdict
        try:
            kept = await spills.keep(text)
        except OSError as error:
            ctx.log.warning("a large result stays whole: %s", error)
            return verdict
        short = shortened(text, kept, limit)
        if verdict.output is not None:
            return replace(verdict, output=replace(verdict.output, text=short))
        return replace(verdict, text=short)

    ctx.listen(ctx.get(AgentHooks).tools.post_execute, judge)


def shortened(text: str, kept: str, limit: int) -> str:
    """Head and tail of a text with a notice between them, together within the limit."""
    notice = f"\n[... {len(text)} characters in all; read the rest with read_output, name {kept!r} ...]\n"
    room = limit - len(notice)
    head = room * 3 // 4
    return text[:head] + notice + text[len(text) - (room - head) :]
