"""Scheduler: runs the calls of one step, overlapping those that may; results come in the model's order.

Rules: an exclusive call is a barrier; at most `max_parallel` bodies run at once; a call is classified just
before it starts; a body starts after its `tool/call` is on disk; no call is left without a result.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import DshError
from dsh_lsp.events import AssistantMessageLogged, ToolCall, ToolFailure, ToolResult
from dsh_lsp.messages import TextBlock, ToolCallBlock, ToolResultBlock, ToolSource, UserMessage
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.arguments import read_arguments, validate
from dsh_lsp.tools.outcome import ABORTED_BEFORE_DISPATCH, Outcome, failed
from dsh_lsp.tools.pipeline import ToolPipeline
from dsh_lsp.tools.tool import Execution, Mode

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Slot:
    """One started call."""

    block: ToolCallBlock
    execution: Execution
    call_seq: int
    outcome: Outcome | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTools:
    """What the scheduler needs of one step; `barrier` returns when the log is on disk."""

    log: SessionLog
    pipeline: ToolPipeline
    turn: int
    step: int
    signal: AbortSignal
    max_parallel: int
    barrier: Callable[[], Awaitable[None]]
    new_id: Callable[[], str]
    on_context: Callable[[UserMessage], None]
    tasks: TaskGroup  # outlives the step, so that a body that ignores its cancel can be left behind
    running: dict[str, str] = field(default_factory=dict)  # the names of the tools whose bodies run, by call


async def run_calls(step: StepTools, calls: Sequence[ToolCallBlock]) -> bool:
    """Run all calls of a step; True if one of them concluded the turn."""
    concluded = False
    remaining = list(calls)
    while remaining and not step.signal.aborted:
        group = remaining if _mode_of(step, remaining[0]) == "parallel" else remaining[:1]
        run = _Group(step)
        await run.run(group)
        concluded = concluded or run.concluded
        remaining = remaining[run.started :]
    for block in remaining:
        call_seq = _log_call(step, block)
        _commit(step, block, call_seq, ABORTED_BEFORE_DISPATCH)
    return concluded


def answer_unanswered(step: StepTools, message_seq: int) -> None:
    """Give every call of an assistant message that has no result an error result; a net under `run_calls`.

    A result that the log refuses keeps none of the others from coming, and does not hide the failure because of
    which this is called.
    """
    message = step.log[message_seq].data
    if not isinstance(message, AssistantMessageLogged):
        return
    later = step.log[message_seq:]
    calls = {event.data.call_id: event.seq for event in later if isinstance(event.data, ToolCall)}
    answered = {
        block.tool_call_id
        for event in later
        if isinstance(event.data, ToolResult)
        for block in event.data.message.content
        if isinstance(block, ToolResultBlock)
    }
    for block in message.message.tool_calls:
        if block.id in answered:
            continue
        outcome = OUTCOME_UNKNOWN if block.id in calls else NOT_STARTED
        try:
            _commit(step, block, calls.get(block.id), outcome)
        except Exception:
            log.exception("call %s stays without a result", block.id)


NOT_STARTED = Outcome(
    text="Error: the tool call was not started; it may be tried again",
    is_error=True,
    error=ToolFailure(name="ToolNotStartedError", code="TOOL_NOT_STARTED"),
)
OUTCOME_UNKNOWN = Outcome(
    text="Error: the tool call was started and its outcome is unknown; look before trying it again",
    is_error=True,
    error=ToolFailure(name="ToolOutcomeUnknownError", code="TOOL_OUTCOME_UNKNOWN"),
)


class _Group:
    """A run of calls that may overlap, or one that may not."""

    def __init__(self, step: StepTools) -> None:
        self._step = step
        self._slots: list[_Slot] = []
        self._committed = 0
        self._in_flight = 0
        self._settled = anyio.Event()
        self.concluded = False

    @property
    def started(self) -> int:
        """How many calls were started."""
        return len(self._slots)

    async def run(self, blocks: Sequence[ToolCallBlock]) -> None:
        """Start calls while they may overlap; return when all that started are committed.

        A failure of ours waits for the bodies that run, and is raised then. A forced cancel waits for none.
        """
        try:
            await self._run(blocks)
        except Exception:
            while self._in_flight:
                await self._next_settled()
            raise
        finally:
            for slot in self._slots:
                slot.scope.cancel()

    async def _run(self, blocks: Sequence[ToolCallBlock]) -> None:
        for block in blocks:
            while self._in_flight >= self._step.max_parallel:
                await self._next_settled()
                await self._commit_ready()
            if self._slots and (self._step.signal.aborted or _mode_of(self._step, block) != "parallel"):
                break
            await self._start(block)
            await self._commit_ready()
        while self._in_flight:
            await self._next_settled()
            await self._commit_ready()
        await self._commit_ready()

    async def _next_settled(self) -> None:
        await self._settled.wait()
        self._settled = anyio.Event()

    async def _start(self, block: ToolCallBlock) -> None:
        step = self._step
        pipeline = step.pipeline
        execution = Execution(
            call_id=block.id,
            name=block.name,
            arguments=read_arguments(block.arguments),
            turn=step.turn,
            step=step.step,
            signal=step.signal,
            on_progress=lambda text: pipeline.tell_progress(execution, text),
        )
        slot = _Slot(block, execution, _log_call(step, block))
        self._slots.append(slot)
        refusal = await pipeline.admit(execution)
        if refusal is None:
            try:
                await step.barrier()
            except DshError as error:
                refusal = failed(error)
        if refusal is not None:
            slot.outcome = refusal
            return
        self._in_flight += 1
        step.running[block.id] = block.name
        step.tasks.start_soon(self._run_body, slot)

    async def _run_body(self, slot: _Slot) -> None:
        """Run one body; when the step no longer waits for it, its result is dropped."""
        try:
            with slot.scope:
                slot.outcome = await self._step.pipeline.dispatch(slot.execution)
        finally:
            self._in_flight -= 1
            self._step.running.pop(slot.block.id, None)
            self._settled.set()

    async def _commit_ready(self) -> None:
        while self._committed < len(self._slots):
            slot = self._slots[self._committed]
            if slot.outcome is None:
                return
            outcome = await self._step.pipeline.settle(slot.execution, slot.outcome)
            _commit(self._step, slot.block, slot.call_seq, outcome)
            for message in outcome.contexts:
                self._step.on_context(message)
            self.concluded = self.concluded or outcome.concludes_turn
            self._committed += 1


def _mode_of(step: StepTools, block: ToolCallBlock) -> Mode:
    """Classify a call now; what cannot be classified runs alone."""
    tool = step.pipeline.registry.get(block.name)
    if tool is None:
        return "exclusive"
    try:
        mode = tool.mode_of(validate(tool, read_arguments(block.arguments)))
    except Exception:  # noqa: BLE001 - the border to tools: a classifier that fails classifies as exclusive
        return "exclusive"
    return "parallel" if mode == "parallel" else "exclusive"


def _log_call(step: StepTools, block: ToolCallBlock) -> int:
    call = ToolCall(turn=step.turn, step=step.step, call_id=block.id, name=block.name, arguments=block.arguments)
    return step.log.append(call).seq


def _commit(step: StepTools, block: ToolCallBlock, call_seq: int | None, outcome: Outcome) -> None:
    content = ToolResultBlock(
        tool_call_id=block.id, content=(TextBlock(text=outcome.text),), is_error=outcome.is_error
    )
    message = UserMessage(id=step.new_id(), content=(content,), source=ToolSource(call_id=block.id))
    step.log.append(
        ToolResult(turn=step.turn, step=step.step, message=message, error=outcome.error, meta=outcome.meta),
        sources=((call_seq, call_seq),) if call_seq is not None else None,
    )
