"""Chat wire: messages become the body of a chat-completions request.

Rules: no I/O. The same request gives the same bytes, and a longer conversation begins with the bytes of the shorter
one, so that the provider's prefix cache fits. Whatever a session holds, and wherever it was made, can be sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.call_ids import with_own_ids
from dsh_lsp.llm.dialect import Dialect, Wording
from dsh_lsp.llm.open_calls import is_object
from dsh_lsp.llm.surrogates import mend_surrogates
from dsh_lsp.messages import (
    AssistantMessage,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserMessage,
)
from dsh_lsp.wire import JsonObject, dumps

NO_OUTPUT = "(no output)"


def encode_request(
    request: ModelRequest, dialect: Dialect, *, histories: Histories, effort: str | None, stream: bool = True
) -> JsonObject:
    """Build the body; `effort` is one of the dialect's words, None leaves it to the server.

    `tool_choice` is never sent: thinking models refuse it (https://github.com/deepseek-ai/DeepSeek-V3/issues/1376).
    """
    messages: list[JsonObject] = [{"role": "system", "content": request.system}] if request.system else []
    messages += histories.encoded(request, wording_of(dialect, effort))
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
    if request.config.max_tokens is not None:
        body[dialect.max_tokens_field] = request.config.max_tokens
    body |= dialect.efforts[effort] if effort is not None else {}
    body["stream"] = stream
    if stream and dialect.stream_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def wording_of(dialect: Dialect, effort: str | None) -> Wording:
    """How messages are worded: without thinking, no server asks for reasoning with every message."""
    wording = dialect.wording
    no_thinking = effort == "off" and wording.reasoning == "every message"
    return replace(wording, reasoning="never") if no_thinking else wording


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


class Histories:
    """What was sent of the sessions that asked last, so that a request encodes only what is new in its history.

    The history of a request begins with that of the one before, unless a part of it was replaced.
    """

    SESSIONS = 8

    def __init__(self) -> None:
        self._sent: dict[tuple[str, Wording], tuple[tuple[Message, ...], list[tuple[_Encoded, ...]]]] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def encoded(self, request: ModelRequest, wording: Wording) -> Iterator[JsonObject]:
        """Give the encoded messages of a request."""
        key = (request.session_id, wording)
        before, sent = self._sent.pop(key, ((), []))
        messages = with_own_ids(request.messages)
        if wording.takes_turns:
            messages = _in_turns(messages)
        same = _same_until(before, messages)
        sent = sent[:same]
        for message in messages[same:]:
            sent.append(tuple(map(_Encoded, _encode_message(message, wording))))
        self._sent[key] = messages, sent
        if len(self._sent) > self.SESSIONS:
            del self._sent[next(iter(self._sent))]
        return chain.from_iterable(sent)


def _in_turns(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Messages of a user that stand beside each other as one, with an empty line between their texts."""
    turns: list[Message] = []
    for message in messages:
        last = turns[-1] if turns else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            spoken = all(any(isinstance(block, TextBlock) for block in one.content) for one in (last, message))
            between = (TextBlock(text=""),) if spoken else ()
            turns[-1] = replace(last, content=(*last.content, *between, *message.content))
        else:
            turns.append(message)
    return tuple(turns)


def _same_until(before: tuple[Message, ...], now: tuple[Message, ...]) -> int:
    """How many messages at the start are equal."""
    if now[: len(before)] == before:  # the rule, and quick: they are the very same objects
        return len(before)
    return next(index for index, (old, new) in enumerate(zip_longest(before, now)) if old != new)


def _encode_message(message: Message, wording: Wording) -> Iterator[JsonObject]:
    match message:
        case UserMessage():
            yield from _encode_user(message, wording)
        case AssistantMessage():
            yield _encode_assistant(message, wording)


def _encode_user(message: UserMessage, wording: Wording) -> Iterator[JsonObject]:
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    for result in results:
        call_id = sendable_id(result.tool_call_id, short=wording.short_ids)
        yield {"role": "tool", "tool_call_id": call_id, "content": result.text or NO_OUTPUT}
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    if texts or not results:
        yield {"role": "user", "content": "\n".join(texts)}


def _encode_assistant(message: AssistantMessage, wording: Wording) -> JsonObject:
    # "" and not null: https://api.deepseek.com refuses a message with neither content nor calls
    encoded: JsonObject = {"role": "assistant", "content": message.text}
    reasoning = "".join(block.text for block in message.content if isinstance(block, ReasoningBlock))
    if (field := _reasoning_field(message, wording)) is not None:
        encoded[field] = reasoning
    if message.tool_calls:
        encoded["tool_calls"] = [_encode_call(block, wording) for block in message.tool_calls]
    return encoded


def _reasoning_field(message: AssistantMessage, wording: Wording) -> str | None:
    """The field in which a message's reasoning goes back, if it does.

    Where every message must have it, an empty text will do; without it the API refuses the conversation for good
    (https://github.com/experientiallabs/experiential/issues/890). Others refuse a field that they do not know.
    """
    match wording.reasoning:
        case "every message":
            return "reasoning_content"
        case "as received":
            told = message.source.replay_state or {}
            field = told.get("reasoningField")
            mine = (message.source.provider, told.get("host")) == (wording.provider, wording.host)
            return field if isinstance(field, str) and mine else None
        case "never":
            return None


def _encode_call(call: ToolCallBlock, wording: Wording) -> JsonObject:
    return {
        "id": sendable_id(call.id, short=wording.short_ids),
        "type": "function",
        "function": {"name": sendable_name(call.name), "arguments": _sendable_arguments(call.arguments)},
    }


def sendable_name(name: str) -> str:
    """A tool's name as servers take it: they check those of old calls, and one bad call must not end the session."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


def sendable_id(call_id: str, *, short: bool = False) -> str:
    """A call's id as servers take it, wherever it was made; the same id always becomes the same."""
    if short:
        return hashlib.blake2b(call_id.encode(errors="replace")).hexdigest()[:9]
    if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call_id):
        return call_id
    return f"call_{hashlib.blake2b(call_id.encode(errors='replace'), digest_size=16).hexdigest()}"


def _sendable_arguments(arguments: str) -> str:
    return arguments if is_object(arguments) else dumps({"unreadable_arguments": arguments})
