"""Loop players: the tools and the model of a loop scenario."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anyio

from dsh_lsp.errors import ToolError
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.scripted import Reply, call, call_text, fail, finish_as, hold, say, think
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage
from dsh_lsp.tools.tool import Effect, Execution, Mode, Tool, ToolArgs, ToolOutput
from tests.support.loop_laws import Watch
from tests.support.loop_scenarios import Answer, Deafness, Scenario, tick


class Uses(ToolArgs):
    ticks: int = 0
    hears: Deafness = "obeys"
    ends: str = "answers"


class Plays(Tool[Uses]):
    """Runs for so many ticks and ends as it is told."""

    description = "Plays."
    Args = Uses

    def __init__(self, name: str, mode: Mode, watch: Watch, cap: int, ids: Iterator[int]) -> None:
        self.name, self.mode = name, mode  # type: ignore[misc]
        self._watch, self._cap, self._ids = watch, cap, ids

    async def execute(self, args: Uses, execution: Execution) -> ToolOutput:
        self._watch.body_begins(execution.call_id, self.mode, self._cap)
        try:
            await self._run(args, execution)
        finally:
            self._watch.running.pop(execution.call_id, None)
        match args.ends:
            case "raises":
                raise RuntimeError("kaputt")
            case "errs":
                raise ToolError("no", code="NO")
            case "adds context":
                text = (TextBlock(text="by the way"),)
                source = PluginSource(plugin="plays")
                execution.defer_context(UserMessage(id=f"context{next(self._ids)}", content=text, source=source))
            case "concludes":
                execution.conclude_turn()
        return ToolOutput(text="played")

    async def _run(self, args: Uses, execution: Execution) -> None:
        match args.hears:
            case "obeys":
                with execution.signal.guard():
                    await tick(args.ticks)
            case "ignores":
                await tick(args.ticks)
            case "deaf":
                with anyio.CancelScope(shield=True):
                    await tick(args.ticks)

    def effects(self, args: Uses) -> list[Effect]:
        return []


def replies(scenario: Scenario, watch: Watch, gate: asyncio.Event) -> Iterator[Any]:
    """The model's script; each reply looks at its request first."""

    def reply_to(answer: Answer) -> Any:
        def reply(request: ModelRequest) -> Reply:
            watch.see_request(request)
            if answer.finish == "dies":
                raise RuntimeError("the adapter has a bug")
            return _reply(answer, gate)

        return reply

    yield from map(reply_to, scenario.answers)
    while True:
        yield reply_to(Answer())


def _reply(answer: Answer, gate: asyncio.Event) -> Reply:
    reply = Reply()
    if answer.holds == "first":
        reply += hold(gate)
    if answer.thinks:
        reply += think("hm")
    if answer.says:
        reply += say("some words")
    for use in answer.calls:
        if use.broken:
            reply += call_text(use.tool, '{"ticks": ')
        else:
            reply += call(use.tool, ticks=use.ticks, hears=use.hears, ends=use.ends)
    if answer.holds == "last":
        reply += hold(gate)
    if answer.finish == "fails":
        reply += fail("SERVER")
    elif answer.finish in ("max-tokens", "refusal"):
        reply += finish_as(answer.finish)  # type: ignore[arg-type]
    return reply
