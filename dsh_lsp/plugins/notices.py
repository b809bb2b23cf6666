"""Notices: tells the model what became of its answer, or of what it was sent, on the way.

Rules: each is told once; a notice is logged like any other message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from dsh_lsp.agent.driver import Agent, new_id
from dsh_lsp.agent.hooks import AgentHooks, Enter, PreStep, Reject, TurnStopping
from dsh_lsp.events import AssistantMessageLogged, Ended, LogEvent, TurnEnd, TurnStart
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage
from dsh_lsp.plugin import Context
from dsh_lsp.session.log import SessionLog

name = "notices"
inject = (AgentHooks, Agent, SessionLog)

CUT = (
    "Your last answer was cut off at its output limit. If it was about to call a tool, that was not run. Go on from "
    "there, in smaller pieces where something is long."
)
FORGETS = (
    "The server of your model counts far fewer tokens than were sent: the oldest part of the conversation may not "
    "have reached you. Say so if something that you need is missing."
)
FORGETS_SUMMARY = (
    "The model's server reads far less than it is sent, and may drop the oldest part of the conversation without a "
    "word. Give it a larger context (for Ollama, OLLAMA_CONTEXT_LENGTH), and say so in model.contextWindow."
)
UNREAD = (
    "Your last answer holds something that looks like a tool call written as text, and it could not be read. Nothing "
    "was run. Call tools by the tool interface, one JSON object of arguments each."
)


def notice(text: str, summary: str) -> UserMessage:
    """A message of this plugin."""
    source = PluginSource(plugin=name, form="notice", summary=summary)
    return UserMessage(id=new_id(), content=(TextBlock(text=text),), source=source)


class Watch:
    """What the model has not been told yet."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._agent = ctx.get(Agent)
        self._cut = False
        self._unread = False
        self._told_of_unread = False
        self._forgets = False
        self._told_of_forgetting = False
        for event in ctx.get(SessionLog).facts():
            self._follow(event)

    def note(self, event: LogEvent) -> None:
        """Take one more event as it comes."""
        self._follow(event)
        if isinstance(event.data, AssistantMessageLogged) and self._agent.meter.forgetful:
            if not self._forgets:
                self._ctx.log.warning(FORGETS_SUMMARY)
            self._forgets = True

    def _follow(self, event: LogEvent) -> None:
        match event.data:
            case TurnStart():
                self._told_of_unread = False
            case TurnEnd(reason=Ended(kind="max-tokens")):
                self._cut = True
            case AssistantMessageLogged(message=message):
                self._unread = bool((message.source.replay_state or {}).get("unreadCalls"))
            case UserMessage(source=PluginSource(plugin=plugin, summary=summary)) if plugin == name:
                self._told_of_forgetting |= summary == FORGETS_SUMMARY
                self._cut = False
            case _:
                pass

    async def before_step(
        self, payload: PreStep, call_next: Callable[[PreStep], Awaitable[Enter | Reject]]
    ) -> Enter | Reject:
        """Tell of an answer that was cut, and of a server that forgets, before what comes after it."""
        decision = await call_next(payload)
        if not isinstance(decision, Enter) or not decision.messages:
            return decision
        told = []
        if self._forgets and not self._told_of_forgetting:
            told.append(notice(FORGETS, FORGETS_SUMMARY))
        if self._cut:
            told.append(notice(CUT, "The last answer was cut off at its output limit."))
        return replace(decision, messages=(*told, *decision.messages)) if told else decision

    async def before_stop(self, _: TurnStopping) -> None:
        """Tell of calls that could not be read, and give the model one more step."""
        if self._unread and not self._told_of_unread:
            self._told_of_unread = True
            self._agent.inject(notice(UNREAD, "A tool call written as text could not be read."))


def apply(ctx: Context, _settings: Any) -> None:
    """Watch the answers."""
    hooks, watch = ctx.get(AgentHooks), Watch(ctx)
    ctx.listen(ctx.get(SessionLog).appended, watch.note)
    ctx.listen(hooks.pre_step, watch.before_step)
    ctx.listen(hooks.turn_stopping, watch.before_stop)
