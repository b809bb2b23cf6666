"""View: what a screen shows follows from the events alone, wherever the fold began."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.abort import Cause
from dsh_lsp.decisions import (
    Allowed,
    ApprovalAsked,
    ApprovalDecided,
    EditLanded,
    Effect,
    HunkDecided,
    PermissionPreset,
    Position,
    Range,
    Refused,
    ReviewDecided,
    ReviewFile,
    ReviewHunk,
    ReviewOpened,
)
from dsh_lsp.errors import LlmFailure
from dsh_lsp.events import (
    AssistantAttempt,
    AssistantChunk,
    AssistantMessageLogged,
    Ended,
    EndedByAbort,
    EndedByError,
    EventData,
    InboxSpliced,
    LogEvent,
    PluginEvent,
    RequestContext,
    SessionTitle,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    encode_event,
)
from dsh_lsp.messages import (
    AssistantMessage,
    ModelSource,
    PluginSource,
    ReasoningBlock,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserMessage,
    UserSource,
)
from dsh_lsp.session.view import SessionView, view_of
from dsh_lsp.session.view_items import ApprovalView, FailureView, ReviewView, Said, ToolView
from dsh_lsp.wire import JsonObject, decode, dumps, encode, loads

PLACE = Range(start=Position(line=4, character=0), end=Position(line=5, character=0))
HUNK = ReviewHunk(id="h1", range=PLACE, old_text="a\n", new_text="b\n")


def words(text: str, *, source: Any = None) -> UserMessage:
    return UserMessage(id=f"m-{text}", content=(TextBlock(text=text),), source=source or UserSource())


def answer(*blocks: Any, **more: Any) -> AssistantMessageLogged:
    message = AssistantMessage(id="a1", content=blocks, source=ModelSource(provider="p", model="m"))
    return AssistantMessageLogged(turn=1, step=1, message=message, **more)


def result(call_id: str, text: str, *, is_error: bool = False) -> ToolResult:
    block = ToolResultBlock(tool_call_id=call_id, content=(TextBlock(text=text),), is_error=is_error)
    return ToolResult(
        turn=1, step=1, message=UserMessage(id="r", content=(block,), source=ToolSource(call_id=call_id))
    )


STORY: tuple[EventData, ...] = (
    SessionTitle(title="Mend it"),
    PermissionPreset(preset="plan"),
    InboxSpliced(target="next-turn", start=0, inserted=(words("mend"), words("later"))),
    TurnStart(turn=1),
    InboxSpliced(target="next-turn", start=0, removed_count=1),
    StepStart(turn=1, step=1),
    words("mend"),
    words("rules", source=PluginSource(plugin="x", form="instructions", summary="AGENTS.md")),
    RequestContext(provider="p", model="m", context_window=100),
    AssistantAttempt(turn=1, step=1, attempt=1, failure=LlmFailure(message="busy", code="OVERLOADED")),
    AssistantChunk(turn=1, step=1, chunk=TextDelta(index=0, text="I")),
    answer(
        ReasoningBlock(text="hm"),
        TextBlock(text="I see."),
        ToolCallBlock(id="c1", name="edit_file", arguments="{}"),
        ToolCallBlock(id="c2", name="shell", arguments="{}"),
        usage=TokenUsage(input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=1),
    ),
    ToolCall(turn=1, step=1, call_id="c1", name="edit_file", arguments="{}"),
    ReviewOpened(proposal="p1", files=(ReviewFile(uri="file:///w/a.py", kind="edit", hunks=(HUNK,)),)),
    ReviewDecided(proposal="p1", hunks=(HunkDecided(id="h1", outcome="unconfirmed", text="B\n", comment="mine"),)),
    ApprovalAsked(
        id="q1", tool_name="shell", call_id="c2", effects=(Effect(kind="command", detail="ls", grant_key="k"),)
    ),
    ApprovalDecided(id="q1", outcome=Refused(kind="rejected", comment="no")),
    result("c1", "not confirmed", is_error=True),
    result("c2", "listed"),
    result("c2", "[pruned]"),
    StepEnd(turn=1, step=1),
    TurnEnd(turn=1, reason=Ended(kind="completed")),
    EditLanded(proposal="p1", hunk="h1", uri="file:///w/a.py", range=PLACE, before="a\n", after="b\n"),
    PluginEvent(tag="weather/told", data={"sun": True}),
    TurnStart(turn=2),
    answer(TextBlock(text="cut"), interrupted=True),
    TurnEnd(turn=2, reason=EndedByAbort(reason=Cause(kind="hook", reason="too long"))),
    TurnStart(turn=3),
    ApprovalAsked(id="q2", tool_name="shell", call_id="c3", effects=(), reason="why not"),
    ApprovalDecided(id="q2", outcome=Allowed(kind="allowedOnce")),
    TurnEnd(turn=3, reason=EndedByError(error=LlmFailure(message="no key", code="AUTH"))),
)
FRAMES: tuple[JsonObject, ...] = (
    {"type": "assistant/stream", "data": {"step": 1, "attempt": 1, "block": 0, "kind": "thinking", "text": "x"}},
    {"type": "assistant/stream", "data": {"step": 1, "attempt": 1, "block": 1, "kind": "text", "text": "x"}},
    {"type": "assistant/stream", "data": {"step": 2, "attempt": 1, "block": 0, "kind": "text", "text": "x"}},
    {"type": "tool/progress", "data": {"callId": "c1", "text": "half"}},
    {"type": "new/thing", "data": {}},
)


def log_of(*data: EventData) -> list[LogEvent]:
    return [LogEvent(seq=seq, time=seq, data=item) for seq, item in enumerate(data)]


def value_of(data: EventData, card: JsonObject | None = None) -> JsonObject:
    """As an editor gets it."""
    row = encode_event(LogEvent(seq=0, time=0, data=data))
    return {key: row[key] for key in ("seq", "time", "type", "data")} | ({"card": card} if card else {})


def test_a_session_is_shown_whole() -> None:
    view = view_of(log_of(*STORY))
    first, second, third = view.turns
    user, notice, failed, thinking, said, edit, shell, review, approval = first.items
    assert (view.title, view.mode, view.provider, view.model) == ("Mend it", "plan", "p", "m")
    assert [message.text for message in view.queue.next_turn] == ["later"]
    assert encode(view.usage) == {
        "input": 10,
        "output": 5,
        "cacheRead": 3,
        "contextTokens": 19,
        "contextWindow": 100,
    }
    assert [item.kind for item in (user, notice, thinking, said)] == ["user", "notice", "thinking", "assistant"]
    assert isinstance(notice, Said)
    assert notice.text == "AGENTS.md"
    assert isinstance(failed, FailureView)
    assert (failed.attempt, failed.message) == (1, "busy")
    assert isinstance(edit, ToolView)
    assert isinstance(shell, ToolView)
    assert (edit.state, edit.result, edit.title) == ("failed", "not confirmed", "edit_file")
    assert (shell.state, shell.result) == ("done", "listed"), "what was pruned for the model is still shown"
    assert isinstance(review, ReviewView)
    (hunk,) = review.hunks
    assert (hunk.outcome, hunk.comment, hunk.new_text, hunk.line, hunk.landed) == (
        "unconfirmed",
        "mine",
        "B\n",
        5,
        True,
    )
    assert isinstance(approval, ApprovalView)
    assert (approval.effects, approval.outcome, approval.comment) == (["command ls"], "rejected", "no")
    assert (first.ended, second.ended, second.message) == ("completed", "aborted", "too long")
    assert (third.ended, third.message) == ("error", "no key")
    assert view.state == "idle"


@pytest.mark.parametrize(
    ("until", "state", "waiting_for"),
    [
        (0, "idle", None),
        (4, "running", None),
        (14, "waiting", "review"),
        (15, "running", None),
        (16, "waiting", "approval"),
        (17, "running", None),
        (22, "idle", None),
    ],
)
def test_the_state_says_what_a_person_must_do(until: int, state: str, waiting_for: str | None) -> None:
    view = view_of(log_of(*STORY[:until]))
    assert (view.state, view.waiting_for) == (state, waiting_for)


def test_streamed_text_is_shown_until_its_message_comes() -> None:
    view = SessionView()
    for value in (value_of(TurnStart(turn=1)), value_of(StepStart(turn=1, step=1)), *FRAMES[:2], FRAMES[1]):
        view.add_value(value)
    assert [(live.kind, live.text) for live in view.live] == [("thinking", "x"), ("text", "xx")]
    view.add_value(value_of(answer(TextBlock(text="whole"))))
    assert view.live == []
    assert [item.text for item in view.turns[0].items if isinstance(item, Said)] == ["whole"]


def test_cards_and_progress_are_shown_where_they_come() -> None:
    view = SessionView()
    for data in (STORY[3], STORY[5], STORY[11]):
        view.add_value(value_of(data))
    view.add_value(value_of(STORY[12], {"kind": "diff", "title": "Edit a.py"}))
    view.add_value(FRAMES[3])
    (call,) = (item for item in view.turns[0].items if isinstance(item, ToolView) and item.call_id == "c1")
    assert (call.title, call.state, call.progress) == ("Edit a.py", "running", "half")
    view.add_value(value_of(STORY[17], {"kind": "diff", "title": "Edited a.py"}))
    assert (call.title, call.state, call.progress) == ("Edited a.py", "failed", None)


def test_the_log_and_the_event_stream_show_the_same() -> None:
    view = SessionView()
    for data in STORY:
        if not isinstance(data, AssistantChunk):
            view.add_value(value_of(data))
    assert view == view_of(log_of(*STORY))


def test_unknown_events_change_nothing() -> None:
    view = view_of(log_of(*STORY))
    view.add_value({"type": "brand/new", "data": 7})
    view.add_value({"no": "type"})
    view.add(LogEvent(seq=99, time=0, data=PluginEvent(tag="x/y", data={})))
    assert view == view_of(log_of(*STORY))


values = st.lists(
    st.one_of(st.sampled_from([value_of(data) for data in STORY]), st.sampled_from(FRAMES)), max_size=60
)


@given(values, st.data())
def test_a_fold_goes_on_from_the_view_alone_wherever_it_stopped(found: list[JsonObject], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(found)))
    whole, parts = SessionView(), SessionView()
    for value in found:
        whole.add_value(value)
    for value in found[:cut]:
        parts.add_value(value)
    parts = decode(SessionView, loads(dumps(encode(parts))))
    for value in found[cut:]:
        parts.add_value(value)
    assert parts == whole


def test_a_long_session_is_folded_in_linear_time() -> None:
    turns = [data for turn in range(1, 2_000) for data in (TurnStart(turn=turn), *STORY[4:22])]
    assert len(view_of(log_of(*turns)).turns) == 1_999
