"""Endpoint: where a model server is and how long to wait for it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from dsh_lsp.wire import to_camel

_KEYS_NAME: Final = re.compile("key|token|secret|passw|credential|auth|^sig|^code$", re.IGNORECASE)


class EndpointSettings(BaseModel):
    """Where a model server is and how long to wait for it.

    `idle_timeout_s` bounds the time without a single byte, `event_timeout_s` the time without a real event while
    only keep-alive comments come: a provider's queue. A query of `base_url` goes with every request, with a key in it
    for some servers.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    base_url: str
    connect_timeout_s: float = Field(default=10.0, gt=0)
    write_timeout_s: float = Field(default=60.0, gt=0)
    pool_timeout_s: float = Field(default=30.0, gt=0)
    idle_timeout_s: float = Field(default=120.0, gt=0)
    event_timeout_s: float = Field(default=630.0, gt=0)

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be an http:// or https:// address")
        if parts.username or parts.password or parts.fragment:
            raise ValueError("must be an address without user, password and fragment")
        _ = parts.port  # raises ValueError when it is no port
        return urlunsplit(parts._replace(path=parts.path.rstrip("/")))

    @property
    def host(self) -> str:
        """The server's name as shown to people."""
        return urlsplit(self.base_url).netloc

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys in the query, by the names of their parameters: as they are written, and as they are meant."""
        pairs = (pair.partition("=") for pair in urlsplit(self.base_url).query.split("&"))
        written = [value for name, _, value in pairs if value and _KEYS_NAME.search(unquote_plus(name))]
        return tuple(dict.fromkeys([*written, *map(unquote_plus, written)]))

    @property
    def is_encrypted(self) -> bool:
        """Whether the server is asked over TLS."""
        return urlsplit(self.base_url).scheme == "https"

    def url_of(self, path: str) -> str:
        """The address of a path below the base; a query of its own comes beside that of the base."""
        parts, (path, _, query) = urlsplit(self.base_url), path.partition("?")
        queries = "&".join(filter(None, (parts.query, query)))
        return urlunsplit(parts._replace(path=parts.path + path, query=queries))
