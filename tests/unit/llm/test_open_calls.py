from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.llm.open_calls import OpenCalls, resolve_name, split_arguments
from dsh_lsp.messages import BlockEnd, ToolCallBlock

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", ("{}",)),
        ("  \n", ("{}",)),
        ('{"a": 1}', ('{"a": 1}',)),
        ('{"a":1}{"a":2}', ('{"a":1}', '{"a":2}')),
        ('{}{"a":1}', ('{"a":1}',)),
        ("{}{}", ("{}",)),
        ('{"a":1}[2]', ('{"a":1}[2]',)),
        ('{"a":1} rest', ('{"a":1} rest',)),
        ('{"command":"rm -rf /tmp/build', ('{"command":"rm -rf /tmp/build',)),
        ('"{\\"a\\":1}"', ('{"a":1}',)),
        ('"\\"{}\\""', ('"\\"{}\\""',)),
        ('{"a":NaN}', ('{"a":NaN}',)),
        ('{"a":"x\ty"}', ('{"a":"x\\ty"}',)),
        ('{"a":"\\ud83d"}', ('{"a":"\ufffd"}',)),
        ('{"a":"\\ud83d\\ude00"}', ('{"a":"\\ud83d\\ude00"}',)),
        (DEEP, (DEEP,)),
    ],
)
def test_arguments_are_objects_or_the_text_as_it_came(text: str, arguments: tuple[str, ...]) -> None:
    assert split_arguments(text) == arguments


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
def test_good_arguments_keep_every_byte(value: dict[str, object]) -> None:
    text = json.dumps(value, indent=1)
    assert json.loads(split_arguments(text)[0]) == value
    assert len(split_arguments(text)) == 1


@pytest.mark.parametrize(
    ("pieces", "name"),
    [
        (("x_read", "read"), "x_read"),
        (("x_read", "x_read"), "x_read"),
        (("x_", "read"), "x_read"),
        (("x_read", "", "er"), "x_reader"),
        (("x_read", "other"), "x_read"),
    ],
)
def test_a_name_in_pieces_grows_and_one_that_is_repeated_does_not(pieces: tuple[str, ...], name: str) -> None:
    known = frozenset({"x_read", "x_readread", "x_reader", "x_readx_read"})
    calls = OpenCalls(known=known, new_id=lambda: "id", new_index=lambda: 0)
    for piece in pieces:
        list(calls.push({"index": 0, "id": "a", "function": {"name": piece}}))
    (end,) = (chunk for chunk in calls.close() if isinstance(chunk, BlockEnd))
    assert isinstance(end.block, ToolCallBlock)
    assert end.block.name == name


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("bash", "bash"),
        ("functions.bash", "bash"),
        ("functions.bash:3", "bash"),
        ("bash:", "bash"),
        (" BASH ", "bash"),
        ("same", "same"),
        ("nope", "nope"),
        ("", ""),
    ],
)
def test_a_decorated_name_means_the_tool(name: str, tool: str) -> None:
    assert resolve_name(name, frozenset({"bash", "Same", "sAme"})) == tool


@pytest.mark.parametrize("name", ["a" + " " * 50_000 + "b", " " * 50_000 + "b" + " " * 50_000 + "c", ":1" * 50_000])
def test_a_name_of_any_length_is_read_at_once(name: str) -> None:
    assert resolve_name(name, frozenset({"bash"})) == name
    assert resolve_name("functions.bash" + " " * 50_000 + ":1", frozenset({"bash"})) == "bash"
