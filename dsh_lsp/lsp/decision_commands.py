"""Decision commands: what people decide: the mode, permissions, answers, edits under review, and what is taken back.

Rules: a decision is a command, whatever showed the question; it answers when the decision is taken, not when what
was decided has been carried out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.lsp.arguments import Answer, Approve, ModeSet, OfSession, ReviewAccept, ReviewReject, Rewind
from dsh_lsp.lsp.rewind import rewind
from dsh_lsp.lsp.runtime import Runtime
from dsh_lsp.wire import JsonObject, encode

REST_S = 2.0  # how long a rewind waits for the one before
BUSY = {
    "running": "a turn runs; cancel it or wait for its end",
    "maintenance": "the history is being summarized, or another turn taken back; wait until that is done",
}


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
    question = args.question or desk.oldest()
    if args.answer is None:
        desk.prompt(question)
    else:
        desk.answer(question, args.answer)
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
    if agent.phase == "maintenance":
        with anyio.move_on_after(REST_S):
            await agent.when_idle()
    if agent.phase != "idle":
        raise SessionError(BUSY[agent.phase], code="BUSY")
    job = agent.run_maintenance(lambda signal: rewind(live, args.turn, runtime.editor, signal))
    runtime.carry_on(lambda: job)
    return {"session": live.id, "turn": args.turn}


DECISIONS: dict[str, Callable[[Runtime, Any], Awaitable[JsonObject]]] = {
    "dsh.mode.set": mode_set,
    "dsh.approve": approve,
    "dsh.answer": answer,
    "dsh.rewind": take_turn_back,
    "dsh.review.list": review_list,
    "dsh.review.accept": review_accept,
    "dsh.review.reject": review_reject,
}
