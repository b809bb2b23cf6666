"""Sessions: the sessions of one client: made, opened, forked, renamed, exported, thrown away.

Rules: the current session is made with the first use; a session is live once in a process and, by its lock, once on
a machine; what a list shows comes from the catalogue, but for live sessions, which know themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from dsh_lsp.agent.driver import new_id
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.compose import (
    Ports,
    Session,
    Settings,
    Stored,
    new_log,
    open_session,
    resume_log,
    sessions_folder,
    summarize,
)
from dsh_lsp.errors import SessionError, failure_of
from dsh_lsp.events import AssistantChunk, LogEvent, TurnEnd
from dsh_lsp.hooks import Emit
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.lsp.answers import Answers
from dsh_lsp.lsp.approvals import ApprovalDesk
from dsh_lsp.lsp.client import StreamClient
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.feed import Feed
from dsh_lsp.lsp.folders import WindowFolders
from dsh_lsp.lsp.language import EditorLanguages
from dsh_lsp.lsp.questions import QuestionDesk
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.lsp.workspace import EditorWorkspace
from dsh_lsp.notes import SessionTitle
from dsh_lsp.plugin_host import PluginReport
from dsh_lsp.providers import ModelSettings, build_models
from dsh_lsp.session.catalog import Catalog
from dsh_lsp.session.export import to_jsonl, to_markdown
from dsh_lsp.session.fork import fork_events
from dsh_lsp.session.log import SessionLog
from dsh_lsp.session.store import look_at, session_lock
from dsh_lsp.session.summary import Summary, SummaryFold
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.paths import Guarded

log = logging.getLogger(__name__)

DISPOSE_GRACE_S = 1.0  # of the 2 s that an editor waits for the answer to `shutdown`


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSession:
    """A session with its review, its approvals, and its output to the client."""

    session: Session
    reviews: Reviews
    approvals: ApprovalDesk
    questions: QuestionDesk
    feed: Feed
    summary: SummaryFold

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id


class Sessions:
    """The sessions of one client; `changed` names a session in which something happened, or what waits in it did."""

    def __init__(
        self,
        *,
        settings: Settings,
        folders: WindowFolders,
        documents: Documents,
        editor: Editor,
        client: StreamClient,
        tasks: TaskGroup,
    ) -> None:
        self.changed: Emit[str] = Emit("session changed")
        self._settings = settings
        self._folders = folders
        self._documents = documents
        self._editor = editor
        self._client = client
        self._tasks = tasks
        self._hooks = AgentHooks()
        self._llm: Llm | None = None  # of sessions to come, by the settings that stand beside it
        self._llm_settings: ModelSettings | None = None
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
        return self._start(new_log(self._settings, Path(root) if root else self._folders.root))

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

    def start(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do something that no command waits for."""
        self._tasks.start_soon(work)

    async def close(self) -> None:
        """Stop every session, keeping what waits in its inbox, and put all on disk; together, for time is short."""
        async with anyio.create_task_group() as closing:
            for live in self.all():
                closing.start_soon(self._close, live)
        if self._llm is not None:
            await self._llm.aclose()

    async def _close(self, live: LiveSession) -> None:
        await live.session.agent.dispose(grace_s=DISPOSE_GRACE_S)
        live.feed.close()
        live.reviews.close()
        await self._keep(live)
        await live.session.close()
        self._live.pop(live.id, None)
        await self._leave(live.session.llm)
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

    # -- building --------------------------------------------------------------------------------------------

    def _start(self, stored: Stored) -> LiveSession:
        """Build what stands around a log, and make it the current session."""
        reviews: list[Reviews] = []

        def ports_of(session_log: SessionLog, copies: Copies, guarded: Guarded) -> Ports:
            root = Path(session_log.header.cwd)
            guarded.folders = self._folders
            reviews.append(
                Reviews(
                    log=session_log,
                    documents=self._documents,
                    editor=self._editor,
                    tasks=self._tasks,
                    new_id=new_id,
                    root=root,
                    copies=copies,
                    guarded=guarded,
                    saves=self._settings.edits.save,
                    applies_at_once=lambda: session.modes.current == "auto-edit",
                )
            )
            workspace = EditorWorkspace(root, self._documents, reviews[0], guarded)
            return Ports(
                workspace=workspace, languages=EditorLanguages(workspace, self._documents, self._editor, guarded)
            )

        session = open_session(
            self._settings,
            root=Path(stored.log.header.cwd),
            llm=self._models(),
            hooks=self._hooks.child(),
            tasks=self._tasks,
            ports_of=ports_of,
            stored=stored,
        )
        root = Path(stored.log.header.cwd)
        session.agent.context.register("workspace-folders", 40, lambda: self._folders.beside(root))
        live = self._connect(session, reviews[0])
        self._live[session.id] = self._current = live
        return live

    def _connect(self, session: Session, reviews: Reviews) -> LiveSession:
        """Join a session to the client."""
        profile, hooks = self._editor.profile, session.agent.hooks
        approvals = ApprovalDesk(
            hook=hooks.tools.approval, documents=self._documents, editor=self._editor, tasks=self._tasks
        )
        questions = QuestionDesk(
            hook=hooks.tools.question, documents=self._documents, editor=self._editor, tasks=self._tasks
        )
        feed = Feed(
            session=session,
            client=self._client,
            tasks=self._tasks,
            event_token=self._settings.event_token,
            wants_status=profile.dsh is not None,
            wants_progress=profile.work_done_progress,
            waiting_for=_waiting_for(reviews, approvals, questions),
        )
        for changed in (reviews.changed, approvals.changed, questions.changed):
            changed.listen(lambda _: feed.touch_status())
        if profile.dsh is None:  # a client of ours shows a failed turn where it shows the turn
            session.log.appended.listen(Answers(self._editor).add)
            hooks.error.listen(lambda failed: self._editor.warn(f"DSH: {failure_of(failed.error).message}"))
        self._tell_of_plugins(session.plugins.report())
        session.plugins.reported.listen(self._tell_of_plugins)
        summary = SummaryFold(session.log.header)
        for event in session.log.facts():
            summary.add(event)
        live = LiveSession(
            session=session, reviews=reviews, approvals=approvals, questions=questions, feed=feed, summary=summary
        )
        session.log.appended.listen(lambda event: self._sum_up(live, event))
        reviews.changed.listen(lambda _: self.changed(live.id))
        return live

    def _sum_up(self, live: LiveSession, event: LogEvent) -> None:
        live.summary.add(event)
        if not isinstance(event.data, AssistantChunk):
            self.changed(live.id)
        if isinstance(event.data, TurnEnd) and live.summary.changed:
            self._tasks.start_soon(self._keep, live)

    def _tell_of_plugins(self, report: PluginReport) -> None:
        for failure in report.failed:
            self._editor.warn(f"DSH: {failure}")

    def _models(self) -> Llm:
        """What sessions that begin now ask; those that live go on with what they have."""
        settings = self._settings.model
        if self._llm is None or settings != self._llm_settings:
            llm = build_models(settings)
            llm.adapter(settings.provider)  # what is wrong with the settings is told now
            before, self._llm, self._llm_settings = self._llm, llm, settings
            if before is not None:
                self._tasks.start_soon(self._leave, before)
            self._tasks.start_soon(llm.warm, settings.provider)
        return self._llm

    async def _leave(self, llm: Llm) -> None:
        """Close the connections of a model that no session asks any more."""
        if llm is not self._llm and all(live.session.llm is not llm for live in self.all()):
            await llm.aclose()


def _exported(session_log: SessionLog, form: Literal["markdown", "jsonl"]) -> str:
    if form == "jsonl":
        return to_jsonl(session_log.header, session_log)
    fold = SummaryFold(session_log.header)
    for event in session_log.facts():
        fold.add(event)
    return to_markdown(fold.take().title, session_log.facts())


def _waiting_for(reviews: Reviews, approvals: ApprovalDesk, questions: QuestionDesk) -> Callable[[], str | None]:
    """What a person must decide before the turn goes on."""

    def waiting_for() -> str | None:
        if approvals.pending():
            return "approval"
        if questions.pending():
            return "question"
        return "review" if reviews.pending_count() else None

    return waiting_for


def _end_of(source: SessionLog, turn: int | None) -> int:
    """Where a turn ended, or the last one that did."""
    ends = {event.data.turn: event.seq for event in source.facts() if isinstance(event.data, TurnEnd)}
    if turn is not None and turn not in ends:
        raise SessionError(f"turn {turn} of the session has not ended", code="UNKNOWN_TURN")
    if not ends:
        raise SessionError("no turn of the session has ended", code="UNKNOWN_TURN")
    return ends[turn] if turn is not None else max(ends.values())
