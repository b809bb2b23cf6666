"""Loading: what a damaged, torn, foreign or long session file gives, and what is refused."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from dsh_lsp.errors import SessionError
from dsh_lsp.events import (
    AssistantChunk,
    Ended,
    EventData,
    InboxSpliced,
    LogEvent,
    PluginEvent,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
    encode_event,
)
from dsh_lsp.messages import BlockStart, ReasoningDelta, TextBlock, TextDelta, ToolCallDelta, UserMessage, UserSource
from dsh_lsp.session.loading import inspect_session, load_session
from dsh_lsp.session.log import PluginEventKind, SessionHeader, SessionLog
from dsh_lsp.session.rows import pack
from dsh_lsp.wire import dump_bytes, encode, loads

HEADER = SessionHeader(id="s", created_at=5, cwd="/w")


def words(number: int) -> UserMessage:
    return UserMessage(id=f"m{number}", content=(TextBlock(text=f"words {number} ä€😀"),), source=UserSource())


def chunk(delta: Any) -> AssistantChunk:
    return AssistantChunk(turn=2, step=1, chunk=delta)


TURN: tuple[EventData, ...] = (TurnStart(turn=1), words(1), TurnEnd(turn=1, reason=Ended(kind="completed")))
STREAM: tuple[EventData, ...] = (
    TurnStart(turn=2),
    StepStart(turn=2, step=1),
    chunk(BlockStart(index=0, block_type="text")),
    *(chunk(TextDelta(index=0, text=f"{number} ")) for number in range(40)),
    chunk(ReasoningDelta(index=1, text="alone")),
    *(
        chunk(ToolCallDelta(index=2, id="c", name="f" if not number else None, arguments_delta="{"))
        for number in (0, 1, 2)
    ),
)


def log_of(*data: EventData) -> SessionLog:
    clock = iter(range(1_000, 10_000, 3))
    log = SessionLog(HEADER, clock=lambda: next(clock))
    for each in data:
        log.append(each)
    return log


def lines_of(events: Sequence[LogEvent]) -> list[bytes]:
    rows = [{"type": "session", **encode(HEADER)}, *pack(events)]
    return [dump_bytes(row) + b"\n" for row in rows]


def write(folder: Path, *lines: bytes) -> Path:
    path = folder / "s.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def row(event: LogEvent, **changes: Any) -> bytes:
    return dump_bytes({**encode_event(event), **changes}) + b"\n"


# -- what is read ----------------------------------------------------------------------------------------------


def test_a_session_reads_back_as_it_was_packed_or_not(tmp_path: Path) -> None:
    log = log_of(*TURN, *STREAM)
    for lines in (lines_of(log), [lines_of([])[0], *(row(event) for event in log)]):
        loaded = load_session(write(tmp_path, *lines))
        assert (loaded.header, loaded.events) == (HEADER, list(log))
        assert [loaded.log[seq] for seq in range(len(log))] == list(log)
        assert loaded.log[-30:-1:7] == list(log)[-30:-1:7]
        assert loaded.log.derive_messages() == log.derive_messages()
        assert (loaded.log.state.turn, loaded.log.state.step_open) == (2, True)
        assert (loaded.torn, loaded.unended, loaded.closers) == (False, False, ())
        assert loaded.good_bytes == loaded.file_bytes == len(b"".join(lines))


def test_facts_leave_out_the_inside_of_packed_runs(tmp_path: Path) -> None:
    log = log_of(*TURN, *STREAM)
    loaded = load_session(write(tmp_path, *lines_of(log))).log
    inside = {*range(7, 45), 49}  # seven events before the text, one reasoning delta between the runs
    facts = list(loaded.facts())
    assert all(event == log[event.seq] for event in facts)
    assert len(facts) < 15
    assert not inside & {event.seq for event in facts} - {6, 45, 46, 47, 49}
    assert facts[-1] == log[-1]
    assert list(log.facts()) == list(log), "a log that was never packed has nothing to leave out"


def test_a_resumed_log_goes_on_after_its_runs(tmp_path: Path) -> None:
    log = log_of(*TURN, *STREAM)
    loaded = load_session(write(tmp_path, *lines_of(log))).log
    event = loaded.append(StepEnd(turn=2, step=1))
    assert event.seq == len(log)
    assert [*log, event] == list(loaded) == [loaded[seq] for seq in range(len(loaded))]


# -- torn and damaged ----------------------------------------------------------------------------------------


def test_a_log_cut_at_any_byte_of_its_end_loads_with_every_whole_record_or_says_why_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = UserMessage(id="m9", content=(TextBlock(text="\n \\ 😀" * 100),), source=UserSource())
    splice = InboxSpliced(target="next-turn", start=0, inserted=(words(99),))
    last = (StepEnd(turn=2, step=1), long, _end(2), TurnStart(turn=3), long, _end(3), splice, TurnStart(turn=4))
    log = log_of(*TURN, *STREAM, *last)
    lines = lines_of(log)
    whole = b"".join(lines)
    ends = list(accumulate(map(len, lines)))
    events = list(accumulate((len(loads(line).get("texts", "1")) for line in lines[1:]), initial=0))
    assert len(whole) > 4096
    path = write(tmp_path, whole)
    assert len(load_session(path).log) == len(log)
    for cut in sorted({*range(len(lines[0]) + 2), *range(len(whole) - 4096, len(whole) + 1)}, reverse=True):
        os.truncate(path, cut)
        complete = sum(end - 1 <= cut for end in ends)  # also without its line end
        caplog.clear()
        if complete == 0:
            with pytest.raises(SessionError, match="not a session log"):
                load_session(path)
            continue
        loaded = load_session(path)
        unended = cut + 1 in ends
        torn = cut not in ends and not unended
        assert loaded.events == log[: events[complete - 1]]
        assert (loaded.torn, loaded.unended) == (torn, unended)
        assert (loaded.good_bytes, loaded.file_bytes) == (ends[complete - 1] - unended, cut)
        assert bool(caplog.records) == torn, "what is left out is told"


def _end(turn: int) -> TurnEnd:
    return TurnEnd(turn=turn, reason=Ended(kind="completed"))


BAD = {
    "not JSON": b"{oops\n",
    "not UTF-8": b'{"type":"\xff"}\n',
    "a number that JSON lacks": b'{"type":"turn/start","seq":3,"time":1,"data":{"turn":NaN}}\n',
    "two values": b"{} {}\n",
    "no record": b"[1]\n",
    "an empty line": b"\n",
    "no type": b'{"seq":3}\n',
    "a gap": row(LogEvent(seq=4, time=1, data=TurnStart(turn=2))),
    "a repetition": row(LogEvent(seq=2, time=1, data=TurnStart(turn=2))),
    "no time": row(LogEvent(seq=3, time=1, data=TurnStart(turn=2)), time="now"),
    "another shape": row(LogEvent(seq=3, time=1, data=TurnStart(turn=2)), data={"turn": "two"}),
    "no place on the surface": row(LogEvent(seq=3, time=1, data=words(2)), surfaceOp=None),
    "an illegal event": row(LogEvent(seq=3, time=1, data=StepStart(turn=2, step=1))),
    "a run that is none": b'{"type":"text-chunks","seq0":3}\n',
    "a very deep value": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("later", [(), (TurnStart(turn=2), words(9)), (TurnStart(turn=2), _end(2))])
def test_the_first_bad_line_ends_a_log_and_is_damage_if_a_turn_ended_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes, later: tuple[EventData, ...]
) -> None:
    good = lines_of(log_of(*TURN))
    after = [row(LogEvent(seq=3 + index, time=1, data=data)) for index, data in enumerate(later)]
    path = write(tmp_path, *good, bad, *after)
    if later and isinstance(later[-1], TurnEnd):
        with pytest.raises(SessionError, match=r"line 5 is damaged, and the session went on after it: \S") as refused:
            load_session(path)
        assert refused.value.code == "LOG_NOT_READABLE"
        assert "\n" not in str(refused.value)
        return
    loaded = load_session(path)
    assert loaded.events == list(log_of(*TURN))
    assert loaded.torn
    assert (loaded.good_bytes, loaded.file_bytes) == (len(b"".join(good)), path.stat().st_size)
    assert "line 5 is bad" in caplog.text


def test_a_turn_that_ends_out_of_sequence_is_damage_itself(tmp_path: Path) -> None:
    events = list(log_of(*TURN))
    path = write(tmp_path, *lines_of(events[:1]), row(events[2]))
    with pytest.raises(SessionError, match="line 3 is damaged"):
        load_session(path)


RUN = {
    "type": "text-chunks",
    "seq0": 5,
    "time0": 9,
    "turn": 2,
    "step": 1,
    "chunk": {"index": 0, "type": "text-delta"},
}
GAPS: dict[str, dict[str, Any]] = {
    "a text too few": {"dt": [0, 1], "texts": ["a"]},
    "a time too few": {"dt": [0], "texts": ["a", "b"]},
    "nothing": {"dt": [], "texts": []},
    "no text": {"dt": [0, 1], "texts": ["a", None]},
    "no time": {"dt": [0, 1.5], "texts": ["a", "b"]},
    "another place": {"dt": [0, 1], "texts": ["a", "b"], "seq0": 6},
    "another step": {"dt": [0, 1], "texts": ["a", "b"], "step": 2},
    "another kind": {"dt": [0, 1], "texts": ["a", "b"], "chunk": {"index": 0, "type": "reasoning-delta"}},
    "no chunk": {"dt": [0, 1], "texts": ["a", "b"], "chunk": {"type": "text-delta"}},
    "no number": {"dt": [0, 1], "texts": ["a", "b"], "seq0": "5"},
}


@pytest.mark.parametrize("changes", GAPS.values(), ids=GAPS.keys())
def test_a_row_of_chunks_counts_whole_or_not_at_all(tmp_path: Path, changes: dict[str, Any]) -> None:
    good = lines_of(log_of(*TURN, *STREAM[:2]))
    whole = dump_bytes({**RUN, "dt": [0, 1], "texts": ["a", "b"]}) + b"\n"
    assert len(load_session(write(tmp_path, *good, whole)).log) == 7
    loaded = load_session(write(tmp_path, *good, dump_bytes({**RUN, **changes}) + b"\n"))
    assert (len(loaded.log), loaded.torn) == (5, True)


# -- foreign -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "code", "says"),
    [
        (b"", "LOG_NOT_READABLE", "not a session log"),
        (b'{"type":"sess', "LOG_NOT_READABLE", "not a session log"),
        (b'{"type":"turn/start"}\n', "LOG_NOT_READABLE", "first line is no header"),
        (b'{"type":"session","id":"s","cwd":"/"}\n', "LOG_NOT_READABLE", "createdAt"),
        (b'{"type":"session","id":"s","cwd":"/","createdAt":1,"version":"0"}\n', "LOG_NOT_READABLE", "version"),
        (
            b'{"type":"session","id":"s","cwd":"/","createdAt":1,"version":1}\n',
            "LOG_NOT_SUPPORTED",
            "a newer version",
        ),
        (b'{"type":"session","version":2,"new":true}\n', "LOG_NOT_SUPPORTED", "a newer version"),
        (b'{"type":"session","id":"s","cwd":"/","createdAt":1,"version":-1}\n', "LOG_NOT_SUPPORTED", "an older"),
        (
            b'{"type":"session","id":"t","cwd":"/","createdAt":1,"version":0}\n',
            "LOG_NOT_READABLE",
            "another session: t",
        ),
    ],
)
def test_what_is_no_session_of_this_version_and_name_is_refused(
    tmp_path: Path, header: bytes, code: str, says: str
) -> None:
    with pytest.raises(SessionError, match=says) as refused:
        load_session(write(tmp_path, header))
    assert refused.value.code == code


def test_a_session_that_is_not_there_or_may_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="no session s") as refused:
        load_session(tmp_path / "s.jsonl")
    assert refused.value.code == "UNKNOWN_SESSION"
    (tmp_path / "d.jsonl").mkdir()
    with pytest.raises(SessionError, match="cannot be read: Is a directory") as refused:
        load_session(tmp_path / "d.jsonl")
    assert refused.value.code == "LOG_NOT_READABLE"


def test_an_unknown_event_is_refused_unless_it_may_be_ignored_and_then_keeps_its_place(tmp_path: Path) -> None:
    log = log_of(*TURN, PluginEvent(tag="far/future", data={"x": [1]}, ignorable=True), words(2))
    loaded = load_session(write(tmp_path, *lines_of(log)))
    assert loaded.events == list(log)
    strict = log_of(*TURN, PluginEvent(tag="far/future", data={"x": [1]}), words(2))
    path = write(tmp_path, *lines_of(strict))
    with pytest.raises(SessionError, match=r"line 5: .* 'far/future'") as refused:
        load_session(path)
    assert refused.value.code == "LOG_NOT_SUPPORTED"
    assert load_session(path, kinds=[PluginEventKind(tag="far/future")]).events == list(strict)


def test_an_event_of_a_plugin_keeps_its_rules(tmp_path: Path) -> None:
    data = PluginEvent(tag="a/b", data={}, needs_turn=True)
    log = log_of(TurnStart(turn=1), data, _end(1))
    kind = PluginEventKind(tag="a/b", needs_turn=True)
    path = write(tmp_path, *lines_of(log))
    assert load_session(path, kinds=[kind]).events == list(log)
    outside = [log[0], LogEvent(seq=1, time=0, data=_end(1)), LogEvent(seq=2, time=0, data=data)]
    assert len(load_session(write(tmp_path, *lines_of(outside)), kinds=[kind]).log) == 2


# -- repair --------------------------------------------------------------------------------------------------


def test_inspecting_closes_in_memory_and_leaves_the_file_alone(tmp_path: Path) -> None:
    log = log_of(*TURN, *STREAM)
    path = write(tmp_path, *lines_of(log), b'{"type":"turn/e')
    before = path.read_bytes()
    loaded = inspect_session(path)
    assert [event.type for event in loaded.closers] == ["step/end", "turn/end"]
    assert loaded.events == [*log, *loaded.closers]
    assert not loaded.log.state.turn_open
    assert loaded.torn
    assert path.read_bytes() == before
    balanced = inspect_session(write(tmp_path, *lines_of(log_of(*TURN))))
    assert balanced.closers == ()


def test_a_bad_log_is_told_with_what_is_wrong_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    load_session(write(tmp_path, *lines_of([]), b'{"type":"turn/start","seq":0,"time":1,"data":{}}\n'))
    assert caplog.messages[0].endswith("(line 2 is bad: turn: Field required)")
