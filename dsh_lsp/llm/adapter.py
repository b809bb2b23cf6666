"""Adapter: the seam to a model's provider, and the routing of a call to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from dsh_lsp.abort import AbortSignal, Disposer
from dsh_lsp.errors import LlmError, LlmFailure, UsageError
from dsh_lsp.messages import CallConfig, Chunk, Message, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call, whole: what the model sees and the signal that stops it."""

    config: CallConfig
    messages: tuple[Message, ...]
    session_id: str
    signal: AbortSignal
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()


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


class Llm:
    """Routes calls to adapters by provider name."""

    def __init__(self) -> None:
        self._adapters: dict[str, Adapter] = {}

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

    def prepare_call(self, config: CallConfig) -> PreparedCall:
        """Bind a call to its provider's adapter.

        Raises:
            LlmError: `NO_ADAPTER`, or what the adapter says.
        """
        adapter = self._adapters.get(config.provider)
        if adapter is None:
            known = ", ".join(sorted(self._adapters)) or "none"
            raise LlmError(
                LlmFailure(message=f"no provider is called {config.provider!r}; known: {known}", code="NO_ADAPTER")
            )
        return adapter.prepare(config)
