"""Vector: the bytes of one answer with what a good client makes of them, and what such bytes are built of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dsh_lsp.messages import ToolSpec
from tests.support.model_server import EVENT_STREAM


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """`calls` are names with decoded arguments, None for arguments that are no object; `error` is our code."""

    id: str
    packets: tuple[bytes, ...]
    content_type: str = EVENT_STREAM
    cut: bool = False
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, dict[str, Any] | None], ...] = ()
    finish: str = "error"
    error: str | None = None
    usage: tuple[int, int] | None = None
    by: str | None = None


_NUMBER = {"properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
_TEXT = {"properties": {"path": {"type": "string"}, "command": {"type": "string"}}}
TOOLS = tuple(
    ToolSpec(name=name, description="", parameters=_NUMBER if len(name) == 1 else _TEXT)
    for name in ("f", "g", "bash", "read_file", "edit_existing_file")
)
HELLO = "Hello \u4f60"


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **top: Any) -> bytes:
    return as_json({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **top})


def stream(*payloads: bytes, end: bytes = b"\n", field: bytes = b"data: ", done: bool = True) -> bytes:
    lines = [field + payload + end + end for payload in payloads]
    return b"".join([*lines, field + b"[DONE]" + end + end] if done else lines)


def call(
    name: str | None = None, arguments: Any = None, *, index: Any = 0, call_id: str | None = "a"
) -> dict[str, Any]:
    entry: dict[str, Any] = {"index": index, "id": call_id}
    function = {"name": name, "arguments": arguments}
    entry = {key: value for key, value in entry.items() if value is not None}
    return {**entry, "function": {key: value for key, value in function.items() if value is not None}}


def called_delta(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(entries)}


def called(*entries: dict[str, Any]) -> bytes:
    return chunk(called_delta(*entries))


def bytewise(data: bytes) -> tuple[bytes, ...]:
    return tuple(data[at : at + 1] for at in range(len(data)))


A = chunk({"role": "assistant", "content": "He"})
B = chunk({"content": "llo \u4f60"})
STOP = chunk({}, "stop")
USED = {"prompt_tokens": 7, "completion_tokens": 2}


def vector(name: str, data: bytes | tuple[bytes, ...], **want: Any) -> Vector:
    return Vector(id=name, packets=data if isinstance(data, tuple) else (data,) if data else (), **want)


def hello(name: str, data: bytes | tuple[bytes, ...], **want: Any) -> Vector:
    return vector(name, data, **{"text": HELLO, "finish": "stop", **want})
