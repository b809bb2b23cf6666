"""Plugin: scopes in which things are registered, and the context that a plugin gets.

Rules: registering returns the disposer; closing a scope undoes all that was registered in it, last first; a
disposer that fails is logged and the others still run; a retired scope takes no new calls, hides its registrations
at once and closes after its last running call.
Knows nothing of: what plugins do, and where they come from.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload, runtime_checkable

from dsh_lsp.abort import Disposer
from dsh_lsp.errors import UsageError
from dsh_lsp.hooks import Emit, Serial, Waterfall

log = logging.getLogger(__name__)

S = TypeVar("S")
P = TypeVar("P")
R = TypeVar("R")
A = ParamSpec("A")


class Registry(Protocol[A]):
    """A service that things are registered with: tools, prompt sections, adapters."""

    def register(self, *args: A.args, **kwargs: A.kwargs) -> Disposer:
        """Add a thing; the disposer takes it out."""


@dataclass(slots=True, eq=False)
class _Entry:
    """One thing that a scope undoes; `redo` is how a hidden registration comes back, `undo` is None meanwhile."""

    undo: Disposer | None
    redo: Callable[[], Disposer] | None = None
    child: Scope | None = None


class Scope:
    """A lifetime: owns disposers, registrations and child scopes, and knows of the calls that run in it."""

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent
        self._entries: list[_Entry] = []
        self._running = 0
        self._retired = False
        self._closed = False

    def own(self, disposer: Disposer) -> Disposer:
        """Run `disposer` when the scope closes; the result runs it now, at most once in all."""
        self._check_open()
        return self._add(_Entry(disposer))

    def register(self, do: Callable[[], Disposer]) -> Disposer:
        """Register something now; undone when the scope is hidden or closes, and by the result."""
        self._check_open()
        return self._add(_Entry(do(), redo=do))

    def child(self) -> Scope:
        """Open a scope that closes with this one at the latest."""
        self._check_open()
        child = Scope(self)
        child.own(self._add(_Entry(child.close, child=child)))
        return child

    def hide(self) -> None:
        """Undo the registrations alone, last first; `show` does them again, in their order."""
        for entry in reversed(self._entries):
            if entry.child is not None:
                entry.child.hide()
            elif entry.redo is not None:
                _undo(entry)

    def show(self) -> None:
        """Bring hidden registrations back."""
        for entry in list(self._entries):
            if entry.child is not None:
                entry.child.show()
            elif entry.redo is not None and entry.undo is None:
                try:
                    entry.undo = entry.redo()
                except Exception:
                    log.exception("a registration could not be brought back")

    @property
    def takes_calls(self) -> bool:
        """Whether a call may begin: neither this scope nor one around it is retired or closed."""
        if self._retired or self._closed:
            return False
        return self._parent is None or self._parent.takes_calls

    @contextmanager
    def call(self) -> Iterator[None]:
        """Keep the scope and those around it from closing by retirement while the body runs."""
        self.begin_call()
        try:
            yield
        finally:
            self.end_call()

    def begin_call(self) -> None:
        """What `call` does before its body; for what happens with every event of a stream."""
        if self._parent is not None:
            self._parent.begin_call()
        self._running += 1

    def end_call(self) -> None:
        """What `call` does after its body."""
        self._running -= 1
        self._close_when_over()
        if self._parent is not None:
            self._parent.end_call()

    def retire(self) -> None:
        """Take no new calls, hide what is registered, and close once the last running call is over."""
        self._retired = True
        self.hide()
        self._close_when_over()

    def close(self) -> None:
        """Undo everything now, last first; further calls do nothing."""
        self._closed = True
        while self._entries:
            _undo(self._entries.pop())

    def _close_when_over(self) -> None:
        if self._retired and not self._running:
            self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the scope is closed")

    def _add(self, entry: _Entry) -> Disposer:
        self._entries.append(entry)

        def dispose() -> None:
            if entry in self._entries:
                self._entries.remove(entry)
                if entry.undo is not None:
                    entry.undo()

        return dispose


def _undo(entry: _Entry) -> None:
    undo, entry.undo = entry.undo, None
    if undo is None:
        return
    try:
        undo()
    except Exception:
        log.exception("a disposer failed")


class Context:
    """What a plugin gets: services by type, a log, and a scope for what it registers.

    `listen`, `register` and `provide` are undone by themselves, at once when the plugin is replaced; what `own`
    is given (a connection, a task) is undone after the plugin's last running call.
    """

    def __init__(
        self, *, scope: Scope | None = None, name: str = "dsh", services: dict[type[Any], Any] | None = None
    ) -> None:
        self.scope = scope or Scope()
        self.name = name
        self.log = logging.getLogger(f"dsh_lsp.plugin.{name}")
        self._services = services if services is not None else {}

    def get(self, kind: type[S]) -> S:
        """Find a service.

        Raises:
            UsageError: nobody provides it.
        """
        if kind not in self._services:
            raise UsageError(f"{self.name} needs {kind.__name__}, which nobody provides", code="NO_SERVICE")
        return cast("S", self._services[kind])

    def provide(self, kind: type[S], service: S) -> Disposer:
        """Offer a service under its type.

        Raises:
            UsageError: the type is already served.
        """

        def do() -> Disposer:
            if kind in self._services:
                raise UsageError(f"{kind.__name__} is already provided", code="DUPLICATE_SERVICE")
            self._services[kind] = service
            return lambda: self._services.pop(kind, None)

        return self.scope.register(do)

    @overload
    def register(self, what: type[Registry[A]], *args: A.args, **kwargs: A.kwargs) -> Disposer: ...
    @overload
    def register(self, what: Callable[A, Disposer], *args: A.args, **kwargs: A.kwargs) -> Disposer: ...
    def register(self, what: Any, *args: Any, **kwargs: Any) -> Disposer:
        """Register something with a service, named by its type or by the method that returns the disposer.

        `ctx.register(ToolRegistry, Dice())`, `ctx.register(ctx.get(ToolRegistry).guard, check)`.

        Raises:
            UsageError: nobody provides the service, or it refuses.
        """
        if isinstance(what, type):
            return self.scope.register(lambda: self.get(what).register(*args, **kwargs))
        return self.scope.register(lambda: what(*args, **kwargs))

    @overload
    def listen(self, hook: Emit[P], listener: Callable[[P], object], *, prepend: bool = False) -> Disposer: ...
    @overload
    def listen(
        self, hook: Serial[P], listener: Callable[[P], Awaitable[object]], *, prepend: bool = False
    ) -> Disposer: ...
    @overload
    def listen(
        self,
        hook: Waterfall[P, R],
        listener: Callable[[P, Callable[[P], Awaitable[R]]], Awaitable[R]],
        *,
        prepend: bool = False,
    ) -> Disposer: ...
    def listen(self, hook: Any, listener: Callable[..., Any], *, prepend: bool = False) -> Disposer:
        """Listen at an extension point; `prepend` puts the listener in front of those that are there.

        Raises:
            UsageError: it is no extension point, or an async listener cannot be told.
        """
        guarded = _guarded(self.scope, hook, listener)
        return self.scope.register(lambda: hook.listen(guarded, prepend=prepend))

    def own(self, disposer: Disposer) -> Disposer:
        """Undo something when the plugin is unmounted and none of its calls runs any more."""
        return self.scope.own(disposer)

    def mount(self, plugin: Plugin, settings: Any = None) -> Disposer:
        """Apply a plugin in a scope of its own; the disposer unmounts it.

        Raises:
            UsageError: it is not a plugin, or it injects a service that nobody provides.
        """
        return self.mount_scope(plugin, settings).retire

    def mount_scope(self, plugin: Plugin, settings: Any = None) -> Scope:
        """Mount a plugin, and give the scope itself, which can be hidden and shown again.

        Raises:
            UsageError: it is not a plugin, or it injects a service that nobody provides.
        """
        check_plugin(plugin)
        scope = self.scope.child()
        context = Context(scope=scope, name=plugin.name, services=self._services)
        try:
            for kind in getattr(plugin, "inject", ()):
                context.get(kind)
            plugin.apply(context, settings)
        except BaseException:
            scope.close()
            raise
        return scope


def _guarded(scope: Scope, hook: object, listener: Callable[..., Any]) -> Callable[..., Any]:
    """Count a listener's calls, and step aside once its scope is retired: a dispatch may have begun before."""

    def told(payload: Any) -> None:
        if scope.takes_calls:
            scope.begin_call()
            try:
                listener(payload)
            finally:
                scope.end_call()

    async def asked(payload: Any) -> object:
        if not scope.takes_calls:
            return None
        with scope.call():
            return await listener(payload)

    async def wrapped(payload: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        if not scope.takes_calls:
            return await call_next(payload)
        with scope.call():
            answer = await listener(payload, call_next)
        return _streaming(scope, answer) if isinstance(answer, AsyncGenerator) else answer

    match hook:
        case Emit() if inspect.iscoroutinefunction(listener):
            raise UsageError(f"{hook.name} is told, not awaited: its listener must not be async", code="NO_HOOK")
        case Emit():
            return told
        case Serial():
            return asked
        case Waterfall():
            return wrapped
    raise UsageError(f"{hook!r} is not an extension point", code="NO_HOOK")


async def _streaming(scope: Scope, stream: AsyncGenerator[Any, None]) -> AsyncIterator[Any]:
    """A stream that a listener answered with: its call lasts as long as it does."""
    with scope.call():
        async with aclosing(stream):
            async for item in stream:
                yield item


@runtime_checkable
class Plugin(Protocol):
    """A module or object that registers things.

    Two attributes may be missing: `inject`, the types of the services that it needs, and `Settings`, the pydantic
    model of its settings; with it, `apply` gets an instance, without it None.
    """

    name: str
    apply: Callable[[Context, Any], None]


def check_plugin(plugin: object) -> None:
    """Refuse what is not a plugin, in the words of its author.

    Raises:
        UsageError: `NO_PLUGIN`.
    """
    shown: Any = plugin
    inject = getattr(plugin, "inject", ())
    if isinstance(plugin, type) or not isinstance(plugin, Plugin):
        wrong = "it needs `name` and `apply(ctx, settings)`, as a module or an object"
    elif not isinstance(shown.name, str) or not shown.name:
        wrong = "its `name` must be a text"
    elif not callable(shown.apply):
        wrong = "its `apply` must be a function `(ctx, settings)`"
    elif not isinstance(inject, tuple) or not all(isinstance(kind, type) for kind in inject):
        wrong = "its `inject` must be a tuple of types"
    else:
        return
    raise UsageError(f"{plugin!r} is not a plugin: {wrong}", code="NO_PLUGIN")
