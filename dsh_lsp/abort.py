"""Abort: the cooperative signal by which a turn is cancelled.

Rules: the first cause wins; callbacks run synchronously inside `abort()`; code that must keep its result checks
the signal between steps, code that may be torn runs inside `guard()`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import anyio

from dsh_lsp.wire import Wire

log = logging.getLogger(__name__)

Disposer = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause(Wire):
    """Why a turn was cancelled; `reason` is the words of a `hook`."""

    kind: Literal["user", "parent", "disposed", "hook", "legacy"]
    reason: str | None = None


class Aborted(Exception):  # noqa: N818 - a refusal that was asked for, not an error
    """Raised at the next safe point after the signal fired."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(f"aborted: {cause.reason or cause.kind}")
        self.cause = cause


class AbortSignal:
    """One turn's signal: fires at most once and then stays fired."""

    def __init__(self) -> None:
        self._cause: Cause | None = None
        self._listeners: dict[object, Callable[[], None]] = {}

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
        if self._cause is not None:
            return
        self._cause = cause
        listeners, self._listeners = list(self._listeners.values()), {}
        for listener in listeners:
            try:
                listener()
            except Exception:
                log.exception("an abort listener failed")

    def listen(self, listener: Callable[[], None]) -> Disposer:
        """Call `listener` when the signal fires: at once if it has fired."""
        if self.aborted:
            listener()
            return lambda: None
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None)

    def check(self) -> None:
        """Raise `Aborted` if the signal has fired."""
        if self._cause is not None:
            raise Aborted(self._cause)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Tear the body at its next await when the signal fires, and raise `Aborted` after it."""
        self.check()
        with anyio.CancelScope() as scope:
            dispose = self.listen(scope.cancel)
            try:
                yield
            finally:
                dispose()
        self.check()
