"""Tool: what the model can do, one class in one file each; and the registry of those that it sees.

A tool has a name, a description, a pydantic model for its arguments (its JSON Schema is what the model sees),
an execution mode, the effects of a call, and an async body that returns text. A subclass in a module of its own
under `plugins/tools` is all that adding one takes.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from dsh_lsp.abort import AbortSignal, Disposer
from dsh_lsp.errors import UsageError
from dsh_lsp.hooks import Emit
from dsh_lsp.messages import ToolSpec, UserMessage
from dsh_lsp.wire import JsonObject, Wire

Mode = Literal["parallel", "exclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(Wire):
    """What a call would touch; `detail` is for a person, `grant_key` names what a grant would cover."""

    kind: Literal["read", "edit", "command", "outside", "rights", "network"]
    detail: str
    grant_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card(Wire):
    """How a screen shows a call or its result; `body` depends on the kind."""

    kind: Literal["generic", "terminal", "diff", "search", "read", "todo"]
    title: str
    detail: str | None = None
    body: str | None = None
    path: str | None = None


@dataclass(slots=True, kw_only=True)
class Execution:
    """One call while it runs: who asks, what stops it, and what it may say besides its result."""

    call_id: str
    name: str
    arguments: JsonObject | str
    turn: int
    step: int
    signal: AbortSignal
    on_progress: Callable[[str], None] = field(default=lambda _text: None)
    contexts: list[UserMessage] = field(default_factory=list)
    concludes_turn: bool = False

    def progress(self, text: str) -> None:
        """Show how far the call is; not kept, not read by the model."""
        self.on_progress(text)

    def defer_context(self, message: UserMessage) -> None:
        """Let the model read a message of its own at the next step."""
        self.contexts.append(message)

    def conclude_turn(self) -> None:
        """End the turn with this step if the call succeeds."""
        self.concludes_turn = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a body returns: text for the model; `meta` for screens."""

    text: str
    meta: JsonObject | None = None
    is_error: bool = False


class ToolArgs(BaseModel):
    """Base of argument models; keys that the model invents are dropped, nothing is coerced."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


A = TypeVar("A", bound=ToolArgs)


class Tool(ABC, Generic[A]):
    """One tool; instances hold what they work on, never the state of a call."""

    name: ClassVar[str]
    description: ClassVar[str]
    Args: type[A]
    mode: ClassVar[Mode] = "exclusive"

    @abstractmethod
    async def execute(self, args: A, execution: Execution) -> ToolOutput | str:
        """Do it; a `ToolError` or any other exception becomes the result that the model reads."""

    def mode_of(self, args: A) -> Mode:  # noqa: ARG002 - tools that look at their arguments override this
        """Whether this call may overlap its neighbours."""
        return self.mode

    @abstractmethod
    def effects(self, args: A) -> list[Effect]:
        """What this call would touch; pure."""

    def present_call(self, args: A) -> Card:  # noqa: ARG002
        """How a screen shows the call; pure, and safe to run again on replay."""
        return Card(kind="generic", title=self.name)

    def present_result(self, args: A, output: str, meta: JsonObject | None) -> Card:  # noqa: ARG002
        """How a screen shows the result; pure."""
        return Card(kind="generic", title=self.present_call(args).title, body=output)

    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return ToolSpec(name=self.name, description=self.description.strip(), parameters=_schema_of(self.Args))


def _schema_of(model: type[ToolArgs]) -> JsonObject:
    """A JSON Schema without the titles that pydantic adds, which only cost tokens."""

    def clean(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                key: {name: clean(value) for name, value in node[key].items()}
                if key == "properties"
                else clean(value)
                for key, value in node.items()
                if not (key == "title" and isinstance(value, str))
            }
        return [clean(item) for item in node] if isinstance(node, list) else node

    schema: JsonObject = clean(model.model_json_schema())
    schema.pop("description", None)  # the argument model's docstring is for readers of the code
    return schema


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts


class ToolRegistry:
    """The tools that a model sees."""

    def __init__(self) -> None:
        self.changed: Emit[None] = Emit("tools/change")
        self._tools: dict[str, Tool[Any]] = {}

    def register(self, tool: Tool[Any]) -> Disposer:
        """Add a tool.

        Raises:
            UsageError: the name is taken, or no provider would accept it.
        """
        name = tool.name
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot be a tool's name", code="INVALID_TOOL")
        if name in self._tools:
            raise UsageError(f"a tool is called {name!r} already", code="DUPLICATE_TOOL")
        self._tools[name] = tool
        self.changed(None)

        def dispose() -> None:
            if self._tools.get(name) is tool:
                del self._tools[name]
                self.changed(None)

        return dispose

    def get(self, name: str) -> Tool[Any] | None:
        """Find a tool by its exact name."""
        return self._tools.get(name)

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model sees of all tools."""
        return tuple(tool.spec() for tool in self._tools.values())

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._tools)
