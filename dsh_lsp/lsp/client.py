"""Client: the other end of the connection, as the modules that speak to it know it.

Knows nothing of: what a client can do, and how messages travel.
"""

from __future__ import annotations

from typing import Any, Protocol

from dsh_lsp.wire import JsonObject


class Client(Protocol):
    """Whoever is asked and told."""

    async def request(self, method: str, params: JsonObject, *, timeout_s: float | None) -> Any:
        """Ask it, for ever if `timeout_s` is None; the raw JSON result.

        Raises:
            EditorError: it refused, did not answer in time, or is gone.
        """

    def notify(self, method: str, params: Any | None = None) -> None:
        """Tell it; must arrive."""


class StreamClient(Client, Protocol):
    """A client that is sent more than it may be able to read."""

    def notify_live(self, method: str, params: Any) -> bool:
        """Tell it unless it reads too slowly; False if it was not told."""

    async def drain(self) -> None:
        """Wait until it has read most of what was sent."""
