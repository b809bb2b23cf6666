"""Tool: what the model can do, one class or one decorated function in one file each.

A tool has a name, a description, a pydantic model for its arguments (its JSON Schema is what the model sees), an
execution mode, the effects of a call, and an async body that returns text. A `Tool` subclass in a module of its
own under `plugins/tools` is all that adding one takes; a small tool of a plugin may be a function under `@tool`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import Effect, GrantKey
from dsh_lsp.errors import UsageError
from dsh_lsp.messages import ToolSpec, UserMessage
from dsh_lsp.wire import JsonObject, Wire

Mode = Literal["parallel", "exclusive"]


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
    """One call while it runs: who asks, what stops it, and what it may say besides its result.

    A wrapper may set `signal`; nothing else that a listener changes here changes what is run.
    """

    call_id: str
    name: str
    arguments: JsonObject | str
    turn: int
    step: int
    signal: AbortSignal
    on_progress: Callable[[str], None] = field(default=lambda _text: None)
    contexts: list[UserMessage] = field(default_factory=list)
    concludes_turn: bool = False
    approved: frozenset[GrantKey] = frozenset()  # what the user has allowed for this call
    tool: Tool[Any] | None = None  # the definition that the whole call goes by; None for an unknown name

    def progress(self, text: str) -> None:
        """Show how far the call is; not kept, not read by the model."""
        self.on_progress(text)

    def defer_context(self, message: UserMessage) -> None:
        """Let the model read a message of its own at the next step.

        Raises:
            UsageError: it is no message.
        """
        if not isinstance(message, UserMessage):
            raise UsageError(f"a context is a UserMessage, not {type(message).__name__}")
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
    timeout_s: ClassVar[float | None] = None  # enforced by the `timeout` plugin

    @abstractmethod
    async def execute(self, args: A, execution: Execution) -> ToolOutput | str:
        """Do it; a `ToolError` or any other exception becomes the result that the model reads."""

    def mode_of(self, args: A) -> Mode:  # noqa: ARG002 - tools that look at their arguments override this
        """Whether this call may overlap its neighbours."""
        return self.mode

    @abstractmethod
    def effects(self, args: A) -> list[Effect]:
        """What this call would touch; pure."""

    async def unsaved(self, args: A) -> list[str]:  # noqa: ARG002
        """The URIs of documents whose unsaved text the call would pass by: who allows it is told."""
        return []

    def finalize(self, text: str) -> str | None:  # noqa: ARG002
        """Change the text that the model reads, whatever the outcome; called once a call, None keeps it."""
        return None

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


Body = Callable[[A, Execution], Awaitable[ToolOutput | str]]


def tool(
    name: str,
    description: str,
    *,
    mode: Mode = "exclusive",
    effects: Callable[[A], list[Effect]] | None = None,
    timeout_s: float | None = None,
) -> Callable[[Body[A]], Tool[A]]:
    """Make a tool of an async function `(args, execution)` whose first parameter is annotated with its arguments.

    Without `effects` a call touches nothing that anybody guards.

    Raises:
        UsageError: the function's first parameter is not annotated with a `ToolArgs` model.
    """

    def decorate(body: Body[A]) -> Tool[A]:
        first = next(iter(inspect.signature(body).parameters), "")
        args_model = get_type_hints(body).get(first)
        if not (isinstance(args_model, type) and issubclass(args_model, ToolArgs)):
            raise UsageError(f"tool {name!r}: annotate its first parameter with its ToolArgs model")

        async def execute(_self: object, args: A, execution: Execution) -> ToolOutput | str:
            return await body(args, execution)

        members = {
            "__doc__": body.__doc__,
            "name": name,
            "description": description,
            "Args": args_model,
            "mode": mode,
            "timeout_s": timeout_s,
            "execute": execute,
            "effects": lambda _self, args: effects(args) if effects is not None else [],
        }
        made: Tool[A] = type(name, (Tool,), members)()
        return made

    return decorate
