"""Answers: the first words of each answer, for the user of an editor that has no view of ours."""

from __future__ import annotations

from dsh_lsp.events import AssistantMessageLogged, Ended, LogEvent, TurnEnd
from dsh_lsp.lsp.editor import Editor

MAX_CHARS = 120
SUFFIXES = {"completed": "", "max-tokens": " (the answer was cut off at its token limit)"}


class Answers:
    """Tells how each turn of a session was answered, once, when it has ended."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._text = ""

    def add(self, event: LogEvent) -> None:
        """Take one more event."""
        match event.data:
            case AssistantMessageLogged(message=message):
                self._text = message.text
            case TurnEnd(reason=Ended(kind=kind)) if kind in SUFFIXES and (words := first_words(self._text)):
                self._editor.tell(f"DSH: {words}{SUFFIXES[kind]}")
            case _:
                pass


def first_words(text: str) -> str:
    """The first line of a text that says something, cut where it is long."""
    line = next((line.strip(" #") for line in text.splitlines() if line.strip(" #")), "")
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}…"
