"""Threads: blocking work beside the event loop that ends soon after nobody waits for it any more.

Rules: for work that only reads; what must keep its result is waited for instead.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import TypeVar

import anyio.to_thread

T = TypeVar("T")

Stop = Callable[[], bool]  # whether nobody waits any more


def never() -> bool:
    """Go on to the end."""
    return False


async def in_thread(work: Callable[[Stop], T]) -> T:
    """Run work in a thread; it looks now and then whether it shall stop. A cancel does not wait for it."""
    stop = Event()
    try:
        return await anyio.to_thread.run_sync(work, stop.is_set, abandon_on_cancel=True)
    finally:
        stop.set()
