"""View: what a screen shows of a session, folded from its events; the reference for clients.

A screen folds either the log (`add`) or the values of the event stream (`add_value`), which also bring cards and
live frames, and comes to the same view.

Rules: pure; all state is in the view itself, so that a fold may stop anywhere and go on from the view alone; events
that it does not know change nothing; text that streams is shown until its message comes, which alone counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from dsh_lsp.decisions import (
    ApprovalAsked,
    ApprovalDecided,
    EditLanded,
    Mode,
    ModelSelected,
    PermissionPreset,
    QuestionAnswered,
    QuestionAsked,
    ReviewDecided,
    ReviewOpened,
)
from dsh_lsp.events import (
    CLASSES,
    AssistantAttempt,
    AssistantMessageLogged,
    EndedByAbort,
    EndedByError,
    EventData,
    InboxSpliced,
    LogEvent,
    RequestContext,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)
from dsh_lsp.messages import (
    PluginSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserMessage,
)
from dsh_lsp.notes import SessionTitle, TodoItem, TodoWritten
from dsh_lsp.session.view_items import (
    ApprovalView,
    FailureView,
    FileView,
    HunkView,
    LiveText,
    QuestionView,
    Queue,
    ReviewView,
    Said,
    ToolView,
    TurnView,
    Usage,
    Waiting,
)
from dsh_lsp.upkeep import CompactionEnd, CompactionStart, RetryPlanned, RetryStarted
from dsh_lsp.wire import JsonObject, Wire, decode

I = TypeVar("I", Said, ToolView, ReviewView, ApprovalView, QuestionView, FailureView)  # noqa: E741 - an item


@dataclass(slots=True, kw_only=True)
class SessionView(Wire):
    """All that a screen shows; grows with each event."""

    title: str | None = None
    mode: Mode | None = None
    provider: str | None = None
    model: str | None = None
    turns: list[TurnView] = field(default_factory=list)
    live: list[LiveText] = field(default_factory=list)
    todo: list[TodoItem] = field(default_factory=list)
    queue: Queue = field(default_factory=Queue)
    usage: Usage = field(default_factory=Usage)
    compacting: bool = False

    @property
    def state(self) -> Literal["idle", "running", "waiting", "compacting"]:
        """What the session does; `waiting` is for a person, or for the next try of a model call."""
        if self.compacting:
            return "compacting"
        if not self.turns or self.turns[-1].ended is not None:
            return "idle"
        return "waiting" if self.waiting_for is not None else "running"

    @property
    def waiting_for(self) -> Literal["approval", "question", "review", "retry"] | None:
        """What a person must decide before the turn goes on, or the next try, which comes by itself."""
        items = self.turns[-1].items if self.turns and self.turns[-1].ended is None else []
        if any(isinstance(item, ApprovalView) and item.outcome is None for item in items):
            return "approval"
        if any(isinstance(item, QuestionView) and not item.closed for item in items):
            return "question"
        reviews = (item for item in items if isinstance(item, ReviewView))
        if any(hunk.outcome is None for review in reviews for hunk in review.hunks):
            return "review"
        return "retry" if any(isinstance(item, FailureView) and item.waits for item in items) else None

    def add(self, event: LogEvent) -> None:
        """Take one more event of the log."""
        self._take(event.data, None)

    def add_value(self, value: JsonObject) -> None:
        """Take one more value of the event stream.

        Raises:
            pydantic.ValidationError: an event of a known type has another shape.
        """
        match value.get("type"):
            case "assistant/stream":
                self._stream(value["data"])
            case "tool/progress":
                call = self._find(ToolView, lambda item: item.call_id == value["data"]["callId"])
                if call is not None:
                    call.progress = value["data"]["text"]
            case str() as tag if tag in CLASSES:
                self._take(decode(CLASSES[tag], value["data"]), value.get("card"))
            case _:
                pass

    def _take(self, data: EventData, card: JsonObject | None) -> None:
        match data:
            case TurnStart(turn=turn):
                self.turns.append(TurnView(turn=turn))
            case StepStart(step=step):
                self._turn.step = step
                self.live.clear()
            case TurnEnd(reason=reason):
                self._end(reason)
            case UserMessage() as message:
                self._say(message)
            case AssistantMessageLogged() as answer:
                self._answer(answer)
            case AssistantAttempt() as attempt:
                self._fail(attempt)
            case RetryPlanned() | RetryStarted():
                self._retry(data)
            case ToolCall() as call:
                self._start(call, card)
            case ToolResult() as result:
                self._finish(result, card)
            case ReviewOpened() | ReviewDecided() | EditLanded():
                self._review(data)
            case ApprovalAsked() | ApprovalDecided():
                self._approval(data)
            case QuestionAsked() | QuestionAnswered():
                self._question(data)
            case _:
                self._note(data)

    def _note(self, data: EventData) -> None:
        """Take what stands beside the turns."""
        match data:
            case InboxSpliced() as splice:
                queue = self.queue.next_turn if splice.target == "next-turn" else self.queue.next_step
                inserted = [Waiting(id=message.id, text=message.text) for message in splice.inserted]
                queue[splice.start : splice.start + (splice.removed_count or 0)] = inserted
            case RequestContext() as route:
                self.provider, self.model = route.provider, route.model
                self.usage.context_window = route.context_window
            case CompactionStart():
                self.compacting = True
            case CompactionEnd(tokens_after=tokens):
                self.compacting = False
                self.usage.context_tokens = self.usage.context_tokens if tokens is None else tokens
            case ModelSelected(provider=provider, name=model):
                self.provider, self.model = provider, model
            case PermissionPreset(preset=mode):
                self.mode = mode
            case SessionTitle(title=title):
                self.title = title
            case TodoWritten(items=items):
                self.todo = list(items)
            case _:
                pass

    # -- turns -----------------------------------------------------------------------------------------------

    @property
    def _turn(self) -> TurnView:
        if not self.turns:  # a stream that was joined in the middle
            self.turns.append(TurnView(turn=0))
        return self.turns[-1]

    def _find(self, kind: type[I], matches: Any) -> I | None:
        """The last item of a kind that matches; as a rule it is close to the end."""
        items = (item for turn in reversed(self.turns) for item in reversed(turn.items))
        return next((item for item in items if isinstance(item, kind) and matches(item)), None)

    def _end(self, reason: TurnEndReason) -> None:
        turn = self._turn
        turn.ended = reason.kind
        for item in turn.items:
            if isinstance(item, FailureView):
                item.waits = False
        if isinstance(reason, EndedByError):
            turn.message = reason.error.message
        elif isinstance(reason, EndedByAbort):
            turn.message = reason.reason.reason
        self.live.clear()

    def _say(self, message: UserMessage) -> None:
        source = message.source
        kind: Literal["user", "notice"] = "user" if source.kind == "user" else "notice"
        summary = source.summary if isinstance(source, PluginSource) else None
        self._turn.items.append(Said(kind=kind, id=message.id, text=summary or message.text))

    # -- the model -------------------------------------------------------------------------------------------

    def _stream(self, frame: JsonObject) -> None:
        place = (frame["step"], frame["attempt"], frame["block"])
        last = self.live[-1] if self.live else None
        if last is not None and (last.step, last.attempt, last.block) == place:
            last.text += frame["text"]
        else:
            step, attempt, block = place
            self.live.append(
                LiveText(step=step, attempt=attempt, block=block, kind=frame["kind"], text=frame["text"])
            )

    def _answer(self, logged: AssistantMessageLogged) -> None:
        self.live.clear()
        items = self._turn.items
        message = logged.message
        for block in message.content:
            match block:
                case TextBlock(text=text) | ReasoningBlock(text=text):
                    kind: Literal["assistant", "thinking"] = "assistant" if block.type == "text" else "thinking"
                    said = Said(
                        kind=kind,
                        id=message.id,
                        text=text,
                        interrupted=bool(logged.interrupted),
                        refused=bool(logged.refused),
                    )
                    items.append(said)
                case ToolCallBlock(id=call_id, name=name, arguments=arguments):
                    items.append(ToolView(call_id=call_id, name=name, arguments=arguments, title=name))
        if logged.usage is not None:
            self.usage.add(logged.usage)

    def _fail(self, attempt: AssistantAttempt) -> None:
        self.live.clear()
        if attempt.failure is not None:
            failure = attempt.failure
            self._turn.items.append(
                FailureView(step=attempt.step, attempt=attempt.attempt, code=failure.code, message=failure.message)
            )

    def _retry(self, data: RetryPlanned | RetryStarted) -> None:
        failed = self._find(FailureView, lambda item: item.step == data.step)
        if failed is None:
            return
        if isinstance(data, RetryPlanned):
            failed.retry, failed.max_retries, failed.delay_ms = data.retry, data.max_retries, data.delay_ms
        failed.waits = isinstance(data, RetryPlanned)

    # -- tools -----------------------------------------------------------------------------------------------

    def _start(self, call: ToolCall, card: JsonObject | None) -> None:
        view = self._find(ToolView, lambda item: item.call_id == call.call_id and item.state == "asked")
        if view is None:  # its message was not seen
            view = ToolView(call_id=call.call_id, name=call.name, arguments=call.arguments, title=call.name)
            self._turn.items.append(view)
        view.state = "running"
        _show(view, card)

    def _finish(self, result: ToolResult, card: JsonObject | None) -> None:
        """Keep a call's first result: a later one is what a model reads in its place, to save room."""
        for block in result.message.content:
            if not isinstance(block, ToolResultBlock):
                continue
            call_id = block.tool_call_id
            view = self._find(ToolView, lambda item: item.call_id == call_id)  # noqa: B023 - called at once
            if view is not None and view.result is None:
                view.state, view.result = "failed" if block.is_error else "done", block.text
                view.progress = None
                _show(view, card)

    # -- people ----------------------------------------------------------------------------------------------

    def _review(self, data: ReviewOpened | ReviewDecided | EditLanded) -> None:
        if isinstance(data, ReviewOpened):
            self._turn.items.append(_review_of(data))
            return
        review = self._find(ReviewView, lambda item: item.proposal == data.proposal)
        hunks = {hunk.id: hunk for hunk in review.hunks} if review is not None else {}
        if isinstance(data, EditLanded):
            if (hunk := hunks.get(data.hunk)) is not None:
                hunk.line, hunk.landed = data.range.start.line + 1, True
                self._take_back(hunk.undoes)
            return
        for decided in data.hunks:
            if (hunk := hunks.get(decided.id)) is not None:
                hunk.outcome, hunk.comment = decided.outcome, decided.comment
                hunk.new_text = hunk.new_text if decided.text is None else decided.text

    def _take_back(self, hunk_id: str | None) -> None:
        """Note that a hunk of an earlier review is not in its document any more."""
        review = self._find(ReviewView, lambda item: any(hunk.id == hunk_id for hunk in item.hunks))
        for hunk in review.hunks if review is not None else ():
            hunk.undone = hunk.undone or hunk.id == hunk_id

    def _approval(self, data: ApprovalAsked | ApprovalDecided) -> None:
        if isinstance(data, ApprovalAsked):
            view = ApprovalView(
                id=data.id,
                call_id=data.call_id,
                tool=data.tool_name,
                effects=[f"{effect.kind} {effect.detail}" for effect in data.effects],
                reason=data.reason,
            )
            self._turn.items.append(view)
            return
        asked = self._find(ApprovalView, lambda item: item.id == data.id)
        if asked is not None:
            asked.outcome = data.outcome.kind
            asked.comment = getattr(data.outcome, "comment", None)

    def _question(self, data: QuestionAsked | QuestionAnswered) -> None:
        if isinstance(data, QuestionAsked):
            view = QuestionView(id=data.id, text=data.text, options=list(data.options or ()))
            view.free_text = bool(data.free_text) or not data.options
            self._turn.items.append(view)
            return
        asked = self._find(QuestionView, lambda item: item.id == data.id)
        if asked is not None:
            asked.closed, asked.answer = True, data.answer


def _show(view: ToolView, card: JsonObject | None) -> None:
    if card is not None:
        view.card, view.title = card, card["title"]


def _review_of(opened: ReviewOpened) -> ReviewView:
    files = [
        FileView(
            uri=file.uri,
            kind=file.kind,
            new_uri=file.new_uri,
            hunks=[
                HunkView(
                    id=h.id, line=h.range.start.line + 1, old_text=h.old_text, new_text=h.new_text, undoes=h.undoes
                )
                for h in file.hunks
            ],
        )
        for file in opened.files
    ]
    return ReviewView(proposal=opened.proposal, files=files)


def view_of(events: Iterable[LogEvent]) -> SessionView:
    """Fold a whole log."""
    view = SessionView()
    for event in events:
        view.add(event)
    return view
