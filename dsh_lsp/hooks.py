"""Hooks: the three ways in which code listens to code.

`Emit` tells, `Serial` asks one after another, `Waterfall` wraps. A `HookSet` holds those that belong together; a
child set stands on its parent, whose listeners come first (outermost), so that a runtime's plugin hears every
agent and an agent's plugin only its own.

Rules: `listen` returns the disposer; listeners run in the order in which they registered (`prepend` goes in front).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from dsh_lsp.abort import Disposer

log = logging.getLogger(__name__)

P = TypeVar("P")
R = TypeVar("R")
L = TypeVar("L")


class _Listeners(Generic[L]):
    """An ordered set of listeners over those of a parent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._parent: _Listeners[L] | None = None
        self._own: list[tuple[object, L]] = []

    def listen(self, listener: L, *, prepend: bool = False) -> Disposer:
        """Add a listener; call the returned disposer to remove it, once or often."""
        entry = (object(), listener)
        if prepend:
            self._own.insert(0, entry)
        else:
            self._own.append(entry)

        def dispose() -> None:
            if entry in self._own:
                self._own.remove(entry)

        return dispose

    def stand_on(self, parent: Self) -> None:
        """Let the parent's listeners come before one's own."""
        self._parent = parent

    def all_listeners(self) -> list[L]:
        """The listeners in the order in which they are called."""
        above = self._parent.all_listeners() if self._parent is not None else []
        return above + [listener for _, listener in self._own]


class Emit(_Listeners[Callable[[P], object]]):
    """Tells every listener, in order; a listener that fails is logged and the others still hear."""

    def __call__(self, payload: P) -> None:
        """Tell."""
        for listener in self.all_listeners():
            try:
                listener(payload)
            except Exception:
                log.exception("a listener of %s failed", self.name)


class Serial(_Listeners[Callable[[P], Awaitable[object]]]):
    """Asks listeners one after another and stops at the first answer that is not None or False."""

    async def __call__(self, payload: P) -> object:
        """Ask; an exception of a listener passes to the caller."""
        for listener in self.all_listeners():
            answer = await listener(payload)
            if answer is not None and answer is not False:
                return answer
        return None


class Waterfall(_Listeners[Callable[[P, Callable[[P], Awaitable[R]]], Awaitable[R]]], Generic[P, R]):
    """Wraps a default in listeners `(payload, next)`; one that does not call `next` decides alone."""

    async def __call__(self, payload: P, default: Callable[[P], Awaitable[R]]) -> R:
        """Run the listeners around the default; an exception passes to the caller."""
        listeners = self.all_listeners()

        def step(index: int) -> Callable[[P], Awaitable[R]]:
            if index == len(listeners):
                return default

            async def call(value: P) -> R:
                return await listeners[index](value, step(index + 1))

            return call

        return await step(0)(payload)


class HookSet:
    """Hooks that belong together, each an attribute."""

    def child(self) -> Self:
        """A fresh set of the same kind that stands on this one."""
        child = type(self)()
        child.stand_on(self)
        return child

    def stand_on(self, parent: Self) -> None:
        """Let every hook stand on its namesake of the parent."""
        for name, hook in vars(self).items():
            hook.stand_on(getattr(parent, name))
