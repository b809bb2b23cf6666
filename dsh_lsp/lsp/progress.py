"""Progress: a turn as the work-done progress that every editor can show.

Rules: the token is ours, unique and used once; nothing is sent for it before the client agreed to it; after that
comes one begin and one end, whatever becomes of the turn, so that the client can forget the token.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from math import ceil
from typing import Final

import anyio

from dsh_lsp.errors import EditorError
from dsh_lsp.lsp.client import Client
from dsh_lsp.lsp.manners import unlinked
from dsh_lsp.upkeep import RetryPlanned
from dsh_lsp.wire import JsonObject

log = logging.getLogger(__name__)

CREATE_TIMEOUT_S: Final = 5.0
TICK_S: Final = 1.0
MAX_REASON_CHARS: Final = 100


class TurnProgress:
    """One turn's progress, only made for a client with the capability; forgotten by its owner when it has ended."""

    def __init__(self, client: Client) -> None:
        self.token: Final = f"dsh-{uuid.uuid4().hex}"
        self._client = client
        self._begun = False
        self._message = "starting"
        self._ended: str | None = None

    async def begin(self) -> None:
        """Ask for the token and begin; a client that refuses or does not answer sees no progress."""
        try:
            await self._client.request(
                "window/workDoneProgress/create", {"token": self.token}, timeout_s=CREATE_TIMEOUT_S
            )
        except EditorError as error:
            log.info("no progress: %s", error)
            return
        self._begun = True
        self._tell({"kind": "begin", "title": "DSH", "cancellable": True, "message": self._message})
        if self._ended is not None:  # the turn was faster than the answer; the client still waits for an end
            self._tell({"kind": "end", "message": self._ended})

    def report(self, message: str) -> None:
        """Say what goes on."""
        self._message = unlinked(message)
        if self._begun and self._ended is None:
            self._tell({"kind": "report", "message": self._message, "cancellable": True})

    def end(self, message: str) -> None:
        """End; further calls do nothing."""
        if self._ended is not None:
            return
        self._ended = message = unlinked(message)
        if self._begun:
            self._tell({"kind": "end", "message": message})

    def _tell(self, value: JsonObject) -> None:
        self._client.notify("$/progress", {"token": self.token, "value": value})


async def count_down(progress: TurnProgress, planned: RetryPlanned, goes_on: Callable[[], bool]) -> None:
    """Say every second how long it is until a failed model call is tried again."""
    reason = first_reason(planned)
    ends = time.monotonic() + planned.delay_ms / 1000
    while goes_on() and (left := ends - time.monotonic()) > 0:
        progress.report(f"{reason}; tries again in {ceil(left)} s ({planned.retry} of {planned.max_retries})")
        await anyio.sleep(min(TICK_S, left))


def first_reason(planned: RetryPlanned) -> str:
    """Why a model call failed, short, and without what to do: it is tried again."""
    reason = planned.failure.message.split("; ")[0]
    return reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:MAX_REASON_CHARS]}…"
