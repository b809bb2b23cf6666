"""Undone: tells the model which of its edits the user has taken back, with the next step that is taken.

Rules: what counts as told is what the log shows, so that nothing is told twice, and nothing is lost in a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

from dsh_lsp.agent.driver import new_id
from dsh_lsp.agent.hooks import AgentHooks, Enter, PreStep, Reject
from dsh_lsp.decisions import EditLanded, ReviewDecided, ReviewOpened
from dsh_lsp.events import LogEvent
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage
from dsh_lsp.plugin import Context
from dsh_lsp.session.log import SessionLog
from dsh_lsp.workspace.port import Workspace

name = "undone"
inject = (AgentHooks, SessionLog, Workspace)


def apply(ctx: Context, _settings: Any) -> None:
    """Collect what is taken back, and add a notice to the next step."""
    log, root = ctx.get(SessionLog), ctx.get(Workspace).root
    undoing: dict[str, str] = {}  # a hunk that takes another back, and its file
    untold: dict[str, int] = {}
    comments: dict[str, None] = {}  # the person's words, in order, each once

    def note(event: LogEvent) -> None:
        match event.data:
            case ReviewOpened(files=files):
                undoing.update({h.id: file.uri for file in files for h in file.hunks if h.undoes is not None})
            case EditLanded(hunk=hunk) if hunk in undoing:
                untold[undoing[hunk]] = untold.get(undoing[hunk], 0) + 1
            case ReviewDecided(hunks=hunks):
                for decided in hunks:
                    if undoing.pop(decided.id, None) and decided.outcome == "landed" and decided.comment:
                        comments[decided.comment] = None
            case UserMessage(source=PluginSource(plugin=plugin)) if plugin == name:
                untold.clear()
                comments.clear()
            case _:
                pass

    async def tell(payload: PreStep, call_next: Callable[[PreStep], Awaitable[Enter | Reject]]) -> Enter | Reject:
        decision = await call_next(payload)
        goes_on = isinstance(decision, Enter) and (decision.messages or payload.step > 1)
        if not untold or not isinstance(decision, Enter) or not goes_on:
            return decision
        return replace(decision, messages=(notice(untold, root.as_posix(), comments), *decision.messages))

    for event in log.facts():
        note(event)
    ctx.listen(log.appended, note)
    ctx.listen(ctx.get(AgentHooks).pre_step, tell)


def notice(files: dict[str, int], root: str, comments: Iterable[str] = ()) -> UserMessage:
    """What the model reads: the files, how many edits of each, and what the user said with it."""
    listed = [f"{_shown(uri, root)} ({count} {'edit' if count == 1 else 'edits'})" for uri, count in files.items()]
    text = (
        f"The user has taken back edits of yours that had landed: {', '.join(listed)}. "
        "Read these files before you go on, and do not make the same edits again unless you are asked to."
    )
    text += "".join(f"\nThe user's words: {comment}" for comment in comments)
    source = PluginSource(plugin=name, form="notice", summary=f"edits taken back: {', '.join(listed)}"[:120])
    return UserMessage(id=new_id(), content=(TextBlock(text=text),), source=source)


def _shown(uri: str, root: str) -> str:
    return unquote(urlsplit(uri).path).removeprefix(f"{root}/")
