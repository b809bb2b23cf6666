"""Compaction: keeps a session within its model's context window by putting a summary in the place of its oldest part.

Before a step under pressure, after a call that was refused as too long, and when its user asks for it.

Rules: long tool results lose their middle first; the end of history stays word for word; a summary goes into the log
as one replacement between `compaction/start` and `compaction/end`; when anything fails, the surface stays as it was
and the turn goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from logging import INFO, WARNING
from typing import Any

from anyio.abc import TaskGroup
from pydantic import Field

from dsh_lsp.abort import Aborted, AbortSignal
from dsh_lsp.agent.driver import Agent, new_id
from dsh_lsp.agent.hooks import AgentHooks, Enter, PreStep, Reject, RequestFailed, Retry
from dsh_lsp.errors import DshError, LlmError, LlmFailure, SessionError, UsageError, failure_of
from dsh_lsp.events import AssistantMessageLogged, LogEvent, ToolResult
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.llm.meter import price_of
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage
from dsh_lsp.plugin import Context
from dsh_lsp.plugins.summary import SOURCE, CompactionError, Summary, framed, open_task, summarize
from dsh_lsp.session.compaction import head_of, pruned, spans_of
from dsh_lsp.session.log import SessionLog
from dsh_lsp.session.surface import message_of
from dsh_lsp.settings import SettingsModel
from dsh_lsp.upkeep import CompactionEnd, CompactionPrune, CompactionStart, CompactionSummary
from dsh_lsp.wire import Wire

name = SOURCE
inject = (AgentHooks, Agent, SessionLog, Llm, TaskGroup)

MIN_OUTPUT = 1_024
MIN_HEAD_SHARE = 0.05  # of the window: under pressure, less than that is not worth a summary, or another try
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Wire):
    """How a compaction that its user asked for ended; tokens are those of the next request."""

    ok: bool
    before: int
    after: int
    code: str | None = None
    message: str | None = None


class Compactor:
    """Makes room in one session."""

    def __init__(self, ctx: Context, settings: Settings) -> None:
        self._ctx = ctx
        self._settings = settings
        self._agent, self._log, self._llm = ctx.get(Agent), ctx.get(SessionLog), ctx.get(Llm)
        self._overflowed = False  # whether room was made for the call that now fails again
        self._lowered = False
        self._failed_at: int | None = None  # tokens at which no summary came: only more of them are worth a try
        self._warned: set[str] = set()

    # -- asked for ---------------------------------------------------------------------------------------------

    def start(self, report: Callable[[Outcome], object]) -> None:
        """Begin, between turns; input that comes meanwhile waits until it is over.

        Raises:
            SessionError: `BUSY`.
        """
        before = self._agent.meter.tokens

        async def job(signal: AbortSignal) -> None:
            retain = int(self._settings.retain * before)
            await self._summarize(signal, turn=None, retain=retain, window=self._window())
            await self._agent.on_disk()

        try:
            running = self._agent.run_maintenance(job)
        except UsageError as error:
            raise SessionError("the session is at work: cancel it or wait, then compact", code="BUSY") from error

        async def run() -> None:
            failure: LlmFailure | None = None
            try:
                await running
            except Aborted:
                failure = LlmFailure(message="cancelled", code="CANCELLED")
            except Exception as error:  # noqa: BLE001 - nobody waits for this task, and the server must outlive it
                failure = failure_of(error)
            report(
                Outcome(
                    ok=failure is None,
                    before=before,
                    after=self._agent.meter.tokens,
                    code=failure.code if failure is not None else None,
                    message=failure.message if failure is not None else None,
                )
            )

        self._ctx.get(TaskGroup).start_soon(run)

    # -- before a step -----------------------------------------------------------------------------------------

    async def before_step(
        self, payload: PreStep, call_next: Callable[[PreStep], Awaitable[Enter | Reject]]
    ) -> Enter | Reject:
        """Make room under pressure; a failure is logged, and the turn goes on."""
        generation = self._log.surface.generation
        if self._settings.auto:
            try:
                await self._relieve(payload)
            except (DshError, OSError) as error:
                self._failed_at = self._agent.meter.tokens
                nothing = isinstance(error, CompactionError) and error.code == "NOTHING_TO_COMPACT"
                self._ctx.log.log(INFO if nothing else WARNING, "no room could be made: %s", error)
        decision = await call_next(payload)
        if isinstance(decision, Enter) and self._log.surface.generation != generation:
            return replace(decision, starts_request_series=True)
        return decision

    async def _relieve(self, payload: PreStep) -> None:
        window = self._window()
        if window is None:
            return
        arriving = sum(map(price_of, payload.messages))
        threshold = int(window * self._settings.threshold)

        def is_pressed() -> bool:
            return self._agent.meter.tokens + arriving >= threshold

        if not is_pressed():
            self._failed_at = None
            return
        self._prune(unseen=False)
        if self._failed_at is not None and self._agent.meter.tokens < self._failed_at + window * MIN_HEAD_SHARE:
            return
        for _ in range(self._settings.passes):
            if not is_pressed():
                return
            retain = int(window * self._settings.retain)
            least = int(window * MIN_HEAD_SHARE)
            await self._summarize(payload.signal, turn=payload.turn, retain=retain, window=window, least=least)
        if is_pressed():
            raise CompactionError("it is still more than may be kept", code="STILL_FULL")

    # -- after a refusal ---------------------------------------------------------------------------------------

    async def on_failure(
        self, failed: RequestFailed, call_next: Callable[[RequestFailed], Awaitable[Retry | None]]
    ) -> Retry | None:
        """Make room for a call that was refused as too long, once; then the refusal is the turn's error."""
        failure = failed.failure
        if failure.code != "CONTEXT_WINDOW_EXCEEDED" or not self._settings.auto:
            return await call_next(failed)
        limit = failure.context_window
        if limit is not None and not self._lowered and self._agent.meter.tokens + MIN_OUTPUT < limit * 0.98:
            self._lowered = True  # the prompt fits: its adapter asks for less output now
            return Retry()
        tried, made_room = self._overflowed, False
        if not tried:
            self._overflowed = True
            made_room = await self._make_room(failed, limit)
        if made_room:
            return Retry()
        answer = await call_next(failed)
        if answer is None:
            raise LlmError(replace(failure, message=f"{failure.message}; {_advice(tried=tried)}"))
        return answer

    async def _make_room(self, failed: RequestFailed, limit: int | None) -> bool:
        """Whether the surface has become smaller, even if only in part."""
        generation = self._log.surface.generation
        window = limit or self._window()
        try:
            self._prune(unseen=True)
            await self._summarize(failed.signal, turn=failed.turn, retain=0, window=window)
        except (DshError, OSError) as error:
            self._ctx.log.warning("no room could be made: %s", error)
        return self._log.surface.generation != generation

    def note(self, event: LogEvent) -> None:
        """An answer came: the next refusal is a new one."""
        if isinstance(event.data, AssistantMessageLogged):
            self.forget()

    def forget(self) -> None:
        """Nothing was tried yet."""
        self._overflowed = self._lowered = False

    # -- the work ----------------------------------------------------------------------------------------------

    def _window(self) -> int | None:
        """The context window of the next request's model."""
        config = self._agent.ledger.seed()
        try:
            window = self._llm.prepare_call(config).context_window
        except DshError:
            return None
        if window is None and config.model not in self._warned:
            self._warned.add(config.model)
            self._ctx.log.warning(
                "nobody said how much %s can read: set model.contextWindow, so that history is kept within it",
                config.model,
            )
        return window

    def _prune(self, *, unseen: bool) -> None:
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
            price = self._agent.meter.price(node)
            self._log.append(CompactionPrune(shadowed_seqs=(span,), shadowed_token_count=price))
            self._log.append(short, sources=(span,), replaces=span)

    async def _summarize(
        self, signal: AbortSignal, *, turn: int | None, retain: int, window: int | None, least: int = 1
    ) -> None:
        """Put a summary in the place of the oldest part.

        Raises:
            CompactionError: there is nothing to gain, or no summary came.
            Aborted: the signal fired.
        """
        meter, nodes, generation = self._agent.meter, self._log.surface.nodes(), self._log.surface.generation
        before = meter.tokens
        room = window - meter.envelope - self._settings.summary_tokens if window is not None else None
        most = max(room, before // 4) if room is not None else int(before * UNKNOWN_WINDOW_SHARE)
        head = nodes[: head_of(nodes, meter.price, retain=retain, most=most)]
        if sum(map(meter.price, head)) < least:
            raise CompactionError("there is nothing to summarize yet", code="NOTHING_TO_COMPACT")
        compaction_id = new_id()
        self._log.append(CompactionStart(compaction_id=compaction_id, turn=turn))
        failure: LlmFailure | None = LlmFailure(message="broken off", code="CANCELLED")
        try:
            await self._agent.on_disk()
            summary = await self._ask(head, signal)
            shadowed = self._log.surface.nodes()[: len(head)]
            if shadowed != head or (turn is not None and self._log.surface.generation != generation):
                raise CompactionError("history changed meanwhile", code="CHANGED")
            self._commit(compaction_id, head, summary)
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

    async def _ask(self, head: tuple[LogEvent, ...], signal: AbortSignal) -> Summary:
        """Let the model summarize, with the header of the conversation, so that the provider's cache serves it."""
        config = replace(self._agent.ledger.seed(), max_tokens=self._settings.summary_tokens)
        prepared = self._llm.prepare_call(config)
        header = self._agent.ledger.header
        return await summarize(
            prepared,
            tuple(message for node in head if (message := message_of(node)) is not None),
            system=header.system if header is not None else None,
            tools=header.tools if header is not None else (),
            session_id=self._log.header.id,
            signal=signal,
        )

    def _commit(self, compaction_id: str, head: tuple[LogEvent, ...], summary: Summary) -> None:
        price = sum(map(self._agent.meter.price, head))
        kept = {node.seq for node in self._log.surface.nodes()[len(head) :]}
        text = framed(summary.text, open_task(self._log, still_there=kept))
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


def _advice(*, tried: bool) -> str:
    what = "making room did not help" if tried else "there is nothing left to make room with"
    return f"{what}: begin a new session, or choose a model that reads more"


def open_compactions(log: SessionLog) -> list[CompactionEnd]:
    """The ends of compactions whose process died."""
    waiting: dict[str, CompactionStart] = {}
    for event in log.facts():
        match event.data:
            case CompactionStart(compaction_id=started) as start:
                waiting[started] = start
            case CompactionEnd(compaction_id=ended):
                waiting.pop(ended, None)
            case _:
                pass
    failure = LlmFailure(message="the session stopped meanwhile", code="INTERRUPTED")
    return [CompactionEnd(compaction_id=key, turn=start.turn, error=failure) for key, start in waiting.items()]


def apply(ctx: Context, settings: Any) -> None:
    """Close what a crash left open, then watch."""
    hooks, log = ctx.get(AgentHooks), ctx.get(SessionLog)
    for left_open in open_compactions(log):
        log.append(left_open)
    compactor = Compactor(ctx, settings if isinstance(settings, Settings) else Settings())
    ctx.provide(Compactor, compactor)
    ctx.listen(hooks.pre_step, compactor.before_step)
    ctx.listen(hooks.request_error, compactor.on_failure)
    ctx.listen(log.appended, compactor.note)
    ctx.listen(hooks.status, lambda _: compactor.forget())
