"""Runtime: one client's documents and sessions, and what its commands do with them.

Rules: a command answers when its input is accepted and on disk, never when a turn is over (`wait` apart); the
current session is made with the first use.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from lsprotocol import types

from dsh_lsp.abort import Cause
from dsh_lsp.agent.driver import new_id
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.compose import Session, Settings, build_adapter, open_session
from dsh_lsp.errors import SessionError, failure_of
from dsh_lsp.events import AssistantMessageLogged, TurnEnd
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.lsp import actions
from dsh_lsp.lsp.arguments import Cancel, Followup, OfSession, ReviewAccept, ReviewReject, Say, read_arguments
from dsh_lsp.lsp.context import with_context
from dsh_lsp.lsp.documents import Documents, Encoding, path_of
from dsh_lsp.lsp.editor import ClientProfile, Editor
from dsh_lsp.lsp.feed import Feed, Wire
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.lsp.workspace import EditorWorkspace
from dsh_lsp.messages import UserMessage
from dsh_lsp.session.log import SessionLog
from dsh_lsp.settings import read_settings
from dsh_lsp.wire import JsonObject, encode

log = logging.getLogger(__name__)

USER = Cause(kind="user")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSession:
    """A session with its review and its output to the client."""

    session: Session
    reviews: Reviews
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
        self._commands: dict[str, Callable[[Any], Awaitable[JsonObject]]] = {
            "dsh.followup": self._followup,
            "dsh.steer": self._steer,
            "dsh.inject": self._inject,
            "dsh.cancel": self._cancel,
            "dsh.status": self._status,
            "dsh.review.list": self._review_list,
            "dsh.review.accept": self._review_accept,
            "dsh.review.reject": self._review_reject,
        }

    def start(self) -> None:
        """Tell the user what is wrong with their settings."""
        for problem in self._problems:
            log.warning("setting %s", problem)
            if not problem.unknown:
                self._editor.warn(f"DSH: setting {problem}; the default is used")

    async def run_command(self, name: str, argument: JsonObject) -> JsonObject:
        """Check the argument and run the command."""
        return await self._commands[name](read_arguments(name, argument))

    async def close(self) -> None:
        """Stop every session, keeping what waits in its inbox, and put all on disk."""
        for live in list(self._sessions.values()):
            await live.session.agent.dispose()
            live.feed.close()
            await live.session.store.settle()
            live.session.context.scope.close()

    # -- sessions --------------------------------------------------------------------------------------------

    def _live(self, session_id: str | None) -> LiveSession:
        if session_id is None:
            if self._current is None:
                self._current = self._new_session()
            return self._current
        live = self._sessions.get(session_id)
        if live is None:
            raise SessionError(f"there is no session {session_id}", code="UNKNOWN_SESSION")
        return live

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
        feed = Feed(
            session=session,
            wire=self._wire,
            tasks=self._tasks,
            event_token=self._settings.event_token,
            wants_status=self._profile.dsh is not None,
            wants_progress=self._profile.work_done_progress,
            reviews_pending=review.pending_count,
        )
        review.changed.listen(lambda _: feed.touch_status())
        if self._profile.dsh is None:  # a client of ours shows a failed turn where it shows the turn
            session.agent.hooks.error.listen(
                lambda failed: self._editor.warn(f"DSH: {failure_of(failed.error).message}")
            )
        live = LiveSession(session=session, reviews=review, feed=feed)
        self._sessions[session.id] = live
        return live

    def _models(self) -> Llm:
        if self._llm is None:
            llm = Llm()
            llm.register(build_adapter(self._settings.model))
            self._llm = llm
        return self._llm

    # -- input -----------------------------------------------------------------------------------------------

    def _message(self, live: LiveSession, args: Say) -> UserMessage:
        return live.session.agent.message(with_context(args.text, args.context, self.documents, self._root))

    async def _followup(self, args: Followup) -> JsonObject:
        live = self._live(args.session)
        live.session.check_ready()
        message = self._message(live, args)
        live.session.agent.followup(message, first=args.first)
        accepted = await self._accepted(live, message)
        return {**accepted, **await self._outcome(live, message)} if args.wait else accepted

    async def _steer(self, args: Say) -> JsonObject:
        live = self._live(args.session)
        live.session.check_ready()
        message = self._message(live, args)
        live.session.agent.steer(message)
        return await self._accepted(live, message)

    async def _inject(self, args: Say) -> JsonObject:
        live = self._live(args.session)
        message = self._message(live, args)
        live.session.agent.inject(message)
        return await self._accepted(live, message)

    async def _accepted(self, live: LiveSession, message: UserMessage) -> JsonObject:
        """Answer once the input is on disk: from here on it cannot be lost."""
        await live.session.store.flush()
        return {"session": live.session.id, "message": message.id}

    async def _outcome(self, live: LiveSession, message: UserMessage) -> JsonObject:
        """Wait for the turn that a message went into; cancelling the request cancels the turn."""
        agent, session_log = live.session.agent, live.session.log
        news = anyio.Event()

        def tell(_event: object) -> None:
            news.set()

        disposers = (session_log.appended.listen(tell), agent.hooks.status.listen(tell))
        try:
            while (found := turn_of(session_log, message)) is None and agent.status == "running":
                await news.wait()
                news = anyio.Event()
        except anyio.get_cancelled_exc_class():
            agent.cancel(USER)
            raise
        finally:
            for dispose in disposers:
                dispose()
        return found or {"turn": None, "reason": {"kind": "dropped"}, "text": ""}

    async def _cancel(self, args: Cancel) -> JsonObject:
        live = self._live(args.session)
        was_running = live.session.agent.cancel(USER, keep_inbox=args.keep_inbox)
        return {"wasRunning": was_running}

    def cancel_progress(self, token: str | int) -> None:
        """Cancel the turn whose progress the user cancelled."""
        for live in self._sessions.values():
            if live.feed.progress_token == token:
                live.session.agent.cancel(USER)

    async def _status(self, args: OfSession) -> JsonObject:
        return self._live(args.session).feed.status()

    # -- reviews ---------------------------------------------------------------------------------------------

    async def _review_list(self, args: OfSession) -> JsonObject:
        files = self._live(args.session).reviews.pending_files()
        return {"files": [{"proposal": proposal, **encode(file)} for proposal, file in files]}

    async def _review_accept(self, args: ReviewAccept) -> JsonObject:
        reviews = self._live(args.session).reviews
        return {"left": reviews.accept(args.hunks, uri=args.uri, edited=args.edited)}

    async def _review_reject(self, args: ReviewReject) -> JsonObject:
        reviews = self._live(args.session).reviews
        return {"left": reviews.reject(args.hunks, uri=args.uri, comment=args.comment)}

    def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """The decisions that can be taken at a place of a document."""
        document = self.documents.get(params.text_document.uri)
        if document is None:
            return []
        found: list[types.CodeAction] = []
        for live in self._sessions.values():
            items = live.reviews.pending_at(document.key)
            found += actions.code_actions(document, items, params, session=live.session.id)
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


def turn_of(session_log: SessionLog, message: UserMessage) -> JsonObject | None:
    """The ended turn that a message was committed in: its number, reason and last words; None while it runs."""
    committed = False
    text = ""
    for event in session_log:
        match event.data:
            case UserMessage(id=message_id):
                committed = committed or message_id == message.id
            case AssistantMessageLogged(message=answer) if committed:
                text = answer.text
            case TurnEnd(turn=turn, reason=reason) if committed:
                return {"turn": turn, "reason": encode(reason), "text": text}
            case _:
                pass
    return None


def root_of(initialize: JsonObject) -> Path:
    """The folder that paths are relative to: the first workspace folder, else the root, else where we stand."""
    folders = initialize.get("workspaceFolders") or []
    for uri in [*(folder.get("uri") for folder in folders), initialize.get("rootUri")]:
        if uri and (path := path_of(uri)) is not None:
            return path
    root = initialize.get("rootPath")
    return Path(os.path.realpath(root or Path.cwd()))
