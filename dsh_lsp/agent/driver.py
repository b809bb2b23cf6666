"""Driver: wakes, runs turns one after the other, stops, and comes to rest; the one writer of a session's state.

An agent is idle, running, or in maintenance. Input wakes it; a wake that cannot act now is latched and replayed.

Rules: `followup()` returns with `turn/start` and the claim in the log; one driver runs at a time; one signal a
turn; whatever raises ends the turn, never the driver; a claimed message that was not committed goes back; a second
cancel, or 10 s after the first, no longer waits for anybody.
Knows nothing of: editors, files, HTTP.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.abort import AbortSignal, Cause, no_stray_cancel
from dsh_lsp.agent.hooks import AgentFailed, AgentHooks, Status
from dsh_lsp.agent.inbox import Inbox
from dsh_lsp.agent.prompt import SystemPrompt
from dsh_lsp.agent.request import AgentOptions, HeaderLedger
from dsh_lsp.agent.snapshot import RuntimeContext
from dsh_lsp.agent.turn import Turn, TurnParts
from dsh_lsp.errors import LlmError, UsageError, failure_of
from dsh_lsp.events import (
    AssistantMessageLogged,
    EndedByAbort,
    EndedByError,
    InboxTarget,
    StepEnd,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.llm.meter import TokenMeter
from dsh_lsp.messages import TextBlock, UserMessage, UserSource
from dsh_lsp.secrets import Keys
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.approvals import Approvals
from dsh_lsp.tools.pipeline import ToolPipeline
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.wire import Wire

log = logging.getLogger(__name__)

T = TypeVar("T")

Phase = Literal["idle", "running", "maintenance"]

FORCE_S = 10.0  # how long a cancelled turn may take to end by itself


def new_id() -> str:
    """A fresh id for a message, a session or a proposal."""
    return uuid.uuid4().hex


async def _no_barrier() -> None:
    """The barrier of a session that lives in memory."""


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
    keys: Keys = field(default_factory=Keys)
    new_id: Callable[[], str] = new_id
    force_s: float = FORCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Wire):
    """What a cancel met: whether a turn was running, and the tool that it waits for."""

    was_running: bool
    waiting_for_tool: str | None = None


class Agent:
    """A driver over exactly one session."""

    def __init__(self, parts: AgentParts) -> None:
        self.log = parts.log
        self.hooks = parts.hooks
        self.inbox = Inbox(parts.log, changed=parts.hooks.inbox)
        self.context = RuntimeContext(parts.log, parts.new_id)
        self.approvals = Approvals(parts.log, parts.hooks.tools.approval, parts.new_id)
        self.meter = TokenMeter(parts.log)
        self.ledger = HeaderLedger(parts.log, parts.options)
        self._parts = TurnParts(
            log=parts.log,
            llm=parts.llm,
            tools=parts.tools,
            prompt=parts.prompt,
            context=self.context,
            options=parts.options,
            ledger=self.ledger,
            meter=self.meter,
            inbox=self.inbox,
            hooks=parts.hooks,
            pipeline=ToolPipeline(parts.tools, parts.hooks.tools, self.approvals, keys=parts.keys),
            tasks=parts.tasks,
            barrier=parts.barrier,
            new_id=parts.new_id,
        )
        self._force_s = parts.force_s
        self._phase: Phase = "idle"
        self._signal = AbortSignal()
        self._turn: Turn | None = None
        self._last_turn = parts.log.state.turn
        self._keep_inbox = True  # what the cancel of the running turn said of its claimed messages
        self._wake_latched = False
        self._disposed = False
        self._rested = anyio.Event()

    # -- what others see -------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """Whether a driver runs; maintenance is no business of screens."""
        return "running" if self._phase == "running" else "idle"

    @property
    def phase(self) -> Phase:
        """What the agent does."""
        return self._phase

    @property
    def turn(self) -> int:
        """The number of the open or the last turn; 0 before the first."""
        return self._last_turn

    @property
    def step(self) -> int:
        """The number of the open turn's current step; 0 when none has begun."""
        return self._turn.step if self._turn is not None else 0

    async def on_disk(self) -> None:
        """Wait until what was logged is on disk."""
        await self._parts.barrier()

    async def when_idle(self) -> None:
        """Wait until nothing runs, replays and maintenance included; at once when nothing does."""
        while self._phase != "idle":
            await self._rested.wait()

    # -- input -----------------------------------------------------------------------------------------------

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

    def resume(self) -> bool:
        """Run input that waits since a turn ended badly; False when there is nothing to run or nothing may."""
        if not self.inbox.pending or self._disposed or self._phase == "running":
            return False
        self._wake(after_abort=False)
        return True

    def retry(self) -> None:
        """Run again what a failed or cancelled turn still owes, with whatever waits.

        Raises:
            UsageError: `NOTHING_OWED`; history ends with a whole answer, or something runs.
        """
        if self._phase != "idle" or self._disposed or not self._owes():
            raise UsageError("no answer is owed: there is nothing to retry", code="NOTHING_OWED")
        self._start(owes=True)

    def cancel(self, cause: Cause, *, keep_inbox: bool = True) -> Cancelled:
        """Stop what runs; without `keep_inbox` drop all waiting input too.

        The first cause counts. A second cancel no longer waits for a hook or a tool.
        """
        if not keep_inbox:
            self.inbox.clear()
            self._wake_latched = False
            self._keep_inbox = False
        if self._phase == "idle":
            return Cancelled(was_running=False)
        if self._signal.aborted:
            self._signal.force()
        else:
            self._signal.abort(cause)
            self._parts.tasks.start_soon(self._force_later, self._signal)
        running = self._turn.running if self._turn is not None else {}
        return Cancelled(was_running=True, waiting_for_tool=next(iter(running.values()), None))

    async def dispose(self, *, grace_s: float | None = None) -> None:
        """Stop for good, keeping the inbox for the session's next life; after `grace_s` wait for nobody."""
        self._disposed = True
        self._wake_latched = False
        if self._phase != "idle" and not self._signal.aborted:
            self.cancel(Cause(kind="disposed"))
        with anyio.move_on_after(grace_s):
            await self.when_idle()
        if self._phase != "idle":
            self._signal.force()
            await self.when_idle()

    def run_maintenance(self, job: Callable[[AbortSignal], Awaitable[T]]) -> Awaitable[T]:
        """Run a job while no turn can run; input waits, and a wake is replayed afterwards.

        Raises:
            UsageError: `BUSY`, at once; something runs already, or the agent is disposed.
        """
        if self._phase != "idle" or self._disposed:
            raise UsageError("the session already has active work, or has ended", code="BUSY")
        self._begin("maintenance")
        return self._maintain(job)

    async def _maintain(self, job: Callable[[AbortSignal], Awaitable[T]]) -> T:
        try:
            with self._signal.last_resort():
                result = await job(self._signal)
        finally:
            self._rest()
        return result

    # -- waking ----------------------------------------------------------------------------------------------

    def _send(self, message: UserMessage, target: InboxTarget, *, wakes: bool, first: bool = False) -> None:
        after_abort = wakes and self._phase != "idle" and self._signal.aborted
        self.inbox.insert("next-turn" if after_abort else target, message, first=first)
        if wakes and not self._disposed:
            self._wake(after_abort=after_abort)

    def _wake(self, *, after_abort: bool) -> None:
        """Start, or latch the wake where a running driver would not see it."""
        if self._phase == "idle":
            self._start()
        elif self._phase == "maintenance" or after_abort:
            self._wake_latched = True

    def _owes(self) -> bool:
        """Whether history ends without a whole answer; without any history, whether input waits for one."""
        nodes = self.log.surface.nodes()
        if not nodes:
            return self.inbox.pending
        last = nodes[-1].data
        return not isinstance(last, AssistantMessageLogged) or bool(last.interrupted)

    def _begin(self, phase: Phase) -> None:
        self._signal, self._keep_inbox, self._wake_latched = AbortSignal(), True, False
        self._rested = anyio.Event()
        self._set_phase(phase)

    def _start(self, *, owes: bool = False) -> None:
        """Become running and open the first turn before returning."""
        self._begin("running")
        turn = self._open_turn(owes=owes)
        if turn is None:
            self._rest()
        else:
            self._parts.tasks.start_soon(self._drive, turn)

    def _rest(self) -> None:
        """Become idle, then start again if a wake was latched meanwhile; only then wake who waits for rest."""
        self._turn = None
        rested = self._rested
        latched, self._wake_latched = self._wake_latched, False
        self._set_phase("idle")
        if latched and self.inbox.pending and not self._disposed and self._phase == "idle":
            self._start()
        rested.set()

    def _set_phase(self, phase: Phase) -> None:
        """Commit the phase, then tell, if it shows."""
        before = self.status
        self._phase = phase
        if self.status != before:
            self.hooks.status(self.status)

    async def _force_later(self, signal: AbortSignal) -> None:
        """Force a cancelled turn that does not end by itself."""
        with anyio.move_on_after(self._force_s) as scope:
            while self._signal is signal and self._phase != "idle":
                await self._rested.wait()
        if scope.cancelled_caught and self._signal is signal and self._phase != "idle":
            log.warning("turn %d did not end %s s after its cancel: forcing it", self._last_turn, self._force_s)
            signal.force()

    # -- turns -----------------------------------------------------------------------------------------------

    async def _drive(self, turn: Turn) -> None:
        try:
            opened: Turn | None = turn
            while opened is not None and await self._run_turn(opened):
                self._signal, self._wake_latched = AbortSignal(), False
                opened = self._open_turn()
        finally:
            self._rest()

    def _open_turn(self, *, owes: bool = False) -> Turn | None:
        """Open a turn and claim its input; None when it was cancelled already or the log refuses it."""
        self._turn = None
        if self._signal.aborted:
            return None
        try:
            self.log.append(TurnStart(turn=self._last_turn + 1))
        except Exception as error:  # noqa: BLE001 - the border to plugins: the driver outlives any turn
            self._report(error)
            return None
        self._last_turn += 1
        self._turn = turn = Turn(parts=self._parts, number=self._last_turn, signal=self._signal, owes=owes)
        try:
            turn.claimed = self.inbox.claim("next-turn")
        except Exception as error:  # noqa: BLE001 - the border to plugins
            self._end_turn(turn, self._why(turn, error))
            return None
        return turn

    async def _run_turn(self, turn: Turn) -> bool:
        """Run a turn to its end; True if the driver should open another one."""
        reason: TurnEndReason
        try:
            with turn.signal.last_resort(), no_stray_cancel():
                reason, goes_on = await turn.run()
        except Exception as error:  # noqa: BLE001 - the border to plugins
            reason, goes_on = self._why(turn, error), False
        return self._end_turn(turn, reason) and goes_on and self.inbox.pending

    def _why(self, turn: Turn, error: Exception) -> TurnEndReason:
        """Why a turn that raised is over: whatever comes up after its cancel is the cancel."""
        if turn.signal.cause is not None:
            return EndedByAbort(reason=turn.signal.cause)
        if not isinstance(error, LlmError):
            log.warning("turn %d failed", turn.number, exc_info=error)
        self._report(error)
        return EndedByError(error=failure_of(error))

    def _end_turn(self, turn: Turn, reason: TurnEndReason) -> bool:
        """Close a turn; False if the log refused a part of that, which keeps none of the others from it."""
        acts: tuple[Callable[[], object], ...] = (
            lambda: self._give_back(turn),
            self._close_step,
            lambda: self.log.append(TurnEnd(turn=turn.number, reason=reason)),
        )
        closed = True
        for act in acts:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - the border to plugins
                self._report(error)
                closed = False
        return closed

    def _close_step(self) -> None:
        """Close a step whose own end was refused, or its turn could not end either."""
        state = self.log.state
        if state.step_open:
            self.log.append(StepEnd(turn=state.turn, step=state.step))

    def _give_back(self, turn: Turn) -> None:
        """Undo claims that never became history: accepted input does not vanish."""
        claimed, turn.claimed = turn.claimed, ()
        restored = self.inbox.restore(claimed)
        if not self._keep_inbox:
            for claim in restored:
                self.inbox.remove(claim.message.id)

    def _report(self, error: BaseException) -> None:
        self.hooks.error(AgentFailed(turn=self._last_turn, step=self.step, error=error))
