"""Framing vectors: what bytes, line ends and packets do to a stream; 01 to 21."""

from __future__ import annotations

from tests.support.wire_vectors.vector import (
    HELLO,
    STOP,
    USED,
    A,
    B,
    as_json,
    bytewise,
    call,
    called,
    chunk,
    hello,
    stream,
    vector,
)

FRAMING = (
    hello("01-no-space", stream(A, B, STOP, field=b"data:")),
    hello("02-crlf", stream(A, B, STOP, end=b"\r\n")),
    hello("02-crlf-bytewise", bytewise(stream(A, B, STOP, end=b"\r\n"))),
    hello("02-cr", stream(A, B, STOP, end=b"\r")),
    hello("02-mixed", stream(A, end=b"\r", done=False) + stream(B, end=b"\r\n", done=False) + stream(STOP)),
    hello("03-bytewise", bytewise(stream(A, B, STOP))),
    hello("04-byte-order-mark", b"\xef\xbb\xbf" + stream(A, B, STOP)),
    hello("04-byte-order-mark-bytewise", bytewise(b"\xef\xbb\xbf" + stream(A, B, STOP))),
    hello("05-charset", stream(A, B, STOP), content_type="text/event-stream; charset=iso-8859-1"),
    vector(
        "06-line-separators-in-text",
        stream(chunk({"content": "a\u2028b\u0085c"}), STOP),
        text="a\u2028b\u0085c",
        finish="stop",
    ),
    hello("07-unterminated-done", stream(A, B, STOP, done=False) + b"data: [DONE]"),
    hello("07-unterminated-event", stream(A, B, done=False) + b"data: " + STOP),
    hello("08-comments", b": keep-alive\n\n: ping - 2026-11-29 20:04:08+00:00\n\n" + stream(A, B, STOP)),
    hello("09-id-lines", b"id: 7\n" + stream(A, done=False) + b"\n\n\n" + stream(B, STOP)),
    vector(
        "10-data-on-two-lines",
        b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"x"},"finish_reason":null}]}\n\n' + stream(STOP),
        text="x",
        finish="stop",
    ),
    vector("11-long-line", stream(chunk({"content": "x" * 3_000_000}), STOP), text="x" * 3_000_000, finish="stop"),
    vector(
        "12-bad-utf8",
        stream(A, done=False) + b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n' + stream(STOP),
        text="He\ufffd",
        finish="stop",
    ),
    vector(
        "13-emoji-in-two-deltas",
        stream(
            b'{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}',
            b'{"choices":[{"index":0,"delta":{"content":"\\ude00b"}}]}',
            STOP,
        ),
        text="a\U0001f600b",
        finish="stop",
    ),
    vector(
        "13-half-in-id-and-name",
        stream(
            b'{"model":"m\\ud83d","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a\\ud83d",'
            b'"function":{"name":"f\\ud83d","arguments":"{}"}}]}}]}',
            STOP,
        ),
        calls=(("f\ufffd", {}),),
        finish="tool-calls",
    ),
    vector(
        "13-half-an-emoji",
        stream(b'{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}', STOP),
        text="a\ufffd",
        finish="stop",
    ),
    hello("14-no-done", stream(A, B, STOP, done=False)),
    hello("15-done-without-finish", stream(A, B)),
    hello("15-finish-null", stream(A, B, chunk({}, None))),
    hello("15-finish-empty", stream(A, B, chunk({}, ""))),
    vector("16-end-without-end", stream(A, B, done=False), text=HELLO, error="STREAM_CLOSED"),
    vector("16-open-call", stream(called(call("f", '{"x":')), done=False), error="STREAM_CLOSED"),
    vector("16-half-an-event", stream(A, done=False) + b"data: " + B[:20], text="He", error="STREAM_CLOSED"),
    vector("17-cut", stream(A, B, done=False), cut=True, text=HELLO, error="TRANSPORT"),
    hello("17-cut-after-finish", stream(A, B, STOP, done=False), cut=True),
    vector("18-empty", b"", error="EMPTY_RESPONSE"),
    vector("18-done-only", b"data: [DONE]\n\n", error="EMPTY_RESPONSE"),
    vector(
        "19-json-body",
        as_json(
            {
                "object": "chat.completion",
                "choices": [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": "hi",
                            "reasoning_content": "r",
                            "tool_calls": [call("f", '{"x":1}', index=None)],
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
    vector(
        "19-json-body-on-many-lines",
        b'\n\n{\n  "choices": [\n    {"message": {"content": "hi"},\n "finish_reason": "stop"}\n  ]\n}\n',
        text="hi",
        finish="stop",
    ),
    hello("20-plain-type", stream(A, B, STOP), content_type="text/plain"),
    vector("20-json-error", as_json({"error": {"message": "boom", "code": "x"}}), error="UNKNOWN"),
    hello("21-json-lines", A + b"\n" + B + b"\n" + STOP + b"\n", content_type="application/x-ndjson"),
    hello("21-json-lines-bytewise", bytewise(A + b"\n" + B + b"\n" + STOP)),
)
