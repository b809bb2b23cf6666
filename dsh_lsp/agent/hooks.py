"""Agent hooks: the extension points of a turn, declared beside the driver that fires them.

A listener of a waterfall gets `(payload, next)`; what it may return stands beside each point. A listener that
raises ends the turn with an error, never the loop; listeners of emits are contained.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from dsh_lsp.abort import AbortSignal
from dsh_lsp.agent.inbox import InboxChange
from dsh_lsp.agent.prompt import Assembly
from dsh_lsp.errors import LlmFailure
from dsh_lsp.hooks import Emit, HookSet, Serial, Waterfall
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.messages import CallConfig, Chunk, UserMessage
from dsh_lsp.tools.pipeline import ToolHooks

Status = Literal["idle", "running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailed:
    """A turn failed at these coordinates; `step` is 0 before the first one."""

    turn: int
    step: int
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFrame:
    """A piece of the model's answer as it arrives; live only, never stored."""

    turn: int
    step: int
    attempt: int
    block: int
    kind: Literal["text", "thinking", "toolArguments"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreStep:
    """A step is proposed with these messages."""

    messages: tuple[UserMessage, ...]
    turn: int
    step: int
    signal: AbortSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class Enter:
    """The step may begin, with these messages.

    `starts_request_series`: history was rebuilt (a compaction), so that the next request shares no prefix with the
    last one; its header is logged anew.
    """

    messages: tuple[UserMessage, ...]
    starts_request_series: bool = False


@dataclass(frozen=True, slots=True)
class Reject:
    """The step may not begin: the turn ends as blocked and its claimed messages are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDraft:
    """A call is configured; a listener returns another configuration to redirect it."""

    config: CallConfig
    turn: int
    step: int
    signal: AbortSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed:
    """A model call failed; a listener returns `Retry()` to try again within the same step.

    `key_changed`: the call was made with another key than the one that would be used now.
    """

    turn: int
    step: int
    attempt: int
    provider: str
    failure: LlmFailure
    signal: AbortSignal
    key_changed: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """Try the call again, from history as it is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStopping:
    """The turn is about to end; steer or inject to prolong it."""

    turn: int
    signal: AbortSignal


class AgentHooks(HookSet):
    """All extension points of one agent; it is the `child()` of its runtime's."""

    def __init__(self) -> None:
        self.status: Emit[Status] = Emit("agent/status")
        self.error: Emit[AgentFailed] = Emit("agent/error")
        self.inbox: Emit[InboxChange] = Emit("agent/inbox")
        self.stream: Emit[StreamFrame] = Emit("assistant/stream")
        self.assemble: Waterfall[Assembly, Assembly] = Waterfall("system-prompt/assemble")
        self.pre_step: Waterfall[PreStep, Enter | Reject] = Waterfall("agent/pre-step")
        self.request: Waterfall[RequestDraft, CallConfig] = Waterfall("agent/request")
        self.llm_stream: Waterfall[ModelRequest, AsyncIterator[Chunk]] = Waterfall("llm/stream")
        self.request_error: Waterfall[RequestFailed, Retry | None] = Waterfall("agent/request-error")
        self.turn_stopping: Serial[TurnStopping] = Serial("agent/turn-stopping")
        self.tools = ToolHooks()
