"""Shortening: how history becomes shorter: results lose their middle, a summary takes the place of the oldest part.

Rules: a summary goes into the log as one replacement between `compaction/start` and `compaction/end`; when anything
fails, the surface stays as it was. What a summarizer reads and writes fits its window, by the session's meter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from pydantic import Field

from dsh_lsp.abort import AbortSignal
from dsh_lsp.agent.driver import Agent, new_id
from dsh_lsp.errors import DshError, LlmFailure, UsageError, failure_of
from dsh_lsp.events import AssistantMessageLogged, LogEvent, ToolResult
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.llm.meter import price_of
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage
from dsh_lsp.plugin import Context
from dsh_lsp.plugins.retry import RetryWait, Spent, insist, spent_in_step
from dsh_lsp.plugins.summary import (
    ASK_TOKENS,
    MAX_TASK_CHARS,
    SOURCE,
    CompactionError,
    Summary,
    ask,
    clipped,
    framed,
    open_task,
)
from dsh_lsp.plugins.summary import summarize as ask_for_summary
from dsh_lsp.session.compaction import head_of, pruned, spans_of
from dsh_lsp.session.log import SessionLog
from dsh_lsp.session.surface import message_of
from dsh_lsp.settings import SettingsModel
from dsh_lsp.upkeep import CompactionEnd, CompactionPrune, CompactionStart, CompactionSummary

MIN_SUMMARY = 256
SUMMARY_SHARE = 0.25  # of the window: more than that no summary gets
UNKNOWN_WINDOW_SHARE = 0.6  # of what is there now: a summarizer whose window nobody knows gets no more than that


class Settings(SettingsModel):
    """When to make room, and how much; ratios are of the model's context window."""

    auto: bool = Field(
        default=True,
        description="Make room without being asked: under pressure, and when a model refuses the length.",
    )
    threshold: float = Field(
        default=0.8, gt=0, le=1, description="The part of the context window at which pressure begins."
    )
    retain: float = Field(
        default=0.16, ge=0, lt=1, description="The part of the context window that stays word for word."
    )
    passes: int = Field(default=2, ge=1, description="The most summaries in a row.")
    summary_tokens: int = Field(default=8_192, ge=256, description="The longest summary, in tokens.")
    prune_above_chars: int = Field(
        default=8_192, ge=0, description="Tool results longer than this lose their middle first."
    )
    prune_head_chars: int = Field(default=4_096, ge=0, description="What such a result keeps of its beginning.")
    prune_tail_chars: int = Field(default=1_024, ge=0, description="What such a result keeps of its end.")


class Shortener:
    """Makes the history of one session shorter."""

    def __init__(self, ctx: Context, settings: Settings) -> None:
        self._ctx = ctx
        self._settings = settings
        self._agent, self._log, self._llm = ctx.get(Agent), ctx.get(SessionLog), ctx.get(Llm)
        self._meter = self._agent.meter

    def prune(self, *, unseen: bool) -> None:
        """Cut the middle out of long results; of those that no model has seen yet only if `unseen`."""
        limits, nodes = self._settings, self._log.surface.nodes()
        answers = [index for index, node in enumerate(nodes) if isinstance(node.data, AssistantMessageLogged)]
        for node in nodes if unseen or not answers else nodes[: answers[-1]]:
            if not isinstance(node.data, ToolResult):
                continue
            short = pruned(
                node.data,
                above=limits.prune_above_chars,
                head=limits.prune_head_chars,
                tail=limits.prune_tail_chars,
            )
            if short is None:
                continue
            span = (node.seq, node.seq)
            price = self._meter.price(node)
            self._log.append(CompactionPrune(shadowed_seqs=(span,), shadowed_token_count=price))
            self._log.append(short, sources=(span,), replaces=span)

    async def summarize(
        self,
        signal: AbortSignal,
        *,
        turn: int | None,
        retain: int,
        window: int | None,
        least: int = 1,
        patient: bool = False,
    ) -> None:
        """Put a summary in the place of the oldest part; `window` is what the summarizer reads and writes in all.

        A `patient` one tries again as a failed step does.

        Raises:
            CompactionError: there is nothing to gain, or no summary came.
            Aborted: the signal fired.
        """
        meter, nodes, generation = self._meter, self._log.surface.nodes(), self._log.surface.generation
        before = meter.tokens
        output, most = self._shares(window)
        head = nodes[: head_of(nodes, meter.price, retain=retain, most=most)]
        if sum(map(meter.price, head)) < least:
            raise CompactionError("there is nothing to summarize yet", code="NOTHING_TO_COMPACT")
        compaction_id = new_id()
        self._log.append(CompactionStart(compaction_id=compaction_id, turn=turn))
        failure: LlmFailure | None = LlmFailure(message="broken off", code="CANCELLED")
        try:
            await self._agent.on_disk()
            asking = partial(self._ask, head, signal, most=most, output=output)
            summary = await (self._insist(asking, signal, turn) if patient else asking())
            shadowed = self._log.surface.nodes()[: len(head)]
            if shadowed != head or (turn is not None and self._log.surface.generation != generation):
                raise CompactionError("history changed meanwhile", code="CHANGED")
            self._commit(compaction_id, head, summary, max_task=(window or MAX_TASK_CHARS) // 2)
            failure = None
        except DshError as error:
            failure = failure_of(error)
            raise
        finally:
            self._log.append(
                CompactionEnd(
                    compaction_id=compaction_id,
                    turn=turn,
                    error=failure,
                    tokens_before=before,
                    tokens_after=meter.tokens,
                )
            )

    def _shares(self, window: int | None) -> tuple[int, int]:
        """How many tokens a summary may have, and those that it stands for.

        Raises:
            CompactionError: a window is too small for any.
        """
        most = self._settings.summary_tokens
        if window is None:
            return most, int(self._meter.tokens * UNKNOWN_WINDOW_SHARE)
        free = self._meter.room(window, output=0) - ASK_TOKENS
        output = min(most, max(MIN_SUMMARY, min(int(window * SUMMARY_SHARE), free // 2)))
        readable = self._meter.room(window, output=output) - ASK_TOKENS
        if readable <= 0:
            raise CompactionError("the system text and the tools leave no room for a summary", code="NO_ROOM")
        return output, readable

    async def _insist(
        self, asking: Callable[[], Awaitable[Summary]], signal: AbortSignal, turn: int | None
    ) -> Summary:
        try:
            wait = self._ctx.get(RetryWait)
        except UsageError:  # nobody tries anything again here
            return await asking()
        spent = spent_in_step(self._log) if turn is not None else Spent()
        return await insist(asking, wait=wait, spent=spent, signal=signal)

    async def _ask(self, head: tuple[LogEvent, ...], signal: AbortSignal, *, most: int, output: int) -> Summary:
        """Let the model summarize, with the header of the conversation, so that the provider's cache serves it."""
        prepared = self._llm.prepare_call(replace(self._agent.ledger.seed(), max_tokens=output))
        header = self._agent.ledger.header
        history = tuple(message for node in head if (message := message_of(node)) is not None)
        messages = (*clipped(history, most=most), ask())
        return await ask_for_summary(
            prepared,
            messages,
            prompt_tokens=self._meter.count(messages),
            system=header.system if header is not None else None,
            tools=header.tools if header is not None else (),
            session_id=self._log.header.id,
            signal=signal,
        )

    def _commit(self, compaction_id: str, head: tuple[LogEvent, ...], summary: Summary, *, max_task: int) -> None:
        price = sum(map(self._meter.price, head))
        kept = {node.seq for node in self._log.surface.nodes()[len(head) :]}
        text = framed(summary.text, open_task(self._log, still_there=kept, max_chars=max_task))
        message = UserMessage(
            id=new_id(),
            content=(TextBlock(text=text),),
            source=PluginSource(plugin=SOURCE, form="recall", summary="The conversation so far was summarized."),
        )
        if price_of(message) >= price:
            raise CompactionError("the summary is no shorter than what it stands for", code="NOT_SMALLER")
        spans = spans_of(node.seq for node in head)
        self._log.append(
            CompactionSummary(
                compaction_id=compaction_id,
                summary=summary.text,
                shadowed_seqs=spans,
                shadowed_token_count=price,
                provider=summary.provider,
                model=summary.model,
                usage=summary.usage,
            )
        )
        self._log.append(message, sources=spans, replaces=(head[0].seq, head[-1].seq))
