"""Messages decoder: the JSON events of one answer of the Messages API become its chunks.

Rules: no I/O. Text goes out as it comes; what ends a block, the usage and the finish wait for the end of the stream.
The finish is decided by what came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.chat_decoder import CLOSED, EMPTY, new_call_id
from dsh_lsp.llm.finish_words import CUT, REFUSED, failure_in, word_in
from dsh_lsp.llm.open_calls import argument_text, resolve_name, split_arguments
from dsh_lsp.llm.overflow import silent_overflow
from dsh_lsp.llm.surrogates import SurrogateJoiner, mend_surrogates
from dsh_lsp.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    ToolSpec,
    UsageChunk,
)
from dsh_lsp.wire import JsonObject

_KINDS: dict[str, Literal["text", "reasoning", "tool-call"]] = {
    "text": "text",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "tool-call",
}


@dataclass(slots=True)
class _Block:
    """One block while it grows; `note` is what its maker wants to see again."""

    kind: Literal["text", "reasoning", "tool-call"]
    index: int
    pieces: list[str] = field(default_factory=list)
    call_id: str = ""
    name: str = ""
    note: JsonObject = field(default_factory=dict)
    joiner: SurrogateJoiner = field(default_factory=SurrogateJoiner)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class MessagesDecoder:
    """One answer: is fed its JSON events in order and gives its chunks.

    `window` is the model's context window in tokens: a prompt beyond it was cut by a server that says nothing.
    """

    def __init__(
        self,
        *,
        tools: Sequence[ToolSpec] = (),
        host: str = "",
        window: int | None = None,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._known = frozenset(tool.name for tool in tools)
        self._host = host
        self._window = window
        self._new_id = new_id
        self._blocks: dict[int | str | None, _Block] = {}  # by the server's index
        self._usage: JsonObject = {}
        self._model = ""
        self._reason = ""
        self._stopped = False
        self.started = False
        self.known = False

    @property
    def over(self) -> bool:
        """Whether the server has said its last word."""
        return self._stopped

    @property
    def complete(self) -> bool:
        """Whether the server has said that the answer is over."""
        return self._stopped or bool(self._reason)

    def feed_all(self, events: Iterable[JsonObject]) -> Iterator[Chunk]:
        """Take events that came together."""
        for event in events:
            yield from self.feed(event)

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        """Take one event that holds no error."""
        self.known |= "type" in event
        match event.get("type"):
            case "message_start":
                self._begin(event.get("message"))
            case "message":  # the whole answer, not streamed
                self._begin(event)
                content = event.get("content")
                for index, block in enumerate(content if isinstance(content, list) else ()):
                    yield from self._start(index, block)
                self._note_end(event)
                self._stopped = True
            case "content_block_start":
                yield from self._start(event.get("index"), event.get("content_block"))
            case "content_block_delta":
                yield from self._grow(event.get("index"), event.get("delta"))
            case "message_delta":
                self._note_end(event.get("delta"))
                self._note_usage(event.get("usage"))
            case "message_stop":
                self._stopped = True
            case _:
                pass

    def end(self, *, done: bool) -> Iterator[Chunk]:
        """End the stream after the last event; `done` says that `[DONE]` came, which some gateways send."""
        for block in self._blocks.values():
            if rest := block.joiner.flush():
                yield from self._show(block, rest)
        finish = self._verdict(done=done)
        if finish.failure is not None:
            yield from self.fail(finish.failure)
            return
        for block in self._blocks.values():
            yield BlockEnd(index=block.index, block=self._whole(block))
        yield from self._usage_chunks()
        yield finish

    def fail(self, failure: LlmFailure) -> Iterator[Chunk]:
        """End the stream by a failure: no block is whole."""
        yield from self._usage_chunks()
        yield Finish(reason="error", failure=failure)

    # -- what comes ------------------------------------------------------------------------------------------

    def _begin(self, message: Any) -> None:
        self.started = True
        if isinstance(message, dict):
            self._model = mend_surrogates(_text(message.get("model")))
            self._note_usage(message.get("usage"))

    def _start(self, index: Any, content: Any) -> Iterator[Chunk]:
        kind = _KINDS.get(_text(content.get("type"))) if isinstance(content, dict) else None
        index = _index(index)
        if kind is None or index in self._blocks:
            return  # a server's own tools and what else it may add are not for us
        self.started = True
        block = _Block(kind, len(self._blocks))
        self._blocks[index] = block
        yield BlockStart(index=block.index, block_type=kind)
        match content["type"]:
            case "tool_use":
                block.call_id = mend_surrogates(_text(content.get("id"))) or self._new_id()
                block.name = resolve_name(mend_surrogates(_text(content.get("name"))), self._known)
                given = content.get("input")
                yield from self._show(block, argument_text(given) if given else "")
            case "redacted_thinking":
                block.note = {"redacted": mend_surrogates(_text(content.get("data")))}
            case "thinking":
                self._sign(block, content.get("signature"))
                yield from self._show(block, _text(content.get("thinking")))
            case _:
                yield from self._show(block, _text(content.get("text")))

    def _grow(self, index: Any, delta: Any) -> Iterator[Chunk]:
        block = self._blocks.get(_index(index))
        if block is None or not isinstance(delta, dict):
            return
        match delta.get("type"):
            case "text_delta":
                yield from self._show(block, _text(delta.get("text")))
            case "thinking_delta":
                yield from self._show(block, _text(delta.get("thinking")))
            case "input_json_delta":
                yield from self._show(block, _text(delta.get("partial_json")))
            case "signature_delta":
                self._sign(block, delta.get("signature"))
            case _:
                pass

    def _sign(self, block: _Block, signature: Any) -> None:
        if signed := mend_surrogates(_text(signature)):
            block.note = {"signature": block.note.get("signature", "") + signed}

    def _show(self, block: _Block, piece: str) -> Iterator[Chunk]:
        text = block.joiner.push(piece)
        first = not block.pieces
        if text:
            block.pieces.append(text)
        match block.kind:
            case "text" if text:
                yield TextDelta(index=block.index, text=text)
            case "reasoning" if text:
                yield ReasoningDelta(index=block.index, text=text)
            case "tool-call" if text or first:
                name = block.name if first else None
                yield ToolCallDelta(index=block.index, id=block.call_id, name=name, arguments_delta=text)
            case _:
                pass

    def _note_end(self, delta: Any) -> None:
        if isinstance(delta, dict):
            self._reason = word_in(delta.get("stop_reason")) or self._reason

    def _note_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            told = {key: value for key, value in usage.items() if type(value) is int and value >= 0}
            # some gateways count the prompt at the beginning and write 0 at the end
            self._usage |= {key: value for key, value in told.items() if value or key not in self._usage}

    # -- how it ends -----------------------------------------------------------------------------------------

    def _verdict(self, *, done: bool) -> Finish:
        if (failed := failure_in(self._reason)) is not None:
            return Finish(reason="error", failure=failed)
        if not (self.complete or done):
            return Finish(reason="error", failure=CLOSED if self.started else EMPTY)
        cut = self._reason in CUT
        if (overflow := silent_overflow(self._counted(), self._window, cut=cut)) is not None:
            return Finish(reason="error", failure=overflow)
        if cut:
            return self._ended("max-tokens")
        if self._reason in REFUSED:
            return self._ended("refusal")
        calls = [block for block in self._blocks.values() if block.kind == "tool-call"]
        if calls:
            return self._ended("tool-calls")
        empty = not any(block.pieces or block.note for block in self._blocks.values())
        return Finish(reason="error", failure=EMPTY) if empty else self._ended("stop")

    def _ended(self, reason: Literal["stop", "tool-calls", "max-tokens", "refusal"]) -> Finish:
        notes = [block.note for block in self._blocks.values()]
        told: JsonObject = {"model": self._model} if self._model else {}
        if any(notes):
            told |= {"host": self._host, "blocks": notes}
        return Finish(reason=reason, replay_state=told or None)

    def _whole(self, block: _Block) -> TextBlock | ReasoningBlock | ToolCallBlock:
        match block.kind:
            case "text":
                return TextBlock(text=block.text)
            case "reasoning":
                return ReasoningBlock(text=block.text)
            case "tool-call":
                arguments, *_ = split_arguments(block.text)
                return ToolCallBlock(id=block.call_id, name=block.name, arguments=arguments)

    def _counted(self) -> TokenUsage | None:
        if "input_tokens" not in self._usage and "output_tokens" not in self._usage:
            return None
        return TokenUsage(
            input_tokens=self._usage.get("input_tokens", 0),
            output_tokens=self._usage.get("output_tokens", 0),
            cache_read_tokens=self._usage.get("cache_read_input_tokens"),
            cache_write_tokens=self._usage.get("cache_creation_input_tokens"),
        )

    def _usage_chunks(self) -> Iterator[Chunk]:
        if (usage := self._counted()) is not None:
            yield UsageChunk(usage=usage)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _index(value: Any) -> int | str | None:
    return value if isinstance(value, int | str) else None
