"""Order: calls that run side by side open their reviews in the order in which they began.

Rules: a ticket is taken before anything is awaited; who is refused, fails or is cancelled holds up nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from dsh_lsp.abort import AbortSignal


class Ticket:
    """One call's; reading and planning go on meanwhile, only the review waits for the calls ahead."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._called = anyio.Event()

    async def wait(self) -> None:
        """Wait for the calls ahead, and leave: what is done before the next await is done in order."""
        await self._called.wait()
        self._order.leave(self)

    def call(self) -> None:
        """Let it wait no longer."""
        self._called.set()


@dataclass(slots=True)
class Order:
    """The calls that are about to propose, in the order in which they began."""

    _line: list[Ticket] = field(default_factory=list)

    @contextmanager
    def ticket(self, signal: AbortSignal) -> Iterator[Ticket]:
        """A ticket, good until it was waited for, the signal fires, or the body ends."""
        ticket = Ticket(self)
        self._line.append(ticket)
        self._line[0].call()
        dispose = signal.listen(lambda: self.leave(ticket))
        try:
            yield ticket
        finally:
            dispose()
            self.leave(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Hold up nobody any more; a second call changes nothing."""
        ticket.call()
        if ticket in self._line:
            self._line.remove(ticket)
        if self._line:
            self._line[0].call()
