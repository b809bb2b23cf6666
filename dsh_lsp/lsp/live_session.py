"""Live session: a session joined to the user's window: its work, its questions, its output.

Rules: all sessions of one client share its window, and nothing else but the models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyio.abc import TaskGroup

from dsh_lsp.agent.driver import new_id
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.compose import Groundwork, Ports, Session, Stored, groundwork_of, open_session
from dsh_lsp.errors import failure_of
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
from dsh_lsp.plugin_host import PluginReport
from dsh_lsp.session.summary import SummaryFold
from dsh_lsp.session_settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The window of one user: what it shows, what it can do, and where it is told."""

    documents: Documents
    editor: Editor
    client: StreamClient
    folders: WindowFolders
    tasks: TaskGroup


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


def build_live(stored: Stored, window: Window, *, settings: Settings, llm: Llm, hooks: AgentHooks) -> LiveSession:
    """Build what stands around a log, and join it to the window."""
    ground = groundwork_of(settings, stored, folders=window.folders)
    reviews = Reviews(
        log=ground.log,
        documents=window.documents,
        editor=window.editor,
        tasks=window.tasks,
        new_id=new_id,
        root=ground.root,
        copies=ground.copies,
        guarded=ground.guarded,
        saves=settings.edits.save,
        applies_at_once=lambda: ground.modes.current == "auto-edit",
    )
    ports = _ports(ground, window, reviews)
    session = open_session(settings, ground, ports, llm=llm, hooks=hooks, tasks=window.tasks)
    session.agent.context.register("workspace-folders", 40, lambda: window.folders.beside(ground.root))
    return _join(session, window, reviews, event_token=settings.event_token)


def _ports(ground: Groundwork, window: Window, reviews: Reviews) -> Ports:
    """The user's work, reached through the editor."""
    workspace = EditorWorkspace(ground.root, window.documents, reviews, ground.guarded)
    languages = EditorLanguages(workspace, window.documents, window.editor, ground.guarded)
    return Ports(workspace=workspace, languages=languages)


def _join(session: Session, window: Window, reviews: Reviews, *, event_token: str | int | None) -> LiveSession:
    """Let the client hear the session, and the session's questions reach its user."""
    editor, hooks = window.editor, session.agent.hooks
    approvals = ApprovalDesk(hook=hooks.tools.approval, documents=window.documents, editor=editor, tasks=window.tasks)
    questions = QuestionDesk(hook=hooks.tools.question, documents=window.documents, editor=editor, tasks=window.tasks)
    feed = Feed(
        session=session,
        client=window.client,
        tasks=window.tasks,
        event_token=event_token,
        wants_status=editor.profile.dsh is not None,
        wants_progress=editor.profile.work_done_progress,
        waiting_for=_waiting_for(reviews, approvals, questions),
    )
    for changed in (reviews.changed, approvals.changed, questions.changed):
        changed.listen(lambda _: feed.touch_status())
    if editor.profile.dsh is None:  # a client of ours shows a failed turn where it shows the turn
        session.log.appended.listen(Answers(editor).add)
        hooks.error.listen(lambda failed: editor.warn(f"DSH: {failure_of(failed.error).message}"))
    _tell_of_plugins(editor, session.plugins.report())
    session.plugins.reported.listen(lambda report: _tell_of_plugins(editor, report))
    return LiveSession(
        session=session,
        reviews=reviews,
        approvals=approvals,
        questions=questions,
        feed=feed,
        summary=SummaryFold(session.log),
    )


def _tell_of_plugins(editor: Editor, report: PluginReport) -> None:
    for failure in report.failed:
        editor.warn(f"DSH: {failure}")


def _waiting_for(reviews: Reviews, approvals: ApprovalDesk, questions: QuestionDesk) -> Callable[[], str | None]:
    """What a person must decide before the turn goes on."""

    def waiting_for() -> str | None:
        if approvals.pending():
            return "approval"
        if questions.pending():
            return "question"
        return "review" if reviews.pending_count() else None

    return waiting_for
