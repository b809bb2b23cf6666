"""Sessions: the sessions of one client: made, opened, forked, renamed, exported, thrown away.

Rules: the current session is made with the first use; a session is live once in a process and, by its lock, once on
a machine; what a list shows comes from the catalogue, but for live sessions, which know themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.compose import Stored, new_log, resume_log, sessions_folder, summarize
from dsh_lsp.errors import SessionError
from dsh_lsp.events import AssistantChunk, LogEvent, TurnEnd
from dsh_lsp.hooks import Emit
from dsh_lsp.lsp.live_session import LiveSession, Window, build_live
from dsh_lsp.lsp.models import Models
from dsh_lsp.notes import SessionTitle
from dsh_lsp.session.catalog import Catalog
from dsh_lsp.session.export import to_jsonl, to_markdown
from dsh_lsp.session.fork import fork_events
from dsh_lsp.session.log import SessionLog
from dsh_lsp.session.store import look_at, session_lock
from dsh_lsp.session.summary import Summary, SummaryFold
from dsh_lsp.session_settings import Settings

DISPOSE_GRACE_S = 1.0  # of the 2 s that an editor waits for the answer to `shutdown`


class Sessions:
    """The sessions of one client; `changed` names a session in which something happened, or what waits in it did."""

    def __init__(self, settings: Settings, window: Window) -> None:
        self.changed: Emit[str] = Emit("session changed")
        self._settings = settings
        self._window = window
        self._hooks = AgentHooks()
        self._models = Models(window.tasks, lambda llm: any(live.session.llm is llm for live in self.all()))
        self._live: dict[str, LiveSession] = {}
        self._current: LiveSession | None = None
        self._opening = anyio.Lock()

    def configure(self, settings: Settings) -> None:
        """Take settings that changed: for the sessions that are live, and for those to come."""
        self._settings = settings
        for live in self.all():
            live.session.configure(settings)
            live.reviews.saves = settings.edits.save
            live.feed.touch_status()

    def folders_changed(self) -> None:
        """Take that other places lie in the workspace now; a session keeps its root, which its log names."""
        for live in self.all():
            if not live.session.modes.trusted:
                live.session.plugins.distrust()

    # -- finding ---------------------------------------------------------------------------------------------

    def get(self, session: str | None) -> LiveSession:
        """Find a live session; the current one, made on first use, if none is named.

        Raises:
            SessionError: `UNKNOWN_SESSION`.
        """
        if session is None:
            return self._current or self.new()
        live = self._live.get(session)
        if live is None:
            raise SessionError(f"session {session} is not open here", code="UNKNOWN_SESSION")
        return live

    def all(self) -> list[LiveSession]:
        """All live sessions."""
        return list(self._live.values())

    async def list(self, *, root: str | None, limit: int | None) -> list[Summary]:
        """The sessions, newest first; live ones as they are now."""
        stored = await anyio.to_thread.run_sync(lambda: self._catalog().list(root=root))
        now = {live.id: live.summary.take() for live in self.all()}
        found = [now.get(summary.session, summary) for summary in stored]
        return sorted(found, key=lambda summary: summary.updated_at, reverse=True)[:limit]

    # -- making ----------------------------------------------------------------------------------------------

    def new(self, *, root: str | None = None) -> LiveSession:
        """Begin a session and make it the current one."""
        return self._start(new_log(self._settings, Path(root) if root else self._window.folders.root))

    async def open(self, session: str) -> LiveSession:
        """Make a session the current one, from its file if it is not live.

        Raises:
            SessionError: `UNKNOWN_SESSION`, `SESSION_LOCKED`, `LOG_NOT_READABLE`.
        """
        async with self._opening:
            live = self._live.get(session)
            if live is None:
                path = await anyio.to_thread.run_sync(self._catalog().path_of, session)
                return self._start(await resume_log(path))
        self._current = live
        return live

    async def fork(self, session: str | None, turn: int | None) -> LiveSession:
        """Begin a session with the history of a live one, up to the end of a turn; it becomes the current one.

        Raises:
            SessionError: `UNKNOWN_TURN`, there is no such ended turn.
        """
        parent = self.get(session).session
        source = parent.log
        events = fork_events(source, _end_of(source, turn))
        root = Path(source.header.cwd)
        live = self._start(new_log(self._settings, root, parent=source.header.id, events=events))
        await anyio.to_thread.run_sync(live.session.copies.take_over, parent.copies)
        await live.session.on_disk()
        return live

    async def rename(self, session: str, title: str) -> LiveSession:
        """Give a session another title; one that is not live is opened for it, and stays open."""
        current = self._current
        live = self._live.get(session) or await self.open(session)
        self._current = current or live
        live.session.log.append(SessionTitle(title=title))
        await live.session.on_disk()
        await self._keep(live)
        return live

    async def delete(self, session: str) -> None:
        """Throw a session away, unless another process writes it.

        Raises:
            SessionError: `UNKNOWN_SESSION`, `SESSION_LOCKED`, `LOG_NOT_WRITABLE`.
        """
        live = self._live.get(session)
        catalog = self._catalog(live)
        if live is not None:
            await self._close(live)
        lock = session_lock(await anyio.to_thread.run_sync(catalog.path_of, session))
        await lock.take()
        try:
            await anyio.to_thread.run_sync(catalog.delete, session)
        finally:
            lock.release()

    async def export(self, session: str, form: Literal["markdown", "jsonl"]) -> str:
        """Write a session out, live or not.

        Raises:
            SessionError: `UNKNOWN_SESSION`, `LOG_NOT_READABLE`.
        """
        live = self._live.get(session)
        if live is not None:
            return _exported(live.session.log, form)
        path = await anyio.to_thread.run_sync(self._catalog().path_of, session)
        loaded = await anyio.to_thread.run_sync(look_at, path)
        return _exported(loaded.log, form)

    async def close(self) -> None:
        """Stop every session, keeping what waits in its inbox, and put all on disk; together, for time is short."""
        async with anyio.create_task_group() as closing:
            for live in self.all():
                closing.start_soon(self._close, live)
        await self._models.close()

    async def _close(self, live: LiveSession) -> None:
        await live.session.agent.dispose(grace_s=DISPOSE_GRACE_S)
        live.feed.close()
        live.reviews.close()
        await self._keep(live)
        await live.session.close()
        self._live.pop(live.id, None)
        await self._models.leave(live.session.llm)
        if self._current is live:
            self._current = None

    async def _keep(self, live: LiveSession) -> None:
        """Put a session on disk, then its summary, which must not be older; one that was never used has neither."""
        await live.session.store.settle()
        if live.session.store.path.exists():
            await anyio.to_thread.run_sync(self._catalog(live).keep, live.summary.take())

    def _catalog(self, live: LiveSession | None = None) -> Catalog:
        """The folder of a live session, which stays where it began; else the one of the settings."""
        folder = live.session.store.path.parent if live is not None else sessions_folder(self._settings)
        return Catalog(folder, summarize)

    def _start(self, stored: Stored) -> LiveSession:
        """Build what stands around a log, and make it the current session."""
        llm = self._models.by(self._settings.model)
        live = build_live(stored, self._window, settings=self._settings, llm=llm, hooks=self._hooks.child())
        live.session.log.appended.listen(lambda event: self._sum_up(live, event))
        live.reviews.changed.listen(lambda _: self.changed(live.id))
        self._live[live.id] = self._current = live
        return live

    def _sum_up(self, live: LiveSession, event: LogEvent) -> None:
        live.summary.add(event)
        if not isinstance(event.data, AssistantChunk):
            self.changed(live.id)
        if isinstance(event.data, TurnEnd) and live.summary.changed:
            self._window.tasks.start_soon(self._keep, live)


def _exported(session_log: SessionLog, form: Literal["markdown", "jsonl"]) -> str:
    if form == "jsonl":
        return to_jsonl(session_log.header, session_log)
    return to_markdown(SummaryFold(session_log).take().title, session_log.facts())


def _end_of(source: SessionLog, turn: int | None) -> int:
    """Where a turn ended, or the last one that did."""
    ends = {event.data.turn: event.seq for event in source.facts() if isinstance(event.data, TurnEnd)}
    if turn is not None and turn not in ends:
        raise SessionError(f"turn {turn} of the session has not ended", code="UNKNOWN_TURN")
    if not ends:
        raise SessionError("no turn of the session has ended", code="UNKNOWN_TURN")
    return ends[turn] if turn is not None else max(ends.values())
