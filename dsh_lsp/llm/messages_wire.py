"""Messages wire: messages become the body of a request to the Messages API.

Rules: no I/O. The same request gives the same bytes. Whatever a session holds, and wherever it was made, can be
sent: roles take turns, results come first in the message after their calls, no text is blank. A model's thinking goes
back with its signature to the host and model that signed it, and to nobody else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Literal

from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.call_ids import with_own_ids
from dsh_lsp.llm.chat_wire import NO_OUTPUT, sendable_id, sendable_name
from dsh_lsp.llm.open_calls import is_object
from dsh_lsp.messages import (
    AssistantMessage,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserMessage,
)
from dsh_lsp.wire import JsonObject

Thinking = Literal["adaptive", "budget"]

EFFORTS = ("off", "low", "high", "max")
BUDGETS: Mapping[str, int] = {"low": 4_096, "high": 16_384, "max": 32_768}
MIN_BUDGET = 1_024
NOTHING = "(empty)"  # the API refuses blank text
GO_ON = "Go on."  # and a conversation that the model itself spoke last in
_CACHED: JsonObject = {"type": "ephemeral"}


def encode_request(request: ModelRequest, *, host: str, thinking: Thinking, stream: bool = True) -> JsonObject:
    """Build the body; the prefix up to its last message is marked for the provider's cache."""
    messages = _merged(_encoded(message, request, host) for message in with_own_ids(request.messages))
    body: JsonObject = {"model": request.config.model, "max_tokens": request.config.max_tokens}
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
    if messages and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": [{"type": "text", "text": GO_ON}]})
    if messages:
        last = messages[-1]
        last["content"] = [*last["content"][:-1], {**last["content"][-1], "cache_control": _CACHED}]
    body["messages"] = messages
    body |= _thinking_fields(request, messages, thinking)
    body["stream"] = stream
    return body


def _thinking_fields(request: ModelRequest, messages: list[JsonObject], thinking: Thinking) -> JsonObject:
    effort = request.config.reasoning_effort
    if effort is None or effort == "off":
        return {}
    if thinking == "adaptive":
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    budget = min(BUDGETS[effort], (request.config.max_tokens or 0) // 2)
    if budget < MIN_BUDGET or _awaits_results_without_thinking(messages):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _awaits_results_without_thinking(messages: list[JsonObject]) -> bool:
    """Whether the turn that goes on began without thinking: then the API refuses that it thinks from here on."""
    for message in reversed(messages):
        content = message["content"]
        if message["role"] == "user":
            if content[0]["type"] != "tool_result":
                return False
        elif content[0]["type"] not in {"thinking", "redacted_thinking"}:
            return True
    return False


def _merged(encoded: Iterator[tuple[str, list[JsonObject]]]) -> list[JsonObject]:
    """Messages in which the roles take turns."""
    messages: list[JsonObject] = []
    for role, content in encoded:
        if not content:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] = _results_first([*messages[-1]["content"], *content])
        else:
            messages.append({"role": role, "content": _results_first(content)})
    return messages


def _results_first(content: list[JsonObject]) -> list[JsonObject]:
    return sorted(content, key=lambda block: block["type"] != "tool_result")


def _encoded(message: Message, request: ModelRequest, host: str) -> tuple[str, list[JsonObject]]:
    match message:
        case UserMessage():
            return "user", [_encode_user_block(block) for block in message.content]
        case AssistantMessage():
            return "assistant", list(_encode_assistant(message, request, host))


def _encode_user_block(block: TextBlock | ToolResultBlock) -> JsonObject:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text if text.strip() else NOTHING}
        case ToolResultBlock():
            text = block.text if block.text.strip() else NO_OUTPUT
            result: JsonObject = {
                "type": "tool_result",
                "tool_use_id": sendable_id(block.tool_call_id),
                "content": [{"type": "text", "text": text}],
            }
            return {**result, "is_error": True} if block.is_error else result


def _encode_assistant(message: AssistantMessage, request: ModelRequest, host: str) -> Iterator[JsonObject]:
    told = message.source.replay_state or {}
    signed = (told.get("host"), message.source.provider, message.source.model)
    mine = signed == (host, request.config.provider, request.config.model)
    notes = told.get("blocks") if mine else None
    for block, note in zip_longest(message.content, notes if isinstance(notes, list) else ()):
        match block:
            case TextBlock(text=text) if text.strip():
                yield {"type": "text", "text": text}
            case ReasoningBlock():
                yield from _encode_thinking(block, note if isinstance(note, dict) else {})
            case ToolCallBlock():
                yield {
                    "type": "tool_use",
                    "id": sendable_id(block.id),
                    "name": sendable_name(block.name),
                    "input": _input_of(block.arguments),
                }
            case _:
                pass


def _encode_thinking(block: ReasoningBlock, note: JsonObject) -> Iterator[JsonObject]:
    if "redacted" in note:
        yield {"type": "redacted_thinking", "data": note["redacted"]}
    elif "signature" in note:
        yield {"type": "thinking", "thinking": block.text, "signature": note["signature"]}


def _input_of(arguments: str) -> JsonObject:
    value: JsonObject = json.loads(arguments) if is_object(arguments) else {"unreadable_arguments": arguments}
    return value
