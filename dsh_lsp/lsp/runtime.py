"""Runtime: one client's documents and sessions, and what its commands do with them.

Rules: a command answers when its input is accepted and on disk, never when a turn is over (`wait` apart); the
current session is made with the first use.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from anyio.abc import TaskGroup
from lsprotocol import types

from dsh_lsp.agent.driver import new_id
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.compose import Session, Settings, build_adapter, open_session
from dsh_lsp.errors import SessionError, failure_of
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.lsp import actions
from dsh_lsp.lsp.approvals import ApprovalDesk
from dsh_lsp.lsp.arguments import Say, read_arguments
from dsh_lsp.lsp.commands import RUN, USER
from dsh_lsp.lsp.context import with_context
from dsh_lsp.lsp.documents import Documents, Encoding, path_of
from dsh_lsp.lsp.editor import ClientProfile, Editor
from dsh_lsp.lsp.feed import Feed, Wire
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.lsp.workspace import EditorWorkspace
from dsh_lsp.messages import UserMessage
from dsh_lsp.plugin_host import PluginReport
from dsh_lsp.session.log import SessionLog
from dsh_lsp.settings import read_settings
from dsh_lsp.wire import JsonObject

log = logging.getLogger(__name__)

DISPOSE_GRACE_S = 1.0  # of the 2 s that an editor waits for the answer to `shutdown`


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSession:
    """A session with its review and its output to the client."""

    session: Session
    reviews: Reviews
    approvals: ApprovalDesk
    feed: Feed


class Runtime:
    """What stands behind one connection."""

    def __init__(self, initialize: JsonObject, *, wire: Wire, tasks: TaskGroup, encoding: Encoding) -> None:
        self.documents = Documents(encoding)
        self._wire = wire
        self._tasks = tasks
        self._profile = ClientProfile.from_initialize(initialize)
        self._editor = Editor(wire, self._profile)
        self._settings, self._problems = read_settings(Settings, initialize.get("initializationOptions"))
        self._root = root_of(initialize)
        self._hooks = AgentHooks()
        self._llm: Llm | None = None
        self._sessions: dict[str, LiveSession] = {}
        self._current: LiveSession | None = None

    def start(self) -> None:
        """Tell the user what is wrong with their settings."""
        for problem in self._problems:
            log.warning("setting %s", problem)
            if not problem.unknown:
                self._editor.warn(f"DSH: setting {problem}; the default is used")

    async def run_command(self, name: str, argument: JsonObject) -> JsonObject:
        """Check the argument and run the command."""
        return await RUN[name](self, read_arguments(name, argument))

    async def close(self) -> None:
        """Stop every session, keeping what waits in its inbox, and put all on disk."""
        for live in list(self._sessions.values()):
            await live.session.agent.dispose(grace_s=DISPOSE_GRACE_S)
            live.feed.close()
            await live.session.store.settle()
            live.session.context.scope.close()

    # -- sessions --------------------------------------------------------------------------------------------

    def live(self, session_id: str | None) -> LiveSession:
        """Find a session; the current one, made on first use, if none is named.

        Raises:
            SessionError: `UNKNOWN_SESSION`.
        """
        if session_id is None:
            if self._current is None:
                self._current = self._new_session()
            return self._current
        live = self._sessions.get(session_id)
        if live is None:
            raise SessionError(f"there is no session {session_id}", code="UNKNOWN_SESSION")
        return live

    def all_live(self) -> list[LiveSession]:
        """All sessions of the connection; the first one is made if there is none."""
        return list(self._sessions.values()) or [self.live(None)]

    def message(self, live: LiveSession, args: Say) -> UserMessage:
        """The user's words, with what they point at."""
        return live.session.agent.message(with_context(args.text, args.context, self.documents, self._root))

    def _new_session(self) -> LiveSession:
        reviews: list[Reviews] = []

        def workspace_of(session_log: SessionLog) -> EditorWorkspace:
            reviews.append(
                Reviews(
                    log=session_log,
                    documents=self.documents,
                    editor=self._editor,
                    tasks=self._tasks,
                    new_id=new_id,
                    saves=self._settings.edits.save,
                )
            )
            return EditorWorkspace(self._root, self.documents, reviews[0])

        session = open_session(
            self._settings,
            root=self._root,
            llm=self._models(),
            hooks=self._hooks.child(),
            tasks=self._tasks,
            workspace_of=workspace_of,
        )
        review = reviews[0]
        desk = ApprovalDesk(
            hook=session.agent.hooks.tools.approval,
            documents=self.documents,
            editor=self._editor,
            tasks=self._tasks,
        )
        feed = Feed(
            session=session,
            wire=self._wire,
            tasks=self._tasks,
            event_token=self._settings.event_token,
            wants_status=self._profile.dsh is not None,
            wants_progress=self._profile.work_done_progress,
            waiting_for=lambda: waiting_for(review, desk),
        )
        for changed in (review.changed, desk.changed):
            changed.listen(lambda _: feed.touch_status())
        if self._profile.dsh is None:  # a client of ours shows a failed turn where it shows the turn
            session.agent.hooks.error.listen(
                lambda failed: self._editor.warn(f"DSH: {failure_of(failed.error).message}")
            )
        self._tell_of_plugins(session.plugins.report())
        session.plugins.reported.listen(self._tell_of_plugins)
        live = LiveSession(session=session, reviews=review, approvals=desk, feed=feed)
        self._sessions[session.id] = live
        return live

    def _models(self) -> Llm:
        if self._llm is None:
            llm = Llm()
            llm.register(build_adapter(self._settings.model))
            self._llm = llm
        return self._llm

    def _tell_of_plugins(self, report: PluginReport) -> None:
        for failure in report.failed:
            self._editor.warn(f"DSH: {failure}")

    # -- what the editor asks -------------------------------------------------------------------------------

    def cancel_progress(self, token: str | int) -> None:
        """Cancel the turn whose progress the user cancelled."""
        for live in self._sessions.values():
            if live.feed.progress_token == token:
                live.session.agent.cancel(USER)

    def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """The decisions that can be taken at a place of a document."""
        document = self.documents.get(params.text_document.uri)
        if document is None:
            return []
        found: list[types.CodeAction] = []
        for live in self._sessions.values():
            items = live.reviews.pending_at(document.key)
            found += actions.code_actions(document, items, params, session=live.session.id)
            found += actions.approval_actions(live.approvals.pending(), params, session=live.session.id)
        return found

    def code_lenses(self, uri: str) -> list[types.CodeLens]:
        """The decisions that wait in a document."""
        document = self.documents.get(uri)
        if document is None:
            return []
        return [
            lens
            for live in self._sessions.values()
            for lens in actions.code_lenses(document, live.reviews.pending_at(document.key), session=live.session.id)
        ]


def waiting_for(reviews: Reviews, approvals: ApprovalDesk) -> str | None:
    """What a person must decide before the turn goes on."""
    if approvals.pending():
        return "approval"
    return "review" if reviews.pending_count() else None


def root_of(initialize: JsonObject) -> Path:
    """The folder that paths are relative to: the first workspace folder, else the root, else where we stand."""
    folders = initialize.get("workspaceFolders") or []
    for uri in [*(folder.get("uri") for folder in folders), initialize.get("rootUri")]:
        if uri and (path := path_of(uri)) is not None:
            return path
    root = initialize.get("rootPath")
    return Path(os.path.realpath(root or Path.cwd()))
