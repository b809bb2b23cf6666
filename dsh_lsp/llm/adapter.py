"""Adapter: the seam to a model's provider, and the routing of a call to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dsh_lsp.abort import AbortSignal, Disposer
from dsh_lsp.errors import LlmError, LlmFailure, UsageError
from dsh_lsp.llm.keys import KeySource
from dsh_lsp.messages import CallConfig, Chunk, Message, ToolSpec
from dsh_lsp.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call, whole: what the model sees and the signal that stops it.

    `prompt_tokens` is an estimate of what it will read, 0 where nobody made one.
    """

    config: CallConfig
    messages: tuple[Message, ...]
    session_id: str
    signal: AbortSignal
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call bound to one adapter: its config with defaults filled in, and the stream that serves it.

    `defaulted` names the fields of `config` that the adapter filled in. `stream` yields chunks and ends with
    exactly one `Finish`, whatever happens: a provider's failure is a `Finish`, not an exception. Only
    cancellation and bugs leave it as exceptions. `key_changed` says whether the next call would go with another key.
    """

    config: CallConfig
    stream: Callable[[ModelRequest], AsyncIterator[Chunk]]
    defaulted: frozenset[str] = frozenset()
    context_window: int | None = None
    key_changed: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo(Wire):
    """A model that a provider offers, with what is known of it.

    `efforts`: the words for how much to think that may be set; `images`: whether it reads them.
    """

    provider: str
    name: str
    context_window: int | None = None
    max_output: int | None = None
    efforts: tuple[str, ...] = ()
    images: bool | None = None


class Adapter(Protocol):
    """A provider's dialect."""

    @property
    def provider(self) -> str:
        """The name by which settings choose it."""

    def prepare(self, config: CallConfig) -> PreparedCall:
        """Fill in the defaults of the exact model and bind the call.

        Raises:
            LlmError: the call cannot be made: no key, an unknown effort.
        """


@runtime_checkable
class Warms(Protocol):
    """An adapter that must fetch something before it can prepare a call."""

    @property
    def pending(self) -> bool:
        """Whether it may find what a call needs, and has not looked yet."""

    async def warm(self) -> None:
        """Fetch it."""


@runtime_checkable
class Lists(Protocol):
    """An adapter that can ask its server for its models."""

    async def models(self) -> tuple[ModelInfo, ...]:
        """Ask.

        Raises:
            LlmError: there is no key, or no list came.
        """


@runtime_checkable
class Balances(Protocol):
    """An adapter that can ask how much is left on an account."""

    async def balance(self) -> str:
        """Ask; the answer is for people.

        Raises:
            LlmError: no answer came.
        """


@runtime_checkable
class Keyed(Warms, Protocol):
    """An adapter that uses a key."""

    @property
    def keys(self) -> KeySource:
        """Where the key comes from."""

    def prepare(self, config: CallConfig) -> PreparedCall:
        """Bind a call to it."""


@runtime_checkable
class Closes(Protocol):
    """An adapter that holds connections."""

    async def aclose(self) -> None:
        """Close them."""


class Llm:
    """Routes calls to adapters by provider name; one that is only offered is made when it is first asked."""

    def __init__(self) -> None:
        self._adapters: dict[str, Adapter] = {}
        self._offers: dict[str, Callable[[], Adapter]] = {}

    def register(self, adapter: Adapter) -> Disposer:
        """Add an adapter.

        Raises:
            UsageError: the provider has one.
        """
        name = adapter.provider
        if name in self._adapters:
            raise UsageError(f"provider {name!r} has an adapter already", code="DUPLICATE_ADAPTER")
        self._adapters[name] = adapter
        return lambda: self._adapters.pop(name, None)

    def offer(self, provider: str, build: Callable[[], Adapter]) -> None:
        """Name a provider whose adapter `build` makes; one that is registered goes before it."""
        self._offers[provider] = build

    @property
    def providers(self) -> tuple[str, ...]:
        """All that may be asked, in the order of their names."""
        return tuple(sorted({*self._adapters, *self._offers}))

    def adapter(self, provider: str) -> Adapter:
        """Find an adapter, or make the one that is offered.

        Raises:
            LlmError: `NO_ADAPTER`.
            ConfigError: the settings do not fit it.
        """
        if provider not in self._adapters:
            if provider not in self._offers:
                known = ", ".join(self.providers) or "none"
                message = f"no provider is called {provider!r}; known: {known}"
                raise LlmError(LlmFailure(message=message, code="NO_ADAPTER"))
            self._adapters[provider] = self._offers[provider]()
        return self._adapters[provider]

    def prepare_call(self, config: CallConfig) -> PreparedCall:
        """Bind a call to its provider's adapter.

        Raises:
            LlmError: `NO_ADAPTER`, or what the adapter says.
            ConfigError: the settings do not fit the adapter.
        """
        return self.adapter(config.provider).prepare(config)

    def pending(self, provider: str) -> bool:
        """Whether a provider must be warmed before its calls can be prepared."""
        found: object = self._adapters.get(provider)
        return isinstance(found, Warms) and found.pending

    async def warm(self, provider: str) -> None:
        """Let a provider fetch what its calls need and may take long to get."""
        found: object = self._adapters.get(provider)
        if isinstance(found, Warms):
            await found.warm()

    async def aclose(self) -> None:
        """Close all connections."""
        for adapter in self._adapters.values():
            if isinstance(adapter, Closes):
                await adapter.aclose()
