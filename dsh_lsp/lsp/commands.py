"""Commands: what each `dsh` command does; each reads its arguments, calls, and answers.

Rules: a command answers when its input is accepted and on disk, never when a turn is over (`wait` apart); input is
appended in the command's first step, so that commands take effect in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from dsh_lsp.abort import USER
from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.events import AssistantMessageLogged, LogEvent, TurnEnd
from dsh_lsp.llm.listing import list_models
from dsh_lsp.lsp.arguments import (
    Arguments,
    Cancel,
    Followup,
    InboxEdit,
    InboxRemove,
    ModelSet,
    OfSession,
    PluginsReload,
    Say,
    SessionExport,
    SessionFork,
    SessionList,
    SessionNamed,
    SessionNew,
    SessionOpen,
    SessionRename,
    Text,
    read_arguments,
)
from dsh_lsp.lsp.decision_commands import DECISIONS
from dsh_lsp.lsp.live_session import LiveSession
from dsh_lsp.lsp.runtime import Runtime
from dsh_lsp.lsp.virtual import forget_copy
from dsh_lsp.messages import TextBlock, UserMessage
from dsh_lsp.plugin_host import join_reports
from dsh_lsp.wire import JsonObject, encode

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
    if args.root is not None and not await anyio.to_thread.run_sync(_is_folder, Path(args.root)):
        raise SessionError(f"{args.root} is no folder: a root is the absolute path of one", code="NOT_A_FOLDER")
    live = runtime.sessions.new(root=args.root)
    if args.title is not None:
        live = await runtime.sessions.rename(live.id, args.title)
    return encode(live.summary.take())


def _is_folder(path: Path) -> bool:
    return path.is_absolute() and path.is_dir()


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
    await anyio.to_thread.run_sync(forget_copy, args.session)
    return {}


async def session_export(runtime: Runtime, args: SessionExport) -> JsonObject:
    """Write a session out."""
    return {"text": await runtime.sessions.export(args.session, args.format)}


# -- the model and the rest -----------------------------------------------------------------------------------------


async def text(runtime: Runtime, args: Text) -> JsonObject:
    """Read a virtual document."""
    read = runtime.virtual.show if args.show else runtime.virtual.text
    return {"text": await read(args.uri)}


async def model_set(runtime: Runtime, args: ModelSet) -> JsonObject:
    """Go on with another model from the next request on."""
    live = runtime.sessions.get(args.session)
    live.session.llm.adapter(args.provider)  # what is wrong with its settings is told before anything changes
    live.session.agent.ledger.select(args.provider, args.name)
    await live.session.on_disk()
    live.feed.touch_status()
    return {"provider": args.provider, "name": args.name}


async def model_list(runtime: Runtime, _: Arguments) -> JsonObject:
    """Ask the providers for their models; the list comes as an event."""
    live = runtime.sessions.get(None)

    async def ask() -> None:
        listing = await list_models(live.session.llm, in_use=live.session.agent.ledger.seed().provider)
        live.feed.tell("model/list", encode(listing))

    runtime.carry_on(ask)
    return {}


async def compact(runtime: Runtime, args: OfSession) -> JsonObject:
    """Summarize the oldest part of the conversation; the outcome comes as an event."""
    live = runtime.sessions.get(args.session)
    live.session.check_ready()
    live.session.compactor.start(lambda outcome: live.feed.tell("compact/done", encode(outcome)))
    return {}


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
    **DECISIONS,
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
    "dsh.model.set": model_set,
    "dsh.model.list": model_list,
    "dsh.compact": compact,
    "dsh.text": text,
    "dsh.plugins.reload": plugins_reload,
}


async def run_command(runtime: Runtime, name: str, argument: JsonObject) -> JsonObject:
    """Check the argument and run the command.

    Raises:
        DshError: the argument has another shape, or the command refuses.
    """
    return await RUN[name](runtime, read_arguments(name, argument))
