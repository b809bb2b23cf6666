"""Wire: what is encoded decodes equal, and JSON stays JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.events import TAGS, LogEvent, ToolCall, decode_event, encode_event
from dsh_lsp.messages import AssistantMessage, ModelSource, ReasoningBlock, TextBlock, ToolCallBlock
from dsh_lsp.wire import decode, dump_bytes, encode, loads

text = st.text(st.characters(exclude_categories=["Cs"]))
blocks = st.one_of(
    st.builds(TextBlock, text=text),
    st.builds(ReasoningBlock, text=text),
    st.builds(ToolCallBlock, id=text, name=text, arguments=text),
)
messages = st.builds(
    AssistantMessage,
    id=text,
    content=st.lists(blocks, max_size=4).map(tuple),
    source=st.builds(ModelSource, provider=text, model=text, replay_state=st.none() | st.just({"snake_key": 1})),
)


@given(messages)
def test_a_message_survives_the_wire(message: AssistantMessage) -> None:
    assert decode(AssistantMessage, loads(dump_bytes(encode(message)))) == message


def test_keys_are_camel_case_and_absent_fields_are_left_out() -> None:
    event = LogEvent(seq=0, time=1, data=ToolCall(turn=1, step=2, call_id="c", name="n", arguments="{}"))
    row = {"turn": 1, "step": 2, "callId": "c", "name": "n", "arguments": "{}"}
    assert encode_event(event) == {"type": "tool/call", "seq": 0, "time": 1, "data": row}
    assert decode_event(encode_event(event)) == event


def test_every_event_has_a_tag_of_its_own() -> None:
    assert len(set(TAGS.values())) == len(TAGS)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match=word):
        loads(f"[{word}]")
    with pytest.raises(ValueError, match="JSON"):
        dump_bytes([float(word.lower())])


def test_half_an_emoji_reaches_the_disk_and_comes_back() -> None:
    assert loads(dump_bytes({"text": "\ud83d"})) == {"text": "\ud83d"}


@pytest.mark.parametrize("text", ["[1e999]", "-1e999", '{"a": 1e400}'])
def test_a_number_that_no_float_holds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        loads(text)


def test_large_integers_are_read_exactly() -> None:
    assert loads(f"[{2**70}]") == [2**70]
