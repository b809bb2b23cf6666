"""Virtual loop: an event loop that skips to the next timer, but never while a worker thread is busy."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

import anyio.to_thread

STUCK_S = 30.0  # real seconds; no worker thread takes that long, on a loaded machine neither


class _SkippingSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Waits only for threads; whatever else there is to wait for is time, and that is skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.busy: Callable[[], bool] = lambda: False

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is None or self.busy():
            if events := super().select(STUCK_S):
                return events
            raise RuntimeError("nothing can happen any more")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is skipped forward."""

    def __init__(self) -> None:
        self.selector = _SkippingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now

    def watch_threads(self) -> None:
        """Let time stand still while anyio's threads are at work."""
        limiter = anyio.to_thread.current_default_thread_limiter()
        self.selector.busy = lambda: limiter.borrowed_tokens > 0
