"""Anthropic: the adapter for the Messages API, of Anthropic itself and of others that offer it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr

from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.chat_wire import dump_body
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.failures import Faults
from dsh_lsp.llm.http_adapter import HttpAdapter, with_defaults
from dsh_lsp.llm.keys import KeySource
from dsh_lsp.llm.messages_decoder import MessagesDecoder
from dsh_lsp.llm.messages_wire import EFFORTS, Thinking, encode_request
from dsh_lsp.llm.model_client import Call

VERSION = "2023-06-01"

# These think within a budget of tokens; later ones decide by themselves, and refuse a budget.
_WITH_BUDGET = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-5](?!\d)|-\d{6,}|$))")


class AnthropicSettings(EndpointSettings):
    """The settings of this adapter; without a `reasoning_effort` the model does not think beforehand."""

    base_url: str = "https://api.anthropic.com"
    api_key_env: str = Field(default="ANTHROPIC_API_KEY", min_length=1)
    max_tokens: int | None = Field(default=None, gt=0)
    reasoning_effort: Literal["off", "low", "high", "max"] | None = None
    context_window: int | None = Field(default=None, gt=0)


class AnthropicAdapter(HttpAdapter):
    """Calls one server."""

    list_path = "/v1/models?limit=1000"

    def __init__(
        self,
        settings: AnthropicSettings | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        keys: KeySource | None = None,
    ) -> None:
        settings = settings or AnthropicSettings()
        super().__init__(
            "anthropic",
            settings,
            keys or KeySource(settings.api_key_env, environ=environ),
            with_defaults(settings),
            Faults.of(AUTH=f"check the key in {settings.api_key_env}"),
        )

    def efforts(self, model: str) -> tuple[str, ...]:  # noqa: ARG002 - the same for all
        """The words for how much to think."""
        return EFFORTS

    def headers(self, key: SecretStr | None) -> Mapping[str, str]:
        """The headers that carry the key and the version of the API."""
        secret = {"x-api-key": key.get_secret_value()} if key is not None else {}
        return {**secret, "anthropic-version": VERSION}

    def call(self, request: ModelRequest, key: SecretStr | None) -> Call:
        """Write a request down."""
        model = request.config.model
        thinking: Thinking = "budget" if _WITH_BUDGET.match(model.lower()) else "adaptive"
        host = self.endpoint.host
        return Call(
            path="/v1/messages",
            headers=self.headers(key),
            encode=lambda stream: dump_body(encode_request(request, host=host, thinking=thinking, stream=stream)),
            new_decoder=lambda: MessagesDecoder(tools=request.tools, host=host, window=self.window_of(model)),
            key=key,
        )
