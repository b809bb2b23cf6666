"""Feed: what a session tells its editor: events, live frames, the status and work-done progress.

Rules: the editor's view is a function of the event stream; durable events are sent as logged, chunks never; live
frames are joined for a moment, keep their order with durable events, and are dropped first under pressure; a turn
is one work-done progress with exactly one end.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.agent.hooks import StreamFrame
from dsh_lsp.compose import Session
from dsh_lsp.decisions import ApprovalAsked, QuestionAsked, ReviewOpened
from dsh_lsp.events import (
    AssistantChunk,
    Ended,
    EndedByAbort,
    EndedByError,
    LogEvent,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    encode_event,
)
from dsh_lsp.lsp.client import StreamClient
from dsh_lsp.lsp.progress import TurnProgress, count_down
from dsh_lsp.lsp.protocol import STATUS
from dsh_lsp.messages import ToolResultBlock
from dsh_lsp.session.view_items import Usage
from dsh_lsp.tools.cards import call_card, result_card
from dsh_lsp.tools.tool import Card, Execution
from dsh_lsp.upkeep import CompactionEnd, CompactionStart, RetryPlanned, RetryStarted
from dsh_lsp.wire import JsonObject, encode

REPLAY_BATCH = 64
JOIN_S = 0.03  # live frames of a block are joined over this time


class Feed:
    """One session's output to one client; closing it stops the output."""

    def __init__(
        self,
        *,
        session: Session,
        client: StreamClient,
        tasks: TaskGroup,
        event_token: str | int | None,
        wants_status: bool,
        wants_progress: bool,
        waiting_for: Callable[[], str | None],
    ) -> None:
        self._session = session
        self._client = client
        self._tasks = tasks
        self._token = event_token
        self._wants_status = wants_status
        self._wants_progress = wants_progress
        self._waiting_for = waiting_for
        self._usage = Usage()
        self._calls: dict[str, ToolCall] = {}  # that have no result yet
        for event in session.log.facts():
            self._usage.note(event)
            _note_call(event, self._calls)
        self._replay = anyio.Lock()
        self._held: deque[tuple[JsonObject, bool]] | None = None  # what comes while older events are sent
        self._sent_status: JsonObject | None = None
        self._status_due = False
        self._frames: dict[tuple[Any, ...], list[str]] = {}
        self._frames_due: asyncio.TimerHandle | None = None
        self._progress: TurnProgress | None = None
        self._retry: RetryPlanned | None = None  # what is waited for
        self._compacting = False
        agent = session.agent
        self._disposers = [
            session.log.appended.listen(self._on_event),
            agent.hooks.stream.listen(self._on_frame),
            agent.hooks.tools.progress.listen(self._on_tool_progress),
            agent.hooks.status.listen(lambda _status: self.touch_status()),
        ]

    @property
    def progress_token(self) -> str | None:
        """The token of the running turn's work-done progress."""
        return self._progress.token if self._progress is not None else None

    # -- events ----------------------------------------------------------------------------------------------

    def _on_event(self, event: LogEvent) -> None:
        self._usage.note(event)
        if isinstance(event.data, AssistantChunk):
            return
        self._note_upkeep(event)
        self._flush_frames()
        card = self._card(event, _note_call(event, self._calls))
        if self._token is not None:
            self._send(_value_of(event, card))
        self._show_progress(event, card)
        self.touch_status()

    async def replay(self, *, after: int) -> int:
        """Send the events after a `seq` again, chunks left out; the `seq` of the last one there is.

        What the session says meanwhile is held until they are sent: a client sees every event in its order.
        """
        if self._token is None:
            return len(self._session.log) - 1
        async with self._replay:
            past, calls = tuple(self._session.log.facts()), dict[str, ToolCall]()
            self._flush_frames()
            held: deque[tuple[JsonObject, bool]] = deque()
            self._held = held
            try:
                for event in past:
                    called = _note_call(event, calls)
                    if event.seq <= after or isinstance(event.data, AssistantChunk):
                        continue
                    self._put(_value_of(event, self._card(event, called)))
                    if event.seq % REPLAY_BATCH == 0:
                        await self._client.drain()  # a long session must not become one heap in memory
                while held:
                    self._put(*held.popleft())
                    if len(held) % REPLAY_BATCH == 0:
                        await self._client.drain()
            finally:
                self._held = None
                for value, live in held:  # the request was cancelled
                    self._put(value, live=live)
            return len(self._session.log) - 1

    def _note_upkeep(self, event: LogEvent) -> None:
        match event.data:
            case CompactionStart():
                self._compacting = True
            case CompactionEnd():
                self._compacting = False
            case RetryPlanned() as planned:
                self._retry = planned
            case RetryStarted() | TurnEnd():
                self._retry = None
            case _:
                pass

    def _send(self, value: JsonObject, *, live: bool = False) -> None:
        if self._held is not None:
            self._held.append((value, live))
        elif self._token is not None:
            self._put(value, live)

    def _put(self, value: JsonObject, live: bool = False) -> None:
        params = {"token": self._token, "value": {"dsh": 1, "session": self._session.id, **value}}
        if live:
            self._client.notify_live("$/progress", params)
        else:
            self._client.notify("$/progress", params)

    def _card(self, event: LogEvent, call: ToolCall | None) -> Card | None:
        """The card of a tool's call or result, from the registry, so that clients hold no tool knowledge."""
        match event.data:
            case ToolCall() as begun:
                return call_card(self._session.tools, begun)
            case ToolResult(message=message) as result if call is not None:
                text = "".join(block.text for block in message.content if isinstance(block, ToolResultBlock))
                return result_card(self._session.tools, call, text, result.meta)
            case _:
                return None

    # -- live frames -----------------------------------------------------------------------------------------

    def _on_frame(self, frame: StreamFrame) -> None:
        key = (frame.turn, frame.step, frame.attempt, frame.block, frame.kind)
        self._frames.setdefault(key, []).append(frame.text)
        if self._frames_due is None:
            self._frames_due = asyncio.get_running_loop().call_later(JOIN_S, self._flush_frames)

    def _flush_frames(self) -> None:
        if self._frames_due is not None:
            self._frames_due.cancel()
            self._frames_due = None
        frames, self._frames = self._frames, {}
        for (turn, step, attempt, block, kind), texts in frames.items():
            data = {"turn": turn, "step": step, "attempt": attempt, "block": block, "kind": kind}
            self._send(
                {"time": _now(), "type": "assistant/stream", "data": {**data, "text": "".join(texts)}}, live=True
            )

    def tell(self, tag: str, data: JsonObject) -> None:
        """Send what is not logged and must arrive all the same: an answer that took its time."""
        self._flush_frames()
        self._send({"time": _now(), "type": tag, "data": data})
        self.touch_status()

    def _on_tool_progress(self, payload: tuple[Execution, str]) -> None:
        execution, text = payload
        data = {"callId": execution.call_id, "text": text}
        self._send({"time": _now(), "type": "tool/progress", "data": data}, live=True)

    # -- status ----------------------------------------------------------------------------------------------

    def status(self) -> JsonObject:
        """The `dsh/status` payload."""
        agent = self._session.agent
        waits = self._waiting_for() or ("retry" if self._retry is not None else None)
        waiting = waits if agent.status == "running" else None
        route = agent.ledger.seed()
        state = "compacting" if self._compacting else "waiting" if waiting else agent.status
        status: JsonObject = {
            "session": self._session.id,
            "state": state,
            "turn": agent.turn,
            "step": agent.step,
            "queue": {"nextTurn": len(agent.inbox.next_turn), "nextStep": len(agent.inbox.next_step)},
            "paused": agent.status == "idle" and agent.inbox.pending,
            "mode": self._session.modes.current,
            "model": {"provider": route.provider, "name": route.model},
            "usage": self._usage_now(),
        }
        if waiting:
            status["waitingFor"] = waiting
        return status

    def _usage_now(self) -> JsonObject:
        """Tokens so far, and those of the next request; `estimated` where no provider has counted them."""
        meter = self._session.agent.meter
        counted = {**encode(self._usage), "contextTokens": meter.tokens}
        return {**counted, "estimated": True} if meter.estimated else counted

    def touch_status(self) -> None:
        """Send the status in the next tick of the loop if it is another one by then."""
        if self._wants_status and not self._status_due:
            self._status_due = True
            asyncio.get_running_loop().call_soon(self._send_status)

    def _send_status(self) -> None:
        self._status_due = False
        status = self.status()
        if status != self._sent_status:
            self._sent_status = status
            self._client.notify(STATUS, status)

    # -- work-done progress ----------------------------------------------------------------------------------

    def _show_progress(self, event: LogEvent, card: Card | None) -> None:
        if not self._wants_progress:
            return
        match event.data:
            case TurnStart():
                self._progress = TurnProgress(self._client)
                self._tasks.start_soon(self._progress.begin)
            case TurnEnd(reason=reason) if self._progress is not None:
                self._progress.end(_words_of(reason))
                self._progress = None
            case ReviewOpened(files=files) if self._progress is not None:
                self._progress.report(f"waits for your review of {files[0].uri.rsplit('/', 1)[-1]}")
            case ApprovalAsked(tool_name=tool) if self._progress is not None:
                self._progress.report(f"waits for your permission to run {tool}")
            case QuestionAsked() if self._progress is not None:
                self._progress.report("waits for your answer")
            case CompactionStart() if self._progress is not None:
                self._progress.report("makes room: summarizes the conversation")
            case RetryPlanned() as planned if (progress := self._progress) is not None:
                self._tasks.start_soon(count_down, progress, planned, lambda: self._retry is planned)
            case RetryStarted(retry=retry) if self._progress is not None:
                self._progress.report(f"asks the model again (try {retry + 1})")
            case StepStart(step=step) if self._progress is not None:
                self._progress.report("thinking" if step == 1 else f"thinking (step {step})")
            case ToolCall() if self._progress is not None and card is not None:
                self._progress.report(card.title)
            case _:
                pass

    def close(self) -> None:
        """Stop telling."""
        self._flush_frames()
        for dispose in self._disposers:
            dispose()
        if self._progress is not None:
            self._progress.end("closed")
            self._progress = None


def _note_call(event: LogEvent, calls: dict[str, ToolCall]) -> ToolCall | None:
    """Keep a call until its result comes; the call that this event is the result of."""
    match event.data:
        case ToolCall() as call:
            calls[call.call_id] = call
        case ToolResult(message=message):
            ids = [block.tool_call_id for block in message.content if isinstance(block, ToolResultBlock)]
            return next((calls.pop(number) for number in ids if number in calls), None)
        case _:
            pass
    return None


def _value_of(event: LogEvent, card: Card | None) -> JsonObject:
    """An event as the stream carries it."""
    row = encode_event(event)
    value: JsonObject = {"seq": row["seq"], "time": row["time"], "type": row["type"], "data": row["data"]}
    if card is not None:
        value["card"] = encode(card)
    return value


def _words_of(reason: Ended | EndedByAbort | EndedByError) -> str:
    match reason:
        case Ended(kind="completed"):
            return "done"
        case Ended(kind="max-tokens"):
            return "stopped: the answer reached its token limit"
        case Ended(kind=kind):
            return kind
        case EndedByAbort(reason=cause):
            return f"stopped: {cause.reason}" if cause.kind == "hook" and cause.reason else "cancelled"
        case EndedByError(error=failure):
            return f"failed: {failure.message}"


def _now() -> int:
    return time.time_ns() // 1_000_000
