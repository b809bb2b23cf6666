"""Inbox: the one door for input, and the place where it waits.

Two lists: `next-turn` (one turn a message) and `next-step` (joins the running turn at its next step). Each change
is a durable splice event; the lists are its projection.

Rules: validate, append the event, change the projection, tell; a message id is pending at most once; an accepted
message ends as exactly one of a `user/message`, a cancelled splice, a verdict of pre-step, or pending.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.events import InboxSpliced, InboxTarget, LogEvent
from dsh_lsp.hooks import Emit
from dsh_lsp.messages import UserMessage
from dsh_lsp.session.log import SessionLog

TARGETS: tuple[InboxTarget, ...] = ("next-step", "next-turn")  # the order of claims and clears


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxChange:
    """A message was inserted, claimed by a turn, restored, or discarded."""

    kind: Literal["inserted", "claimed", "restored", "discarded"]
    message: UserMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A message on its way into a step, and the list that it came from."""

    message: UserMessage
    target: InboxTarget


class Inbox:
    """The pending input of one session."""

    def __init__(self, log: SessionLog, *, changed: Emit[InboxChange] | None = None) -> None:
        self.changed = changed or Emit("agent/inbox")
        self._log = log
        self._lists: dict[InboxTarget, list[UserMessage]] = {target: [] for target in TARGETS}
        for event in log.facts():
            self._replay(event)

    @property
    def next_turn(self) -> tuple[UserMessage, ...]:
        """What waits for a turn of its own, oldest first."""
        return tuple(self._lists["next-turn"])

    @property
    def next_step(self) -> tuple[UserMessage, ...]:
        """What joins the next step, oldest first."""
        return tuple(self._lists["next-step"])

    @property
    def pending(self) -> bool:
        """Whether anything waits."""
        return any(self._lists.values())

    def insert(self, target: InboxTarget, *messages: UserMessage, first: bool = False) -> None:
        """Add messages at the end of a list, or at its head.

        Raises:
            UsageError: a message is pending already.
        """
        start = 0 if first else len(self._lists[target])
        self._splice(target, start, inserted=messages)
        self._tell("inserted", messages)

    def claim(self, target: InboxTarget) -> tuple[Claimed, ...]:
        """Take all that joins the next step and, for `next-turn`, the oldest prompt, which comes last.

        Raises:
            UsageError: the log refuses it; nothing is taken.
        """
        claimed: list[Claimed] = []
        try:
            for source in TARGETS if target == "next-turn" else ("next-step",):
                taken = self._lists[source][: 1 if source == "next-turn" else None]
                if taken:
                    self._splice(source, 0, removed=len(taken))
                    claimed += [Claimed(message=message, target=source) for message in taken]
        except Exception:
            self.restore(claimed)
            raise
        self._tell("claimed", [claim.message for claim in claimed])
        return tuple(claimed)

    def restore(self, claimed: Iterable[Claimed]) -> tuple[Claimed, ...]:
        """Undo claims that were not committed: each goes back to the head of its list, unless it waits again.

        Returns:
            Those that went back.
        """
        waiting = {message.id for messages in self._lists.values() for message in messages}
        claims = tuple(claim for claim in claimed if claim.message.id not in waiting)
        for target in TARGETS:
            messages = tuple(claim.message for claim in claims if claim.target == target)
            if messages:
                self._splice(target, 0, inserted=messages, outcome="restored")
                self._tell("restored", messages)
        return claims

    def remove(self, message_id: str) -> bool:
        """Drop a waiting message; False if it does not wait (any more)."""
        return self._change(message_id, ())

    def replace(self, message_id: str, message: UserMessage) -> bool:
        """Put another message in the place of a waiting one; False if it does not wait (any more)."""
        return self._change(message_id, (message,))

    def clear(self) -> None:
        """Drop all that waits."""
        for target in TARGETS:
            dropped = tuple(self._lists[target])
            if dropped:
                self._splice(target, 0, removed=len(dropped), outcome="canceled")
                self._tell("discarded", dropped)

    def _change(self, message_id: str, inserted: tuple[UserMessage, ...]) -> bool:
        for target, waiting in self._lists.items():
            for index, message in enumerate(waiting):
                if message.id == message_id:
                    self._splice(target, index, removed=1, inserted=inserted, outcome="canceled")
                    self._tell("discarded", (message,))
                    self._tell("inserted", inserted)
                    return True
        return False

    def _splice(
        self,
        target: InboxTarget,
        start: int,
        *,
        removed: int = 0,
        inserted: tuple[UserMessage, ...] = (),
        outcome: Literal["canceled", "restored"] | None = None,
    ) -> None:
        splice = InboxSpliced(
            target=target, start=start, removed_count=removed or None, inserted=inserted, outcome=outcome
        )
        after = self._after(splice)
        self._log.append(splice)
        self._lists[target] = after

    def _after(self, splice: InboxSpliced) -> list[UserMessage]:
        """The list as it will be.

        Raises:
            UsageError: the splice does not fit the list, or a message would wait twice.
        """
        waiting = self._lists[splice.target]
        end = splice.start + (splice.removed_count or 0)
        if not 0 <= splice.start <= end <= len(waiting):
            raise UsageError("invalid inbox splice")
        after = [*waiting[: splice.start], *splice.inserted, *waiting[end:]]
        ids = [message.id for message in after]
        ids += [message.id for target in TARGETS if target != splice.target for message in self._lists[target]]
        for message in splice.inserted:
            if ids.count(message.id) > 1:
                raise UsageError(f"message {message.id!r} is already pending")
        return after

    def _replay(self, event: LogEvent) -> None:
        if isinstance(event.data, InboxSpliced):
            try:
                self._lists[event.data.target] = self._after(event.data)
            except UsageError as error:
                raise SessionError(f"event {event.seq}: {error}", code="LOG_NOT_READABLE") from error

    def _tell(
        self,
        kind: Literal["inserted", "claimed", "restored", "discarded"],
        messages: Iterable[UserMessage],
    ) -> None:
        for message in messages:
            self.changed(InboxChange(kind=kind, message=message))
