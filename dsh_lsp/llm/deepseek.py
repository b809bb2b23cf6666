"""DeepSeek: the adapter for the official API and for servers that speak its dialect."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from pydantic import Field, SecretStr

from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.llm.adapter import ModelRequest, PreparedCall
from dsh_lsp.llm.chat_client import ChatClient, EndpointSettings
from dsh_lsp.llm.chat_wire import ChatDecoder, encode_request
from dsh_lsp.llm.failures import ADVICE
from dsh_lsp.messages import CallConfig, Chunk

# Our word for how much to think, and the API's; None: no thinking. Other words are refused, not bent.
EFFORTS: Mapping[str, str | None] = {"off": None, "low": "low", "high": "high", "max": "max"}


class DeepSeekSettings(EndpointSettings):
    """The settings of this adapter; `api_key_env` names the environment variable that holds the key."""

    base_url: str = "https://api.deepseek.com"
    api_key_env: str = Field(default="DEEPSEEK_API_KEY", min_length=1)
    max_tokens: int = Field(default=256_000, gt=0)
    reasoning_effort: Literal["off", "low", "high", "max"] = "high"
    context_window: int = Field(default=1_000_000, gt=0)


class DeepSeekAdapter:
    """Calls one server; connections are opened at the first call and shared by all.

    The key is read anew for each call, so a key set after the start is found without one.
    """

    def __init__(self, settings: DeepSeekSettings | None = None, *, environ: Mapping[str, str] = os.environ) -> None:
        self._settings = settings or DeepSeekSettings()
        self._environ = environ
        advice = {**ADVICE, "AUTH": f"check the key in {self._settings.api_key_env}"}
        self._client = ChatClient(self._settings, advice=advice)

    @property
    def provider(self) -> str:
        """The name by which settings choose it."""
        return "deepseek"

    def prepare(self, config: CallConfig) -> PreparedCall:
        """Fill in effort and output limit, and bind the call to the key of this moment.

        Raises:
            LlmError: `MISSING_CREDENTIAL`, `INVALID_CREDENTIAL`, `UNSUPPORTED_REASONING_EFFORT`.
        """
        key = self._read_key()
        ready = replace(
            config,
            max_tokens=config.max_tokens or self._settings.max_tokens,
            reasoning_effort=config.reasoning_effort or self._settings.reasoning_effort,
        )
        if ready.reasoning_effort not in EFFORTS:
            words = ", ".join(EFFORTS)
            message = f"the reasoning effort {ready.reasoning_effort!r} is unknown here; choose one of {words}"
            raise LlmError(LlmFailure(message=message, code="UNSUPPORTED_REASONING_EFFORT"))
        names = ("max_tokens", "reasoning_effort")
        return PreparedCall(
            config=ready,
            stream=partial(self._stream, key),
            defaulted=frozenset(name for name in names if getattr(config, name) != getattr(ready, name)),
            context_window=self._settings.context_window,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _stream(self, key: SecretStr, request: ModelRequest) -> AsyncIterator[Chunk]:
        effort = EFFORTS[request.config.reasoning_effort or self._settings.reasoning_effort]
        if request.config.max_tokens is None:
            limited = replace(request.config, max_tokens=self._settings.max_tokens)
            request = replace(request, config=limited)
        return self._client.chat(
            lambda stream: encode_request(request, effort=effort, stream=stream),
            key=key,
            new_decoder=lambda: ChatDecoder(tool_names=[tool.name for tool in request.tools]),
            signal=request.signal,
        )

    def _read_key(self) -> SecretStr:
        name = self._settings.api_key_env
        key = self._environ.get(name, "").strip()
        if not key:
            host = self._settings.host
            message = (
                f"no API key for {host}: set {name} in the environment that starts this program, an editor or a shell"
            )
            raise LlmError(LlmFailure(message=message, code="MISSING_CREDENTIAL"))
        if not (key.isascii() and key.isprintable()) or " " in key:
            message = f"the API key in {name} has characters that no key has: copy it again"
            raise LlmError(LlmFailure(message=message, code="INVALID_CREDENTIAL"))
        return SecretStr(key)
