"""Wire vectors: the very bytes that model servers send, each with what a good client makes of them.

Rules: an id begins with the number of its quirk: 01-21 bytes and framing, 22-34 events, 35-49 tool calls.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

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


TOOL_NAMES = ("f", "g", "bash", "read_file", "edit_existing_file")
HELLO = "Hello \u4f60"


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **top: Any) -> bytes:
    return _json({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **top})


def _events(*payloads: bytes, end: bytes = b"\n", field: bytes = b"data: ", done: bool = True) -> bytes:
    lines = [field + payload + end + end for payload in payloads]
    return b"".join([*lines, field + b"[DONE]" + end + end] if done else lines)


def _call(
    name: str | None = None, arguments: Any = None, *, index: int | None = 0, call_id: str | None = "a"
) -> dict[str, Any]:
    entry: dict[str, Any] = {"index": index, "id": call_id}
    function = {"name": name, "arguments": arguments}
    entry = {key: value for key, value in entry.items() if value is not None}
    return {**entry, "function": {key: value for key, value in function.items() if value is not None}}


def _called(*entries: dict[str, Any]) -> bytes:
    return _chunk({"tool_calls": list(entries)})


def _bytewise(data: bytes) -> tuple[bytes, ...]:
    return tuple(data[at : at + 1] for at in range(len(data)))


A = _chunk({"role": "assistant", "content": "He"})
B = _chunk({"content": "llo \u4f60"})
STOP = _chunk({}, "stop")
USED = {"prompt_tokens": 7, "completion_tokens": 2}


def _v(name: str, data: bytes | tuple[bytes, ...], **want: Any) -> Vector:
    return Vector(id=name, packets=data if isinstance(data, tuple) else (data,) if data else (), **want)


def _hello(name: str, data: bytes | tuple[bytes, ...], **want: Any) -> Vector:
    return _v(name, data, **{"text": HELLO, "finish": "stop", **want})


def _calls(name: str, *payloads: bytes, calls: tuple[tuple[str, dict[str, Any] | None], ...]) -> Vector:
    return _v(name, _events(*payloads, _chunk({}, "tool_calls")), calls=calls, finish="tool-calls")


FRAMING = (
    _hello("01-no-space", _events(A, B, STOP, field=b"data:")),
    _hello("02-crlf", _events(A, B, STOP, end=b"\r\n")),
    _hello("02-crlf-bytewise", _bytewise(_events(A, B, STOP, end=b"\r\n"))),
    _hello("02-cr", _events(A, B, STOP, end=b"\r")),
    _hello("02-mixed", _events(A, end=b"\r", done=False) + _events(B, end=b"\r\n", done=False) + _events(STOP)),
    _hello("03-bytewise", _bytewise(_events(A, B, STOP))),
    _hello("04-byte-order-mark", b"\xef\xbb\xbf" + _events(A, B, STOP)),
    _hello("04-byte-order-mark-bytewise", _bytewise(b"\xef\xbb\xbf" + _events(A, B, STOP))),
    _hello("05-charset", _events(A, B, STOP), content_type="text/event-stream; charset=iso-8859-1"),
    _v(
        "06-line-separators-in-text",
        _events(_chunk({"content": "a\u2028b\u0085c"}), STOP),
        text="a\u2028b\u0085c",
        finish="stop",
    ),
    _hello("07-unterminated-done", _events(A, B, STOP, done=False) + b"data: [DONE]"),
    _hello("07-unterminated-event", _events(A, B, done=False) + b"data: " + STOP),
    _hello("08-comments", b": keep-alive\n\n: ping - 2026-11-29 20:04:08+00:00\n\n" + _events(A, B, STOP)),
    _hello("09-id-lines", b"id: 7\n" + _events(A, done=False) + b"\n\n\n" + _events(B, STOP)),
    _v(
        "10-data-on-two-lines",
        b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"x"},"finish_reason":null}]}\n\n' + _events(STOP),
        text="x",
        finish="stop",
    ),
    _v("11-long-line", _events(_chunk({"content": "x" * 3_000_000}), STOP), text="x" * 3_000_000, finish="stop"),
    _v(
        "12-bad-utf8",
        _events(A, done=False) + b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n' + _events(STOP),
        text="He\ufffd",
        finish="stop",
    ),
    _v(
        "13-emoji-in-two-deltas",
        _events(
            b'{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}',
            b'{"choices":[{"index":0,"delta":{"content":"\\ude00b"}}]}',
            STOP,
        ),
        text="a\U0001f600b",
        finish="stop",
    ),
    _v(
        "13-half-an-emoji",
        _events(b'{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}', STOP),
        text="a\ufffd",
        finish="stop",
    ),
    _hello("14-no-done", _events(A, B, STOP, done=False)),
    _hello("15-done-without-finish", _events(A, B)),
    _hello("15-finish-null", _events(A, B, _chunk({}, None))),
    _hello("15-finish-empty", _events(A, B, _chunk({}, ""))),
    _v("16-end-without-end", _events(A, B, done=False), text=HELLO, error="STREAM_CLOSED"),
    _v("16-open-call", _events(_called(_call("f", '{"x":')), done=False), error="STREAM_CLOSED"),
    _v("16-half-an-event", _events(A, done=False) + b"data: " + B[:20], text="He", error="STREAM_CLOSED"),
    _v("17-cut", _events(A, B, done=False), cut=True, text=HELLO, error="TRANSPORT"),
    _hello("17-cut-after-finish", _events(A, B, STOP, done=False), cut=True),
    _v("18-empty", b"", error="EMPTY_RESPONSE"),
    _v("18-done-only", b"data: [DONE]\n\n", error="EMPTY_RESPONSE"),
    _v(
        "19-json-body",
        _json(
            {
                "object": "chat.completion",
                "choices": [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": "hi",
                            "reasoning_content": "r",
                            "tool_calls": [_call("f", '{"x":1}', index=None)],
                        },
                        "finish_reason": "tool_calls",
                    }
                ],
                "usage": USED,
            }
        ),
        content_type="application/json",
        text="hi",
        reasoning="r",
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
        usage=(7, 2),
    ),
    _v(
        "19-json-body-on-many-lines",
        b'\n\n{\n  "choices": [\n    {"message": {"content": "hi"},\n "finish_reason": "stop"}\n  ]\n}\n',
        text="hi",
        finish="stop",
    ),
    _hello("20-plain-type", _events(A, B, STOP), content_type="text/plain"),
    _v("20-json-error", _json({"error": {"message": "boom", "code": "x"}}), error="UNKNOWN"),
    _hello("21-json-lines", A + b"\n" + B + b"\n" + STOP + b"\n", content_type="application/x-ndjson"),
    _hello("21-json-lines-bytewise", _bytewise(A + b"\n" + B + b"\n" + STOP)),
)

EVENTS = (
    _v("22-error-later", _events(A, _json({"error": {"message": "died", "code": 502}})), text="He", error="SERVER"),
    _v(
        "22-error-event",
        _events(A, done=False) + b'event: error\ndata: {"error":{"message":"slow","code":"rate_limit_exceeded"}}\n\n',
        text="He",
        error="RATE_LIMIT",
    ),
    _v("22-error-event-as-text", b"event: error\ndata: rate limit exceeded\n\n", error="RATE_LIMIT"),
    _v(
        "22-error-without-wrapper",
        _events(
            _json({"object": "error", "message": "This model's maximum context length is 10 tokens.", "code": 400})
        ),
        error="CONTEXT_WINDOW_EXCEEDED",
    ),
    _v("22-error-as-text", _events(_json({"error": "model not found"})), error="UNKNOWN"),
    _v(
        "22-error-in-choice",
        _events(
            _json({"choices": [{"index": 0, "finish_reason": "error", "error": {"message": "x", "code": "503"}}]})
        ),
        error="SERVER",
    ),
    _v("22-not-json", _events(A, b"{oops", STOP), text="He", error="MALFORMED_RESPONSE"),
    _hello("22-error-null", _events(_chunk({"content": HELLO}, None, error=None), STOP)),
    _hello(
        "23-usage-last",
        _events(A, B, STOP, _json({"choices": [], "usage": {**USED, "prompt_cache_hit_tokens": 4}})),
        usage=(3, 2),
    ),
    _hello("23-no-choices-first", _events(_json({"choices": [], "prompt_filter_results": []}), A, B, STOP)),
    _hello(
        "24-usage-in-each",
        _events(
            _chunk({"content": HELLO}, None, usage={"prompt_tokens": 7, "completion_tokens": 1}),
            _chunk({}, "stop", usage=USED),
            _json({"choices": [], "usage": None}),
        ),
        usage=(7, 2),
    ),
    _hello(
        "25-nulls",
        _events(
            _chunk(
                {"role": None, "content": None, "tool_calls": None, "function_call": None, "reasoning_content": ""}
            ),
            A,
            B,
            STOP,
        ),
    ),
    _hello(
        "26-role-in-each",
        _events(A, _chunk({"role": "assistant", "content": "llo \u4f60"}), STOP),
    ),
    _hello(
        "26-message-for-delta",
        _events(_json({"choices": [{"index": 0, "message": {"content": HELLO}, "finish_reason": "stop"}]})),
    ),
    _hello(
        "26-message-repeats-all",
        _events(A, B, _json({"choices": [{"index": 0, "message": {"content": HELLO}, "finish_reason": "stop"}]})),
    ),
    _hello(
        "27-content-parts",
        _events(_chunk({"content": [{"type": "text", "text": "He"}, {"type": "text", "text": "llo \u4f60"}]}), STOP),
    ),
    _hello(
        "28-second-choice",
        _events(A, _json({"choices": [{"index": 1, "delta": {"content": "NO"}, "finish_reason": "stop"}]}), B, STOP),
    ),
    _hello("29-reasoning", _events(_chunk({"reasoning": "why"}), A, B, STOP), reasoning="why"),
    _hello(
        "29-reasoning-twice",
        _events(_chunk({"reasoning": "why", "reasoning_content": "why"}), A, B, STOP),
        reasoning="why",
    ),
    _v("29-reasoning-only", _events(_chunk({"reasoning_content": "why"}), STOP), reasoning="why", finish="stop"),
    _v(
        "31-stop-with-call",
        _events(_called(_call("f", '{"x":1}')), STOP),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    _v(
        "31-no-finish-with-call",
        _events(_called(_call("f", '{"x":1}'))),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    _hello("32-tool-finish-without-call", _events(A, B, _chunk({}, "tool_calls"))),
    _v("32-nothing", _events(_chunk({}, "tool_calls")), error="EMPTY_RESPONSE"),
    _v(
        "33-length-in-call",
        _events(
            _chunk({"content": "x"}), _called(_call("bash", '{"command":"rm -rf /tmp/build')), _chunk({}, "length")
        ),
        text="x",
        finish="max-tokens",
    ),
    _v("34-filter", _events(A, _chunk({}, "content_filter")), text="He", finish="refusal"),
    _v("34-refusal-field", _events(_chunk({"refusal": "no"}), STOP), text="no", finish="refusal"),
    _v("34-no-resource", _events(A, _chunk({}, "insufficient_system_resource")), text="He", error="SERVER"),
)

_TWO = (("f", {"x": 1}), ("g", {"y": 2}))
_ONE = (("f", {"x": 1}),)

CALLS = (
    _calls(
        "35-no-index",
        _called(_call("f", '{"x":1}', index=None)),
        _called(_call("g", '{"y":2}', index=None, call_id="b")),
        calls=_TWO,
    ),
    _calls(
        "35-no-index-in-pieces",
        _called(_call("f", '{"x"', index=None)),
        _called(_call(None, ":1}", index=None, call_id=None)),
        _called(_call("g", '{"y":2}', index=None, call_id="b")),
        calls=_TWO,
    ),
    _calls("36-one-index-two-ids", _called(_call("f", '{"x":1}'), _call("g", '{"y":2}', call_id="b")), calls=_TWO),
    _calls(
        "37-one-index-no-ids",
        _called(_call("f", '{"x":1}', call_id=None)),
        _called(_call("g", '{"y":2}', call_id=None)),
        calls=_TWO,
    ),
    _calls(
        "38-pasted-objects",
        _called(_call("f", '{"x":1}{"x":2}{"x":3}')),
        calls=(("f", {"x": 1}), ("f", {"x": 2}), ("f", {"x": 3})),
    ),
    _calls("39-no-id", _called(_call("f", '{"x":1}', call_id=None)), calls=_ONE),
    _calls("39-empty-id", _called(_call("f", '{"x":1}', call_id="")), calls=_ONE),
    _calls("39-same-id-twice", _called(_call("f", '{"x":1}'), _call("g", '{"y":2}', index=1)), calls=_TWO),
    _calls(
        "40-id-and-name-in-each",
        _called(_call("f", '{"x"')),
        _called(_call("f", ":1")),
        _called(_call("f", "}")),
        calls=_ONE,
    ),
    _calls(
        "40-name-in-each",
        _called(_call("f", '{"x":1}')),
        _called(_call("f", "", call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "41-name-in-pieces",
        _called(_call("edit_ex", "")),
        _called(_call("isting_file", '{"x":1}', call_id=None)),
        calls=(("edit_existing_file", {"x": 1}),),
    ),
    _calls("42-late-name", _called(_call(None, '{"x":')), _called(_call("f", "1}", call_id=None)), calls=_ONE),
    _calls("42-no-name", _called(_call(None, '{"x":1}')), calls=(("", {"x": 1}),)),
    _calls("43-arguments-as-object", _called(_call("f", {"x": 1})), calls=_ONE),
    _calls("44-empty-arguments", _called(_call("f", "")), calls=(("f", {}),)),
    _calls(
        "44-null-arguments",
        _called({"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}),
        calls=(("f", {}),),
    ),
    _calls(
        "44-placeholder-arguments",
        _called(_call("f", "{}")),
        _called(_call(None, '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls("45-encoded-twice", _called(_call("f", json.dumps('{"x":1}'))), calls=_ONE),
    _calls("45-array", _called(_call("f", "[1]")), calls=(("f", None),)),
    _calls(
        "46-cumulative-arguments",
        _called(_call("f", '{"x"')),
        _called(_call(None, '{"x":1', call_id=None)),
        _called(_call(None, '{"x":1}', call_id=None)),
        _called(_call(None, '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "47-interleaved",
        _called(_call("f", '{"x"')),
        _called(_call("g", '{"y"', index=1, call_id="b")),
        _called(_call(None, ":1}", call_id=None)),
        _called(_call(None, ":2}", index=1, call_id=None)),
        calls=_TWO,
    ),
    _calls("48-raw-newline", _called(_call("bash", '{"command":"a\nb"}')), calls=(("bash", {"command": "a\nb"}),)),
    _calls("48-bad-escape", _called(_call("bash", '{"command":"C:\\Users\\new \\d"}')), calls=(("bash", None),)),
    _calls("49-decorated-name", _called(_call("functions.bash:0", '{"x":1}')), calls=(("bash", {"x": 1}),)),
    _calls("49-other-case", _called(_call("Read_File", '{"x":1}')), calls=(("read_file", {"x": 1}),)),
)

VECTORS = (*FRAMING, *EVENTS, *CALLS)
