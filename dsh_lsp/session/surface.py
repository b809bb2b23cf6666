"""Surface: the messages that a model sees, derived from the log and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from dsh_lsp.events import AssistantMessageLogged, LogEvent, ToolResult
from dsh_lsp.messages import Message, UserMessage


class Surface:
    """The messages of the events added so far; grows with each event, so that a step costs what is new."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def add(self, event: LogEvent) -> None:
        """Take one more event; those off the surface change nothing."""
        match event.data:
            case UserMessage() as message:
                self._messages.append(message)
            case AssistantMessageLogged(message=answer) if answer.content:
                self._messages.append(answer)
            case ToolResult(message=message):
                self._messages.append(message)
            case _:
                pass

    def messages(self) -> tuple[Message, ...]:
        """The messages now; the tuple never grows."""
        return tuple(self._messages)


def derive_messages(events: Iterable[LogEvent]) -> tuple[Message, ...]:
    """Derive what a model sees from a log; pure."""
    surface = Surface()
    for event in events:
        surface.add(event)
    return surface.messages()
