"""Abort: the cooperative signal by which a turn is cancelled.

Rules: the first cause wins; callbacks run synchronously inside `abort()`; code that must keep its result checks
the signal between steps, code that may be torn runs inside `guard()`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import anyio

from dsh_lsp.errors import DshError, UsageError
from dsh_lsp.wire import Wire

log = logging.getLogger(__name__)

Disposer = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause(Wire):
    """Why a turn was cancelled; `reason` is the words of a `hook`."""

    kind: Literal["user", "parent", "disposed", "hook", "legacy"]
    reason: str | None = None


USER: Final = Cause(kind="user")


class Aborted(Exception):  # noqa: N818 - a refusal that was asked for, not an error
    """Raised at the next safe point after the signal fired."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(f"aborted: {cause.reason or cause.kind}")
        self.cause = cause


class StrayCancelError(DshError):
    """Something that was waited for was cancelled by others, and nobody cancelled the work itself."""

    def __init__(self) -> None:
        super().__init__("what it waited for was cancelled", code="STRAY_CANCEL")


@contextmanager
def no_stray_cancel() -> Iterator[None]:
    """Turn a cancellation that is not this task's into an error: that of a future which somebody else dropped.

    Let through, it would end a task that nobody meant to end, and what waits for it would wait for ever.

    Raises:
        StrayCancelError: the body was cancelled, and the task was not.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise StrayCancelError from error


class AbortSignal:
    """One turn's signal: fires at most once and then stays fired; after that it may be forced.

    A fired signal asks: what must keep its result is waited for. A forced one no longer waits: the turn is torn at
    its next await, and a tool body that goes on is abandoned.
    """

    def __init__(self) -> None:
        self._cause: Cause | None = None
        self._fired = _Listeners()
        self._forced = _Listeners()

    @property
    def aborted(self) -> bool:
        """Whether the signal has fired."""
        return self._cause is not None

    @property
    def cause(self) -> Cause | None:
        """Why it fired, or None."""
        return self._cause

    def abort(self, cause: Cause) -> None:
        """Fire; a second call changes nothing."""
        if self._cause is None:
            self._cause = cause
            self._fired.call()

    def force(self) -> None:
        """Stop waiting; a second call changes nothing.

        Raises:
            UsageError: the signal has not fired.
        """
        if self._cause is None:
            raise UsageError("a signal is aborted before it is forced")
        if not self._forced.called:
            self._forced.call()

    def listen(self, listener: Callable[[], object]) -> Disposer:
        """Call `listener` when the signal fires: at once if it has fired."""
        return self._fired.listen(listener)

    def check(self) -> None:
        """Raise `Aborted` if the signal has fired."""
        if self._cause is not None:
            raise Aborted(self._cause)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Tear the body at its next await when the signal fires, and raise `Aborted` after it."""
        self.check()
        with self._fired.tears():
            yield
        self.check()

    @classmethod
    @contextmanager
    def fuse(cls, *signals: AbortSignal) -> Iterator[AbortSignal]:
        """A signal for the body that fires with the first of several, with its cause."""
        fused = cls()

        def fire(signal: AbortSignal) -> None:
            if signal.cause is not None:
                fused.abort(signal.cause)

        disposers = [signal.listen(partial(fire, signal)) for signal in signals]
        try:
            yield fused
        finally:
            for dispose in disposers:
                dispose()

    @contextmanager
    def last_resort(self) -> Iterator[None]:
        """Tear the body at its next await when the signal is forced, and raise `Aborted` after it."""
        with self._forced.tears() as scope:
            yield
        if scope.cancelled_caught:
            self.check()


class _Listeners:
    """Callbacks that are called once, all together."""

    def __init__(self) -> None:
        self.called = False
        self._waiting: dict[object, Callable[[], object]] = {}

    def call(self) -> None:
        self.called = True
        waiting, self._waiting = list(self._waiting.values()), {}
        for listener in waiting:
            try:
                listener()
            except Exception:
                log.exception("an abort listener failed")

    def listen(self, listener: Callable[[], object]) -> Disposer:
        if self.called:
            listener()
            return lambda: None
        key = object()
        self._waiting[key] = listener
        return lambda: self._waiting.pop(key, None)

    @contextmanager
    def tears(self) -> Iterator[anyio.CancelScope]:
        with anyio.CancelScope() as scope:
            dispose = self.listen(scope.cancel)
            try:
                yield scope
            finally:
                dispose()
