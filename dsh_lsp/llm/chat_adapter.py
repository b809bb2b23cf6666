"""Chat adapter: what the adapters to chat-completions servers share: the dialect, and what was sent before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import SecretStr

from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.chat_decoder import ChatDecoder
from dsh_lsp.llm.chat_wire import Histories, dump_body, encode_request
from dsh_lsp.llm.dialect import Dialect
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.failures import Faults
from dsh_lsp.llm.http_adapter import HttpAdapter, ModelDefaults, bearer
from dsh_lsp.llm.keys import KeySource
from dsh_lsp.llm.model_client import Call


class ChatAdapter(HttpAdapter):
    """Speaks one dialect of chat completions."""

    def __init__(
        self,
        provider: str,
        endpoint: EndpointSettings,
        keys: KeySource,
        defaults: ModelDefaults,
        faults: Faults,
        *,
        dialect: Dialect,
        key_header: Literal["authorization", "api-key"] = "authorization",
    ) -> None:
        super().__init__(provider, endpoint, keys, defaults, faults)
        self.dialect = replace(dialect, wording=replace(dialect.wording, provider=provider, host=endpoint.host))
        self._key_header = key_header
        self._histories = Histories()

    def efforts(self, model: str) -> tuple[str, ...]:  # noqa: ARG002 - the same for all of a server
        """The words for how much to think that the server knows."""
        return tuple(self.dialect.efforts)

    def headers(self, key: SecretStr | None) -> Mapping[str, str]:
        """The header that carries the key."""
        if self._key_header == "api-key" and key is not None:
            return {"api-key": key.get_secret_value()}
        return bearer(key)

    def call(self, request: ModelRequest, key: SecretStr | None) -> Call:
        """Write a request down."""
        effort = request.config.reasoning_effort or self._defaults.reasoning_effort

        def encode(stream: bool) -> bytes:
            body = encode_request(request, self.dialect, histories=self._histories, effort=effort, stream=stream)
            return dump_body(body)

        window = self.window_of(request.config.model)
        return Call(
            path="/chat/completions",
            headers=self.headers(key),
            encode=encode,
            new_decoder=lambda: ChatDecoder(tools=request.tools, dialect=self.dialect, window=window),
            key=key,
        )
