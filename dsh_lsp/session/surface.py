"""Surface: the messages that a model sees, derived from the log and from nothing else.

The surface is an ordered list of nodes, one for each `user/message`, `assistant/message` and `tool/result`. A node
is appended at the end, or replaces a contiguous run of nodes in its place (a compaction, a pruned result).

Rules: a replacement is checked before anything changes; replacing advances the generation; a list that was handed
out never changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dsh_lsp.errors import UsageError
from dsh_lsp.events import SURFACE, AssistantMessageLogged, LogEvent, SeqRange, ToolResult
from dsh_lsp.messages import Message, ToolResultBlock, UserMessage


class Surface:
    """The nodes of the events added so far; grows with each event, so that a step costs what is new."""

    def __init__(self) -> None:
        self.generation = 0
        self._nodes: list[LogEvent] = []
        self._seqs: set[int] = set()  # of the nodes
        self._messages: list[Message] | None = []

    def check(self, event: LogEvent) -> None:
        """Refuse an event that does not fit the surface; nothing changes.

        Raises:
            UsageError: `ILLEGAL_EVENT`.
        """
        on_surface = type(event.data) in SURFACE
        if not on_surface and (event.sources is not None or event.replaces is not None):
            raise _illegal(event, "is not on the surface: it cites no sources and replaces nothing")
        if event.sources is not None:
            _check_sources(event, event.sources)
        if event.replaces is not None:
            self._check_replacement(event, *self._positions(event, event.replaces))

    def add(self, event: LogEvent) -> None:
        """Take one more event, checked before; those off the surface change nothing."""
        if type(event.data) not in SURFACE:
            return
        if event.replaces is None:
            self._nodes.append(event)
            self._seqs.add(event.seq)
            if self._messages is not None and (message := message_of(event)) is not None:
                self._messages.append(message)
            return
        first, last = self._positions(event, event.replaces)
        self._nodes[first : last + 1] = [event]
        self._seqs = {node.seq for node in self._nodes}
        self._messages = None
        self.generation += 1

    def messages(self) -> tuple[Message, ...]:
        """The messages now; the tuple never grows."""
        if self._messages is None:
            self._messages = [message for node in self._nodes if (message := message_of(node)) is not None]
        return tuple(self._messages)

    def nodes(self) -> tuple[LogEvent, ...]:
        """The events on the surface, in order."""
        return tuple(self._nodes)

    def holds(self, seq: int) -> bool:
        """Whether an event is on the surface: not replaced away."""
        return seq in self._seqs

    def _positions(self, event: LogEvent, span: SeqRange) -> tuple[int, int]:
        seqs = [node.seq for node in self._nodes]
        if span[0] not in seqs or span[1] not in seqs:
            raise _illegal(event, f"replaces {span[0]} to {span[1]}, which are not both on the surface")
        first, last = seqs.index(span[0]), seqs.index(span[1])
        if first > last:
            raise _illegal(event, "replaces a run that ends before it starts")
        return first, last

    def _check_replacement(self, event: LogEvent, first: int, last: int) -> None:
        shadowed = self._nodes[first : last + 1]
        cited = event.sources or ()
        missing = [node.seq for node in shadowed if not _covers(cited, node.seq)]
        if missing:
            raise _illegal(event, f"replaces {missing[0]} without citing it")
        if isinstance(event.data, ToolResult):
            old = shadowed[0].data
            if len(shadowed) > 1 or not isinstance(old, ToolResult) or _emptied(old) != _emptied(event.data):
                raise _illegal(event, "may only change the content of one tool result")


def _illegal(event: LogEvent, why: str) -> UsageError:
    return UsageError(f"{event.type} (event {event.seq}) {why}", code="ILLEGAL_EVENT")


def _covers(spans: Iterable[SeqRange], seq: int) -> bool:
    return any(first <= seq <= last for first, last in spans)


def _check_sources(event: LogEvent, sources: tuple[SeqRange, ...]) -> None:
    if not sources and not isinstance(event.data, AssistantMessageLogged):
        raise _illegal(event, "cites an empty list of sources")
    before = -1
    for first, last in sources:
        if not before < first <= last:
            raise _illegal(event, "cites sources twice or out of order")
        before = last
    if before >= event.seq:
        raise _illegal(event, "cites what comes after it")


def message_of(event: LogEvent) -> Message | None:
    """What a model sees of an event; None for what is empty or not on the surface."""
    match event.data:
        case UserMessage() as message:
            return message
        case AssistantMessageLogged(message=answer):
            return answer if answer.content else None
        case ToolResult(message=message):
            return message
        case _:
            return None


def _emptied(result: ToolResult) -> ToolResult:
    """A result without its content, to compare the rest."""
    blocks = tuple(
        replace(block, content=()) if isinstance(block, ToolResultBlock) else block
        for block in result.message.content
    )
    return replace(result, message=replace(result.message, content=blocks))


def derive_messages(events: Iterable[LogEvent]) -> tuple[Message, ...]:
    """Derive what a model sees from a log; pure."""
    surface = Surface()
    for event in events:
        surface.add(event)
    return surface.messages()
