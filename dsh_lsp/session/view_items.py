"""View items: what a screen shows of a turn, and what stands beside the turns.

Rules: plain values that JSON can say, grown by the fold of `session/view.py` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsh_lsp.decisions import FileKind, Outcome
from dsh_lsp.events import AssistantMessageLogged, LogEvent, RequestContext
from dsh_lsp.messages import TokenUsage
from dsh_lsp.upkeep import CompactionEnd
from dsh_lsp.wire import JsonObject, Wire

# -- what a turn shows ---------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Said(Wire):
    """A message: a person's, a plugin's (`notice`, where `text` is its summary if it has one), or the model's.

    `interrupted` and `refused` are about the model's.
    """

    kind: Literal["user", "notice", "assistant", "thinking"]
    id: str
    text: str
    interrupted: bool = False
    refused: bool = False


@dataclass(slots=True, kw_only=True)
class ToolView(Wire):
    """A tool call: asked for, running, then answered; `title` is a card's, or the tool's name."""

    call_id: str
    name: str
    arguments: str
    title: str
    state: Literal["asked", "running", "done", "failed"] = "asked"
    result: str | None = None
    progress: str | None = None
    card: JsonObject | None = None
    kind: Literal["tool"] = "tool"


@dataclass(slots=True, kw_only=True)
class HunkView(Wire):
    """One change under review; without an outcome it waits. `line`, from 1, is where it was seen to stand.

    `undone` says that the person took it back after it had landed; `undoes` names the hunk that this one takes back.
    """

    id: str
    line: int
    old_text: str
    new_text: str
    outcome: Outcome | None = None
    comment: str | None = None
    landed: bool = False
    undone: bool = False
    undoes: str | None = None


@dataclass(slots=True, kw_only=True)
class FileView(Wire):
    """The changes of one file; `new_uri` is what a renamed one is to be called."""

    uri: str
    kind: FileKind
    hunks: list[HunkView]
    new_uri: str | None = None


@dataclass(slots=True, kw_only=True)
class ReviewView(Wire):
    """Edits that were proposed together."""

    proposal: str
    files: list[FileView]
    kind: Literal["review"] = "review"

    @property
    def hunks(self) -> Iterator[HunkView]:
        """All changes, in order."""
        return (hunk for file in self.files for hunk in file.hunks)


@dataclass(slots=True, kw_only=True)
class ApprovalView(Wire):
    """A permission that was asked for; without an outcome it waits."""

    id: str
    call_id: str
    tool: str
    effects: list[str]
    reason: str | None = None
    outcome: str | None = None
    comment: str | None = None
    kind: Literal["approval"] = "approval"


@dataclass(slots=True, kw_only=True)
class QuestionView(Wire):
    """A question of the agent's; it waits until it is `closed`, by an answer or without one."""

    id: str
    text: str
    options: list[str]
    free_text: bool = True
    closed: bool = False
    answer: str | None = None
    kind: Literal["question"] = "question"


@dataclass(slots=True, kw_only=True)
class FailureView(Wire):
    """A model call that gave no message, and what it had streamed is void; `retry` says that another try follows.

    It begins `delay_ms` after the failure; `waits` until then.
    """

    step: int
    attempt: int
    code: str
    message: str
    retry: int | None = None
    max_retries: int | None = None
    delay_ms: int | None = None
    waits: bool = False
    kind: Literal["failure"] = "failure"


Item: TypeAlias = Annotated[
    Said | ToolView | ReviewView | ApprovalView | QuestionView | FailureView, Field(discriminator="kind")
]


@dataclass(slots=True, kw_only=True)
class TurnView(Wire):
    """One turn; `ended` is how (`completed`, `aborted`, `error`, ...), None while it runs; `message` says more."""

    turn: int
    items: list[Item] = field(default_factory=list)
    step: int = 0
    ended: str | None = None
    message: str | None = None


@dataclass(slots=True, kw_only=True)
class LiveText(Wire):
    """A block of an answer that still streams."""

    step: int
    attempt: int
    block: int
    kind: Literal["text", "thinking", "toolArguments"]
    text: str


# -- beside the turns ----------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Waiting(Wire):
    """Input that no turn has taken yet."""

    id: str
    text: str


@dataclass(slots=True, kw_only=True)
class Queue(Wire):
    """What waits, for the next turn and for the next step."""

    next_turn: list[Waiting] = field(default_factory=list)
    next_step: list[Waiting] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Usage(Wire):
    """Tokens: of the whole session, and of the context as of the last answer."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    context_tokens: int = 0
    context_window: int | None = None

    def note(self, event: LogEvent) -> None:
        """Take one more event of a log."""
        match event.data:
            case AssistantMessageLogged(usage=usage) if usage is not None:
                self.add(usage)
            case CompactionEnd(tokens_after=tokens) if tokens is not None:
                self.context_tokens = tokens
            case RequestContext(context_window=window):
                self.context_window = window
            case _:
                pass

    def add(self, usage: TokenUsage) -> None:
        """Count one answer."""
        cached = usage.cache_read_tokens or 0
        self.input += usage.input_tokens
        self.output += usage.output_tokens
        self.cache_read += cached
        self.context_tokens = usage.input_tokens + usage.output_tokens + cached + (usage.cache_write_tokens or 0)
