"""Pipeline: one tool call from its raw arguments to the result that the model reads.

Materialise → pre-execute (allow or deny) → execute around the body → post-execute (accept or block) → notify.

Rules: a tool's exception is a result, never a crash; a call that is cancelled before its body ran says so; a
success that comes after the cancel is replaced, a failure is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from dsh_lsp.abort import Aborted
from dsh_lsp.errors import DshError, ToolError, error_chain
from dsh_lsp.events import ToolFailure
from dsh_lsp.hooks import Emit, HookSet, Waterfall
from dsh_lsp.messages import UserMessage
from dsh_lsp.tools.tool import Card, Execution, Tool, ToolOutput, ToolRegistry
from dsh_lsp.wire import JsonObject, dump_bytes, loads

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The settled result of one call."""

    text: str
    is_error: bool = False
    error: ToolFailure | None = None
    meta: JsonObject | None = None
    contexts: tuple[UserMessage, ...] = ()
    concludes_turn: bool = False


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The call may not run; the model reads the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Accept:
    """The result stands, with other text where `text` is given."""

    text: str | None = None
    contexts: tuple[UserMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """The model reads `feedback` instead of the result."""

    feedback: str
    contexts: tuple[UserMessage, ...] = ()


class ToolHooks(HookSet):
    """The extension points of a call; those of an agent stand on those of its runtime (`child()`)."""

    def __init__(self) -> None:
        self.pre_execute: Waterfall[Execution, Allow | Denied] = Waterfall("tools/pre-execute")
        self.execute: Waterfall[Execution, Outcome] = Waterfall("tools/execute")
        self.post_execute: Waterfall[tuple[Execution, Outcome], Accept | Block] = Waterfall("tools/post-execute")
        self.result: Emit[tuple[Execution, Outcome]] = Emit("tools/result")
        self.progress: Emit[tuple[Execution, str]] = Emit("tool/progress")


class InvalidArgumentsError(ToolError):
    """The model's arguments do not fit the tool's schema; the text lists every violation."""

    def __init__(self, violations: list[str]) -> None:
        super().__init__("invalid arguments: " + "; ".join(violations), code="INVALID_ARGS")


class UnknownToolError(ToolError):
    """The model called a tool that it does not have."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f'unknown tool "{name}"; the tools are: {", ".join(known)}', code="UNKNOWN_TOOL")


ABORTED_BEFORE_DISPATCH = Outcome(
    text="Error: tool call aborted before dispatch",
    is_error=True,
    error=ToolFailure(name="AbortError", code="ABORTED_BEFORE_DISPATCH"),
)
ABORTED = Outcome(
    text="Error: tool call aborted", is_error=True, error=ToolFailure(name="AbortError", code="ABORTED")
)


def read_arguments(raw: str) -> JsonObject | str:
    """Read the model's argument text: empty is `{}`; what is not a JSON object stays text and fails validation."""
    if not raw.strip():
        return {}
    try:
        value = loads(raw)
    except (ValueError, RecursionError):
        return raw
    return value if isinstance(value, dict) else raw


def validate(tool: Tool[Any], arguments: JsonObject | str) -> Any:
    """Check arguments against the tool's model.

    Raises:
        InvalidArgumentsError: with all violations at once.
    """
    if isinstance(arguments, str):
        raise InvalidArgumentsError([f"not a JSON object: {arguments[:200]}"])
    try:
        # By way of JSON, so that strictness means JSON's types: an array fills a tuple, "7" is no number.
        return tool.Args.model_validate_json(dump_bytes(arguments))
    except ValidationError as error:
        raise InvalidArgumentsError(
            [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()]
        ) from error


def failed(error: BaseException) -> Outcome:
    """Turn an exception into the result that the model reads."""
    info = ToolFailure(name=type(error).__name__, code=error.code) if isinstance(error, DshError) else None
    return Outcome(text=f"Error: {error_chain(error)}", is_error=True, error=info)


class ToolPipeline:
    """Runs calls of one agent through its hooks."""

    def __init__(self, registry: ToolRegistry, hooks: ToolHooks) -> None:
        self.registry = registry
        self.hooks = hooks

    async def admit(self, execution: Execution) -> Outcome | None:
        """Decide whether a call may run; None means that it may."""
        if execution.signal.aborted:
            return ABORTED_BEFORE_DISPATCH

        async def allow(_: Execution) -> Allow | Denied:
            return Allow()

        try:
            verdict = await self.hooks.pre_execute(execution, allow)
        except Aborted:
            return ABORTED_BEFORE_DISPATCH
        except Exception as error:  # noqa: BLE001 - the border to plugins: their failure denies the call
            return failed(error)
        if isinstance(verdict, Denied):
            return Outcome(text=f"Error: {verdict.reason}", is_error=True)
        return ABORTED_BEFORE_DISPATCH if execution.signal.aborted else None

    async def dispatch(self, execution: Execution) -> Outcome:
        """Run the body inside its wrappers; never raises but for a cancelled task."""
        try:
            outcome = await self.hooks.execute(execution, self._body)
        except Exception as error:  # noqa: BLE001 - the border to plugins
            outcome = failed(error)
        return self._late(execution, outcome)

    async def settle(self, execution: Execution, outcome: Outcome) -> Outcome:
        """Let post-execute judge a result, add the deferred contexts, and tell the observers."""

        async def accept(_: tuple[Execution, Outcome]) -> Accept | Block:
            return Accept()

        deferred = tuple(execution.contexts)
        try:
            verdict = await self.hooks.post_execute((execution, outcome), accept)
        except Exception as error:  # noqa: BLE001 - the border to plugins
            outcome = failed(error)
        else:
            if isinstance(verdict, Block):
                deferred = ()
                outcome = Outcome(text=verdict.feedback, is_error=True, contexts=verdict.contexts)
            else:
                text = outcome.text if verdict.text is None else verdict.text
                outcome = replace(outcome, text=text, contexts=outcome.contexts + verdict.contexts)
        outcome = self._late(execution, outcome)
        outcome = replace(
            outcome,
            contexts=deferred + outcome.contexts,
            concludes_turn=execution.concludes_turn and not outcome.is_error,
        )
        self.hooks.result((execution, outcome))
        return outcome

    async def _body(self, execution: Execution) -> Outcome:
        if execution.signal.aborted:
            return ABORTED_BEFORE_DISPATCH
        tool = self.registry.get(execution.name)
        try:
            if tool is None:
                raise UnknownToolError(execution.name, self.registry.names())
            output = await tool.execute(validate(tool, execution.arguments), execution)
        except Aborted:
            return ABORTED
        except Exception as error:
            if not isinstance(error, DshError):
                log.warning("tool %s failed", execution.name, exc_info=True)
            return failed(error)
        if isinstance(output, str):
            output = ToolOutput(text=output)
        return Outcome(text=output.text, meta=output.meta, is_error=output.is_error)

    @staticmethod
    def _late(execution: Execution, outcome: Outcome) -> Outcome:
        """Mark a success that settles after the cancel as aborted, but never hide what it had done."""
        if not execution.signal.aborted or outcome.is_error:
            return outcome
        text = f"{ABORTED.text}; it had already answered:\n{outcome.text}" if outcome.text else ABORTED.text
        return replace(ABORTED, text=text, meta=outcome.meta, contexts=outcome.contexts)


def card_of(make: Callable[[], Card], name: str) -> Card:
    """Make a card; a presenter that fails gives the plain one."""
    try:
        return make()
    except Exception:
        log.exception("the card of %s failed", name)
        return Card(kind="generic", title=name)
