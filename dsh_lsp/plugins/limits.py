"""Limits: bounds a turn by its steps and by its seconds; time in which a person decides does not count.

Rules: the turn is cancelled between tools or by a timer, never before a step; what waits stays waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup
from pydantic import Field

from dsh_lsp.abort import Cause
from dsh_lsp.agent.driver import Agent
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.decisions import (
    ApprovalAsked,
    ApprovalDecided,
    QuestionAnswered,
    QuestionAsked,
    ReviewDecided,
    ReviewOpened,
)
from dsh_lsp.events import LogEvent, TurnEnd, TurnStart
from dsh_lsp.plugin import Context
from dsh_lsp.session.log import SessionLog
from dsh_lsp.settings import Live, SettingsModel
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.tool import Execution

name = "limits"
inject = (AgentHooks, Agent, SessionLog, TaskGroup)


class Settings(SettingsModel):
    """How long a turn may become; `seconds` None is no limit."""

    steps: int = Field(default=200, ge=1, description="The most steps of one turn.")
    seconds: float | None = Field(
        default=None,
        gt=0,
        description="The longest turn; none, unless set. Time that a person takes to decide does not count.",
    )


class Stopwatch:
    """The time of the open turn without what people took; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = 0.0
        self._waited = 0.0
        self._waiting: dict[str, int] = {}  # what waits for a person: how many decisions are missing
        self._since = 0.0

    def note(self, event: LogEvent) -> None:
        """Take one more event."""
        match event.data:
            case TurnStart():
                self._started, self._waited, self._waiting = self._clock(), 0.0, {}
            case ReviewOpened(proposal=key, files=files):
                self._wait(key, sum(len(file.hunks) for file in files))
            case ReviewDecided(proposal=key, hunks=hunks):
                self._decided(key, len(hunks))
            case ApprovalAsked(id=key) | QuestionAsked(id=key):
                self._wait(key, 1)
            case ApprovalDecided(id=key) | QuestionAnswered(id=key):
                self._decided(key, 1)
            case _:
                pass

    def seconds(self) -> float:
        """How long the turn has worked."""
        waiting = self._clock() - self._since if self._waiting else 0.0
        return self._clock() - self._started - self._waited - waiting

    def _wait(self, key: str, decisions: int) -> None:
        if not self._waiting:
            self._since = self._clock()
        self._waiting[key] = decisions

    def _decided(self, key: str, decisions: int) -> None:
        left = self._waiting.get(key, 0) - decisions
        if key in self._waiting and left <= 0:
            del self._waiting[key]
            if not self._waiting:
                self._waited += self._clock() - self._since
        elif key in self._waiting:
            self._waiting[key] = left


def apply(ctx: Context, settings: Any) -> None:
    """Watch the turns."""
    live: Live[Settings] = settings if isinstance(settings, Live) else Live(settings or Settings())
    hooks, agent, log, tasks = ctx.get(AgentHooks), ctx.get(Agent), ctx.get(SessionLog), ctx.get(TaskGroup)
    watch = Stopwatch()

    def stop(reason: str) -> None:
        agent.cancel(Cause(kind="hook", reason=reason))

    def after_tool(payload: tuple[Execution, Outcome]) -> None:
        steps = live.value.steps
        if payload[0].step >= steps and not payload[0].signal.aborted:
            stop(f"the turn reached its limit of {steps} steps")

    timer, runs = anyio.CancelScope(), False
    timed: float | None = None

    async def clock(limit_s: float, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                left = limit_s - watch.seconds()
                if left <= 0:
                    break
                await anyio.sleep(max(0.01, left))
            stop(f"the turn reached its limit of {limit_s:g} seconds")

    def set_timer(limit_s: float | None) -> None:
        nonlocal timer, timed
        timer.cancel()
        timed = limit_s
        if limit_s is not None:
            timer = anyio.CancelScope()
            tasks.start_soon(clock, limit_s, timer)

    def on_event(event: LogEvent) -> None:
        nonlocal runs
        watch.note(event)
        if isinstance(event.data, TurnStart | TurnEnd):
            runs = isinstance(event.data, TurnStart)
        wanted = live.value.seconds if runs else None
        if wanted != timed:  # the setting may change while a turn runs
            set_timer(wanted)

    ctx.listen(hooks.tools.result, after_tool)
    ctx.listen(log.appended, on_event)

    ctx.own(lambda: set_timer(None))
