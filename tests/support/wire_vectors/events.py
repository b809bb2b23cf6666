"""Event vectors: what stands in the events of an answer, and how it ends; 22 to 34, but for 30."""

from __future__ import annotations

from tests.support.wire_vectors.vector import (
    HELLO,
    STOP,
    USED,
    A,
    B,
    as_json,
    call,
    called,
    called_delta,
    chunk,
    hello,
    stream,
    vector,
)

EVENTS = (
    vector(
        "22-error-later", stream(A, as_json({"error": {"message": "died", "code": 502}})), text="He", error="SERVER"
    ),
    vector(
        "22-error-event",
        stream(A, done=False) + b'event: error\ndata: {"error":{"message":"slow","code":"rate_limit_exceeded"}}\n\n',
        text="He",
        error="RATE_LIMIT",
    ),
    vector("22-error-event-as-text", b"event: error\ndata: rate limit exceeded\n\n", error="RATE_LIMIT"),
    vector(
        "22-error-without-wrapper",
        stream(
            as_json({"object": "error", "message": "This model's maximum context length is 10 tokens.", "code": 400})
        ),
        error="CONTEXT_WINDOW_EXCEEDED",
    ),
    vector("22-error-as-text", stream(as_json({"error": "model not found"})), error="UNKNOWN"),
    vector(
        "22-error-in-choice",
        stream(
            as_json({"choices": [{"index": 0, "finish_reason": "error", "error": {"message": "x", "code": "503"}}]})
        ),
        error="SERVER",
    ),
    vector("22-not-json", stream(A, b"{oops", B, STOP), text="He", error="STREAM_CLOSED"),
    hello("22-not-json-after-the-end", stream(A, B, STOP, b"{oops", b"more", chunk({"content": "no"}))),
    vector("22-finish-error", stream(A, chunk({}, "error")), text="He", error="SERVER"),
    vector("22-network-error", stream(A, chunk({}, "network_error")), text="He", error="SERVER"),
    vector("22-window-full", stream(chunk({}, "model_context_window_exceeded")), error="CONTEXT_WINDOW_EXCEEDED"),
    vector(
        "22-web-page",
        b"<!DOCTYPE html>\n<p>\nlog in\n</p>",
        content_type="text/html",
        error="MALFORMED_RESPONSE",
    ),
    vector("22-words", b"OK", content_type="text/plain", error="MALFORMED_RESPONSE"),
    vector("22-other-json", b'{"status": "ok"}', content_type="application/json", error="MALFORMED_RESPONSE"),
    vector("22-other-events", b'data: {"hello": "there"}\n\n', error="MALFORMED_RESPONSE"),
    hello("22-error-null", stream(chunk({"content": HELLO}, None, error=None), STOP)),
    hello(
        "23-usage-last",
        stream(A, B, STOP, as_json({"choices": [], "usage": {**USED, "prompt_cache_hit_tokens": 4}})),
        usage=(3, 2),
    ),
    hello("23-no-choices-first", stream(as_json({"choices": [], "prompt_filter_results": []}), A, B, STOP)),
    hello(
        "24-usage-in-each",
        stream(
            chunk({"content": HELLO}, None, usage={"prompt_tokens": 7, "completion_tokens": 1}),
            chunk({}, "stop", usage=USED),
            as_json({"choices": [], "usage": None}),
        ),
        usage=(7, 2),
    ),
    hello(
        "24-usage-in-the-choice",
        stream(A, B, as_json({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USED}]})),
        usage=(7, 2),
    ),
    hello("24-no-usage", stream(A, B, STOP)),
    hello(
        "25-nulls",
        stream(
            chunk(
                {"role": None, "content": None, "tool_calls": None, "function_call": None, "reasoning_content": ""}
            ),
            A,
            B,
            STOP,
        ),
    ),
    vector(
        "25-function-call-beside-tool-calls",
        stream(
            chunk({**called_delta(call("f", '{"x":1}')), "function_call": {"name": "g", "arguments": "{}"}}), STOP
        ),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    vector(
        "25-function-call-alone",
        stream(chunk({"function_call": {"name": "f", "arguments": '{"x":1}'}}), chunk({}, "function_call")),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    hello(
        "26-role-in-each",
        stream(A, chunk({"role": "assistant", "content": "llo \u4f60"}), STOP),
    ),
    hello(
        "26-message-for-delta",
        stream(as_json({"choices": [{"index": 0, "message": {"content": HELLO}, "finish_reason": "stop"}]})),
    ),
    hello(
        "26-message-repeats-all",
        stream(A, B, as_json({"choices": [{"index": 0, "message": {"content": HELLO}, "finish_reason": "stop"}]})),
    ),
    hello(
        "27-content-parts",
        stream(chunk({"content": [{"type": "text", "text": "He"}, {"type": "text", "text": "llo \u4f60"}]}), STOP),
    ),
    hello(
        "27-thoughts-among-the-parts",
        stream(
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "w"}]}]}),
            chunk({"content": [{"type": "thinking", "thinking": "hy"}, {"type": "text", "text": "He"}]}),
            B,
            STOP,
        ),
        reasoning="why",
    ),
    hello(
        "28-second-choice",
        stream(A, as_json({"choices": [{"index": 1, "delta": {"content": "NO"}, "finish_reason": "stop"}]}), B, STOP),
    ),
    hello("29-reasoning", stream(chunk({"reasoning": "why"}), A, B, STOP), reasoning="why"),
    hello(
        "29-reasoning-twice",
        stream(chunk({"reasoning": "why", "reasoning_content": "why"}), A, B, STOP),
        reasoning="why",
    ),
    hello("29-reasoning-text", stream(chunk({"reasoning_text": "why"}), A, B, STOP), reasoning="why"),
    hello(
        "29-reasoning-details",
        stream(chunk({"reasoning_details": [{"type": "reasoning.text", "text": "why"}]}), A, B, STOP),
        reasoning="why",
    ),
    hello(
        "29-no-tags-beside-the-field",
        stream(chunk({"reasoning": "why"}), chunk({"content": f"<think>{HELLO}"}), STOP),
        reasoning="why",
        text=f"<think>{HELLO}",
        by="tags",
    ),
    vector("29-reasoning-only", stream(chunk({"reasoning_content": "why"}), STOP), reasoning="why", finish="stop"),
    vector(
        "31-stop-with-call",
        stream(called(call("f", '{"x":1}')), STOP),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    vector(
        "31-no-finish-with-call",
        stream(called(call("f", '{"x":1}'))),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    hello("32-tool-finish-without-call", stream(A, B, chunk({}, "tool_calls"))),
    vector(
        "31-any-word-with-call",
        stream(called(call("f", '{"x":1}')), chunk({}, "eos")),
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
    ),
    hello("31-any-word", stream(A, B, chunk({}, "end"))),
    vector("32-nothing", stream(chunk({}, "tool_calls")), error="EMPTY_RESPONSE"),
    vector(
        "33-length-in-call",
        stream(chunk({"content": "x"}), called(call("bash", '{"command":"rm -rf /tmp/build')), chunk({}, "length")),
        text="x",
        finish="max-tokens",
    ),
    *(
        vector(f"33-{word}", stream(A, called(call("f", '{"x":')), chunk({}, word)), text="He", finish="max-tokens")
        for word in ("MAX_TOKENS", "max_output_tokens", "model_length", "token_limit")
    ),
    vector("34-capitals", stream(A, chunk({}, "CONTENT_FILTER")), text="He", finish="refusal"),
    vector("34-filter", stream(A, chunk({}, "content_filter")), text="He", finish="refusal"),
    vector("34-refused", stream(A, chunk({}, "refusal")), text="He", finish="refusal"),
    vector("34-sensitive", stream(A, chunk({}, "sensitive")), text="He", finish="refusal"),
    vector("34-refusal-field", stream(chunk({"refusal": "no"}), STOP), text="no", finish="refusal"),
    vector("34-no-resource", stream(A, chunk({}, "insufficient_system_resource")), text="He", error="SERVER"),
)
