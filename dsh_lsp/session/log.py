"""Session log: the append-only list of facts, and the one place that knows what happened.

Rules: `seq` is contiguous from 0; appending is synchronous and never re-entrant; observers hear an event after
it is committed and can neither undo it nor starve each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from dsh_lsp.errors import UsageError
from dsh_lsp.events import SURFACE, EventData, LogEvent, SeqRange
from dsh_lsp.hooks import Emit
from dsh_lsp.messages import Message
from dsh_lsp.session.surface import Surface
from dsh_lsp.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader(Wire):
    """What is fixed for a session's life; `created_at` is milliseconds since 1970, `cwd` an absolute path."""

    id: str
    created_at: int
    cwd: str
    version: int = 0


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class SessionLog(Sequence[LogEvent]):
    """One session's events, and its surface kept up to date with them."""

    def __init__(
        self,
        header: SessionHeader,
        *,
        events: Sequence[LogEvent] = (),
        clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.header = header
        self.appended: Emit[LogEvent] = Emit("session/event")
        self._clock = clock
        self._events: list[LogEvent] = []
        self._surface = Surface()
        self._appending = False
        for event in events:
            self._commit(event)

    def append(self, data: EventData, *, sources: tuple[SeqRange, ...] | None = None) -> LogEvent:
        """Commit a fact and tell the observers.

        Raises:
            UsageError: called from an observer of an append, or `sources` on an event off the surface.
        """
        if self._appending:
            raise UsageError("an observer of an append cannot append; use a later turn of the loop", code="REENTRANT")
        if sources is not None and type(data) not in SURFACE:
            raise UsageError(f"{type(data).__name__} is not a surface event and cites no sources")
        event = LogEvent(seq=len(self._events), time=self._clock(), data=data, sources=sources)
        self._appending = True
        try:
            self._commit(event)
            self.appended(event)
        finally:
            self._appending = False
        return event

    def derive_messages(self) -> tuple[Message, ...]:
        """What a model sees now; equal to `derive_messages(list(log))` and cheaper."""
        return self._surface.messages()

    def _commit(self, event: LogEvent) -> None:
        if event.seq != len(self._events):
            raise UsageError(f"event {event.seq} cannot follow {len(self._events) - 1}", code="SEQ_GAP")
        self._events.append(event)
        self._surface.add(event)

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[LogEvent]:
        return iter(self._events)

    @overload
    def __getitem__(self, index: int) -> LogEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[LogEvent]: ...
    def __getitem__(self, index: int | slice) -> LogEvent | list[LogEvent]:
        return self._events[index]
