"""History: what a request repeats is encoded once, and its bytes are those of a fresh encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.chat_wire import Histories, dump_body, encode_request
from dsh_lsp.llm.deepseek import DIALECT
from dsh_lsp.llm.surrogates import mend_surrogates
from dsh_lsp.messages import (
    AssistantMessage,
    CallConfig,
    Message,
    ModelSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserMessage,
    UserSource,
)
from dsh_lsp.wire import dumps

CONFIG = CallConfig(provider="deepseek", model="m", max_tokens=9)
TEXTS = st.sampled_from(["", "a", "é", "\ud83d", "\ud83d\ude00", '"\n', "\u2028"])

BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXTS),
    st.builds(ReasoningBlock, text=TEXTS),
    st.builds(ToolCallBlock, id=st.just("c"), name=TEXTS, arguments=st.sampled_from(["{}", "{", ""])),
)
RESULTS = st.builds(ToolResultBlock, tool_call_id=st.just("c"), content=st.tuples(st.builds(TextBlock, text=TEXTS)))
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        UserMessage,
        id=st.just("u"),
        content=st.lists(st.one_of(st.builds(TextBlock, text=TEXTS), RESULTS), max_size=3).map(tuple),
        source=st.one_of(st.just(UserSource()), st.just(ToolSource(call_id="c"))),
    ),
    st.builds(
        AssistantMessage,
        id=st.just("a"),
        content=st.lists(BLOCKS, max_size=3).map(tuple),
        source=st.just(ModelSource(provider="p", model="m", replay_state={"model": "m"})),
    ),
)


@dataclass(frozen=True)
class Change:
    """How a history goes on from the last request of its session."""

    kind: Literal["append", "replace", "cut", "ask again"]
    message: Message
    session: str
    effort: str
    at: int = 0


CHANGES = st.builds(
    Change,
    kind=st.sampled_from(["append", "append", "append", "replace", "cut", "ask again"]),
    message=MESSAGES,
    session=st.sampled_from([f"s{number}" for number in range(2)] * 5 + [f"s{number}" for number in range(12)]),
    effort=st.sampled_from(["high", "high", "off"]),
    at=st.integers(0, 6),
)


def request(session: str, messages: list[Message]) -> ModelRequest:
    return ModelRequest(
        config=CONFIG, messages=tuple(messages), session_id=session, signal=AbortSignal(), system="be good"
    )


@settings(max_examples=max(100, settings.default.max_examples))
@given(st.lists(CHANGES, max_size=25))
def test_the_bytes_of_any_history_are_those_of_a_fresh_encoding(changes: list[Change]) -> None:
    histories: dict[str, list[Message]] = {}
    kept = Histories()
    for change in changes:
        history = histories.setdefault(change.session, [])
        match change.kind:
            case "append":
                history.append(change.message)
            case "replace" if history:
                at = change.at % len(history)
                history[at : at + 2] = [change.message]
            case "cut":
                del history[change.at :]
            case _:
                pass
        asked = request(change.session, history)
        body = encode_request(asked, DIALECT, histories=kept, effort=change.effort)
        fresh = encode_request(asked, DIALECT, histories=Histories(), effort=change.effort)
        assert body == fresh
        assert dump_body(body) == dump_body(fresh) == mend_surrogates(dumps(fresh)).encode()
        assert len(kept) <= kept.SESSIONS


def test_only_what_is_new_is_encoded_again() -> None:
    histories, history = Histories(), []
    sent: list[Any] = []
    for number in range(20):
        history.append(UserMessage(id=str(number), content=(TextBlock(text="x"),), source=UserSource()))
        body = encode_request(request("s", history), DIALECT, histories=histories, effort="high")
        _system, *messages = body["messages"]
        assert all(new is old for new, old in zip(messages, sent, strict=False)), "the very objects of before"
        sent = messages
