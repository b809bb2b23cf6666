"""Chat wire: messages become the body of a chat-completions request, its JSON events become chunks.

Rules: no I/O. The same request gives the same bytes, and a longer conversation begins with the bytes of the shorter
one, so that the provider's prefix cache fits. Text goes out as it comes; what ends a block, the usage and the finish
wait for the end of the stream. The finish is decided by what came, not by what the server calls it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from itertools import chain, count, zip_longest
from typing import Any

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.open_calls import OpenCalls
from dsh_lsp.llm.surrogates import SurrogateJoiner, mend_surrogates
from dsh_lsp.messages import (
    AssistantMessage,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    Message,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolResultBlock,
    UsageChunk,
    UserMessage,
)
from dsh_lsp.wire import JsonObject, dumps

NO_OUTPUT = "(no output)"
EMPTY = LlmFailure(message="the model's answer was empty", code="EMPTY_RESPONSE")
CLOSED = LlmFailure(message="the stream ended before the answer was complete", code="STREAM_CLOSED")

# -- request -------------------------------------------------------------------------------------------------


def encode_request(request: ModelRequest, *, effort: str | None, stream: bool = True) -> JsonObject:
    """Build the body in DeepSeek's dialect; `effort` None turns thinking off.

    With thinking on, every assistant message carries `reasoning_content`, the stored text or "": without it the API
    refuses the conversation for good (https://github.com/experientiallabs/experiential/issues/890). `tool_choice`
    is never sent: thinking models refuse it (https://github.com/deepseek-ai/DeepSeek-V3/issues/1376).
    """
    thinking = effort is not None
    messages: list[JsonObject] = [{"role": "system", "content": request.system}] if request.system else []
    messages += _histories.encoded(request, thinking=thinking)
    body: JsonObject = {"model": request.config.model, "messages": messages}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    body["max_tokens"] = request.config.max_tokens
    body["thinking"] = {"type": "enabled" if thinking else "disabled"}
    if thinking:
        body["reasoning_effort"] = effort
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    return body


def dump_body(body: JsonObject) -> bytes:
    """Write a body as UTF-8; half an emoji is replaced, since servers refuse it."""
    members: list[bytes] = []
    for key, value in body.items():
        if isinstance(value, list):
            items = [item.raw if type(item) is _Encoded else _dump(item) for item in value]
            written = b"[%b]" % b",".join(items)
        else:
            written = _dump(value)
        members.append(_dump(key) + b":" + written)
    return b"{%b}" % b",".join(members)


def _dump(value: Any) -> bytes:
    return mend_surrogates(dumps(value)).encode()


class _Encoded(dict[str, Any]):
    """An encoded message that keeps its bytes too, for they stand in every later request of its session."""

    __slots__ = ("raw",)

    def __init__(self, message: JsonObject) -> None:
        super().__init__(message)
        self.raw = _dump(message)


class _Histories:
    """What was sent of the sessions that asked last, so that a request encodes only what is new in its history.

    The history of a request begins with that of the one before, unless a part of it was replaced.
    """

    SESSIONS = 8

    def __init__(self) -> None:
        self._sent: dict[tuple[str, bool], tuple[tuple[Message, ...], list[tuple[_Encoded, ...]]]] = {}

    def encoded(self, request: ModelRequest, *, thinking: bool) -> Iterator[_Encoded]:
        key = (request.session_id, thinking)
        before, sent = self._sent.pop(key, ((), []))
        same = _same_until(before, request.messages)
        sent = sent[:same]
        for message in request.messages[same:]:
            sent.append(tuple(map(_Encoded, _encode_message(message, thinking=thinking))))
        self._sent[key] = request.messages, sent
        if len(self._sent) > self.SESSIONS:
            del self._sent[next(iter(self._sent))]
        return chain.from_iterable(sent)


def _same_until(before: tuple[Message, ...], now: tuple[Message, ...]) -> int:
    """How many messages at the start are equal."""
    if now[: len(before)] == before:  # the rule, and quick: they are the very same objects
        return len(before)
    return next(index for index, (old, new) in enumerate(zip_longest(before, now)) if old != new)


_histories = _Histories()


def _encode_message(message: Message, *, thinking: bool) -> Iterator[JsonObject]:
    match message:
        case UserMessage():
            yield from _encode_user(message)
        case AssistantMessage():
            yield _encode_assistant(message, thinking=thinking)


def _encode_user(message: UserMessage) -> Iterator[JsonObject]:
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    for result in results:
        yield {"role": "tool", "tool_call_id": result.tool_call_id, "content": result.text or NO_OUTPUT}
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    if texts or not results:
        yield {"role": "user", "content": "\n".join(texts)}


def _encode_assistant(message: AssistantMessage, *, thinking: bool) -> JsonObject:
    # "" and not null: https://api.deepseek.com refuses a message with neither content nor calls
    encoded: JsonObject = {"role": "assistant", "content": message.text}
    if thinking:
        encoded["reasoning_content"] = "".join(
            block.text for block in message.content if isinstance(block, ReasoningBlock)
        )
    if message.tool_calls:
        encoded["tool_calls"] = [_encode_call(block) for block in message.tool_calls]
    return encoded


def _encode_call(call: ToolCallBlock) -> JsonObject:
    # servers read the arguments of old calls and check their names: one bad call must not end the session
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unknown"
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": name, "arguments": _sendable_arguments(call.arguments)},
    }


def _sendable_arguments(arguments: str) -> str:
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return dumps({"unreadable_arguments": arguments})


# -- response ------------------------------------------------------------------------------------------------

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_CUT = frozenset({"length", "max_tokens"})
_REFUSED = frozenset({"content_filter", "refusal", "sensitive"})
_FAILED = {
    # overload at DeepSeek: https://github.com/can1357/oh-my-pi/issues/8563
    "insufficient_system_resource": "SERVER",
    "network_error": "SERVER",
    "model_context_window_exceeded": "CONTEXT_WINDOW_EXCEEDED",
    "error": "UNKNOWN",
}


def new_call_id() -> str:
    """Make an id for a tool call that came without one."""
    return f"call_{uuid.uuid4().hex}"


class ChatDecoder:
    """One answer: is fed its JSON events in order and gives its chunks."""

    def __init__(self, *, tool_names: Iterable[str] = (), new_id: Any = new_call_id) -> None:
        self._indexes = count()
        self._calls = OpenCalls(known=frozenset(tool_names), new_id=new_id, new_index=lambda: next(self._indexes))
        self._text = _Prose(TextDelta, TextBlock, "text")
        self._reasoning = _Prose(ReasoningDelta, ReasoningBlock, "reasoning")
        self._usage: TokenUsage | None = None
        self._finish = ""
        self._whole = False
        self._refused = False
        self._model = ""
        self.started = False

    @property
    def complete(self) -> bool:
        """Whether the server has said that the answer is over, `[DONE]` apart."""
        return bool(self._finish) or self._whole

    @property
    def _empty(self) -> bool:
        return not (self._calls or self._text.open or self._reasoning.open)

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        """Take one event that holds no error."""
        choice = _first_choice(event)
        self._usage = read_usage(event.get("usage")) or read_usage(choice.get("usage")) or self._usage
        self._model = _string(event.get("model")) or self._model
        delta = self._delta_of(choice)
        if not choice:
            return
        self.started = True
        reasoning = next((text for name in _REASONING_FIELDS if (text := _string(delta.get(name)))), "")
        if reasoning:
            yield from self._reasoning.push(reasoning, self._indexes)
        refusal = _string(delta.get("refusal"))
        self._refused |= bool(refusal)
        if text := _content_text(delta.get("content")) + refusal:
            yield from self._text.push(text, self._indexes)
        for entry in _call_entries(delta):
            yield from self._calls.push(entry)
        self._finish = _string(choice.get("finish_reason")) or self._finish

    def end(self, *, done: bool) -> Iterator[Chunk]:
        """End the stream after the last event; `done` says that `[DONE]` came."""
        yield from self._text.flush(self._indexes)
        yield from self._reasoning.flush(self._indexes)
        finish = self._verdict(done=done)
        if finish.failure is not None:
            yield from self.fail(finish.failure)
            return
        ends = [*self._text.end(), *self._reasoning.end(), *self._calls.close()]
        yield from sorted(ends, key=lambda chunk: getattr(chunk, "index", 0))
        yield from self._usage_chunks()
        yield finish

    def fail(self, failure: LlmFailure) -> Iterator[Chunk]:
        """End the stream by a failure: no block is whole."""
        yield from self._usage_chunks()
        yield Finish(reason="error", failure=failure)

    def _verdict(self, *, done: bool) -> Finish:
        if self._finish in _FAILED:
            return Finish(reason="error", failure=self._failed())
        if not (self.complete or done):
            return Finish(reason="error", failure=CLOSED if self.started else EMPTY)
        if self._finish in _REFUSED or self._refused:
            return self._ended("refusal")
        if self._finish in _CUT:
            return self._ended("max-tokens")
        if self._calls:
            # a call that is not whole, and nobody said that it should be: the stream was cut before `[DONE]`
            cut = not self._finish and not self._calls.complete
            return Finish(reason="error", failure=CLOSED) if cut else self._ended("tool-calls")
        return Finish(reason="error", failure=EMPTY) if self._empty else self._ended("stop")

    def _ended(self, reason: Any) -> Finish:
        return Finish(reason=reason, replay_state={"model": self._model} if self._model else None)

    def _failed(self) -> LlmFailure:
        return LlmFailure(message=f"the provider ended the answer: {self._finish}", code=_FAILED[self._finish])

    def _delta_of(self, choice: JsonObject) -> JsonObject:
        """Find what is new: the delta, or the whole message that some servers send in its place."""
        delta = choice.get("delta")
        if isinstance(delta, dict) and delta:
            return delta
        message = choice.get("message")
        if isinstance(message, dict) and self._empty:
            self._whole = True
            return message
        return {}

    def _usage_chunks(self) -> Iterator[Chunk]:
        if self._usage is not None:
            yield UsageChunk(usage=self._usage)


class _Prose:
    """The text block or the reasoning block of an answer; opened by its first character."""

    def __init__(self, delta: Any, block: Any, kind: Any) -> None:
        self._delta, self._block, self._kind = delta, block, kind
        self._joiner = SurrogateJoiner()
        self._pieces: list[str] = []
        self._index = -1

    @property
    def open(self) -> bool:
        return bool(self._pieces)

    def push(self, piece: str, indexes: Iterator[int]) -> Iterator[Chunk]:
        return self._show(self._joiner.push(piece), indexes)

    def flush(self, indexes: Iterator[int]) -> Iterator[Chunk]:
        return self._show(self._joiner.flush(), indexes)

    def end(self) -> Iterator[Chunk]:
        if self.open:
            yield BlockEnd(index=self._index, block=self._block(text="".join(self._pieces)))

    def _show(self, piece: str, indexes: Iterator[int]) -> Iterator[Chunk]:
        if not piece:
            return
        if not self.open:
            self._index = next(indexes)
            yield BlockStart(index=self._index, block_type=self._kind)
        self._pieces.append(piece)
        yield self._delta(index=self._index, text=piece)


def read_usage(usage: Any) -> TokenUsage | None:
    """Read a usage object; the cached part of the prompt is taken out of the input."""
    if not isinstance(usage, dict):
        return None
    prompt, output = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
    if prompt is None and output is None:
        return None
    cached = _tokens(usage, "prompt_cache_hit_tokens")
    if cached is None:
        cached = _tokens(usage.get("prompt_tokens_details"), "cached_tokens")
    return TokenUsage(
        input_tokens=max(0, (prompt or 0) - (cached or 0)),
        output_tokens=output or 0,
        cache_read_tokens=cached,
        reasoning_tokens=_tokens(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _tokens(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and value >= 0 else None


def _first_choice(event: JsonObject) -> JsonObject:
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (0, None):
            return choice
    return {}


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(_string(part.get("text")) for part in content if isinstance(part, dict))
    return _string(content)


def _call_entries(delta: JsonObject) -> list[JsonObject]:
    calls = delta.get("tool_calls")
    if isinstance(calls, list) and calls:
        return [entry for entry in calls if isinstance(entry, dict)]
    legacy = delta.get("function_call")
    return [{"function": legacy}] if isinstance(legacy, dict) else []


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
