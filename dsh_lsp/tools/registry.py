"""Registry: the tools that a model sees, in layers.

A scope's layer stands on that of the scope around it: its own tools shadow the inherited ones of the same name, and
it may restrict which of the inherited ones are seen.

Rules: a name is registered once a layer; a restriction never hides a layer's own tools and names only tools that
are there; registering returns the disposer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from dsh_lsp.abort import Disposer
from dsh_lsp.errors import UsageError
from dsh_lsp.hooks import Emit
from dsh_lsp.messages import ToolSpec
from dsh_lsp.tools.tool import Execution, Tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts

Guard = Callable[[Execution], Awaitable[str | None]]  # the reason why a call may not run, or None


class ToolRegistry:
    """One layer of tools."""

    def __init__(self, parent: ToolRegistry | None = None) -> None:
        self.changed: Emit[None] = Emit("tools/change")
        self._parent = parent
        self._tools: dict[str, Tool[Any]] = {}
        self._specs: dict[str, ToolSpec] = {}
        self._restrictions: dict[object, Callable[[str], bool]] = {}
        self._guards: dict[object, Guard] = {}
        if parent is not None:
            parent.changed.listen(self.changed)

    def register(self, tool: Tool[Any]) -> Disposer:
        """Add a tool.

        Raises:
            UsageError: the name is taken in this layer, or no provider would accept it; or its timeout is none.
        """
        name = tool.name
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot be a tool's name", code="INVALID_TOOL")
        if tool.timeout_s is not None and not 0 < tool.timeout_s < float("inf"):
            raise UsageError(
                f"the timeout of tool {name!r} must be a positive number of seconds", code="INVALID_TOOL"
            )
        if name in self._tools:
            raise UsageError(f"a tool is called {name!r} already", code="DUPLICATE_TOOL")
        self._tools[name] = tool
        self._specs[name] = tool.spec()  # once: a schema costs more than a step should
        self.changed(None)

        def dispose() -> None:
            if self._tools.get(name) is tool:
                del self._tools[name], self._specs[name]
                self.changed(None)

        return dispose

    def restrict(self, *, allow: Collection[str] | None = None, deny: Collection[str] = ()) -> Disposer:
        """See only some of the inherited tools; several restrictions hold together.

        Raises:
            UsageError: it names a tool that is not inherited.
        """
        inherited = self._parent.names() if self._parent is not None else []
        unknown = sorted((set(allow or ()) | set(deny)) - set(inherited))
        if unknown:
            raise UsageError(f"a restriction names {unknown[0]!r}, which is no inherited tool", code="UNKNOWN_TOOL")
        allowed, denied = (None if allow is None else frozenset(allow)), frozenset(deny)
        key = object()
        self._restrictions[key] = lambda name: name not in denied and (allowed is None or name in allowed)
        self.changed(None)

        def dispose() -> None:
            if self._restrictions.pop(key, None) is not None:
                self.changed(None)

        return dispose

    def guard(self, guard: Guard) -> Disposer:
        """Let a guard refuse calls that everybody else allows; guards of outer layers are asked first."""
        key = object()
        self._guards[key] = guard
        return lambda: self._guards.pop(key, None)

    def guards(self) -> list[Guard]:
        """The guards in the order in which they are asked."""
        above = self._parent.guards() if self._parent is not None else []
        return [*above, *self._guards.values()]

    def get(self, name: str) -> Tool[Any] | None:
        """Find a visible tool by its exact name."""
        if name in self._tools:
            return self._tools[name]
        return self._parent.get(name) if self._parent is not None and self._passes(name) else None

    def names(self) -> list[str]:
        """All visible names, sorted."""
        inherited = filter(self._passes, self._parent.names()) if self._parent is not None else ()
        return sorted({*inherited, *self._tools})

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model sees, sorted by name."""
        inherited = self._parent.specs() if self._parent is not None else ()
        visible = {spec.name: spec for spec in inherited if self._passes(spec.name)} | self._specs
        return tuple(visible[name] for name in sorted(visible))

    def _passes(self, name: str) -> bool:
        return all(passes(name) for passes in self._restrictions.values())
