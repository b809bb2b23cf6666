"""Retry: tries a failed model call again, after a wait that everybody sees and anybody can end.

Rules: what was planned is logged before the wait; the wait ends with the turn's cancel; what waiting cannot mend
(an empty account, a wrong key, a request that is not understood) is never tried again; how often and how long is
counted from the log, by step.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio
from pydantic import Field

from dsh_lsp.abort import AbortSignal
from dsh_lsp.agent.driver import new_id
from dsh_lsp.agent.hooks import AgentHooks, RequestFailed, Retry
from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.events import StepStart
from dsh_lsp.plugin import Context
from dsh_lsp.session.log import SessionLog
from dsh_lsp.settings import SettingsModel
from dsh_lsp.upkeep import RetryPlanned, RetryStarted

T = TypeVar("T")

name = "retry"
inject = (AgentHooks, SessionLog)

CODES = frozenset({"TRANSPORT", "TIMEOUT", "STREAM_CLOSED", "EMPTY_RESPONSE", "RATE_LIMIT", "SERVER"})
STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 529, *range(520, 525)})
NEVER = frozenset({"QUOTA", "AUTH", "CONTEXT_WINDOW_EXCEEDED", "MISSING_CREDENTIAL", "INVALID_CREDENTIAL"})


class Settings(SettingsModel):
    """How often and how long; the waits of one step together stay within `budget_seconds`.

    A provider's own wish (`Retry-After`) counts in the place of ours up to `max_hint_seconds`.
    """

    max_retries: int = Field(default=5, ge=0, description="How often a failed model call is tried again.")
    max_empty_retries: int = Field(default=2, ge=0, description="How often an empty answer is.")
    first_seconds: float = Field(default=0.5, gt=0, description="The first wait; each one after it is twice as long.")
    max_seconds: float = Field(default=10.0, gt=0, description="The longest wait of our own.")
    max_hint_seconds: float = Field(
        default=60.0, gt=0, description="The longest wait that a provider may ask for (`Retry-After`)."
    )
    budget_seconds: float = Field(
        default=120.0, gt=0, description="The longest that the waits of one step take together."
    )
    jitter: float = Field(default=0.25, ge=0, lt=1, description="The part by which a wait varies.")


class RetryWait:
    """The wait that runs now, if one does, and the limits of all waits."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._ended: anyio.Event | None = None

    async def sleep(self, seconds: float) -> None:
        """Wait, at most so long."""
        self._ended = ended = anyio.Event()
        try:
            with anyio.move_on_after(seconds):
                await ended.wait()
        finally:
            self._ended = None

    def end(self) -> bool:
        """End the wait at once; False if none runs."""
        if self._ended is None:
            return False
        self._ended.set()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the open step has spent on retries."""

    retries: int = 0
    empty: int = 0
    seconds: float = 0.0

    def and_one_more(self, failure: LlmFailure, seconds: float) -> Spent:
        """With one retry more, after that failure and a wait so long."""
        return Spent(
            retries=self.retries + 1,
            empty=self.empty + (failure.code == "EMPTY_RESPONSE"),
            seconds=self.seconds + seconds,
        )


def spent_in_step(log: SessionLog) -> Spent:
    """Count the retries since the step began."""
    spent = Spent()
    for index in range(len(log) - 1, -1, -1):
        match log[index].data:
            case StepStart():
                break
            case RetryPlanned(failure=failure, delay_ms=delay_ms):
                spent = spent.and_one_more(failure, delay_ms / 1000)
            case _:
                pass
    return spent


def is_transient(failure: LlmFailure) -> bool:
    """Whether the same call may succeed later; the provider's own word wins over the status, that over the code."""
    if failure.code in NEVER:
        return False
    if failure.should_retry is not None:
        return failure.should_retry
    if failure.status is not None and failure.code not in CODES - {"SERVER"}:
        return failure.status in STATUSES
    return failure.code in CODES


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further try; `why` is for people, empty where the failure says it all."""

    why: str = ""


def plan(failure: LlmFailure, spent: Spent, settings: Settings, *, noise: float) -> float | GiveUp:
    """Decide on a failure: how many seconds to wait; `noise` from -1 to 1 spreads clients that failed together."""
    if not is_transient(failure):
        return GiveUp()
    if spent.retries >= settings.max_retries:
        times = "one retry" if spent.retries == 1 else f"{spent.retries} retries"
        return GiveUp(f"gave up after {times}" if spent.retries else "")
    if failure.code == "EMPTY_RESPONSE" and spent.empty >= settings.max_empty_retries:
        return GiveUp(f"gave up after {spent.empty} empty answers more")
    if failure.provider_retry_after_ms is not None:
        wait_s = failure.provider_retry_after_ms / 1000
        if wait_s > settings.max_hint_seconds:
            return GiveUp(f"the provider asks to wait {wait_s:.0f} s; try again then")
    else:
        growing = min(settings.max_seconds, settings.first_seconds * 2.0 ** min(spent.retries, 32))
        wait_s = min(settings.max_seconds, growing * (1 + settings.jitter * noise))
    if spent.seconds + wait_s > settings.budget_seconds:
        return GiveUp(f"gave up after {spent.seconds:.0f} s of waiting")
    return wait_s


async def insist(call: Callable[[], Awaitable[T]], *, wait: RetryWait, spent: Spent, signal: AbortSignal) -> T:
    """Make a call that is not a step's own, and try it again as that of a step would be; nothing is logged.

    Raises:
        LlmError: it failed, and waiting cannot mend it or was tried often enough.
        Aborted: the signal fired.
    """
    while True:
        try:
            return await call()
        except LlmError as error:
            verdict = plan(error.failure, spent, wait.settings, noise=random.uniform(-1, 1))  # noqa: S311
            if isinstance(verdict, GiveUp):
                raise _given_up(error.failure, verdict) from error
            spent = spent.and_one_more(error.failure, verdict)
        with signal.guard():
            await wait.sleep(verdict)


def _given_up(failure: LlmFailure, verdict: GiveUp) -> LlmError:
    return LlmError(replace(failure, message=f"{failure.message}; {verdict.why}") if verdict.why else failure)


def apply(ctx: Context, settings: Any) -> None:
    """Listen for failed calls."""
    limits = settings if isinstance(settings, Settings) else Settings()
    log, wait = ctx.get(SessionLog), RetryWait(limits)
    ctx.provide(RetryWait, wait)

    async def try_again(
        failed: RequestFailed, call_next: Callable[[RequestFailed], Awaitable[Retry | None]]
    ) -> Retry | None:
        spent = spent_in_step(log)
        # a key that was mended meanwhile deserves one call of its own
        mended = failed.failure.code == "AUTH" and failed.key_changed and not spent.retries
        verdict = 0.0 if mended else plan(failed.failure, spent, limits, noise=random.uniform(-1, 1))  # noqa: S311
        if isinstance(verdict, GiveUp):
            answer = await call_next(failed)
            if answer is None and verdict.why:
                raise _given_up(failed.failure, verdict)
            return answer
        planned = RetryPlanned(
            retry_id=new_id(),
            turn=failed.turn,
            step=failed.step,
            provider=failed.provider,
            retry=spent.retries + 1,
            max_retries=limits.max_retries,
            delay_ms=round(verdict * 1000),
            failure=failed.failure,
        )
        log.append(planned)
        with failed.signal.guard():
            await wait.sleep(verdict)
        log.append(RetryStarted(retry_id=planned.retry_id, turn=planned.turn, step=planned.step, retry=planned.retry))
        return Retry()

    ctx.listen(ctx.get(AgentHooks).request_error, try_again)
