"""Pipeline: one tool call from its raw arguments to the result that the model reads.

Pre-execute (allow, deny, ask) → guards → execute around the body → post-execute (accept, replace, block) → the
tool's last word → notify.

Rules: a tool's exception is a result, never a crash; a refusal passes through post-execute, a failure of a plugin
does not; a call that is cancelled before its body ran says so; a success that comes after the cancel is marked as
aborted, a failure is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from dsh_lsp.abort import Aborted, AbortSignal
from dsh_lsp.decisions import Allowed, Effect, EffectKind
from dsh_lsp.errors import DshError, ToolError, error_chain
from dsh_lsp.events import ToolFailure
from dsh_lsp.hooks import Emit, HookSet, Waterfall
from dsh_lsp.messages import UserMessage
from dsh_lsp.tools.approvals import ApprovalHook, Approvals
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Card, Execution, Tool, ToolOutput
from dsh_lsp.wire import JsonObject, dump_bytes, json_copy, loads

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The settled result of one call; a `final` one was never a result that post-execute may judge."""

    text: str
    is_error: bool = False
    error: ToolFailure | None = None
    meta: JsonObject | None = None
    contexts: tuple[UserMessage, ...] = ()
    concludes_turn: bool = False
    final: bool = False


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run; `approved` names the kinds of guarded effects that the user has allowed."""

    approved: frozenset[EffectKind] = frozenset()


@dataclass(frozen=True, slots=True)
class Denied:
    """The call may not run; the model reads the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The user must allow the call first, for these effects."""

    effects: tuple[Effect, ...]
    reason: str | None = None


Verdict = Allow | Denied | Ask


@dataclass(frozen=True, slots=True)
class Accept:
    """The result stands: with other text, or replaced by another output of the tool; never both."""

    text: str | None = None
    output: ToolOutput | None = None
    contexts: tuple[UserMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """The model reads `feedback` instead of the result, and none of the contexts that the tool left."""

    feedback: str
    contexts: tuple[UserMessage, ...] = ()


class ToolHooks(HookSet):
    """The extension points of a call; those of an agent stand on those of its runtime (`child()`)."""

    def __init__(self) -> None:
        self.pre_execute: Waterfall[Execution, Verdict] = Waterfall("tools/pre-execute")
        self.approval: ApprovalHook = Waterfall("approval/request")
        self.execute: Waterfall[Execution, Outcome] = Waterfall("tools/execute")
        self.post_execute: Waterfall[tuple[Execution, Outcome], Accept | Block] = Waterfall("tools/post-execute")
        self.result: Emit[tuple[Execution, Outcome]] = Emit("tools/result")
        self.progress: Emit[tuple[Execution, str]] = Emit("tool/progress")


class InvalidArgumentsError(ToolError):
    """The model's arguments do not fit the tool's schema; the text lists every violation."""

    def __init__(self, violations: list[str]) -> None:
        super().__init__("invalid arguments: " + "; ".join(violations), code="INVALID_ARGS")


class InvalidOutputError(ToolError):
    """A tool or a plugin gave what is no result."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the tool gave no usable result: {what}", code="INVALID_TOOL_OUTPUT")


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


def rendered(output: object) -> Outcome:
    """Turn what a body returned into a result.

    Raises:
        InvalidOutputError: it is neither text nor a `ToolOutput`, or its `meta` is not JSON.
    """
    if isinstance(output, str):
        return Outcome(text=output)
    if not isinstance(output, ToolOutput) or not isinstance(output.text, str):
        raise InvalidOutputError(f"{type(output).__name__} is neither text nor a ToolOutput")
    try:
        meta = json_copy(output.meta) if output.meta is not None else None
    except ValueError as error:
        raise InvalidOutputError(f"its meta is {error}") from error
    return Outcome(text=output.text, meta=meta, is_error=output.is_error)


class ToolPipeline:
    """Runs calls of one agent through its hooks."""

    def __init__(self, registry: ToolRegistry, hooks: ToolHooks, approvals: Approvals | None = None) -> None:
        self.registry = registry
        self.hooks = hooks
        self._approvals = approvals

    # -- whether it may run ----------------------------------------------------------------------------------

    async def admit(self, execution: Execution) -> Outcome | None:
        """Decide whether a call may run; None means that it may."""
        if execution.signal.aborted:
            return replace(ABORTED_BEFORE_DISPATCH, final=True)
        try:
            verdict = await self.hooks.pre_execute(execution, _allow)
            if isinstance(verdict, Ask):
                verdict = await self._ask(execution, verdict)
        except Aborted:
            return ABORTED_BEFORE_DISPATCH
        except Exception as error:  # noqa: BLE001 - the border to plugins: their failure refuses the call
            return replace(failed(error), final=True)
        if isinstance(verdict, Allow):
            execution.approved = verdict.approved
            verdict = await self._guard(execution) or verdict
        if isinstance(verdict, Denied):
            return Outcome(text=f"Error: {verdict.reason}", is_error=True)
        return ABORTED_BEFORE_DISPATCH if execution.signal.aborted else None

    async def _ask(self, execution: Execution, ask: Ask) -> Allow | Denied:
        """Ask the user; whatever is no clear yes refuses."""
        name = execution.name
        if self._approvals is None:
            return Denied(ask.reason or f'tool "{name}" needs an approval, and nobody can be asked')
        outcome = await self._approvals.request(execution, ask.effects, ask.reason)
        if isinstance(outcome, Allowed):
            return Allow(frozenset(effect.kind for effect in ask.effects))
        if outcome.kind == "cancelled":
            execution.signal.check()
            return Denied(f'the approval for tool "{name}" was cancelled')
        if outcome.kind == "unavailable":
            return Denied(f'tool "{name}" needs an approval, and nobody can be asked')
        words = f"; they said: {outcome.comment}" if outcome.comment else ""
        return Denied(f'the user rejected tool "{name}"{words}')

    async def _guard(self, execution: Execution) -> Denied | None:
        """Let the guards refuse what everybody else allowed; the first reason counts."""
        for guard in self.registry.guards():
            try:
                reason = await guard(execution)
            except Exception as error:  # noqa: BLE001 - the border to plugins: a guard that fails refuses
                reason = error_chain(error)
            if reason is not None:
                return Denied(reason)
        return None

    # -- the body --------------------------------------------------------------------------------------------

    async def dispatch(self, execution: Execution) -> Outcome:
        """Run the body inside its wrappers; never raises but for a torn task.

        A wrapper may set `execution.signal` to one of its own; the body hears both, and everybody after it the
        caller's again.
        """
        caller = execution.signal
        invoked = False

        async def body(inner: Execution) -> Outcome:
            nonlocal invoked
            wrapper = inner.signal
            with ExitStack() as stack:
                inner.signal = caller if wrapper is caller else stack.enter_context(AbortSignal.fuse(caller, wrapper))
                try:
                    if inner.signal.aborted:
                        return ABORTED_BEFORE_DISPATCH
                    invoked = True
                    return _late(inner.signal, await self._body(inner))
                finally:
                    inner.signal = wrapper

        try:
            outcome = await self.hooks.execute(execution, body)
            if not isinstance(outcome, Outcome):
                raise InvalidOutputError(f"{type(outcome).__name__} is no outcome")
        except Exception as error:  # noqa: BLE001 - the border to plugins
            outcome = replace(failed(error), final=True)
        finally:
            execution.signal = caller
        if caller.aborted and not outcome.is_error and not invoked:
            return replace(ABORTED_BEFORE_DISPATCH, contexts=outcome.contexts)
        return _late(caller, outcome)

    async def _body(self, execution: Execution) -> Outcome:
        tool = self.registry.get(execution.name)
        try:
            if tool is None:
                raise UnknownToolError(execution.name, self.registry.names())
            return rendered(await tool.execute(validate(tool, execution.arguments), execution))
        except Aborted:
            return ABORTED
        except Exception as error:
            if not isinstance(error, DshError):
                log.warning("tool %s failed", execution.name, exc_info=True)
            return failed(error)

    # -- what the model reads --------------------------------------------------------------------------------

    async def settle(self, execution: Execution, outcome: Outcome) -> Outcome:
        """Let post-execute judge a result, add the deferred contexts, and tell the observers."""
        deferred = tuple(execution.contexts)
        if not outcome.final:
            outcome, deferred = await self._judge(execution, outcome, deferred)
        outcome = _late(execution.signal, outcome)
        outcome = replace(
            outcome,
            text=self._last_word(execution, outcome),
            contexts=deferred + outcome.contexts,
            concludes_turn=execution.concludes_turn and not outcome.is_error,
        )
        self.hooks.result((execution, outcome))
        return outcome

    async def _judge(
        self, execution: Execution, outcome: Outcome, deferred: tuple[UserMessage, ...]
    ) -> tuple[Outcome, tuple[UserMessage, ...]]:
        try:
            verdict = await self.hooks.post_execute((execution, outcome), _accept)
            if isinstance(verdict, Block):
                return Outcome(text=verdict.feedback, is_error=True, contexts=verdict.contexts), ()
            return _accepted(outcome, verdict), deferred
        except Exception as error:  # noqa: BLE001 - the border to plugins
            return replace(failed(error), contexts=outcome.contexts), deferred

    def _last_word(self, execution: Execution, outcome: Outcome) -> str:
        tool = self.registry.get(execution.name)
        try:
            changed = tool.finalize(outcome.text) if tool is not None else None
        except Exception:
            log.exception("finalize of tool %s failed", execution.name)
            return f"Error: the result of tool {execution.name} could not be shown"
        return outcome.text if changed is None else changed


def _accepted(outcome: Outcome, verdict: Accept) -> Outcome:
    """Apply what post-execute accepted.

    Raises:
        InvalidOutputError: it gives both text and an output, or an output for a failure.
    """
    contexts = outcome.contexts + verdict.contexts
    if verdict.output is None:
        return replace(outcome, text=outcome.text if verdict.text is None else verdict.text, contexts=contexts)
    if verdict.text is not None or outcome.is_error:
        raise InvalidOutputError("post-execute may replace the text or the output, and no output of a failure")
    return replace(rendered(verdict.output), contexts=contexts)


def _late(signal: AbortSignal, outcome: Outcome) -> Outcome:
    """Mark a success that settles after the cancel as aborted, but never hide what it had done."""
    if not signal.aborted or outcome.is_error:
        return outcome
    text = f"{ABORTED.text}; it had already answered:\n{outcome.text}" if outcome.text else ABORTED.text
    return replace(ABORTED, text=text, meta=outcome.meta, contexts=outcome.contexts)


async def _allow(_: Execution) -> Verdict:
    return Allow()


async def _accept(_: tuple[Execution, Outcome]) -> Accept | Block:
    return Accept()


def card_of(make: Callable[[], Card], name: str) -> Card:
    """Make a card; a presenter that fails gives the plain one."""
    try:
        return make()
    except Exception:
        log.exception("the card of %s failed", name)
        return Card(kind="generic", title=name)
