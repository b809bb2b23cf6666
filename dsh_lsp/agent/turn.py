"""Turn: one turn from its claimed input to the reason for its end, step by step.

Rules: a step's messages are committed only after its request is prepared; from then on their claims stand; each
step asks the model once, however many attempts that takes, and answers every tool call before it ends.
Knows nothing of: what started the turn and what comes after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from anyio.abc import TaskGroup

from dsh_lsp.abort import AbortSignal
from dsh_lsp.agent.attempt import Answer, Attempt
from dsh_lsp.agent.hooks import (
    AgentHooks,
    Enter,
    PreStep,
    Reject,
    RequestDraft,
    RequestFailed,
    Retry,
    TurnStopping,
)
from dsh_lsp.agent.inbox import Claimed, Inbox
from dsh_lsp.agent.prompt import Assembly, SystemPrompt
from dsh_lsp.agent.request import AgentOptions, HeaderLedger
from dsh_lsp.agent.snapshot import RuntimeContext
from dsh_lsp.errors import ConfigError, LlmError
from dsh_lsp.events import Ended, StepEnd, StepStart
from dsh_lsp.llm.adapter import Llm, ModelRequest, PreparedCall
from dsh_lsp.llm.meter import TokenMeter
from dsh_lsp.messages import CallConfig, Chunk, Finish, UserMessage
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.pipeline import ToolPipeline
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.scheduler import StepTools, answer_unanswered, run_calls


@dataclass(slots=True, kw_only=True)
class TurnParts:
    """What a turn works with; the same for all turns of an agent."""

    log: SessionLog
    llm: Llm
    tools: ToolRegistry
    prompt: SystemPrompt
    context: RuntimeContext
    options: AgentOptions
    ledger: HeaderLedger
    meter: TokenMeter
    inbox: Inbox
    hooks: AgentHooks
    pipeline: ToolPipeline
    tasks: TaskGroup
    barrier: Callable[[], Awaitable[None]]
    new_id: Callable[[], str]


@dataclass(slots=True, kw_only=True)
class Turn:
    """One open turn.

    `claimed` is input on its way into the next step and not yet in history; `owes` says that the first step runs
    even without messages, to give the answer that a failed or cancelled turn still owes.
    """

    parts: TurnParts
    number: int
    signal: AbortSignal
    claimed: tuple[Claimed, ...] = ()
    owes: bool = False
    step: int = 0
    running: dict[str, str] = field(default_factory=dict)

    async def run(self) -> tuple[Ended, bool]:
        """Step until nobody owes an answer; the reason to end, and whether waiting input may go on.

        Raises:
            Aborted: the turn was cancelled.
            Exception: whatever a plugin, an adapter or a bug raised; the turn ends as failed.
        """
        ends: Ended | None = None
        while True:
            self.signal.check()
            assembly, decision = await self._pre_step()
            if isinstance(decision, Reject):
                self.claimed = ()
                return Ended(kind="blocked"), False
            if not decision.messages:
                self.claimed = ()
                if ends is not None:
                    return ends, True
                if self.step == 0 and not self.owes:
                    return Ended(kind="completed"), False
            end = await self._step(assembly, decision)
            if ends is None or ends.kind != "max-tokens":
                ends = end
            self.signal.check()
            if ends is not None and not self.parts.inbox.next_step:
                await self.parts.hooks.turn_stopping(TurnStopping(turn=self.number, signal=self.signal))
                self.signal.check()
                if not self.parts.inbox.next_step:
                    return ends, True
            self.claimed = self.parts.inbox.claim("next-step")

    async def _pre_step(self) -> tuple[Assembly, Enter | Reject]:
        """Assemble the prompt, and let the listeners judge what was claimed."""
        parts = self.parts
        assembly = parts.prompt.assemble(parts.tools.specs(), order=parts.options.tool_order)
        assembly = await parts.hooks.assemble(assembly, _unchanged)
        self.signal.check()
        proposal = PreStep(
            messages=tuple(claim.message for claim in self.claimed),
            turn=self.number,
            step=self.step + 1,
            signal=self.signal,
        )

        async def enter(payload: PreStep) -> Enter | Reject:
            # A continuation that nobody has a word for stays without one: the snapshot opens no step of its own.
            goes_on = bool(payload.messages) or self.owes or self.step > 0
            # Asked for here, since a listener may have taken away what the model was told before.
            snapshot = parts.context.project()
            return Enter(messages=(*payload.messages, snapshot) if snapshot and goes_on else payload.messages)

        decision = await parts.hooks.pre_step(proposal, enter)
        self.signal.check()
        return assembly, decision

    # -- one step --------------------------------------------------------------------------------------------

    async def _step(self, assembly: Assembly, entered: Enter) -> Ended | None:
        """Ask the model once and run its tools; None when it is owed their results."""
        log = self.parts.log
        log.append(StepStart(turn=self.number, step=self.step + 1))
        self.step += 1
        answer: Answer | None = None
        tools = self._tools()
        try:
            answer = await self._ask(assembly, entered)
            if answer.truncated:
                return Ended(kind="max-tokens")
            if not answer.message.tool_calls:
                return Ended(kind="completed")
            concluded = await run_calls(tools, answer.message.tool_calls)
            return Ended(kind="completed") if concluded else None
        finally:
            try:
                if answer is not None:
                    answer_unanswered(tools, answer.seq)
            finally:
                log.append(StepEnd(turn=self.number, step=self.step))

    def _tools(self) -> StepTools:
        parts = self.parts
        return StepTools(
            log=parts.log,
            pipeline=parts.pipeline,
            turn=self.number,
            step=self.step,
            signal=self.signal,
            max_parallel=parts.options.max_parallel_tool_calls,
            barrier=parts.barrier,
            new_id=parts.new_id,
            on_context=lambda message: parts.inbox.insert("next-step", message),
            tasks=parts.tasks,
            running=self.running,
        )

    async def _ask(self, assembly: Assembly, entered: Enter) -> Answer:
        """Call the model until it answers.

        Raises:
            LlmError: it failed, and no listener of `agent/request-error` wants to try again.
        """
        parts, number = self.parts, 0
        self.signal.check()
        while True:
            number += 1
            prepared = await self._prepare()
            if number == 1:
                self._commit(entered.messages)
            starts_series = entered.starts_request_series and number == 1
            header = parts.ledger.record(prepared, assembly, starts_series=starts_series)
            await parts.barrier()
            self.signal.check()
            request = ModelRequest(
                config=header.config,
                messages=parts.log.derive_messages(),
                system=header.system,
                tools=header.tools,
                session_id=parts.log.header.id,
                signal=self.signal,
                prompt_tokens=parts.meter.tokens,
            )
            attempt = Attempt(
                log=parts.log,
                hooks=parts.hooks,
                turn=self.number,
                step=self.step,
                number=number,
                new_id=parts.new_id,
            )
            result = await attempt.run(request, prepared.stream)
            if isinstance(result, Answer):
                return result
            failed = RequestFailed(
                turn=self.number,
                step=self.step,
                attempt=number,
                provider=header.config.provider,
                failure=result,
                signal=self.signal,
                key_changed=prepared.key_changed(),
            )
            answer = await parts.hooks.request_error(failed, _no_recovery)
            self.signal.check()
            if not isinstance(answer, Retry):
                raise LlmError(result)

    async def _prepare(self) -> PreparedCall:
        """Configure the call and bind it to its adapter."""
        draft = RequestDraft(config=self.parts.ledger.seed(), turn=self.number, step=self.step, signal=self.signal)
        config = await self.parts.hooks.request(draft, _configured)
        self.signal.check()
        if not config.provider or not config.model:
            raise ConfigError(
                "no model to ask: set model.provider and model.name, or return both from agent/request",
                code="NO_MODEL",
            )
        if self.parts.llm.pending(config.provider):
            with self.signal.guard():
                await self.parts.llm.warm(config.provider)
        try:
            return self.parts.llm.prepare_call(config)
        except LlmError as error:
            if error.code != "NO_ADAPTER":
                raise
            # A listener of `llm/stream` may serve a route that no adapter knows; else this is the answer.
            return PreparedCall(config=config, stream=_failing(error))

    def _commit(self, messages: tuple[UserMessage, ...]) -> None:
        """Make the step's messages history; from here on their claims stand."""
        for message in messages:
            self.parts.log.append(message)
        self.claimed = ()


def _failing(error: LlmError) -> Callable[[ModelRequest], AsyncIterator[Chunk]]:
    async def stream(_: ModelRequest) -> AsyncIterator[Chunk]:
        yield Finish(reason="error", failure=error.failure)

    return stream


async def _unchanged(assembly: Assembly) -> Assembly:
    return assembly


async def _configured(draft: RequestDraft) -> CallConfig:
    return draft.config


async def _no_recovery(_: RequestFailed) -> Retry | None:
    return None
