"""Messages: what people, tools and models say to each other, and the chunks in which a model says it.

Rules: frozen values; a tool call's arguments stay the raw text that the model wrote.
Source: agent-loop.md of this project's design: content blocks, message sources, stream chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from dsh_lsp.errors import LlmFailure
from dsh_lsp.wire import Wire

# -- content blocks ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock(Wire):
    """Text for the reader."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningBlock(Wire):
    """The model's thinking; exact bytes, since some providers demand it back unchanged."""

    text: str
    type: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallBlock(Wire):
    """A call that the model asks for; `arguments` is its raw text, JSON or not; `origin` where it was read from."""

    id: str
    name: str
    arguments: str
    origin: Literal["text"] | None = None
    type: Literal["tool-call"] = "tool-call"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultBlock(Wire):
    """The answer to one tool call."""

    tool_call_id: str
    content: tuple[TextBlock, ...]
    is_error: bool = False
    type: Literal["tool-result"] = "tool-result"

    @property
    def text(self) -> str:
        """All text of the result."""
        return "\n".join(block.text for block in self.content)


UserContent: TypeAlias = Annotated[TextBlock | ToolResultBlock, Field(discriminator="type")]
AssistantBlock: TypeAlias = Annotated[TextBlock | ReasoningBlock | ToolCallBlock, Field(discriminator="type")]

# -- who said it ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSource(Wire):
    """A person wrote it."""

    kind: Literal["user"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSource(Wire):
    """A plugin wrote it; `form` says what it is, `summary` (at most 120 characters) is for screens."""

    plugin: str
    form: Literal["instructions", "catalog", "snapshot", "notice", "relay", "recall"] | None = None
    summary: str | None = None
    kind: Literal["plugin"] = "plugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSource(Wire):
    """A tool wrote it, in answer to a call."""

    call_id: str
    kind: Literal["tool"] = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource(Wire):
    """A model wrote it; `replay_state` is what its adapter wants to see again."""

    provider: str
    model: str
    replay_state: dict[str, Any] | None = None
    kind: Literal["model"] = "model"


UserMessageSource: TypeAlias = Annotated[UserSource | PluginSource | ToolSource, Field(discriminator="kind")]

# -- messages ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage(Wire):
    """What the model reads: a person's words, a plugin's context or a tool's result."""

    id: str
    content: tuple[UserContent, ...]
    source: UserMessageSource
    role: Literal["user"] = "user"

    @property
    def text(self) -> str:
        """All text of the message."""
        return "\n".join(block.text for block in self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage(Wire):
    """What the model answered."""

    id: str
    content: tuple[AssistantBlock, ...]
    source: ModelSource
    role: Literal["assistant"] = "assistant"

    @property
    def text(self) -> str:
        """The text for the reader, without thinking and calls."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The calls, in the model's order."""
        return tuple(block for block in self.content if isinstance(block, ToolCallBlock))


Message: TypeAlias = Annotated[UserMessage | AssistantMessage, Field(discriminator="role")]

# -- one model call ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec(Wire):
    """A tool as the model sees it; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallConfig(Wire):
    """Where a model call goes and how; `max_tokens` counts the model's output, thinking included."""

    provider: str
    model: str
    reasoning_effort: str | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage(Wire):
    """Tokens of one call; the buckets are disjoint but for `reasoning_tokens`, a part of the output."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


# -- chunks of a stream --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStart(Wire):
    """A block begins; its index orders it among the blocks of the message."""

    index: int
    block_type: Literal["text", "reasoning", "tool-call"]
    type: Literal["block-start"] = "block-start"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Wire):
    """More text of a text block."""

    index: int
    text: str
    type: Literal["text-delta"] = "text-delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta(Wire):
    """More text of a reasoning block."""

    index: int
    text: str
    type: Literal["reasoning-delta"] = "reasoning-delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta(Wire):
    """More of a tool call; a preview until its `BlockEnd`."""

    index: int
    id: str
    arguments_delta: str
    name: str | None = None
    type: Literal["tool-call-delta"] = "tool-call-delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEnd(Wire):
    """A block is whole; `block` is authoritative over its deltas."""

    index: int
    block: AssistantBlock
    type: Literal["block-end"] = "block-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageChunk(Wire):
    """What the call cost; at most one, before the finish."""

    usage: TokenUsage
    type: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Wire):
    """The last chunk of every stream; `failure` is set for `aborted` and `error` and for them alone."""

    reason: Literal["stop", "tool-calls", "max-tokens", "refusal", "aborted", "error"]
    failure: LlmFailure | None = None
    replay_state: dict[str, Any] | None = None
    type: Literal["finish"] = "finish"


Chunk: TypeAlias = Annotated[
    BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | Finish,
    Field(discriminator="type"),
]
