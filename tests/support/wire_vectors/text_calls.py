"""Text call vectors: tool calls that stand in the text; 50."""

from __future__ import annotations

from typing import Any

from tests.support.wire_vectors.vector import STOP, Vector, call, called, chunk, stream, vector


def _written(name: str, content: str, /, *, by: str = "text calls", **want: Any) -> Vector:
    """A text in pieces of seven characters."""
    pieces = (chunk({"content": content[at : at + 7]}) for at in range(0, len(content), 7))
    return vector(name, stream(*pieces, STOP), by=by, **want)


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
    _said("50-infinity", '<tool_call>{"name": "f", "arguments": {"x": 1e999}}</tool_call>'),
    _said("50-not-a-number", '<tool_call>{"name": "f", "arguments": {"x": NaN}}</tool_call>'),
    _read(
        "50-half-an-emoji",
        '<tool_call>{"name": "read_file", "arguments": {"path": "a\\ud83d"}}</tool_call>',
        path="a\ufffd",
    ),
    _said("50-less-than", "a <t or <too long"),
    _said("50-off", _HERMES, by="tags"),
    _said("50-off-officially", _INVOKE, by="deepseek"),
    vector(
        "50-own-form-wins",
        stream(chunk({"content": _HERMES}), called(call("f", '{"x":1}')), STOP),
        text=_HERMES,
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
        by="text calls",
    ),
)
