"""Call vectors: tool calls in pieces; 35 to 49."""

from __future__ import annotations

import json
from typing import Any

from tests.support.wire_vectors.vector import Vector, call, called, chunk, stream, vector


def _calls(name: str, *payloads: bytes, calls: tuple[tuple[str, dict[str, Any] | None], ...]) -> Vector:
    return vector(name, stream(*payloads, chunk({}, "tool_calls")), calls=calls, finish="tool-calls")


_TWO = (("f", {"x": 1}), ("g", {"y": 2}))
_ONE = (("f", {"x": 1}),)
_INFINITE = (("f", {"x": float("inf")}),)  # as it came, and no JSON to the loop

CALLS = (
    _calls(
        "35-no-index",
        called(call("f", '{"x":1}', index=None)),
        called(call("g", '{"y":2}', index=None, call_id="b")),
        calls=_TWO,
    ),
    _calls(
        "35-no-index-in-pieces",
        called(call("f", '{"x"', index=None)),
        called(call(None, ":1}", index=None, call_id=None)),
        called(call("g", '{"y":2}', index=None, call_id="b")),
        calls=_TWO,
    ),
    _calls(
        "35-no-index-new-id-beside-an-open-call",
        called(call("f", '{"x"', index=None)),
        called(call("g", '{"y"', index=None, call_id="b")),
        called(call(None, ":1}", index=None)),
        called(call(None, ":2}", index=None, call_id="b")),
        calls=_TWO,
    ),
    _calls(
        "35-no-index-new-id-without-a-name-yet",
        called(call("f", "", index=None)),
        called(call(None, '{"y":2}', index=None, call_id="b")),
        called(call("g", "", index=None, call_id="b")),
        called(call(None, '{"x":1}', index=None)),
        calls=_TWO,
    ),
    _calls(
        "35-no-index-late-id",
        called(call("f", '{"x"', index=None, call_id=None)),
        called(call(None, ":1}", index=None)),
        calls=_ONE,
    ),
    _calls(
        "35-no-index-id-of-another-call",
        called(call("f", '{"x"', index=None, call_id=None)),
        called(call("g", '{"y":2}', index=None, call_id="b")),
        calls=(("f", None), ("g", {"y": 2})),
    ),
    _calls(
        "36-one-index-two-ids-one-name-no-arguments",
        called(call("f", "")),
        called(call("f", "", call_id="b")),
        calls=(("f", {}), ("f", {})),
    ),
    _calls("36-one-index-two-ids", called(call("f", '{"x":1}'), call("g", '{"y":2}', call_id="b")), calls=_TWO),
    _calls(
        "37-one-index-no-ids",
        called(call("f", '{"x":1}', call_id=None)),
        called(call("g", '{"y":2}', call_id=None)),
        calls=_TWO,
    ),
    _calls(
        "37-one-index-same-name",
        called(call("f", '{"x":1}', call_id=None)),
        called(call("f", '{"x":2}', call_id=None)),
        calls=(("f", {"x": 1}), ("f", {"x": 2})),
    ),
    _calls(
        "37-name-again-with-a-space",
        called(call("f", '{"x":1}', call_id=None)),
        called(call("f", " ", call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "38-pasted-objects",
        called(call("f", '{"x":1}{"x":2}{"x":3}')),
        calls=(("f", {"x": 1}), ("f", {"x": 2}), ("f", {"x": 3})),
    ),
    _calls("39-no-id", called(call("f", '{"x":1}', call_id=None)), calls=_ONE),
    _calls("39-empty-id", called(call("f", '{"x":1}', call_id="")), calls=_ONE),
    _calls("39-same-id-twice", called(call("f", '{"x":1}'), call("g", '{"y":2}', index=1)), calls=_TWO),
    _calls(
        "40-id-and-name-in-each",
        called(call("f", '{"x"')),
        called(call("f", ":1")),
        called(call("f", "}")),
        calls=_ONE,
    ),
    _calls(
        "40-name-in-each",
        called(call("f", '{"x":1}')),
        called(call("f", "", call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "41-name-in-pieces",
        called(call("edit_ex", "")),
        called(call("isting_file", '{"x":1}', call_id=None)),
        calls=(("edit_existing_file", {"x": 1}),),
    ),
    _calls(
        "41-another-name-that-continues-no-tool",
        called(call("f", "")),
        called(call("oo", '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "41-end-of-the-name-again",
        called(call("read_file", "")),
        called(call("file", '{"path":"a"}', call_id=None)),
        calls=(("read_file", {"path": "a"}),),
    ),
    _calls("42-late-name", called(call(None, '{"x":')), called(call("f", "1}", call_id=None)), calls=_ONE),
    _calls("42-no-name", called(call(None, '{"x":1}')), calls=(("", {"x": 1}),)),
    _calls("43-arguments-as-object", called(call("f", {"x": 1})), calls=_ONE),
    _calls(
        "43-infinity", called(call("f", 0)).replace(b'"arguments":0', b'"arguments":{"x":1e999}'), calls=_INFINITE
    ),
    _calls("44-empty-arguments", called(call("f", "")), calls=(("f", {}),)),
    _calls(
        "44-null-arguments",
        called({"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}),
        calls=(("f", {}),),
    ),
    _calls(
        "44-placeholder-arguments",
        called(call("f", "{}")),
        called(call(None, '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "44-placeholder-arguments-and-the-name-again",
        called(call("f", "{}", call_id=None)),
        called(call("f", '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls("45-encoded-twice", called(call("f", json.dumps('{"x":1}'))), calls=_ONE),
    _calls("45-array", called(call("f", "[1]")), calls=(("f", None),)),
    _calls(
        "46-cumulative-arguments",
        called(call("f", '{"x"')),
        called(call(None, '{"x":1', call_id=None)),
        called(call(None, '{"x":1}', call_id=None)),
        called(call(None, '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "46-one-character-then-all",
        called(call("f", "{")),
        called(call(None, '{"x":1}', call_id=None)),
        calls=(("f", None),),
    ),
    _calls(
        "46-cumulative-with-a-name-and-no-id",
        called(call("f", '{"x":1}', call_id=None)),
        called(call("f", '{"x":1}', call_id=None)),
        calls=_ONE,
    ),
    _calls(
        "47-interleaved-indexes-as-text",
        called(call("f", '{"x"', index="0")),
        called(call("g", '{"y"', index="1", call_id="b")),
        called(call(None, ":1}", index="0", call_id=None)),
        called(call(None, ":2}", index="1", call_id=None)),
        calls=_TWO,
    ),
    _calls(
        "47-interleaved-indexes-with-a-point",
        called(call("f", '{"x"', index=0.0)),
        called(call("g", '{"y"', index=1.0, call_id="b")),
        called(call(None, ":1}", index=0.0, call_id=None)),
        called(call(None, ":2}", index=1.0, call_id=None)),
        calls=_TWO,
    ),
    _calls(
        "47-interleaved",
        called(call("f", '{"x"')),
        called(call("g", '{"y"', index=1, call_id="b")),
        called(call(None, ":1}", call_id=None)),
        called(call(None, ":2}", index=1, call_id=None)),
        calls=_TWO,
    ),
    _calls("48-raw-newline", called(call("bash", '{"command":"a\nb"}')), calls=(("bash", {"command": "a\nb"}),)),
    _calls("48-infinity", called(call("f", '{"x":1e999}')), calls=_INFINITE),
    _calls("48-pasted-infinity", called(call("f", '{"x":1}{"x":-1e999}')), calls=(("f", None),)),
    _calls("48-bad-escape", called(call("bash", '{"command":"C:\\Users\\new \\d"}')), calls=(("bash", None),)),
    _calls("49-decorated-name", called(call("functions.bash:0", '{"x":1}')), calls=(("bash", {"x": 1}),)),
    _calls("49-other-case", called(call("Read_File", '{"x":1}')), calls=(("read_file", {"x": 1}),)),
)
