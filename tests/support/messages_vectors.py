"""Messages vectors: the bytes of the Messages API, each with what a good client makes of them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.wire_vectors.vector import HELLO, Vector


def _event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False).encode()
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def _start(**usage: int) -> bytes:
    counted = {"input_tokens": 7, "output_tokens": 1, **usage}
    return _event("message_start", message={"id": "msg", "role": "assistant", "model": "c-1", "usage": counted})


def _block(index: Any, content: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    grown = b"".join(_event("content_block_delta", index=index, delta=delta) for delta in deltas)
    return _event("content_block_start", index=index, content_block=content) + grown + _stop_block(index)


def _stop_block(index: Any) -> bytes:
    return _event("content_block_stop", index=index)


def _text(index: int, *pieces: str) -> bytes:
    return _block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def _thinking(index: int, text: str, signature: str = "sig") -> bytes:
    return _block(
        index,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": text},
        {"type": "signature_delta", "signature": signature},
    )


def _use(index: int, name: str, *pieces: str, call_id: str | None = None) -> bytes:
    content = {"type": "tool_use", "id": call_id or f"toolu_{index}", "name": name, "input": {}}
    return _block(index, content, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def _end(reason: str | None = "end_turn", output: int = 2) -> bytes:
    delta = _event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": output})
    return delta + _event("message_stop")


def _v(name: str, data: bytes, **want: Any) -> Vector:
    return Vector(id=name, packets=(data,) if data else (), by="anthropic", **want)


def _hello(name: str, data: bytes, **want: Any) -> Vector:
    return _v(name, data, **{"text": HELLO, "finish": "stop", "usage": (7, 2), **want})


PING = _event("ping")
SAID = _start() + PING + _text(0, "He", "llo \u4f60") + _end()
ONE = (("f", {"x": 1}),)

VECTORS = (
    _hello("text", SAID),
    _hello("thinking", _start() + _thinking(0, "why") + _text(1, HELLO) + _end(), reasoning="why"),
    _hello(
        "redacted-thinking",
        _start() + _block(0, {"type": "redacted_thinking", "data": "xyz"}) + _text(1, HELLO) + _end(),
    ),
    _hello(
        "signature-in-pieces",
        _start()
        + _block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "why"},
            {"type": "signature_delta", "signature": "first "},
            {"type": "signature_delta", "signature": "second"},
        )
        + _text(1, HELLO)
        + _end(),
        reasoning="why",
    ),
    _v(
        "call",
        _start() + _text(0, "So.") + _use(1, "f", "", '{"x"', ": 1}") + _end("tool_use"),
        text="So.",
        calls=ONE,
        finish="tool-calls",
    ),
    _v(
        "two-calls",
        _start() + _use(0, "f", '{"x":1}') + _use(1, "g", '{"y":2}') + _end("tool_use"),
        calls=(("f", {"x": 1}), ("g", {"y": 2})),
        finish="tool-calls",
    ),
    _v("call-without-input", _start() + _use(0, "f") + _end("tool_use"), calls=(("f", {}),), finish="tool-calls"),
    _v(
        "call-with-input-at-once",
        _start() + _block(0, {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}) + _end("tool_use"),
        calls=ONE,
        finish="tool-calls",
    ),
    _v("call-although-end-turn", _start() + _use(0, "f", '{"x":1}') + _end(), calls=ONE, finish="tool-calls"),
    _v(
        "cut-at-its-limit-in-a-call",
        _start() + _text(0, "x") + _use(1, "bash", '{"command":"rm -rf /tmp/bu') + _end("max_tokens"),
        text="x",
        finish="max-tokens",
    ),
    _v("refusal", _start() + _text(0, "no") + _end("refusal"), text="no", finish="refusal"),
    _v("sensitive", _start() + _text(0, "no") + _end("sensitive"), text="no", finish="refusal"),
    _v("network-error", _start() + _text(0, "x") + _end("network_error"), text="x", error="SERVER"),
    _v(
        "window-full",
        _start() + _text(0, "x") + _end("model_context_window_exceeded"),
        text="x",
        error="CONTEXT_WINDOW_EXCEEDED",
    ),
    _v(
        "more-than-the-window",
        _start(input_tokens=150_000, cache_read_input_tokens=60_000) + _text(0, "x") + _end(),
        text="x",
        error="CONTEXT_WINDOW_EXCEEDED",
    ),
    _v(
        "a-full-window-and-no-answer",
        _start(input_tokens=199_000, output_tokens=0) + _end("max_tokens", output=0),
        error="CONTEXT_WINDOW_EXCEEDED",
    ),
    _hello(
        "no-count-at-the-end",
        _start()
        + _text(0, HELLO)
        + _event("message_delta", delta={"stop_reason": "end_turn"}, usage={"input_tokens": 0, "output_tokens": 2})
        + _event("message_stop"),
    ),
    _hello(
        "no-message-stop",
        _start()
        + _text(0, HELLO)
        + _event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
    ),
    _v(
        "half-an-emoji-in-names",
        (_start() + _thinking(0, "why", "s-1") + _use(1, "f-1", "{}", call_id="t-1") + _end("tool_use")).replace(
            b"-1", b"\\ud83d"
        ),
        reasoning="why",
        calls=(("f\ufffd", {}),),
        finish="tool-calls",
    ),
    _v(
        "infinity",
        (_start() + _use(0, "f") + _end("tool_use")).replace(b'"input": {}', b'"input": {"x": 1e999}'),
        calls=(("f", {"x": float("inf")}),),
        finish="tool-calls",
    ),
    _v("no-end", _start() + _text(0, HELLO), text=HELLO, error="STREAM_CLOSED"),
    _v("half-a-call", _start() + _use(0, "f", '{"x":')[:-60], error="STREAM_CLOSED"),
    _v("cut", _start() + _text(0, HELLO), cut=True, text=HELLO, error="TRANSPORT"),
    _hello("cut-after-the-end", SAID, cut=True),
    _v("nothing", b"", error="EMPTY_RESPONSE"),
    _v("web-page", b"<html>log in</html>", content_type="text/html", error="MALFORMED_RESPONSE"),
    _v("other-json", b'{"object": "chat.completion"}', content_type="application/json", error="MALFORMED_RESPONSE"),
    _v(
        "index-that-is-none",
        _start() + _block(["a"], {"type": "text", "text": ""}, {"type": "text_delta", "text": HELLO}) + _end(),
        text=HELLO,
        finish="stop",
    ),
    _v("no-blocks", _start() + _end(), error="EMPTY_RESPONSE"),
    _v(
        "overloaded-later",
        _start() + _text(0, "He") + _event("error", error={"type": "overloaded_error", "message": "Overloaded"}),
        text="He",
        error="SERVER",
    ),
    _v(
        "rate-limit-inside",
        _event("error", error={"type": "rate_limit_error", "message": "slow down"}),
        error="RATE_LIMIT",
    ),
    _v(
        "too-long-inside",
        _event(
            "error", error={"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}
        ),
        error="CONTEXT_WINDOW_EXCEEDED",
    ),
    _hello(
        "unknown-events-and-blocks",
        _event("news") + _start() + _block(0, {"type": "server_tool_use", "id": "s"}) + _text(1, HELLO) + _end(),
    ),
    _hello("cache", _start(cache_read_input_tokens=90, cache_creation_input_tokens=4) + _text(0, HELLO) + _end()),
    _v(
        "not-streamed",
        json.dumps(
            {
                "type": "message",
                "model": "c-1",
                "content": [
                    {"type": "thinking", "thinking": "why", "signature": "sig"},
                    {"type": "text", "text": "hi"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
                ],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 7, "output_tokens": 2},
            }
        ).encode(),
        content_type="application/json",
        text="hi",
        reasoning="why",
        calls=ONE,
        finish="tool-calls",
        usage=(7, 2),
    ),
)
