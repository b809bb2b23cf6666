"""Concurrency: how many calls may be open at a time, learned from refusals.

Some providers bound the open requests of an account and answer 429 above that (https://api-docs.deepseek.com): then
fewer calls at a time get more done than the same calls tried again and again.

Rules: a refusal halves the limit, an answer raises it a little; who waits is served in order, and may be cancelled.
"""

from __future__ import annotations

from collections import deque

import anyio

MOST = 64.0


class OpenCalls:
    """The open calls of one account and model."""

    def __init__(self, most: float = MOST) -> None:
        self._most = most
        self._limit = most
        self._open = 0
        self._waiting: deque[anyio.Event] = deque()

    @property
    def limit(self) -> int:
        """How many may be open now."""
        return int(self._limit)

    async def take(self) -> None:
        """Wait for a place; who has one gives it back."""
        if self._open < self.limit and not self._waiting:
            self._open += 1
            return
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():  # the place was given and is not wanted any more
                self.give_back()
            else:
                self._waiting.remove(turn)
            raise

    def give_back(self) -> None:
        """Leave the place to who waits."""
        self._open -= 1
        self._wake()

    def refused(self) -> None:
        """The provider took no more calls: those that are open are too many."""
        self._limit = max(1.0, self._open / 2)

    def answered(self) -> None:
        """A call was answered."""
        self._limit = min(self._most, self._limit + 1 / self._limit)
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._open < self.limit:
            self._open += 1  # in the name of who is woken, so that nobody comes between
            self._waiting.popleft().set()
