"""Fork: the events with which a session begins that continues another one from an earlier point.

Rules: pure; a fork begins between turns, whatever the last one's end; it takes over the history and none of the
input that waits, which stays with the session that accepted it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsh_lsp.errors import SessionError
from dsh_lsp.events import InboxSpliced, LogEvent
from dsh_lsp.session.legality import LogState, advance
from dsh_lsp.session.pending import TARGETS, pending_of


def fork_events(events: Sequence[LogEvent], boundary: int | None = None) -> list[LogEvent]:
    """The first events of a fork: the log up to and with `boundary`, and an emptied inbox.

    Args:
        events: The log of the source, which may be running.
        boundary: The last event to take over; the whole log if None.

    Returns:
        The events; where input waited at the boundary, splices that drop it come last.

    Raises:
        SessionError: `INVALID_BOUNDARY`, the log has no such event; `OPEN_TURN`, it lies inside a turn.
    """
    if boundary is not None and not 0 <= boundary < len(events):
        raise SessionError(f"the session has no event {boundary} to fork at", code="INVALID_BOUNDARY")
    taken = list(events if boundary is None else events[: boundary + 1])
    state = LogState()
    for event in taken:
        advance(state, event)
    if state.turn_open:
        raise SessionError(f"a fork begins between turns, and turn {state.turn} is open there", code="OPEN_TURN")
    return taken + _dropping(taken)


def _dropping(taken: Sequence[LogEvent]) -> list[LogEvent]:
    waiting = pending_of(taken).waiting
    drops = [
        InboxSpliced(target=target, start=0, removed_count=len(waiting[target]), outcome="canceled")
        for target in TARGETS
        if waiting[target]
    ]
    return [LogEvent(seq=len(taken) + index, time=taken[-1].time, data=data) for index, data in enumerate(drops)]
