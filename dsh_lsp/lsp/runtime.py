"""Runtime: what stands behind one connection: its documents, its sessions, and what it is asked."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from lsprotocol import types

from dsh_lsp.abort import USER
from dsh_lsp.errors import EditorError
from dsh_lsp.lsp import actions, asking
from dsh_lsp.lsp.arguments import Say
from dsh_lsp.lsp.client import StreamClient
from dsh_lsp.lsp.configuration import SECTION, Configuration
from dsh_lsp.lsp.context import with_context
from dsh_lsp.lsp.documents import Documents, Encoding, identity
from dsh_lsp.lsp.editor import ClientProfile, Editor
from dsh_lsp.lsp.folders import WindowFolders
from dsh_lsp.lsp.live_session import LiveSession, Window
from dsh_lsp.lsp.refusals import one_line
from dsh_lsp.lsp.sessions import Sessions
from dsh_lsp.lsp.virtual import VirtualDocuments
from dsh_lsp.messages import UserMessage
from dsh_lsp.secrets import Keys
from dsh_lsp.validation import Problem
from dsh_lsp.wire import JsonObject

log = logging.getLogger(__name__)

UNREAD = "DSH: the editor does not tell its settings ({why}); those that are known stay"


class Runtime:
    """What stands behind one connection."""

    def __init__(self, initialize: JsonObject, *, client: StreamClient, tasks: TaskGroup, encoding: Encoding) -> None:
        profile = ClientProfile.from_initialize(initialize)
        self._configuration = Configuration(initialize.get("initializationOptions"), vouches=profile.dsh is not None)
        self.documents = Documents(
            encoding,
            line_ends_apart=profile.line_ends_apart,
            last_end_apart=profile.manners.last_end_apart,
            splits_at_return=profile.manners.splits_at_return,
        )
        self.editor = Editor(client, profile)
        self._tasks = tasks
        self._pulling = anyio.Lock()
        self._told_unread = False
        self._folders = WindowFolders(initialize)
        window = Window(
            documents=self.documents, editor=self.editor, client=client, folders=self._folders, tasks=tasks
        )
        self.sessions = Sessions(self._configuration.settings, window)
        self.virtual = VirtualDocuments(self.sessions, self.documents, self.editor, tasks)

    def start(self) -> None:
        """Tell the user what is wrong with their settings, and whether their server is too old for its client."""
        if self.editor.profile.newer_protocol:
            self.editor.warn("DSH: the editor's side is newer than the server: update dsh-lsp")
        self._tell_of(self._configuration.problems)
        if self.editor.profile.configures:
            self._tasks.start_soon(self.editor.watch_configuration)
            self._tasks.start_soon(self._pull_configuration)

    def configuration_changed(self, pushed: Any) -> None:
        """Take settings that changed; a client that can be asked is asked for them."""
        if self.editor.profile.configures:
            self._tasks.start_soon(self._pull_configuration)
        elif isinstance(pushed, dict) and SECTION in pushed:
            self._configure(pushed[SECTION])

    async def _pull_configuration(self) -> None:
        async with self._pulling:  # an older answer must not come after a newer one
            try:
                section = await self.editor.configuration(SECTION)
            except EditorError as error:
                log.info("workspace/configuration: %s", error)
                self._tell_unread(error)
            else:
                self._told_unread = False
                self._configure(section)

    def _tell_unread(self, error: EditorError) -> None:
        """Say once that settings may be missing; nobody asks more often because of it."""
        if error.code != "EDITOR_CLOSED" and not self._told_unread:
            self._told_unread = True
            self.editor.warn(UNREAD.format(why=one_line(str(error))))

    def _configure(self, section: Any) -> None:
        self._tell_of(self._configuration.update(section))
        self.sessions.configure(self._configuration.settings)

    def _tell_of(self, problems: list[Problem]) -> None:
        for problem in problems:
            log.warning("setting %s", problem)
            if not problem.unknown:
                self.editor.warn(f"DSH: setting {problem}; it is not used")

    def carry_on(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do what a command has accepted, after its answer."""

        async def run() -> None:
            await work()

        self._tasks.start_soon(run)

    async def close(self) -> None:
        """Stop every session and put all on disk."""
        await self.sessions.close()

    def message(self, live: LiveSession, args: Say) -> UserMessage:
        """The user's words, with what they point at."""
        root = Path(live.session.log.header.cwd)
        keys = live.session.context.get(Keys)
        return live.session.agent.message(with_context(args.text, args.context, self.documents, root, keys))

    def cancel_progress(self, token: str | int) -> None:
        """Cancel the turn whose progress the user cancelled."""
        for live in self.sessions.all():
            if live.feed.progress_token == token:
                live.session.agent.cancel(USER)

    def files_changed(self, uris: Iterable[str]) -> None:
        """Look at files that wait for review and were changed on disk."""
        for key in {identity(uri) for uri in uris}:
            for live in self.sessions.all():
                self._tasks.start_soon(live.reviews.look_at_file, key)

    def folders_changed(self, added: Any, removed: Any) -> None:
        """Take that folders came into the user's window and left it."""
        self._folders.change(added, removed)
        self.sessions.folders_changed()

    def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """What can be decided and asked at a place of a document."""
        document = self.documents.followed(params.text_document.uri)
        if document is None:
            return []
        found: list[types.CodeAction] = []
        for live in self.sessions.all():
            found += actions.review_actions(document, live.reviews, params, session=live.id)
            found += actions.approval_actions(live.approvals.pending(), params, session=live.id)
            found += actions.question_actions(live.questions.pending(), params, session=live.id)
        profile, where = self.editor.profile, params.range
        automatic = params.context.trigger_kind == types.CodeActionTriggerKind.Automatic
        by_hand = not automatic and (not profile.looks_for_actions or where.start != where.end)
        found += asking.ask_actions(params, by_hand=by_hand, asks_itself=profile.dsh is not None)
        if by_hand and profile.dsh is None:
            found += [asking.transcript_action(live.id) for live in self.sessions.all()]
        return asking.of_kinds(found, params.context.only)

    def code_lenses(self, uri: str) -> list[types.CodeLens]:
        """The decisions that wait in a document."""
        document = self.documents.followed(uri)
        if document is None:
            return []
        return [
            lens
            for live in self.sessions.all()
            for lens in actions.code_lenses(document, live.reviews, session=live.id)
        ]
