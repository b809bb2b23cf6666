"""Rows: runs of chunks share a row on disk, and what is read equals what was logged."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.events import AssistantChunk, EventData, LogEvent, StepEnd, decode_event
from dsh_lsp.messages import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallDelta,
    UserMessage,
    UserSource,
)
from dsh_lsp.session.loading import load_session
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.rows import RUN_KEYS, ChunkRun, pack
from dsh_lsp.session.store import SessionStore
from dsh_lsp.wire import dump_bytes, loads

TEXTS = st.one_of(st.text(max_size=4), st.sampled_from(["", "\ud83d", "\ude00", "\u2028", '"\\\n']))
INDEXES = st.integers(0, 1)
NAMES = st.sampled_from([None, "", "f"])
CHUNKS = st.one_of(
    st.builds(TextDelta, index=INDEXES, text=TEXTS),
    st.builds(ReasoningDelta, index=INDEXES, text=TEXTS),
    st.builds(ToolCallDelta, index=INDEXES, id=st.sampled_from(["", "c"]), arguments_delta=TEXTS, name=NAMES),
    st.just(BlockStart(index=0, block_type="text")),
    st.just(BlockEnd(index=0, block=TextBlock(text="x"))),
    st.just(Finish(reason="stop", replay_state={"model": "m"})),
)
EVENTS: st.SearchStrategy[EventData] = st.one_of(
    *[st.builds(AssistantChunk, turn=st.integers(1, 2), step=st.integers(1, 2), chunk=CHUNKS)] * 3,
    st.just(StepEnd(turn=1, step=1)),
    st.just(UserMessage(id="u", content=(TextBlock(text="x"),), source=UserSource())),
)


def placed(data: list[EventData], times: list[int], first: int) -> list[LogEvent]:
    """Events in a row; the clock may stand still or go back."""
    return [
        LogEvent(seq=first + index, time=times[index % len(times)] if times else 0, data=each)
        for index, each in enumerate(data)
    ]


@settings(max_examples=max(100, settings.default.max_examples))
@given(st.lists(EVENTS, max_size=30), st.lists(st.integers(0, 2**45), max_size=7), st.integers(0, 10**6))
def test_packed_events_are_unpacked_as_they_were(data: list[EventData], times: list[int], first: int) -> None:
    events = placed(data, times, first)
    rows = [loads(dump_bytes(row)) for row in pack(events)]
    runs = (ChunkRun(row).events() if row["type"] in RUN_KEYS else [decode_event(row)] for row in rows)
    assert [event for run in runs for event in run] == events
    assert len(rows) <= len(events)


def test_a_run_is_one_row_and_another_block_begins_another() -> None:
    deltas = [TextDelta(index=0, text=text) for text in "abc"] + [TextDelta(index=1, text=text) for text in "de"]
    events = placed([AssistantChunk(turn=1, step=2, chunk=delta) for delta in deltas], [5, 7, 6], 10)
    assert list(pack(events)) == [
        {
            "type": "text-chunks",
            "seq0": 10,
            "time0": 5,
            "turn": 1,
            "step": 2,
            "chunk": {"index": 0, "type": "text-delta"},
            "dt": [0, 2, -1],
            "texts": ["a", "b", "c"],
        },
        {
            "type": "text-chunks",
            "seq0": 13,
            "time0": 5,
            "turn": 1,
            "step": 2,
            "chunk": {"index": 1, "type": "text-delta"},
            "dt": [0, 2],
            "texts": ["d", "e"],
        },
    ]


async def test_a_run_that_a_barrier_cuts_reads_back_whole(tmp_path: Path) -> None:
    from dsh_lsp.events import StepStart, TurnStart

    log = SessionLog(SessionHeader(id="s1", created_at=5, cwd="/w"), clock=lambda: 7)
    store = SessionStore.create(tmp_path, log)
    log.append(TurnStart(turn=1))
    log.append(StepStart(turn=1, step=1))
    for number in range(10):
        log.append(AssistantChunk(turn=1, step=1, chunk=TextDelta(index=0, text=str(number))))
        if number in (3, 4):
            await store.flush()
    await store.flush()
    loaded = load_session(store.path)
    assert (loaded.header, loaded.events) == (log.header, list(log))
    assert len(store.path.read_text().splitlines()) == 1 + 2 + 3
