"""Providers: builds the adapters that the settings choose, each when it is first asked.

Rules: the address and the key that settings name are those of the provider that they choose; any other provider goes
to its official server with its usual key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError

from dsh_lsp.errors import ConfigError
from dsh_lsp.llm.adapter import Adapter, Llm
from dsh_lsp.settings import SettingsModel, raises_rights
from dsh_lsp.wire import to_camel

Provider = Literal["deepseek", "openai_compatible", "anthropic", "demo"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)

USUAL_KEYS = ("DEEPSEEK_API_KEY", "ANTHROPIC_API_KEY")  # of providers that need no setting

DEFAULT_NAMES: Mapping[str, str] = {"deepseek": "deepseek-flash", "demo": "demo"}


class TimeoutSettings(SettingsModel):
    """How long to wait for a model server; `idle` is without a byte, `event` without a part of an answer."""

    connect_seconds: float = Field(default=10.0, gt=0, description="The longest wait for a connection.")
    write_seconds: float = Field(default=60.0, gt=0, description="The longest wait until a request is taken.")
    pool_seconds: float = Field(
        default=30.0, gt=0, description="The longest wait for one of our connections to be free."
    )
    idle_seconds: float = Field(default=120.0, gt=0, description="The longest silence, without a single byte.")
    event_seconds: float = Field(
        default=630.0,
        gt=0,
        description="The longest wait for a part of an answer, while a queue keeps the connection alive.",
    )


class CompatibilitySettings(SettingsModel):
    """How an OpenAI-compatible server differs from what is known of its host; None leaves it at that."""

    thinking: Literal["none", "deepseek", "openai", "openrouter", "toggle", "qwen", "template"] | None = Field(
        default=None, description="How the server is told how much to think; by its host, unless set."
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        default=None, description="What the server calls the output limit; by its host, unless set."
    )
    stream_usage: bool | None = Field(
        default=None, description="Whether the server is asked to count tokens; by its host, unless set."
    )
    think_tags: bool | None = Field(
        default=None,
        description="Whether thinking may stand in the text, in `<think>` tags; by its host, unless set.",
    )
    text_calls: bool = Field(
        default=False,
        description="Run tool calls that the model writes as text, with the same permissions as others.",
    )


class ModelSettings(SettingsModel):
    """The route of a new session."""

    provider: Provider = Field(default="deepseek", description="Who answers. `demo` is a script, no model.")
    name: str | None = Field(
        default=None,
        min_length=1,
        description="The model. Unset it is `deepseek-flash` for DeepSeek; other providers need a name.",
    )
    reasoning_effort: Literal["off", "low", "high", "max"] | None = Field(
        default=None, description="How much the model thinks; as the provider does, unless set."
    )
    max_tokens: int | None = Field(
        default=None, gt=0, description="The longest answer, thinking included; the provider's limit, unless set."
    )
    context_window: int | None = Field(
        default=None,
        gt=0,
        description="How many tokens the model can read and write in all; what is known of it, unless set.",
    )
    base_url: str | None = Field(
        default=None,
        json_schema_extra=raises_rights(None),
        description="The server, with its version path; the provider's official one, unless set. "
        "`openai_compatible` needs it.",
    )
    api_key_env: str | None = Field(
        default=None,
        min_length=1,
        json_schema_extra=raises_rights(None),
        description="The *name* of the environment variable, or keyring entry, that holds the key; "
        "never the key itself.",
    )
    timeouts: TimeoutSettings = TimeoutSettings()
    compatibility: CompatibilitySettings = CompatibilitySettings()

    @property
    def model(self) -> str:
        """The model's name; empty where the provider has none that is meant unless another is named."""
        return self.name or DEFAULT_NAMES.get(self.provider, "")


def key_variables(settings: ModelSettings) -> frozenset[str]:
    """The names of the environment variables that a session of these settings takes its keys from."""
    from dsh_lsp.llm.hosts import find_host

    chosen = {settings.api_key_env, find_host(settings.base_url).key_env if settings.base_url else None}
    return frozenset(name for name in (*USUAL_KEYS, *chosen) if name is not None)


def build_models(settings: ModelSettings, environ: Mapping[str, str] = os.environ) -> Llm:
    """Offer every provider; an adapter is made when it is first asked, and what is wrong is told then."""
    llm = Llm()
    for provider in PROVIDERS:
        llm.offer(provider, _builder(settings, provider, environ))
    return llm


def _builder(settings: ModelSettings, provider: Provider, environ: Mapping[str, str]) -> Callable[[], Adapter]:
    return lambda: build_adapter(settings, provider, environ)


def build_adapter(settings: ModelSettings, provider: Provider, environ: Mapping[str, str] = os.environ) -> Adapter:
    """Make one provider's adapter.

    Raises:
        ConfigError: `BAD_SETTING`, the settings do not fit it.
    """
    fields = _fields(settings, provider)
    match provider:
        case "demo":
            from dsh_lsp.llm.demo_script import demo_adapter

            return demo_adapter()
        case "deepseek":
            from dsh_lsp.llm.deepseek import DeepSeekAdapter, DeepSeekSettings

            return DeepSeekAdapter(_checked(DeepSeekSettings, fields), environ=environ)
        case "anthropic":
            from dsh_lsp.llm.anthropic import AnthropicAdapter, AnthropicSettings

            return AnthropicAdapter(_checked(AnthropicSettings, fields), environ=environ)
        case "openai_compatible":
            from dsh_lsp.llm.openai_compatible import OpenAiCompatibleAdapter, OpenAiCompatibleSettings

            if "base_url" not in fields:
                message = "an OpenAI-compatible server needs an address: set model.baseUrl"
                raise ConfigError(message, code="BAD_SETTING")
            chosen = {**fields, **settings.compatibility.model_dump(exclude_none=True)}
            return OpenAiCompatibleAdapter(_checked(OpenAiCompatibleSettings, chosen), environ=environ)


def _fields(settings: ModelSettings, provider: Provider) -> dict[str, Any]:
    """What the settings say to an adapter: all to the one that they choose, to others only how long to wait."""
    waits = {
        f"{name.removesuffix('seconds')}timeout_s": value for name, value in settings.timeouts.model_dump().items()
    }
    if provider != settings.provider:
        return waits
    names = ("base_url", "api_key_env", "max_tokens", "context_window", "reasoning_effort")
    return waits | {name: value for name in names if (value := getattr(settings, name)) is not None}


def _checked(model: Any, fields: Mapping[str, Any]) -> Any:
    try:
        return model(**fields)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        message = f"model.{to_camel(str(detail['loc'][0]))}: {detail['msg'].removeprefix('Value error, ')}"
        raise ConfigError(message, code="BAD_SETTING") from error
