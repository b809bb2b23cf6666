"""Snapshot: facts that change while a session runs, told to the model when they have changed and only then.

They go to the end of history as a message, not into the system text, which stays byte-stable for the provider's
cache.

Rules: what counts as told is what still stands on the surface; a snapshot that was replaced away is told again.
"""

from __future__ import annotations

from collections.abc import Callable

from dsh_lsp.abort import Disposer
from dsh_lsp.errors import UsageError
from dsh_lsp.events import LogEvent
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage
from dsh_lsp.session.log import SessionLog

SOURCE = "runtime-context"
HEADER = "The current runtime context; it supersedes earlier ones."
CLEARED = "There is no runtime context any more; earlier ones no longer hold."

Provider = Callable[[], str | None]


class RuntimeContext:
    """The registered facts of one agent, and what the model was last told of them."""

    def __init__(self, log: SessionLog, new_id: Callable[[], str]) -> None:
        self._log = log
        self._new_id = new_id
        self._providers: dict[str, tuple[int, Provider]] = {}
        self._told: LogEvent | None = None
        for event in log.facts():
            self._note(event)
        log.appended.listen(self._note)

    def register(self, name: str, order: int, provider: Provider) -> Disposer:
        """Add a fact; the provider is asked before each step, and None or an empty text is no fact.

        Raises:
            UsageError: the name is taken.
        """
        if name in self._providers:
            raise UsageError(f"a runtime context is called {name!r} already")
        self._providers[name] = (order, provider)
        return lambda: self._providers.pop(name, None)

    def project(self) -> UserMessage | None:
        """The message that the model should read now; None when it knows all there is."""
        named = sorted((order, name, provider) for name, (order, provider) in self._providers.items())
        texts = [text for _, _, provider in named if (text := provider())]
        if not texts and self._told is None:
            return None
        text = "\n\n".join([HEADER, *texts]) if texts else CLEARED
        if self._standing_text() == text:
            return None
        source = PluginSource(plugin=SOURCE, form="snapshot" if texts else None)
        return UserMessage(id=self._new_id(), content=(TextBlock(text=text),), source=source)

    def _standing_text(self) -> str | None:
        """What the model was told and still sees; None when that is nothing, or nothing that can be compared."""
        told = self._told
        if told is None or not isinstance(told.data, UserMessage) or not self._log.surface.holds(told.seq):
            return None
        blocks = told.data.content
        return blocks[0].text if len(blocks) == 1 and isinstance(blocks[0], TextBlock) else None

    def _note(self, event: LogEvent) -> None:
        source = event.data.source if isinstance(event.data, UserMessage) else None
        if isinstance(source, PluginSource) and source.plugin == SOURCE:
            self._told = event
