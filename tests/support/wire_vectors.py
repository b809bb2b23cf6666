"""Wire vectors: the very bytes that model servers send, each with what a good client makes of them.

Rules: an id begins with the number of its quirk: 01-21 bytes and framing, 22-34 events, 35-50 tool calls. A vector
with `by` is for that adapter of `tests/support/adapters.py` alone.
"""

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


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **top: Any) -> bytes:
    return _json({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **top})


def _events(*payloads: bytes, end: bytes = b"\n", field: bytes = b"data: ", done: bool = True) -> bytes:
    lines = [field + payload + end + end for payload in payloads]
    return b"".join([*lines, field + b"[DONE]" + end + end] if done else lines)


def _call(
    name: str | None = None, arguments: Any = None, *, index: Any = 0, call_id: str | None = "a"
) -> dict[str, Any]:
    entry: dict[str, Any] = {"index": index, "id": call_id}
    function = {"name": name, "arguments": arguments}
    entry = {key: value for key, value in entry.items() if value is not None}
    return {**entry, "function": {key: value for key, value in function.items() if value is not None}}


def _called_delta(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(entries)}


def _called(*entries: dict[str, Any]) -> bytes:
    return _chunk(_called_delta(*entries))


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
    _v("22-not-json", _events(A, b"{oops", B, STOP), text="He", error="STREAM_CLOSED"),
    _hello("22-not-json-after-the-end", _events(A, B, STOP, b"{oops", b"more", _chunk({"content": "no"}))),
    _v("22-finish-error", _events(A, _chunk({}, "error")), text="He", error="SERVER"),
    _v("22-network-error", _events(A, _chunk({}, "network_error")), text="He", error="SERVER"),
    _v("22-window-full", _events(_chunk({}, "model_context_window_exceeded")), error="CONTEXT_WINDOW_EXCEEDED"),
    _v(
        "22-web-page",
        b"<!DOCTYPE html>\n<p>\nlog in\n</p>",
        content_type="text/html",
        error="MALFORMED_RESPONSE",
    ),
    _v("22-words", b"OK", content_type="text/plain", error="MALFORMED_RESPONSE"),
    _v("22-other-json", b'{"status": "ok"}', content_type="application/json", error="MALFORMED_RESPONSE"),
    _v("22-other-events", b'data: {"hello": "there"}\n\n', error="MALFORMED_RESPONSE"),
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
        "24-usage-in-the-choice",
        _events(A, B, _json({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USED}]})),
        usage=(7, 2),
    ),
    _hello("24-no-usage", _events(A, B, STOP)),
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
    _v(
        "25-function-call-beside-tool-calls",
        _events(
            _chunk({**_called_delta(_call("f", '{"x":1}')), "function_call": {"name": "g", "arguments": "{}"}}), STOP
        ),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    _v(
        "25-function-call-alone",
        _events(_chunk({"function_call": {"name": "f", "arguments": '{"x":1}'}}), _chunk({}, "function_call")),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
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
    _hello("29-reasoning-text", _events(_chunk({"reasoning_text": "why"}), A, B, STOP), reasoning="why"),
    _hello(
        "29-reasoning-details",
        _events(_chunk({"reasoning_details": [{"type": "reasoning.text", "text": "why"}]}), A, B, STOP),
        reasoning="why",
    ),
    _hello(
        "29-no-tags-beside-the-field",
        _events(_chunk({"reasoning": "why"}), _chunk({"content": f"<think>{HELLO}"}), STOP),
        reasoning="why",
        text=f"<think>{HELLO}",
        by="tags",
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
    _v(
        "31-any-word-with-call",
        _events(_called(_call("f", '{"x":1}')), _chunk({}, "eos")),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    _hello("31-any-word", _events(A, B, _chunk({}, "end"))),
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
    _v("34-refused", _events(A, _chunk({}, "refusal")), text="He", finish="refusal"),
    _v("34-sensitive", _events(A, _chunk({}, "sensitive")), text="He", finish="refusal"),
    _v("34-refusal-field", _events(_chunk({"refusal": "no"}), STOP), text="no", finish="refusal"),
    _v("34-no-resource", _events(A, _chunk({}, "insufficient_system_resource")), text="He", error="SERVER"),
)


def _tags(name: str, *pieces: str, **want: Any) -> Vector:
    data = _events(*(_chunk({"content": piece}) for piece in pieces), STOP)
    return _v(name, data, **{"finish": "stop", "by": "tags", **want})


TAGS = (
    _tags("30-tags-in-pieces", "<th", "ink>why</thi", f"nk>\n\n{HELLO}", text=HELLO, reasoning="why"),
    _tags("30-tags-after-space", f"\n<think>why</think>{HELLO}", text=HELLO, reasoning="why"),
    _tags("30-less-than", "a <", " b <think> c", text="a < b <think> c"),
    _tags("30-begins-like-a-tag", "<th", "ere>", text="<there>"),
    _tags("30-close-tag-only", "why\n</th", "ink>\n", HELLO, text=HELLO, reasoning="why\n"),
    _tags("30-close-tag-first", "</thi", f"nk>\n\n{HELLO}", text=HELLO),
    _tags("30-close-tag-after-a-word", "why</think", f">{HELLO}", text=HELLO, reasoning="why"),
    _tags("30-close-tag-before-a-line", "why. </think>", f"\n\n{HELLO}", text=HELLO, reasoning="why. "),
    _tags("30-close-tag-quoted", "write `</think>` last", text="write `</think>` last"),
    _tags(
        "30-tags-that-are-told-of",
        "Models write\n<think>\nso\n</th",
        "ink>\nand then",
        text="Models write\n<think>\nso\n</think>\nand then",
    ),
    _tags(
        "30-close-tag-in-a-fence",
        "Like so:\n``",
        "`\nwhy\n</think>\nwell\n```\n",
        text="Like so:\n```\nwhy\n</think>\nwell\n```\n",
    ),
    _tags("30-close-tag-in-words", "use </think> to end", text="use </think> to end"),
    _tags("30-never-closed", "<think>", HELLO, text=HELLO),
    _v(
        "30-never-closed-before-a-call",
        _events(_chunk({"content": "<think>why"}), _called(_call("f", '{"x":1}')), STOP),
        reasoning="why",
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
        by="tags",
    ),
    _tags("30-empty-tag", f"<think/>{HELLO}", text=HELLO),
    _tags("30-empty-tags", f"<think>\n\n</think>\n\n{HELLO}", text=HELLO, reasoning="\n\n"),
    _v(
        "30-off",
        _events(_chunk({"content": "<think>why</think>so"}), STOP),
        text="<think>why</think>so",
        finish="stop",
        by="deepseek",
    ),
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
    _calls(
        "35-no-index-new-id-beside-an-open-call",
        _called(_call("f", '{"x"', index=None)),
        _called(_call("g", '{"y"', index=None, call_id="b")),
        _called(_call(None, ":1}", index=None)),
        _called(_call(None, ":2}", index=None, call_id="b")),
        calls=_TWO,
    ),
    _calls(
        "35-no-index-new-id-without-a-name-yet",
        _called(_call("f", "", index=None)),
        _called(_call(None, '{"y":2}', index=None, call_id="b")),
        _called(_call("g", "", index=None, call_id="b")),
        _called(_call(None, '{"x":1}', index=None)),
        calls=_TWO,
    ),
    _calls(
        "35-no-index-late-id",
        _called(_call("f", '{"x"', index=None, call_id=None)),
        _called(_call(None, ":1}", index=None)),
        calls=_ONE,
    ),
    _calls(
        "35-no-index-id-of-another-call",
        _called(_call("f", '{"x"', index=None, call_id=None)),
        _called(_call("g", '{"y":2}', index=None, call_id="b")),
        calls=(("f", None), ("g", {"y": 2})),
    ),
    _calls(
        "36-one-index-two-ids-one-name-no-arguments",
        _called(_call("f", "")),
        _called(_call("f", "", call_id="b")),
        calls=(("f", {}), ("f", {})),
    ),
    _calls("36-one-index-two-ids", _called(_call("f", '{"x":1}'), _call("g", '{"y":2}', call_id="b")), calls=_TWO),
    _calls(
        "37-one-index-no-ids",
        _called(_call("f", '{"x":1}', call_id=None)),
        _called(_call("g", '{"y":2}', call_id=None)),
        calls=_TWO,
    ),
    _calls(
        "37-one-index-same-name",
        _called(_call("f", '{"x":1}', call_id=None)),
        _called(_call("f", '{"x":2}', call_id=None)),
        calls=(("f", {"x": 1}), ("f", {"x": 2})),
    ),
    _calls(
        "37-name-again-with-a-space",
        _called(_call("f", '{"x":1}', call_id=None)),
        _called(_call("f", " ", call_id=None)),
        calls=_ONE,
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
    _calls(
        "41-another-name-that-continues-no-tool",
        _called(_call("f", "")),
        _called(_call("oo", '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "41-end-of-the-name-again",
        _called(_call("read_file", "")),
        _called(_call("file", '{"path":"a"}', call_id=None)),
        calls=(("read_file", {"path": "a"}),),
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
    _calls(
        "44-placeholder-arguments-and-the-name-again",
        _called(_call("f", "{}", call_id=None)),
        _called(_call("f", '{"x":1}', call_id=None)),
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
        "46-one-character-then-all",
        _called(_call("f", "{")),
        _called(_call(None, '{"x":1}', call_id=None)),
        calls=(("f", None),),
    ),
    _calls(
        "46-cumulative-with-a-name-and-no-id",
        _called(_call("f", '{"x":1}', call_id=None)),
        _called(_call("f", '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "47-interleaved-indexes-as-text",
        _called(_call("f", '{"x"', index="0")),
        _called(_call("g", '{"y"', index="1", call_id="b")),
        _called(_call(None, ":1}", index="0", call_id=None)),
        _called(_call(None, ":2}", index="1", call_id=None)),
        calls=_TWO,
    ),
    _calls(
        "47-interleaved-indexes-with-a-point",
        _called(_call("f", '{"x"', index=0.0)),
        _called(_call("g", '{"y"', index=1.0, call_id="b")),
        _called(_call(None, ":1}", index=0.0, call_id=None)),
        _called(_call(None, ":2}", index=1.0, call_id=None)),
        calls=_TWO,
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


def _written(name: str, content: str, /, *, by: str = "text calls", **want: Any) -> Vector:
    """A text in pieces of seven characters."""
    pieces = (_chunk({"content": content[at : at + 7]}) for at in range(0, len(content), 7))
    return _v(name, _events(*pieces, STOP), by=by, **want)


def _read(name: str, content: str, /, *, path: str = "a", **want: Any) -> Vector:
    return _written(name, content, **{"calls": (("read_file", {"path": path}),), "finish": "tool-calls", **want})


def _said(name: str, content: str, **want: Any) -> Vector:
    return _written(name, content, text=content, finish="stop", **want)


_DSML = "\uff5cDSML\uff5c"
_JSON_CALL = '{"name": "read_file", "arguments": {"path": "a"}}'
_HERMES = f"<tool_call>\n{_JSON_CALL}\n</tool_call>"
_INVOKE = (
    f'<{_DSML}invoke name="read_file">\n<{_DSML}parameter name="path" string="true">a</{_DSML}parameter>\n'
    f"</{_DSML}invoke>"
)
_R1 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"

TEXT_CALLS = (
    _read("50-hermes", _HERMES),
    _read("50-hermes-after-words", f"Let me look.\n{_HERMES}", text="Let me look.\n"),
    _written(
        "50-tools-tag",
        f"<tools>\n{_JSON_CALL}\n{_JSON_CALL}\n</tools>",
        calls=(("read_file", {"path": "a"}),) * 2,
        finish="tool-calls",
    ),
    _read("50-hermes-without-end", f"<tool_call>{_JSON_CALL}"),
    _written(
        "50-hermes-twice", _HERMES + "\n" + _HERMES, calls=(("read_file", {"path": "a"}),) * 2, finish="tool-calls"
    ),
    _read(
        "50-qwen-coder",
        "<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
    ),
    _written(
        "50-qwen-coder-number",
        "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    _read("50-dsml", f"Ok.\n\n<{_DSML}tool_calls>\n{_INVOKE}\n</{_DSML}tool_calls>", text="Ok.\n\n"),
    _read("50-dsml-older", f"<{_DSML}function_calls>\n{_INVOKE}\n</{_DSML}function_calls>"),
    _read("50-dsml-ascii", _INVOKE.replace("\uff5c", "|")),
    _read("50-dsml-bare", _INVOKE),
    _read("50-dsml-without-end", f"<{_DSML}tool_calls>\n{_INVOKE}"),
    _read("50-deepseek-v3", _R1.format('read_file<｜tool▁sep｜>{"path": "a"}')),
    _read("50-deepseek-r1", _R1.format('function<｜tool▁sep｜>read_file\n```json\n{"path": "a"}\n```')),
    _read("50-fenced", f"```json\n{_JSON_CALL}\n```"),
    _written(
        "50-fenced-several",
        f"```json\n{_JSON_CALL} {_JSON_CALL}\n```",
        calls=(("read_file", {"path": "a"}),) * 2,
        finish="tool-calls",
    ),
    _written(
        "50-fences",
        f"```json\n{_JSON_CALL}\n```\n\n```json\n{_JSON_CALL}\n```\n",
        calls=(("read_file", {"path": "a"}),) * 2,
        finish="tool-calls",
    ),
    _said("50-fences-that-are-no-calls", f"```json\n{_JSON_CALL}\n```\n```py\nx = 1\n```"),
    _read("50-bare-json", _JSON_CALL),
    _said("50-json-that-is-no-call", '{"name": "a", "version": "1"}'),
    _said("50-fence-with-words", f"```json\n{_JSON_CALL}\n```\nis a call."),
    _said("50-unknown-name", 'Send <tool_call>{"name": "nope", "arguments": {}}</tool_call> like so'),
    _said("50-in-a-fence", f"Like this:\n```\n{_HERMES}\n```\n"),
    _said("50-half-a-call", '<tool_call>{"name": "read_file", "arguments": {"path": "a'),
    _said("50-less-than", "a <t or <too long"),
    _said("50-off", _HERMES, by="tags"),
    _said("50-off-officially", _INVOKE, by="deepseek"),
    _v(
        "50-own-form-wins",
        _events(_chunk({"content": _HERMES}), _called(_call("f", '{"x":1}')), STOP),
        text=_HERMES,
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
        by="text calls",
    ),
)

VECTORS = (*FRAMING, *EVENTS, *TAGS, *CALLS, *TEXT_CALLS)
