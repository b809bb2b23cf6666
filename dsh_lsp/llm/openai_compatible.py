"""OpenAI compatible: the adapter for every server with a chat-completions endpoint, on this machine or elsewhere.

Rules: what is not known of a host is not assumed: it gets the shape that most servers accept, and no key that was
not named for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field

from dsh_lsp.llm.chat_adapter import ChatAdapter
from dsh_lsp.llm.dialect import Dialect, Thinking
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.failures import Faults, Rule
from dsh_lsp.llm.hosts import Host, find_host
from dsh_lsp.llm.http_adapter import with_defaults
from dsh_lsp.llm.keys import KeySource

# Cerebras says nothing at all when a prompt is too long: https://inference-docs.cerebras.ai
_SILENT_OVERFLOW = Rule(code="CONTEXT_WINDOW_EXCEEDED", worded_in=frozenset({400, 413}), words=re.compile(r"\A\s*\Z"))


class OpenAiCompatibleSettings(EndpointSettings):
    """The settings of this adapter; those that are None are as the host is known to want them."""

    api_key_env: str | None = Field(default=None, min_length=1)
    max_tokens: int | None = Field(default=None, gt=0)
    reasoning_effort: Literal["off", "low", "high", "max"] | None = None
    context_window: int | None = Field(default=None, gt=0)
    thinking: Thinking | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    stream_usage: bool | None = None
    think_tags: bool | None = None
    text_calls: bool = False


class OpenAiCompatibleAdapter(ChatAdapter):
    """Calls one server."""

    def __init__(
        self,
        settings: OpenAiCompatibleSettings,
        *,
        environ: Mapping[str, str] = os.environ,
        keys: KeySource | None = None,
    ) -> None:
        host = find_host(settings.base_url)
        name = settings.api_key_env or host.key_env
        needed = host.needs_key or settings.api_key_env is not None
        advice = f"check the key in {name}" if name else "name the variable of its key in model.apiKeyEnv"
        silent = (_SILENT_OVERFLOW,) if "cerebras" in settings.base_url else ()
        super().__init__(
            "openai_compatible",
            settings,
            keys or KeySource(name, needed=needed, environ=environ),
            with_defaults(settings),
            Faults.of(*silent, AUTH=advice),
            dialect=dialect_for(settings, host),
            key_header=host.key_header,
        )


def dialect_for(settings: OpenAiCompatibleSettings, host: Host) -> Dialect:
    """The host's dialect under what the settings say."""
    chosen = {
        name: value
        for name in ("thinking", "max_tokens_field", "stream_usage", "think_tags")
        if (value := getattr(settings, name)) is not None
    }
    dialect = replace(host.dialect, text_calls=settings.text_calls, **chosen)
    if settings.thinking == "deepseek":  # wherever it runs, the model asks for its reasoning back
        return replace(dialect, wording=replace(dialect.wording, reasoning="every message"))
    return dialect
