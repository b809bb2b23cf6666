"""Upkeep: the events of what the harness does by itself to keep a session going: it tries again.

Rules: frozen values; no model ever sees them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsh_lsp.errors import LlmFailure
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
