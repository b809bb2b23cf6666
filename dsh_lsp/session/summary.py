"""Summary: what a list of sessions shows of one, folded from its log."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dsh_lsp.events import LogEvent, TurnStart
from dsh_lsp.messages import UserMessage, UserSource
from dsh_lsp.notes import SessionTitle
from dsh_lsp.session.log import SessionLog
from dsh_lsp.wire import Wire

MAX_TITLE_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Wire):
    """One session in a list; times are milliseconds since 1970, `root` is its workspace."""

    session: str
    title: str
    root: str
    created_at: int
    updated_at: int
    turns: int = 0
    parent: str | None = None


class SummaryFold:
    """The summary of a log; what comes later is given to it by `add`.

    `changed` says that it is another one than the last that was taken.
    """

    def __init__(self, log: SessionLog) -> None:
        self.changed = True
        header = log.header
        self._summary = Summary(
            session=header.id,
            title="",
            root=header.cwd,
            created_at=header.created_at,
            updated_at=header.created_at,
            parent=header.parent_session,
        )
        for event in log.facts():
            self.add(event)

    def add(self, event: LogEvent) -> None:
        """Take one more event."""
        match event.data:
            case SessionTitle(title=title):
                self._update(event, title=title)
            case UserMessage(source=UserSource()) as message if not self._summary.title:
                self._update(event, title=title_of(message.text))
            case TurnStart(turn=turn):
                self._update(event, turns=turn)
            case _:
                pass

    def take(self) -> Summary:
        """The summary now."""
        self.changed = False
        return self._summary

    def _update(self, event: LogEvent, **values: object) -> None:
        self._summary = replace(self._summary, updated_at=event.time, **values)  # type: ignore[arg-type]
        self.changed = True


def title_of(text: str) -> str:
    """The first words of a message, as a title."""
    line = " ".join(text.split("\n\n", 1)[0].split())
    if len(line) <= MAX_TITLE_CHARS:
        return line
    cut = line[:MAX_TITLE_CHARS]
    head, space, _ = cut.rpartition(" ")
    return f"{head if space and len(head) > MAX_TITLE_CHARS // 2 else cut}…"
