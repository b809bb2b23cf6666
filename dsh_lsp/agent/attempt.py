"""Attempt: one model call from its first chunk to its message.

Rules: each chunk is logged before it is assembled; an attempt that gives no message leaves an
`assistant/attempt`; what a cancel cut short is kept as an interrupted message if a person could have read it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from dsh_lsp.agent.hooks import AgentHooks, StreamFrame
from dsh_lsp.errors import LlmFailure
from dsh_lsp.events import (
    AssistantAttempt,
    AssistantChunk,
    AssistantMessageLogged,
    SeqRange,
)
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.assemble import BlockAssembler
from dsh_lsp.messages import (
    AssistantBlock,
    AssistantMessage,
    Chunk,
    Finish,
    ModelSource,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from dsh_lsp.session.log import SessionLog
from dsh_lsp.wire import JsonObject

Stream = Callable[[ModelRequest], AsyncIterator[Chunk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The model's message, logged at `seq`; `truncated` when it ran into its token limit."""

    seq: int
    message: AssistantMessage
    truncated: bool


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One try at a step's model call."""

    log: SessionLog
    hooks: AgentHooks
    turn: int
    step: int
    number: int
    new_id: Callable[[], str]

    async def run(self, request: ModelRequest, stream: Stream) -> Answer | LlmFailure:
        """Stream the answer; the message, or the failure that the provider told.

        Raises:
            Aborted: the turn was cancelled; what had arrived is kept.
        """
        assembler = BlockAssembler()
        seqs: list[SeqRange] = []
        settled = False
        try:
            with request.signal.guard():
                chunks = await self.hooks.llm_stream(request, _call(stream))
                async with aclosing(chunks) as source:  # type: ignore[type-var]
                    async for chunk in source:
                        request.signal.check()
                        self._take(chunk, assembler, seqs)
            finish = assembler.finish or Finish(reason="stop")
            if finish.failure is not None:
                settled = True
                self._record_failure(seqs, finish.failure)
                return finish.failure
            settled = True
            return self._record_message(request, assembler.blocks(), assembler, seqs)
        finally:
            if not settled:
                blocks = assembler.interrupted_blocks() if request.signal.aborted else ()
                if blocks:
                    self._record_message(request, blocks, assembler, seqs, interrupted=True)
                else:
                    self._record_failure(seqs, None)

    def _take(self, chunk: Chunk, assembler: BlockAssembler, seqs: list[SeqRange]) -> None:
        seq = self.log.append(AssistantChunk(turn=self.turn, step=self.step, chunk=chunk)).seq
        if seqs and seqs[-1][1] == seq - 1:
            seqs[-1] = (seqs[-1][0], seq)
        else:
            seqs.append((seq, seq))
        assembler.push(chunk)
        match chunk:
            case TextDelta(index=block, text=text):
                kind = "text"
            case ReasoningDelta(index=block, text=text):
                kind = "thinking"
            case ToolCallDelta(index=block, arguments_delta=text):
                kind = "toolArguments"
            case _:
                return
        if text:
            self.hooks.stream(
                StreamFrame(
                    turn=self.turn,
                    step=self.step,
                    attempt=self.number,
                    block=block,
                    kind=kind,  # type: ignore[arg-type]
                    text=text,
                )
            )

    def _record_message(
        self,
        request: ModelRequest,
        blocks: tuple[AssistantBlock, ...],
        assembler: BlockAssembler,
        seqs: list[SeqRange],
        *,
        interrupted: bool = False,
    ) -> Answer:
        finish = assembler.finish
        message = AssistantMessage(
            id=self.new_id(),
            content=blocks,
            source=ModelSource(
                provider=request.config.provider,
                model=request.config.model,
                replay_state=_replay_state(finish, blocks) if finish is not None and not interrupted else None,
            ),
        )
        event = self.log.append(
            AssistantMessageLogged(
                turn=self.turn,
                step=self.step,
                message=message,
                usage=assembler.usage,
                interrupted=interrupted or None,
                refused=(finish is not None and finish.reason == "refusal") or None,
            ),
            sources=tuple(seqs),
        )
        truncated = finish is not None and finish.reason == "max-tokens"
        return Answer(seq=event.seq, message=message, truncated=truncated)

    def _record_failure(self, seqs: list[SeqRange], failure: LlmFailure | None) -> None:
        self.log.append(
            AssistantAttempt(
                turn=self.turn,
                step=self.step,
                attempt=self.number,
                chunks=(seqs[0][0], seqs[-1][1]) if seqs else None,
                failure=failure,
            )
        )


def _replay_state(finish: Finish, blocks: tuple[AssistantBlock, ...]) -> JsonObject | None:
    """What the adapter wants to see again; nothing if it describes other blocks than those that were kept."""
    described = (finish.replay_state or {}).get("blocks")
    return None if isinstance(described, list) and len(described) != len(blocks) else finish.replay_state


def _call(stream: Stream) -> Callable[[ModelRequest], Awaitable[AsyncIterator[Chunk]]]:
    async def call(request: ModelRequest) -> AsyncIterator[Chunk]:
        return stream(request)

    return call
