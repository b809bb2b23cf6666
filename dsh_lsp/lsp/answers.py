"""Answers: what is said of each turn to the user of an editor that has no view of ours, in one line and once.

Rules: the first words of the answer when it has ended; that a policy has stopped it; and where no progress shows it,
that the model is asked again.
"""

from __future__ import annotations

from dsh_lsp.events import AssistantMessageLogged, Ended, EndedByAbort, LogEvent, TurnEnd, TurnStart
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.progress import first_reason
from dsh_lsp.upkeep import RetryPlanned

MAX_CHARS = 120
SUFFIXES = {"completed": "", "max-tokens": " (the answer was cut off at its token limit)"}


class Answers:
    """Tells how each turn of a session goes and ends."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._text = ""
        self._told_retry = False

    def add(self, event: LogEvent) -> None:
        """Take one more event."""
        match event.data:
            case TurnStart():
                self._text, self._told_retry = "", False
            case AssistantMessageLogged(message=message):
                self._text = message.text
            case RetryPlanned() as planned if not (self._editor.profile.work_done_progress or self._told_retry):
                self._told_retry = True
                times = f"up to {planned.max_retries} times"
                self._editor.tell(f"DSH: {first_reason(planned)}; it is tried again, {times}, unless you cancel")
            case TurnEnd(reason=Ended(kind=kind)) if kind in SUFFIXES and (words := first_words(self._text)):
                self._editor.tell(f"DSH: {words}{SUFFIXES[kind]}")
            case TurnEnd(reason=EndedByAbort(reason=cause)) if cause.kind == "hook" and cause.reason:
                self._editor.warn(f"DSH: stopped: {cause.reason}")
            case _:
                pass


def first_words(text: str) -> str:
    """The first line of a text that says something, cut where it is long."""
    line = next((line.strip(" #") for line in text.splitlines() if line.strip(" #")), "")
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}…"
