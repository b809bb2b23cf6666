"""Events: the facts that a session log keeps.

An event class is its wire tag: `TurnStart` ⇄ `turn/start`. `LogEvent` is the envelope with its place in the log.

Rules: frozen values; `decode_event(encode_event(e)) == e`; the surface (what a model sees) is made of
`user/message`, `assistant/message` and `tool/result` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsh_lsp.abort import Cause
from dsh_lsp.decisions import (
    ApprovalAsked,
    ApprovalDecided,
    EditLanded,
    ModelSelected,
    PermissionPreset,
    QuestionAnswered,
    QuestionAsked,
    ReviewDecided,
    ReviewOpened,
)
from dsh_lsp.errors import LlmFailure
from dsh_lsp.messages import (
    AssistantMessage,
    CallConfig,
    Chunk,
    TokenUsage,
    ToolSpec,
    UserMessage,
)
from dsh_lsp.notes import SessionTitle, TodoWritten
from dsh_lsp.upkeep import (
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    RetryPlanned,
    RetryStarted,
)
from dsh_lsp.wire import JsonObject, Wire, decode, encode

# -- turns and steps -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart(Wire):
    """A turn begins; turns are numbered from 1 over the whole session."""

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Wire):
    """A turn ended for a reason that needs no more words."""

    kind: Literal["completed", "blocked", "max-tokens", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedByAbort(Wire):
    """A turn was cancelled; `reason` is the first cause."""

    reason: Cause
    kind: Literal["aborted"] = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedByError(Wire):
    """A turn failed."""

    error: LlmFailure
    kind: Literal["error"] = "error"


TurnEndReason: TypeAlias = Annotated[Ended | EndedByAbort | EndedByError, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd(Wire):
    """A turn is over."""

    turn: int
    reason: TurnEndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStart(Wire):
    """A step begins: one model exchange and the tools that it asks for; numbered from 1 within the turn."""

    turn: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd(Wire):
    """A step is over."""

    turn: int
    step: int


# -- the model -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader(Wire):
    """All of a request but its messages; `adapter_defaults` names the config's fields that the adapter filled in."""

    config: CallConfig
    adapter_defaults: tuple[str, ...] = ()
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaderLogged(Wire):
    """The header of the requests from here on."""

    header: RequestHeader
    reason: Literal["initial", "resume", "change"]
    starts_series: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext(Wire):
    """The route of the requests from here on and its context window in tokens, where known."""

    provider: str
    model: str
    context_window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantChunk(Wire):
    """One chunk of a stream, as it arrived."""

    turn: int
    step: int
    chunk: Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantAttempt(Wire):
    """A model call that gave no message; `chunks` is the range of its chunk events. Never seen by a model."""

    turn: int
    step: int
    attempt: int
    chunks: tuple[int, int] | None = None
    failure: LlmFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessageLogged(Wire):
    """The model's answer; `interrupted` when a cancel cut it short, `refused` when the provider's filter did."""

    turn: int
    step: int
    message: AssistantMessage
    usage: TokenUsage | None = None
    interrupted: bool | None = None
    refused: bool | None = None


# -- tools ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(Wire):
    """A call was started; `arguments` is the model's raw text."""

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFailure(Wire):
    """The class and code of the error behind a failed result."""

    name: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(Wire):
    """A call was answered; `meta` is for screens."""

    turn: int
    step: int
    message: UserMessage
    error: ToolFailure | None = None
    meta: JsonObject | None = None


# -- the inbox -----------------------------------------------------------------------------------------------

InboxTarget = Literal["next-turn", "next-step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSpliced(Wire):
    """Pending input changed: `removed_count` messages at `start` gave way to `inserted`.

    No `outcome`: inserted, or claimed by the driver. `restored`: a claim was undone. `canceled`: dropped.
    """

    target: InboxTarget
    start: int
    removed_count: int | None = None
    inserted: tuple[UserMessage, ...] = ()
    outcome: Literal["canceled", "restored"] | None = None


# -- the session ---------------------------------------------------------------------------------------------


# -- plugins --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEvent:
    """A fact of a plugin, under the tag that it registered with the log.

    `needs_turn`: it may only come while a turn is open. `ignorable`: a reader that does not know it may skip it.
    """

    tag: str
    data: JsonObject
    needs_turn: bool = False
    ignorable: bool = False


# -- the envelope --------------------------------------------------------------------------------------------

EventData: TypeAlias = (
    TurnStart
    | TurnEnd
    | StepStart
    | StepEnd
    | UserMessage
    | RequestHeaderLogged
    | RequestContext
    | AssistantChunk
    | AssistantAttempt
    | AssistantMessageLogged
    | ToolCall
    | ToolResult
    | InboxSpliced
    | ReviewOpened
    | ReviewDecided
    | EditLanded
    | ApprovalAsked
    | ApprovalDecided
    | QuestionAsked
    | QuestionAnswered
    | PermissionPreset
    | ModelSelected
    | SessionTitle
    | RetryPlanned
    | RetryStarted
    | CompactionStart
    | CompactionPrune
    | CompactionSummary
    | CompactionEnd
    | TodoWritten
    | PluginEvent
)

TAGS: dict[type[EventData], str] = {
    TurnStart: "turn/start",
    TurnEnd: "turn/end",
    StepStart: "step/start",
    StepEnd: "step/end",
    UserMessage: "user/message",
    RequestHeaderLogged: "request/header",
    RequestContext: "request/context",
    AssistantChunk: "assistant/chunk",
    AssistantAttempt: "assistant/attempt",
    AssistantMessageLogged: "assistant/message",
    ToolCall: "tool/call",
    ToolResult: "tool/result",
    InboxSpliced: "agent/inbox/spliced",
    ReviewOpened: "review/opened",
    ReviewDecided: "review/decided",
    EditLanded: "edit/landed",
    ApprovalAsked: "approval/asked",
    ApprovalDecided: "approval/decided",
    QuestionAsked: "question/asked",
    QuestionAnswered: "question/answered",
    PermissionPreset: "permission/preset",
    ModelSelected: "model/selected",
    SessionTitle: "session/title",
    RetryPlanned: "llm/retry",
    RetryStarted: "llm/retry-started",
    CompactionStart: "compaction/start",
    CompactionPrune: "compaction/prune",
    CompactionSummary: "compaction/summary",
    CompactionEnd: "compaction/end",
    TodoWritten: "todo/write",
}
CLASSES: dict[str, type[EventData]] = {tag: cls for cls, tag in TAGS.items()}

SURFACE: frozenset[type[EventData]] = frozenset({UserMessage, AssistantMessageLogged, ToolResult})
IGNORABLE: frozenset[type[EventData]] = frozenset(
    {
        AssistantAttempt,
        RetryPlanned,
        RetryStarted,
        CompactionStart,
        CompactionPrune,
        CompactionSummary,
        CompactionEnd,
    }
)

SeqRange = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """An event in its place: `seq` counts from 0 without gaps, `time` is milliseconds since 1970.

    `sources` are inclusive ranges of the earlier events that a surface event was made from; `replaces` names the
    first and the last event of the run on the surface whose place it takes.
    """

    seq: int
    time: int
    data: EventData
    sources: tuple[SeqRange, ...] | None = None
    replaces: SeqRange | None = None

    @property
    def type(self) -> str:
        """The wire tag."""
        return self.data.tag if isinstance(self.data, PluginEvent) else TAGS[type(self.data)]


def encode_event(event: LogEvent) -> JsonObject:
    """Encode an event as it stands on disk."""
    row: JsonObject = {
        "type": event.type,
        "seq": event.seq,
        "time": event.time,
        "data": event.data.data if isinstance(event.data, PluginEvent) else encode(event.data),
    }
    cls = type(event.data)
    if event.replaces is not None:
        row["surfaceOp"] = {"op": "replace", "start": event.replaces[0], "end": event.replaces[1]}
    elif cls in SURFACE:
        row["surfaceOp"] = "append"
    if event.sources is not None:
        row["sourceEventSeqs"] = [list(span) for span in event.sources]
    if cls in IGNORABLE or (isinstance(event.data, PluginEvent) and event.data.ignorable):
        row["ignorable"] = True
    return row


def decode_event(row: JsonObject) -> LogEvent:
    """Decode an event from disk.

    Raises:
        KeyError: its type is unknown, or a part is missing.
        ValueError: its place on the surface does not fit its type.
        pydantic.ValidationError: its data has another shape.
    """
    sources = row.get("sourceEventSeqs")
    operation = row.get("surfaceOp")
    if (operation is not None) != (CLASSES[row["type"]] in SURFACE):
        raise ValueError(f"{row['type']} and its place on the surface do not fit")
    return LogEvent(
        seq=row["seq"],
        time=row["time"],
        data=decode(CLASSES[row["type"]], row["data"]),
        sources=tuple((first, last) for first, last in sources) if sources is not None else None,
        replaces=(operation["start"], operation["end"]) if isinstance(operation, dict) else None,
    )
