"""Driver: the one writer of a session's state, as a story: wake, turn, step, and what ends them.

A turn claims input, asks the model, runs the tools that it asks for, and asks again until nobody owes an answer.

Rules: `followup()` returns with `turn/start` and the claim in the log; one task drives one session; one signal a
turn; whatever raises ends the turn, never the loop; a claimed message that was not committed goes back.
Knows nothing of: editors, files, HTTP.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.abort import AbortSignal, Cause
from dsh_lsp.agent.attempt import Answer, Attempt
from dsh_lsp.agent.hooks import (
    AgentFailed,
    AgentHooks,
    Enter,
    PreStep,
    Reject,
    RequestDraft,
    RequestFailed,
    Retry,
    Status,
    TurnStopping,
)
from dsh_lsp.agent.inbox import Claimed, Inbox
from dsh_lsp.agent.prompt import Assembly, SystemPrompt
from dsh_lsp.agent.request import AgentOptions, HeaderLedger
from dsh_lsp.errors import LlmError, failure_of
from dsh_lsp.events import (
    Ended,
    EndedByAbort,
    EndedByError,
    InboxTarget,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)
from dsh_lsp.llm.adapter import Llm, ModelRequest, PreparedCall
from dsh_lsp.messages import CallConfig, TextBlock, UserMessage, UserSource
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.pipeline import ToolPipeline
from dsh_lsp.tools.scheduler import StepTools, answer_unanswered, run_calls
from dsh_lsp.tools.tool import ToolRegistry

log = logging.getLogger(__name__)


def new_id() -> str:
    """A fresh id for a message, a session or a proposal."""
    return uuid.uuid4().hex


async def _no_barrier() -> None:
    """The barrier of a session that lives in memory."""


@dataclass(slots=True)
class _Turn:
    """What the driver keeps of the open turn."""

    number: int
    signal: AbortSignal
    claimed: tuple[Claimed, ...]  # on their way into the next step, not yet in history
    step: int = 0


@dataclass(slots=True, kw_only=True)
class AgentParts:
    """What an agent is made of; `barrier` returns when the log is on disk."""

    log: SessionLog
    llm: Llm
    tools: ToolRegistry
    prompt: SystemPrompt
    options: AgentOptions
    tasks: TaskGroup
    hooks: AgentHooks = field(default_factory=AgentHooks)
    barrier: Callable[[], Awaitable[None]] = _no_barrier
    new_id: Callable[[], str] = new_id


class Agent:
    """A driver over exactly one session."""

    def __init__(self, parts: AgentParts) -> None:
        self.log = parts.log
        self.hooks = parts.hooks
        self.inbox = Inbox(parts.log, changed=parts.hooks.inbox)
        self._parts = parts
        self._pipeline = ToolPipeline(parts.tools, parts.hooks.tools)
        self._ledger = HeaderLedger(parts.log, parts.options)
        self._status: Status = "idle"
        self._signal = AbortSignal()
        self._turn: _Turn | None = None
        self._last_turn = max(
            (event.data.turn for event in parts.log if isinstance(event.data, TurnStart)), default=0
        )
        self._keep_inbox = True  # what the cancel of the running turn said of its claimed messages
        self._wake_latched = False
        self._disposed = False
        self._idle = anyio.Event()
        self._idle.set()

    # -- input -----------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """Whether a driver runs."""
        return self._status

    @property
    def turn(self) -> int:
        """The number of the open or the last turn; 0 before the first."""
        return self._last_turn

    @property
    def step(self) -> int:
        """The number of the open turn's current step; 0 when none has begun."""
        return self._turn.step if self._turn is not None else 0

    def message(self, text: str) -> UserMessage:
        """A person's words as a message."""
        return UserMessage(id=self._parts.new_id(), content=(TextBlock(text=text),), source=UserSource())

    def followup(self, message: UserMessage, *, first: bool = False) -> None:
        """Queue a turn of its own; when idle, it has begun by the time this returns."""
        self._send(message, "next-turn", wakes=True, first=first)

    def steer(self, message: UserMessage) -> None:
        """Join the running turn at its next step; when idle, open a turn."""
        self._send(message, "next-step", wakes=True)

    def inject(self, message: UserMessage) -> None:
        """Leave context for the next step; wakes nobody."""
        self._send(message, "next-step", wakes=False)

    def cancel(self, cause: Cause, *, keep_inbox: bool = True) -> bool:
        """Stop the running turn; without `keep_inbox` drop all waiting input too. True if a turn was running."""
        if not keep_inbox:
            self.inbox.clear()
            self._wake_latched = False
            self._keep_inbox = False
        if self._status == "idle":
            return False
        self._signal.abort(cause)
        return True

    async def when_idle(self) -> None:
        """Wait until nothing runs, replays included; at once when nothing does."""
        while self._status == "running":
            await self._idle.wait()

    async def dispose(self) -> None:
        """Stop for good, keeping the inbox for the session's next life."""
        self._disposed = True
        self.cancel(Cause(kind="disposed"))
        await self.when_idle()

    def _send(self, message: UserMessage, target: InboxTarget, *, wakes: bool, first: bool = False) -> None:
        after_abort = wakes and self._status == "running" and self._signal.aborted
        self.inbox.insert("next-turn" if after_abort else target, message, first=first)
        if not wakes or self._disposed:
            return
        if self._status == "idle":
            self._start()
        elif after_abort:
            self._wake_latched = True

    # -- the driver ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Become running and open the first turn before returning."""
        self._signal, self._keep_inbox, self._wake_latched = AbortSignal(), True, False
        self._idle = anyio.Event()
        self._set_status("running")
        turn = self._open_turn()
        if turn is None:
            self._converge()
        else:
            self._parts.tasks.start_soon(self._drive, turn)

    async def _drive(self, turn: _Turn) -> None:
        try:
            opened: _Turn | None = turn
            while opened is not None:
                goes_on = await self._run_turn(opened)
                if not goes_on:
                    return
                self._signal, self._wake_latched = AbortSignal(), False
                opened = self._open_turn()
        finally:
            self._converge()

    def _open_turn(self) -> _Turn | None:
        """Open a turn and claim its input; None when it was cancelled already or the log refuses it."""
        if self._signal.aborted:
            return None
        try:
            self.log.append(TurnStart(turn=self._last_turn + 1))
        except Exception as error:  # noqa: BLE001 - the border to plugins: the driver outlives any turn
            self._report(error)
            return None
        self._last_turn += 1
        self._turn = turn = _Turn(self._last_turn, self._signal, ())
        turn.claimed = self.inbox.claim("next-turn")
        return turn

    def _converge(self) -> None:
        """Become idle, then start again if a wake was latched meanwhile."""
        self._turn = None
        idle, self._idle = self._idle, anyio.Event()
        self._set_status("idle")
        if self._wake_latched and self.inbox.pending and not self._disposed and self._status == "idle":
            self._start()
        idle.set()

    def _set_status(self, status: Status) -> None:
        self._status = status
        self.hooks.status(status)

    def _report(self, error: BaseException) -> None:
        self.hooks.error(AgentFailed(turn=self._last_turn, step=self.step, error=error))

    # -- one turn --------------------------------------------------------------------------------------------

    async def _run_turn(self, turn: _Turn) -> bool:
        """Run a turn to its end; True if the driver should open another one."""
        reason: TurnEndReason
        try:
            reason, goes_on = await self._steps(turn)
        except Exception as error:
            goes_on = False
            if turn.signal.cause is not None:
                reason = EndedByAbort(reason=turn.signal.cause)
            else:
                if not isinstance(error, LlmError):
                    log.warning("turn %d failed", turn.number, exc_info=True)
                reason = EndedByError(error=failure_of(error))
                self._report(error)
        try:
            self._give_back(turn)
            self.log.append(TurnEnd(turn=turn.number, reason=reason))
        except Exception as error:  # noqa: BLE001 - the border to plugins
            self._report(error)
            return False
        return goes_on and self.inbox.pending

    async def _steps(self, turn: _Turn) -> tuple[TurnEndReason, bool]:
        """Step until nobody owes an answer; the reason to end, and whether waiting input may go on."""
        ends: Ended | None = None
        while True:
            turn.signal.check()
            assembly, decision = await self._pre_step(turn)
            if isinstance(decision, Reject):
                turn.claimed = ()
                return Ended(kind="blocked"), False
            if not decision.messages:
                turn.claimed = ()
                if ends is not None:
                    return ends, True
                if turn.step == 0:
                    return Ended(kind="completed"), False
            end = await self._step(turn, assembly, decision.messages)
            if ends is None or ends.kind != "max-tokens":
                ends = end
            turn.signal.check()
            if ends is not None and not self.inbox.next_step:
                await self.hooks.turn_stopping(TurnStopping(turn=turn.number, signal=turn.signal))
                turn.signal.check()
                if not self.inbox.next_step:
                    return ends, True
            turn.claimed = self.inbox.claim("next-step")

    async def _pre_step(self, turn: _Turn) -> tuple[Assembly, Enter | Reject]:
        assembly = self._parts.prompt.assemble(self._parts.tools.specs())
        assembly = await self.hooks.assemble(assembly, _unchanged)
        turn.signal.check()
        proposal = PreStep(
            messages=tuple(claim.message for claim in turn.claimed),
            turn=turn.number,
            step=turn.step + 1,
            signal=turn.signal,
        )

        async def enter(payload: PreStep) -> Enter | Reject:
            return Enter(messages=payload.messages)

        decision = await self.hooks.pre_step(proposal, enter)
        turn.signal.check()
        return assembly, decision

    def _give_back(self, turn: _Turn) -> None:
        """Undo claims that never became history: accepted input does not vanish."""
        claimed, turn.claimed = turn.claimed, ()
        self.inbox.restore(claimed)
        if not self._keep_inbox:
            for claim in claimed:
                self.inbox.remove(claim.message.id)

    # -- one step --------------------------------------------------------------------------------------------

    async def _step(self, turn: _Turn, assembly: Assembly, messages: tuple[UserMessage, ...]) -> Ended | None:
        """Ask the model once and run its tools; None when it is owed their results."""
        self.log.append(StepStart(turn=turn.number, step=turn.step + 1))
        turn.step += 1
        answer: Answer | None = None
        tools = self._step_tools(turn)
        try:
            answer = await self._ask(turn, assembly, messages)
            if answer.truncated:
                return Ended(kind="max-tokens")
            if not answer.message.tool_calls:
                return Ended(kind="completed")
            concluded = await run_calls(tools, answer.message.tool_calls)
            return Ended(kind="completed") if concluded else None
        finally:
            if answer is not None:
                answer_unanswered(tools, answer.seq)
            self.log.append(StepEnd(turn=turn.number, step=turn.step))

    def _step_tools(self, turn: _Turn) -> StepTools:
        return StepTools(
            log=self.log,
            pipeline=self._pipeline,
            turn=turn.number,
            step=turn.step,
            signal=turn.signal,
            max_parallel=self._parts.options.max_parallel_tool_calls,
            barrier=self._parts.barrier,
            new_id=self._parts.new_id,
            on_context=lambda message: self.inbox.insert("next-step", message),
        )

    async def _ask(self, turn: _Turn, assembly: Assembly, messages: tuple[UserMessage, ...]) -> Answer:
        """Call the model until it answers.

        Raises:
            LlmError: it failed, and no listener of `agent/request-error` wants to try again.
        """
        number = 0
        while True:
            number += 1
            prepared = await self._prepare(turn)
            if number == 1:
                self._commit(turn, messages)
            header = self._ledger.record(prepared, assembly)
            await self._parts.barrier()
            turn.signal.check()
            request = ModelRequest(
                config=header.config,
                messages=self.log.derive_messages(),
                system=header.system,
                tools=header.tools,
                session_id=self.log.header.id,
                signal=turn.signal,
            )
            attempt = Attempt(
                log=self.log,
                hooks=self.hooks,
                turn=turn.number,
                step=turn.step,
                number=number,
                new_id=self._parts.new_id,
            )
            result = await attempt.run(request, prepared.stream)
            if isinstance(result, Answer):
                return result
            failed = RequestFailed(
                turn=turn.number,
                step=turn.step,
                attempt=number,
                provider=header.config.provider,
                failure=result,
                signal=turn.signal,
            )
            answer = await self.hooks.request_error(failed, _no_recovery)
            turn.signal.check()
            if not isinstance(answer, Retry):
                raise LlmError(result)

    async def _prepare(self, turn: _Turn) -> PreparedCall:
        draft = RequestDraft(config=self._ledger.seed(), turn=turn.number, step=turn.step, signal=turn.signal)

        async def configured(payload: RequestDraft) -> CallConfig:
            return payload.config

        config = await self.hooks.request(draft, configured)
        turn.signal.check()
        return self._parts.llm.prepare_call(config)

    def _commit(self, turn: _Turn, messages: tuple[UserMessage, ...]) -> None:
        """Make the step's messages history; from here on their claims stand."""
        for message in messages:
            self.log.append(message)
        turn.claimed = ()


async def _unchanged(assembly: Assembly) -> Assembly:
    return assembly


async def _no_recovery(_: RequestFailed) -> Retry | None:
    return None
