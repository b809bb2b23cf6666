"""Upkeep: the events of what the harness does by itself to keep a session going: it tries again, and makes room.

Rules: frozen values; no model ever sees them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsh_lsp.errors import LlmFailure
from dsh_lsp.messages import TokenUsage
from dsh_lsp.wire import Wire

# -- trying again --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlanned(Wire):
    """A model call failed and will be tried again in `delay_ms`; `retry` counts from 1 within the step."""

    retry_id: str
    turn: int
    step: int
    provider: str
    retry: int
    max_retries: int
    delay_ms: int
    failure: LlmFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStarted(Wire):
    """The wait is over, by its time or because somebody would not wait; a cancelled wait has none."""

    retry_id: str
    turn: int
    step: int
    retry: int


# -- making room ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStart(Wire):
    """A part of history is about to be summarized; `turn` is the open turn, None between turns."""

    compaction_id: str
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPrune(Wire):
    """The middle of a tool's long result is about to be cut out; the `tool/result` that takes its place follows."""

    shadowed_seqs: tuple[tuple[int, int], ...]
    shadowed_token_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSummary(Wire):
    """The model's summary of the events in `shadowed_seqs`; the `user/message` that takes their place follows."""

    compaction_id: str
    summary: str
    shadowed_seqs: tuple[tuple[int, int], ...]
    shadowed_token_count: int
    provider: str
    model: str
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEnd(Wire):
    """A compaction is over; with an `error` the surface is as it was. Tokens are those of the next request."""

    compaction_id: str
    turn: int | None = None
    error: LlmFailure | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
