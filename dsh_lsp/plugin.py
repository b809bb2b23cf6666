"""Plugin: scopes in which things are registered, and the context that a plugin gets.

Rules: registering returns the disposer; closing a scope undoes all that was registered in it, last first; a
disposer that fails is logged and the others still run.
Knows nothing of: what plugins do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from dsh_lsp.abort import Disposer
from dsh_lsp.errors import UsageError

log = logging.getLogger(__name__)

S = TypeVar("S")


class Scope:
    """A lifetime: owns disposers and child scopes."""

    def __init__(self) -> None:
        self._disposers: list[Disposer] = []
        self._closed = False

    def own(self, disposer: Disposer) -> Disposer:
        """Run `disposer` when the scope closes; the result runs it now, at most once in all."""
        if self._closed:
            raise UsageError("the scope is closed")
        done = False

        def once() -> None:
            nonlocal done
            if not done:
                done = True
                if once in self._disposers:
                    self._disposers.remove(once)
                disposer()

        self._disposers.append(once)
        return once

    def child(self) -> Scope:
        """Open a scope that closes with this one at the latest."""
        child = Scope()
        forget = self.own(child.close)
        child.own(forget)
        return child

    def close(self) -> None:
        """Undo everything, last first; further calls do nothing."""
        self._closed = True
        while self._disposers:
            try:
                self._disposers[-1]()
            except Exception:
                log.exception("a disposer failed")


class Context:
    """What a plugin gets: services by type, a log, and a scope for what it registers."""

    def __init__(
        self, *, scope: Scope | None = None, name: str = "dsh", services: dict[type[Any], Any] | None = None
    ) -> None:
        self.scope = scope or Scope()
        self.name = name
        self.log = logging.getLogger(f"dsh_lsp.plugin.{name}")
        self._services = services if services is not None else {}

    def provide(self, kind: type[S], service: S) -> Disposer:
        """Offer a service under its type.

        Raises:
            UsageError: the type is already served.
        """
        if kind in self._services:
            raise UsageError(f"{kind.__name__} is already provided", code="DUPLICATE_SERVICE")
        self._services[kind] = service
        return self.scope.own(lambda: self._services.pop(kind, None))

    def get(self, kind: type[S]) -> S:
        """Find a service.

        Raises:
            UsageError: nobody provides it.
        """
        if kind not in self._services:
            raise UsageError(f"{self.name} needs {kind.__name__}, which nobody provides", code="NO_SERVICE")
        return cast("S", self._services[kind])

    def own(self, disposer: Disposer) -> Disposer:
        """Undo a registration when this plugin is unmounted."""
        return self.scope.own(disposer)

    def mount(self, plugin: Plugin, settings: Any = None) -> Disposer:
        """Apply a plugin in a scope of its own; the disposer unmounts it.

        Raises:
            UsageError: it is not a plugin, or it injects a service that nobody provides.
        """
        if not isinstance(plugin, Plugin):
            raise UsageError(f"{plugin!r} is not a plugin: it needs `name` and `apply(ctx, settings)`")
        for kind in getattr(plugin, "inject", ()):
            self.get(kind)
        scope = self.scope.child()
        try:
            plugin.apply(Context(scope=scope, name=plugin.name, services=self._services), settings)
        except BaseException:
            scope.close()
            raise
        return scope.close


@runtime_checkable
class Plugin(Protocol):
    """A module or object that registers things; `inject` optionally names the services that it needs."""

    name: str
    apply: Callable[[Context, Any], None]
