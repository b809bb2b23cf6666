"""Commands: what each `dsh` command does; each reads its arguments, calls, and answers.

Rules: a command answers when its input is accepted and on disk, never when a turn is over (`wait` apart); input is
appended in the command's first step, so that commands take effect in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from dsh_lsp.abort import Cause
from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.events import AssistantMessageLogged, LogEvent, TurnEnd
from dsh_lsp.lsp.arguments import (
    Answer,
    Approve,
    Cancel,
    Followup,
    InboxEdit,
    InboxRemove,
    ModeSet,
    OfSession,
    PluginsReload,
    ReviewAccept,
    ReviewReject,
    Rewind,
    Say,
    SessionExport,
    SessionFork,
    SessionList,
    SessionNamed,
    SessionNew,
    SessionOpen,
    SessionRename,
    Text,
)
from dsh_lsp.lsp.rewind import rewind
from dsh_lsp.messages import TextBlock, UserMessage
from dsh_lsp.plugin_host import join_reports
from dsh_lsp.wire import JsonObject, encode

if TYPE_CHECKING:
    from dsh_lsp.lsp.runtime import Runtime
    from dsh_lsp.lsp.sessions import LiveSession

USER = Cause(kind="user")

# -- input -------------------------------------------------------------------------------------------------------


async def followup(runtime: Runtime, args: Followup) -> JsonObject:
    """Open a turn of its own."""
    live = runtime.sessions.get(args.session)
    live.session.check_ready()
    message = runtime.message(live, args)
    watch = TurnWatch(message) if args.wait else None
    dispose = live.session.log.appended.listen(watch.add) if watch is not None else None
    try:
        live.session.agent.followup(message, first=args.first)
        accepted = await _accepted(live, message)
        return {**accepted, **await _outcome(live, watch)} if watch is not None else accepted
    finally:
        if dispose is not None:
            dispose()


async def steer(runtime: Runtime, args: Say) -> JsonObject:
    """Join the running turn at its next step."""
    live = runtime.sessions.get(args.session)
    live.session.check_ready()
    message = runtime.message(live, args)
    live.session.agent.steer(message)
    return await _accepted(live, message)


async def inject(runtime: Runtime, args: Say) -> JsonObject:
    """Leave context for the next step."""
    live = runtime.sessions.get(args.session)
    message = runtime.message(live, args)
    live.session.agent.inject(message)
    return await _accepted(live, message)


async def _accepted(live: LiveSession, message: UserMessage) -> JsonObject:
    """Answer once the input is on disk: from here on it cannot be lost."""
    await live.session.on_disk()
    return {"session": live.session.id, "message": message.id}


class TurnWatch:
    """Finds the turn that a message goes into, its end, and its last words."""

    def __init__(self, message: UserMessage) -> None:
        self.result: JsonObject | None = None
        self.news = anyio.Event()
        self._message = message
        self._committed = False
        self._text = ""

    def add(self, event: LogEvent) -> None:
        """Take one more event."""
        match event.data:
            case UserMessage(id=message_id):
                self._committed = self._committed or message_id == self._message.id
            case AssistantMessageLogged(message=answer) if self._committed:
                self._text = answer.text
            case TurnEnd(turn=turn, reason=reason):
                if self._committed and self.result is None:
                    self.result = {"turn": turn, "reason": encode(reason), "text": self._text}
                self.news.set()
            case _:
                pass


async def _outcome(live: LiveSession, watch: TurnWatch) -> JsonObject:
    """Wait for the turn that a message went into; cancelling the request cancels the turn."""
    agent = live.session.agent
    dispose = agent.hooks.status.listen(lambda _: watch.news.set())
    try:
        while watch.result is None and agent.status == "running":
            await watch.news.wait()
            watch.news = anyio.Event()
    except anyio.get_cancelled_exc_class():
        agent.cancel(USER)
        raise
    finally:
        dispose()
    return watch.result or {"turn": None, "reason": {"kind": "dropped"}, "text": ""}


# -- the turn and the inbox --------------------------------------------------------------------------------------


async def cancel(runtime: Runtime, args: Cancel) -> JsonObject:
    """Stop the running turn."""
    met = runtime.sessions.get(args.session).session.agent.cancel(USER, keep_inbox=args.keep_inbox)
    return encode(met)


async def retry(runtime: Runtime, args: OfSession) -> JsonObject:
    """End the wait for the next try, or run again what a failed or cancelled turn still owes."""
    live = runtime.sessions.get(args.session)
    if live.session.end_retry_wait():
        return {}
    live.session.check_ready()
    try:
        live.session.agent.retry()
    except UsageError as error:  # asking for it is no mistake of the client's
        raise SessionError(str(error), code=error.code) from error
    await live.session.on_disk()
    return {}


async def status(runtime: Runtime, args: OfSession) -> JsonObject:
    """How the session stands."""
    return runtime.sessions.get(args.session).feed.status()


async def inbox_list(runtime: Runtime, args: OfSession) -> JsonObject:
    """What waits, oldest first."""
    inbox = runtime.sessions.get(args.session).session.agent.inbox
    return {
        name: [{"message": message.id, "text": message.text} for message in messages]
        for name, messages in (("nextTurn", inbox.next_turn), ("nextStep", inbox.next_step))
    }


async def inbox_edit(runtime: Runtime, args: InboxEdit) -> JsonObject:
    """Give a waiting message other words."""
    inbox = runtime.sessions.get(args.session).session.agent.inbox
    waiting = next((m for m in (*inbox.next_turn, *inbox.next_step) if m.id == args.message), None)
    if waiting is None:
        raise _too_late(args.message)
    inbox.replace(args.message, replace(waiting, content=(TextBlock(text=args.text),)))
    return await _inbox_changed(runtime, args)


async def inbox_remove(runtime: Runtime, args: InboxRemove) -> JsonObject:
    """Drop a waiting message."""
    if not runtime.sessions.get(args.session).session.agent.inbox.remove(args.message):
        raise _too_late(args.message)
    return await _inbox_changed(runtime, args)


async def inbox_resume(runtime: Runtime, args: OfSession) -> JsonObject:
    """Run what waits."""
    live = runtime.sessions.get(args.session)
    live.session.check_ready()
    live.session.agent.resume()
    return await _inbox_changed(runtime, args)


async def _inbox_changed(runtime: Runtime, args: OfSession) -> JsonObject:
    live = runtime.sessions.get(args.session)
    await live.session.on_disk()
    live.feed.touch_status()
    return await inbox_list(runtime, args)


def _too_late(message: str) -> SessionError:
    return SessionError(f"message {message} does not wait any more", code="ALREADY_CLAIMED")


# -- sessions ----------------------------------------------------------------------------------------------------


async def session_new(runtime: Runtime, args: SessionNew) -> JsonObject:
    """Begin a session."""
    live = runtime.sessions.new(root=args.root)
    if args.title is not None:
        live = await runtime.sessions.rename(live.id, args.title)
    return encode(live.summary.take())


async def session_open(runtime: Runtime, args: SessionOpen) -> JsonObject:
    """Go on with a session; its events come before the answer."""
    live = await runtime.sessions.open(args.session)
    last_seq = await live.feed.replay(after=args.after)
    live.feed.touch_status()
    return {"summary": encode(live.summary.take()), "lastSeq": last_seq}


async def session_list(runtime: Runtime, args: SessionList) -> JsonObject:
    """The sessions, newest first."""
    return {"sessions": [encode(found) for found in await runtime.sessions.list(root=args.root, limit=args.limit)]}


async def session_fork(runtime: Runtime, args: SessionFork) -> JsonObject:
    """Begin a session with the history of another one."""
    live = await runtime.sessions.fork(args.session, args.turn)
    return encode(live.summary.take())


async def session_rename(runtime: Runtime, args: SessionRename) -> JsonObject:
    """Give a session another title."""
    live = await runtime.sessions.rename(args.session, args.title)
    return encode(live.summary.take())


async def session_delete(runtime: Runtime, args: SessionNamed) -> JsonObject:
    """Throw a session away."""
    await runtime.sessions.delete(args.session)
    return {}


async def session_export(runtime: Runtime, args: SessionExport) -> JsonObject:
    """Write a session out."""
    return {"text": await runtime.sessions.export(args.session, args.format)}


# -- decisions ---------------------------------------------------------------------------------------------------


async def mode_set(runtime: Runtime, args: ModeSet) -> JsonObject:
    """Say what the agent may do without asking."""
    live = runtime.sessions.get(args.session)
    try:
        live.session.modes.set(args.mode)
    except UsageError as error:  # the user can mend it: by trusting the workspace
        raise SessionError(str(error), code=error.code) from error
    await live.session.on_disk()
    live.feed.touch_status()
    return {"mode": live.session.modes.current}


async def approve(runtime: Runtime, args: Approve) -> JsonObject:
    """Decide on a tool call, or raise the editor's own prompt for it."""
    desk = runtime.sessions.get(args.session).approvals
    if args.decision is None:
        desk.prompt(args.approval)
    else:
        if args.save:
            await desk.save(args.approval)
        desk.decide(args.approval, args.decision, args.comment)
    return {}


async def answer(runtime: Runtime, args: Answer) -> JsonObject:
    """Answer a question, or raise the editor's own prompt for it."""
    desk = runtime.sessions.get(args.session).questions
    if args.answer is None:
        desk.prompt(args.question)
    else:
        desk.answer(args.question, args.answer)
    return {}


async def review_list(runtime: Runtime, args: OfSession) -> JsonObject:
    """The hunks that wait, with their places as they are now."""
    files = runtime.sessions.get(args.session).reviews.pending_files()
    return {"files": [{"proposal": proposal, **encode(file)} for proposal, file in files]}


async def review_accept(runtime: Runtime, args: ReviewAccept) -> JsonObject:
    """Accept hunks."""
    reviews = runtime.sessions.get(args.session).reviews
    return {"left": reviews.accept(args.hunks, uri=args.uri, edited=args.edited)}


async def review_reject(runtime: Runtime, args: ReviewReject) -> JsonObject:
    """Reject hunks."""
    reviews = runtime.sessions.get(args.session).reviews
    return {"left": reviews.reject(args.hunks, uri=args.uri, comment=args.comment)}


async def take_turn_back(runtime: Runtime, args: Rewind) -> JsonObject:
    """Take back what a turn changed, while no turn can run; the outcome is an event."""
    live = runtime.sessions.get(args.session)
    agent = live.session.agent
    if args.turn > agent.turn:
        raise SessionError(f"there is no turn {args.turn}", code="UNKNOWN_TURN")
    if agent.phase != "idle":
        raise SessionError("a turn runs; cancel it or wait for its end", code="BUSY")
    job = agent.run_maintenance(lambda signal: rewind(live, args.turn, runtime.editor, signal))
    runtime.carry_on(job)
    return {"session": live.id, "turn": args.turn}


async def text(runtime: Runtime, args: Text) -> JsonObject:
    """Read a virtual document."""
    read = runtime.virtual.show if args.show else runtime.virtual.text
    return {"text": await read(args.uri)}


async def plugins_reload(runtime: Runtime, args: PluginsReload) -> JsonObject:
    """Load plugins again from where they came."""
    return encode(
        join_reports(
            [
                await live.session.plugins.reload(args.name)
                for live in runtime.sessions.all() or [runtime.sessions.get(None)]
            ]
        )
    )


RUN: dict[str, Callable[[Runtime, Any], Awaitable[JsonObject]]] = {
    "dsh.followup": followup,
    "dsh.steer": steer,
    "dsh.inject": inject,
    "dsh.cancel": cancel,
    "dsh.retry": retry,
    "dsh.inbox.list": inbox_list,
    "dsh.inbox.edit": inbox_edit,
    "dsh.inbox.remove": inbox_remove,
    "dsh.inbox.resume": inbox_resume,
    "dsh.status": status,
    "dsh.session.new": session_new,
    "dsh.session.open": session_open,
    "dsh.session.list": session_list,
    "dsh.session.fork": session_fork,
    "dsh.session.rename": session_rename,
    "dsh.session.delete": session_delete,
    "dsh.session.export": session_export,
    "dsh.mode.set": mode_set,
    "dsh.approve": approve,
    "dsh.answer": answer,
    "dsh.rewind": take_turn_back,
    "dsh.review.list": review_list,
    "dsh.review.accept": review_accept,
    "dsh.review.reject": review_reject,
    "dsh.text": text,
    "dsh.plugins.reload": plugins_reload,
}
