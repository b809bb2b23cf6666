"""Client calls: the requests to the client that are not answered yet.

Owns: their ids, their time limits, and the shapes that an answer may have.
Rules: each call ends exactly once, with the raw result or with an `EditorError`; a late, foreign or malformed
reply changes nothing and raises nothing (openlawlibrary/pygls#621).
Knows nothing of: how messages travel.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

from dsh_lsp.errors import EditorError
from dsh_lsp.wire import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCall:
    """One request to the client; `future` holds the raw result."""

    id: str
    method: str
    timeout_s: float | None
    future: asyncio.Future[Any]

    def fail(self, text: str, code: str) -> None:
        """End the call with an error, if it has not ended."""
        if not self.future.done():
            self.future.set_exception(EditorError(f"{self.method}: {text}", code=code))

    def settle(self, reply: JsonObject) -> None:
        """End the call with the client's reply, whatever its shape."""
        if (error := reply.get("error")) is not None:
            self.fail(f"the editor refused: {error_text(error)}", "EDITOR_REFUSED")
        elif not self.future.done():
            self.future.set_result(reply.get("result"))


class ClientCalls:
    """The open calls of one connection; lives in the loop's thread."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._open: dict[str, ClientCall] = {}
        self._closing = False

    def open(self, method: str, timeout_s: float | None) -> ClientCall:
        """Begin a call; its id is a text, so it never meets a request id of the client.

        Raises:
            EditorError: `close` was called.
        """
        if self._closing:
            raise EditorError(f"{method}: the editor is closing", code="EDITOR_CLOSED")
        future = asyncio.get_running_loop().create_future()
        call = ClientCall(id=f"dsh-{next(self._ids)}", method=method, timeout_s=timeout_s, future=future)
        self._open[call.id] = call
        return call

    async def wait(self, call: ClientCall) -> Any:
        """Return the raw result.

        Raises:
            EditorError: refused, closed, or no answer within the time limit.
        """
        if call.timeout_s is None:
            return await call.future
        text = f"no answer within {call.timeout_s:g} s"
        timer = asyncio.get_running_loop().call_later(call.timeout_s, call.fail, text, "EDITOR_TIMEOUT")
        try:
            return await call.future
        finally:
            timer.cancel()

    def forget(self, call: ClientCall) -> bool:
        """Drop the call; True if the client has not answered it."""
        return self._open.pop(call.id, None) is not None

    def settle(self, call_id: object, reply: JsonObject) -> bool:
        """End the call that a reply answers; False if there is none."""
        call = self._open.pop(call_id, None) if isinstance(call_id, str) else None
        if call is not None:
            call.settle(reply)
        return call is not None

    def close(self, *, unlimited_only: bool = False) -> None:
        """Fail all calls, or those without a time limit, because the editor goes away; no call begins after it."""
        self._closing = True
        for call in list(self._open.values()):
            if call.timeout_s is None or not unlimited_only:
                del self._open[call.id]
                call.fail("the editor is closing", "EDITOR_CLOSED")


def error_text(error: object) -> str:
    """Describe the error member of a reply, whatever its shape."""
    if not isinstance(error, dict):
        return str(error)
    code, message = error.get("code"), error.get("message")
    return f"{message} ({code})" if code is not None else str(message)
