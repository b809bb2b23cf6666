"""Pipeline: one tool call from its raw arguments to the result that the model reads.

Pre-execute (allow, deny, ask) → guards → execute around the body → post-execute (accept, replace, block) → the
tool's last word → notify.

Rules: a tool's exception is a result, never a crash; a refusal passes through post-execute, a failure of a plugin
does not; a call that is cancelled before its body ran says so; a success that comes after the cancel is marked as
aborted, a failure is kept; what is run is what was judged, whatever listeners do with their payload; no key that is
in use passes, whatever brought it in: judges, screens, the log and the model get results without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from dsh_lsp.abort import Aborted, AbortSignal, no_stray_cancel
from dsh_lsp.decisions import Allowed, Effect, GrantKey
from dsh_lsp.errors import DshError, error_chain
from dsh_lsp.hooks import Emit, HookSet, Waterfall
from dsh_lsp.messages import UserMessage
from dsh_lsp.secrets import Keys
from dsh_lsp.tools.approvals import ApprovalHook, Approvals
from dsh_lsp.tools.arguments import validate
from dsh_lsp.tools.outcome import (
    ABORTED,
    ABORTED_BEFORE_DISPATCH,
    InvalidOutputError,
    InvalidVerdictError,
    Outcome,
    UnknownToolError,
    checked,
    failed,
    late,
    rendered,
    without_keys,
)
from dsh_lsp.tools.questions import QuestionHook
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Card, Execution, ToolOutput
from dsh_lsp.wire import JsonObject, dump_bytes, json_copy

__all__ = [  # `Outcome` too: plugins find all that a listener may return in one place
    "Accept",
    "Allow",
    "Ask",
    "Block",
    "Denied",
    "Outcome",
    "ToolHooks",
    "ToolPipeline",
    "Verdict",
    "card_of",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run; `approved` are the grant keys of the guarded effects that the user has allowed."""

    approved: frozenset[GrantKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Denied:
    """The call may not run; the model reads the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The user must allow the call first, for these effects; `approved` is what they have allowed already.

    `unsaved` are the URIs of documents whose unsaved text the call would pass by.
    """

    effects: tuple[Effect, ...]
    reason: str | None = None
    approved: frozenset[GrantKey] = frozenset()
    unsaved: tuple[str, ...] = ()


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
        self.question: QuestionHook = Waterfall("question/request")
        self.execute: Waterfall[Execution, Outcome] = Waterfall("tools/execute")
        self.post_execute: Waterfall[tuple[Execution, Outcome], Accept | Block] = Waterfall("tools/post-execute")
        self.result: Emit[tuple[Execution, Outcome]] = Emit("tools/result")
        self.progress: Emit[tuple[Execution, str]] = Emit("tool/progress")


class ToolPipeline:
    """Runs calls of one agent through its hooks."""

    def __init__(
        self,
        registry: ToolRegistry,
        hooks: ToolHooks,
        approvals: Approvals | None = None,
        *,
        keys: Keys | None = None,
    ) -> None:
        self.registry = registry
        self.hooks = hooks
        self._approvals = approvals
        self._keys = keys or Keys()

    # -- whether it may run ----------------------------------------------------------------------------------

    async def admit(self, execution: Execution) -> Outcome | None:
        """Decide whether a call may run; None means that it may."""
        execution.tool = self.registry.get(execution.name)
        if execution.signal.aborted:
            return replace(ABORTED_BEFORE_DISPATCH, final=True)
        asked_for = _fingerprint(execution)
        try:
            with no_stray_cancel():
                verdict = await self.hooks.pre_execute(execution, _allow)
                if isinstance(verdict, Ask):
                    verdict = await self._ask(execution, verdict)
            if not isinstance(verdict, Allow | Denied):
                raise InvalidVerdictError(type(verdict).__name__)
            if isinstance(verdict, Allow):
                verdict = await self._guard(execution, verdict)
            if _fingerprint(execution) != asked_for:
                raise InvalidVerdictError("a changed call")  # what was judged is no longer what would run
        except Aborted:
            return ABORTED_BEFORE_DISPATCH
        except Exception as error:  # noqa: BLE001 - the border to plugins: their failure refuses the call
            return replace(failed(error), final=True)
        if isinstance(verdict, Denied):
            return Outcome(text=f"Error: {verdict.reason}", is_error=True)
        execution.approved = verdict.approved
        return ABORTED_BEFORE_DISPATCH if execution.signal.aborted else None

    async def _ask(self, execution: Execution, ask: Ask) -> Allow | Denied:
        """Ask the user; whatever is no clear yes refuses."""
        name = execution.name
        if self._approvals is None:
            return Denied(ask.reason or f'tool "{name}" needs an approval, and nobody can be asked')
        outcome = await self._approvals.request(execution, ask.effects, ask.reason, unsaved=ask.unsaved)
        if isinstance(outcome, Allowed):
            return Allow(ask.approved.union(effect.grant_key for effect in ask.effects))
        if outcome.kind == "cancelled":
            execution.signal.check()
            return Denied(f'the approval for tool "{name}" was cancelled')
        if outcome.kind == "unavailable":
            return Denied(f'tool "{name}" needs an approval, and nobody can be asked')
        words = f"; they said: {outcome.comment}" if outcome.comment else ""
        return Denied(f'the user rejected tool "{name}"{words}')

    async def _guard(self, execution: Execution, allowed: Allow) -> Allow | Denied:
        """Let the guards refuse what everybody else allowed; the first reason counts.

        Raises:
            Aborted: a guard heard of the cancel while it thought.
        """
        execution.approved = allowed.approved
        for guard in self.registry.guards():
            try:
                with no_stray_cancel():
                    reason = await guard(execution)
            except Aborted:
                raise
            except Exception as error:  # noqa: BLE001 - the border to plugins: a guard that fails refuses
                reason = error_chain(error)
            if reason is not None:
                return Denied(reason)
        return allowed

    # -- the body --------------------------------------------------------------------------------------------

    async def dispatch(self, execution: Execution) -> Outcome:
        """Run the body inside its wrappers; never raises but for a torn task.

        A wrapper may set `execution.signal` to one of its own; the body hears both, and everybody after it the
        caller's again. The body gets the call as it was admitted, whatever payload a wrapper passes on.
        """
        caller, arguments = execution.signal, execution.arguments
        invoked = False

        async def body(inner: Execution) -> Outcome:
            nonlocal invoked
            before, wrapper = execution.signal, inner.signal
            with ExitStack() as stack:
                execution.signal = (
                    caller if wrapper is caller else stack.enter_context(AbortSignal.fuse(caller, wrapper))
                )
                try:
                    if execution.signal.aborted:
                        return ABORTED_BEFORE_DISPATCH
                    invoked = True
                    return late(execution.signal, await self._body(execution, arguments))
                finally:
                    execution.signal = before

        try:
            arguments = json_copy(arguments)
            with no_stray_cancel():
                outcome = checked(await self.hooks.execute(execution, body))
        except Aborted:
            outcome = ABORTED if invoked else ABORTED_BEFORE_DISPATCH
        except Exception as error:  # noqa: BLE001 - the border to plugins
            outcome = replace(failed(error), final=True)
        finally:
            execution.signal = caller
        outcome = without_keys(outcome, self._keys)
        if caller.aborted and not outcome.is_error and not invoked:
            return replace(ABORTED_BEFORE_DISPATCH, contexts=outcome.contexts)
        return late(caller, outcome)

    async def _body(self, execution: Execution, arguments: JsonObject | str) -> Outcome:
        tool = execution.tool
        try:
            if tool is None:
                raise UnknownToolError(execution.name, self.registry.names())
            with no_stray_cancel():
                return rendered(await tool.execute(validate(tool, arguments), execution))
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
        outcome = _last_word(execution, late(execution.signal, outcome))
        outcome = replace(
            outcome,
            contexts=deferred + outcome.contexts,
            concludes_turn=execution.concludes_turn and not outcome.is_error,
        )
        outcome = without_keys(outcome, self._keys)
        told = outcome if outcome.meta is None else replace(outcome, meta=json_copy(outcome.meta))
        self.hooks.result((execution, told))
        return outcome

    def tell_progress(self, execution: Execution, text: str) -> None:
        """Show how far a call is."""
        self.hooks.progress((execution, self._keys.hide(text)))

    async def _judge(
        self, execution: Execution, outcome: Outcome, deferred: tuple[UserMessage, ...]
    ) -> tuple[Outcome, tuple[UserMessage, ...]]:
        try:
            with no_stray_cancel():
                verdict = await self.hooks.post_execute((execution, outcome), _accept)
            if isinstance(verdict, Block):
                return checked(Outcome(text=verdict.feedback, is_error=True, contexts=verdict.contexts)), ()
            return checked(_accepted(outcome, verdict)), deferred
        except Aborted:
            return outcome, deferred
        except Exception as error:  # noqa: BLE001 - the border to plugins
            return replace(failed(error), contexts=outcome.contexts), deferred


def _last_word(execution: Execution, outcome: Outcome) -> Outcome:
    """Let the tool change the text; one that fails to leaves an error in its place, and is not asked again."""
    try:
        changed = execution.tool.finalize(outcome.text) if execution.tool is not None else None
        return outcome if changed is None else checked(replace(outcome, text=changed))
    except Exception:
        log.exception("finalize of tool %s failed", execution.name)
        text = f"Error: the result of tool {execution.name} could not be shown"
        return Outcome(text=text, is_error=True, contexts=outcome.contexts)


def _accepted(outcome: Outcome, verdict: object) -> Outcome:
    """Apply what post-execute accepted.

    Raises:
        InvalidOutputError: it is no verdict, gives both text and an output, or an output for a failure.
    """
    if not isinstance(verdict, Accept):
        raise InvalidOutputError(f"{type(verdict).__name__} is no verdict of post-execute")
    contexts = outcome.contexts + verdict.contexts
    if verdict.output is None:
        return replace(outcome, text=outcome.text if verdict.text is None else verdict.text, contexts=contexts)
    if verdict.text is not None or outcome.is_error:
        raise InvalidOutputError("post-execute may replace the text or the output, and no output of a failure")
    return replace(rendered(verdict.output), contexts=contexts)


def _fingerprint(execution: Execution) -> tuple[str, bytes, int]:
    """What a call is, exactly: `1` is not `true`."""
    return execution.name, dump_bytes(execution.arguments), id(execution.tool)


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
