"""Adapters: those that tests talk to servers with, by the names that wire vectors use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsh_lsp.llm.anthropic import AnthropicAdapter, AnthropicSettings
from dsh_lsp.llm.deepseek import DeepSeekAdapter, DeepSeekSettings
from dsh_lsp.llm.http_adapter import HttpAdapter
from dsh_lsp.llm.openai_compatible import OpenAiCompatibleAdapter, OpenAiCompatibleSettings

KEY = "sk-very-secret-0123456789"
ENVIRON = {"DEEPSEEK_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "TEST_KEY": KEY}


def _deepseek(url: str, **settings: Any) -> HttpAdapter:
    return DeepSeekAdapter(DeepSeekSettings(base_url=url, **settings), environ=ENVIRON)


def _compatible(url: str, **settings: Any) -> HttpAdapter:
    chosen = {"api_key_env": "TEST_KEY", **settings}
    return OpenAiCompatibleAdapter(OpenAiCompatibleSettings(base_url=url, **chosen), environ=ENVIRON)


def _reading_text(url: str, **settings: Any) -> HttpAdapter:
    return _compatible(url, text_calls=True, **settings)


def _anthropic(url: str, **settings: Any) -> HttpAdapter:
    return AnthropicAdapter(AnthropicSettings(base_url=url, **settings), environ=ENVIRON)


ADAPTERS: Mapping[str, Callable[..., HttpAdapter]] = {
    "deepseek": _deepseek,
    "tags": _compatible,
    "text calls": _reading_text,
    "anthropic": _anthropic,
}
