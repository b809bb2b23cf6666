"""Compaction: keeps a session within its model's context window by putting a summary in the place of its oldest part.

Before a step under pressure, after a call that was refused as too long, and when its user asks for it.

Rules: long tool results lose their middle first; the end of history stays word for word; a summary goes into the log
as one replacement between `compaction/start` and `compaction/end`; when anything fails, the surface stays as it was
and the turn goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from logging import INFO, WARNING
from typing import Any

from anyio.abc import TaskGroup

from dsh_lsp.abort import Aborted, AbortSignal
from dsh_lsp.agent.driver import Agent
from dsh_lsp.agent.hooks import AgentHooks, Enter, PreStep, Reject, RequestFailed, Retry
from dsh_lsp.errors import DshError, LlmError, LlmFailure, SessionError, UsageError, failure_of
from dsh_lsp.events import AssistantMessageLogged, LogEvent
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.llm.meter import MARGIN, price_of
from dsh_lsp.plugin import Context
from dsh_lsp.plugins.shortening import Settings, Shortener
from dsh_lsp.plugins.summary import SOURCE, CompactionError
from dsh_lsp.session.log import SessionLog
from dsh_lsp.upkeep import CompactionEnd, CompactionStart
from dsh_lsp.wire import Wire

name = SOURCE
inject = (AgentHooks, Agent, SessionLog, Llm, TaskGroup)

MIN_OUTPUT = 1_024
NARROWER = 0.6  # a summarizer that is refused too gets so much of what it got, so many times
NARROWINGS = 3
MOST_SUMMARIES = 16  # for one call: a model that makes nothing shorter is not asked for ever
MIN_HEAD_SHARE = 0.05  # of the window: under pressure, less than that is not worth a summary, or another try


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Wire):
    """How a compaction that its user asked for ended; tokens are those of the next request."""

    ok: bool
    before: int
    after: int
    code: str | None = None
    message: str | None = None


class Compactor:
    """Makes room in one session."""

    def __init__(self, ctx: Context, settings: Settings) -> None:
        self._ctx = ctx
        self._settings = settings
        self._agent, self._log, self._llm = ctx.get(Agent), ctx.get(SessionLog), ctx.get(Llm)
        self._shortener = Shortener(ctx, settings)
        self._overflowed = False  # whether room was made for the call that now fails again
        self._lowered = False
        self._failed_at: int | None = None  # tokens at which no summary came: only more of them are worth a try
        self._warned: set[str] = set()

    # -- asked for ---------------------------------------------------------------------------------------------

    def start(self, report: Callable[[Outcome], object]) -> None:
        """Begin, between turns; input that comes meanwhile waits until it is over.

        Raises:
            SessionError: `BUSY`.
        """
        before = self._agent.meter.tokens

        async def job(signal: AbortSignal) -> None:
            retain, window = int(self._settings.retain * before), self._window()
            await self._shortener.summarize(signal, turn=None, retain=retain, window=window)
            if window is not None:
                with suppress(CompactionError):  # one summary came about, and more would be better
                    await self._shorten_to(window, signal, turn=None)
            await self._agent.on_disk()

        try:
            running = self._agent.run_maintenance(job)
        except UsageError as error:
            raise SessionError("the session is at work: cancel it or wait, then compact", code="BUSY") from error

        async def run() -> None:
            failure: LlmFailure | None = None
            try:
                await running
            except Aborted:
                failure = LlmFailure(message="cancelled", code="CANCELLED")
            except Exception as error:  # noqa: BLE001 - nobody waits for this task, and the server must outlive it
                failure = failure_of(error)
            report(
                Outcome(
                    ok=failure is None,
                    before=before,
                    after=self._agent.meter.tokens,
                    code=failure.code if failure is not None else None,
                    message=failure.message if failure is not None else None,
                )
            )

        self._ctx.get(TaskGroup).start_soon(run)

    # -- before a step -----------------------------------------------------------------------------------------

    async def before_step(
        self, payload: PreStep, call_next: Callable[[PreStep], Awaitable[Enter | Reject]]
    ) -> Enter | Reject:
        """Make room under pressure; a failure is logged, and the turn goes on."""
        generation = self._log.surface.generation
        if self._settings.auto:
            try:
                await self._relieve(payload)
            except (DshError, OSError) as error:
                self._failed_at = self._tokens
                nothing = isinstance(error, CompactionError) and error.code == "NOTHING_TO_COMPACT"
                self._ctx.log.log(INFO if nothing else WARNING, "no room could be made: %s", error)
        decision = await call_next(payload)
        if isinstance(decision, Enter) and self._log.surface.generation != generation:
            return replace(decision, starts_request_series=True)
        return decision

    async def _relieve(self, payload: PreStep) -> None:
        window = self._window()
        if window is None:
            return
        arriving = sum(map(price_of, payload.messages))
        threshold = int(window * self._settings.threshold)

        def is_pressed() -> bool:
            return self._tokens + arriving >= threshold

        if not is_pressed():
            self._failed_at = None
            return
        self._shortener.prune(unseen=False)
        if self._failed_at is not None and self._tokens < self._failed_at + window * MIN_HEAD_SHARE:
            return
        for number in count(1):
            if not is_pressed():
                return
            if number > self._settings.passes and self._tokens + arriving <= window:
                break
            retain = int(window * self._settings.retain)
            least = int(window * MIN_HEAD_SHARE)
            await self._shortener.summarize(
                payload.signal, turn=payload.turn, retain=retain, window=window, least=least
            )
        raise CompactionError("it is still more than may be kept", code="STILL_FULL")

    # -- after a refusal ---------------------------------------------------------------------------------------

    async def on_failure(
        self, failed: RequestFailed, call_next: Callable[[RequestFailed], Awaitable[Retry | None]]
    ) -> Retry | None:
        """Make room for a call that was refused as too long, once; then the refusal is the turn's error."""
        failure = failed.failure
        if failure.code != "CONTEXT_WINDOW_EXCEEDED" or not self._settings.auto:
            return await call_next(failed)
        window = failure.context_window or self._window()
        told = failure.context_window is not None or failure.prompt_tokens is not None
        if told and window is not None and not self._lowered and self._fits(window):
            self._lowered = True  # the prompt fits: its adapter asks for less output now
            return Retry()
        tried, self._overflowed = self._overflowed, True
        generation, broken = self._log.surface.generation, None
        if not tried:
            broken = await self._make_room(failed, window)
        if self._log.surface.generation != generation:
            return Retry()
        answer = await call_next(failed)
        if answer is None:
            raise LlmError(replace(failure, message=f"{failure.message}; {_advice(broken, tried=tried)}"))
        return answer

    async def _make_room(self, failed: RequestFailed, window: int | None) -> DshError | OSError | None:
        """Make the surface smaller until it fits, if only in part; what went wrong, if anything did."""
        self._shortener.prune(unseen=True)
        readable, narrowings = window, 0
        while True:
            try:
                await self._shortener.summarize(
                    failed.signal, turn=failed.turn, retain=0, window=readable, patient=True
                )
                if window is not None:
                    await self._shorten_to(window, failed.signal, turn=failed.turn)
                return None
            except (DshError, OSError) as error:
                too_long = isinstance(error, LlmError) and error.code == "CONTEXT_WINDOW_EXCEEDED"
                if not too_long or narrowings == NARROWINGS:
                    self._ctx.log.warning("no room could be made: %s", error)
                    return error
                narrowings += 1  # it reads less than was thought
                readable = int(min(readable or self._tokens, self._tokens) * NARROWER)

    async def _shorten_to(self, window: int, signal: AbortSignal, *, turn: int | None) -> None:
        """Go on until what is left fits a window.

        Raises:
            CompactionError: it cannot become shorter.
        """
        for _ in range(MOST_SUMMARIES):
            if self._fits(window):
                return
            least = int(window * MIN_HEAD_SHARE)
            await self._shortener.summarize(signal, turn=turn, retain=0, window=window, least=least, patient=True)

    def _fits(self, window: int) -> bool:
        """Whether the prompt leaves room for an answer."""
        return self._tokens + min(MIN_OUTPUT, window // 8) <= window * (1 - MARGIN)

    @property
    def _tokens(self) -> int:
        return self._agent.meter.tokens

    def note(self, event: LogEvent) -> None:
        """An answer came: the next refusal is a new one."""
        if isinstance(event.data, AssistantMessageLogged):
            self.forget()

    def forget(self) -> None:
        """Nothing was tried yet."""
        self._overflowed = self._lowered = False

    def _window(self) -> int | None:
        """The context window of the next request's model."""
        config = self._agent.ledger.seed()
        try:
            window = self._llm.prepare_call(config).context_window
        except DshError:
            return None
        if window is None and config.model not in self._warned:
            self._warned.add(config.model)
            self._ctx.log.warning(
                "nobody said how much %s can read: set model.contextWindow, so that history is kept within it",
                config.model,
            )
        return window


def _advice(broken: DshError | OSError | None, *, tried: bool) -> str:
    what = "making room did not help" if tried else "there is nothing left to make room with"
    if broken is not None and not (isinstance(broken, CompactionError) and broken.code == "NOTHING_TO_COMPACT"):
        what = f"no room could be made: {broken}"
    return f"{what}: begin a new session, or choose a model that reads more"


def open_compactions(log: SessionLog) -> list[CompactionEnd]:
    """The ends of compactions whose process died."""
    waiting: dict[str, CompactionStart] = {}
    for event in log.facts():
        match event.data:
            case CompactionStart(compaction_id=started) as start:
                waiting[started] = start
            case CompactionEnd(compaction_id=ended):
                waiting.pop(ended, None)
            case _:
                pass
    failure = LlmFailure(message="the session stopped meanwhile", code="INTERRUPTED")
    return [CompactionEnd(compaction_id=key, turn=start.turn, error=failure) for key, start in waiting.items()]


def apply(ctx: Context, settings: Any) -> None:
    """Close what a crash left open, then watch."""
    hooks, log = ctx.get(AgentHooks), ctx.get(SessionLog)
    for left_open in open_compactions(log):
        log.append(left_open)
    compactor = Compactor(ctx, settings if isinstance(settings, Settings) else Settings())
    ctx.provide(Compactor, compactor)
    ctx.listen(hooks.pre_step, compactor.before_step)
    ctx.listen(hooks.request_error, compactor.on_failure)
    ctx.listen(log.appended, compactor.note)
    ctx.listen(hooks.status, lambda _: compactor.forget())
