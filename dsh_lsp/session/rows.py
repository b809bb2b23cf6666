"""Rows: the lines of a session file, and the runs of chunks that share one.

A run of chunks that differ in nothing but their text is one row; all other events are a row each.

Rules: what is read equals what was written, packed or not; a run that is read stays packed until somebody asks for
its events, for most of a long log is chunks that nobody asks for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count, groupby
from typing import Final

from dsh_lsp.events import AssistantChunk, LogEvent, encode_event
from dsh_lsp.messages import Chunk, ReasoningDelta, TextDelta, ToolCallDelta
from dsh_lsp.wire import JsonObject, decode, encode

_RUNS: dict[type, tuple[str, str]] = {  # the row's type, and the key under which a chunk holds its text
    TextDelta: ("text-chunks", "text"),
    ReasoningDelta: ("reasoning-chunks", "text"),
    ToolCallDelta: ("tool-call-chunks", "argumentsDelta"),
}
RUN_KEYS: Final = dict(_RUNS.values())

_INTS, _STRINGS = {int}, {str}


class ChunkRun:
    """The events of one packed row; they are made when one is asked for that is neither the first nor the last."""

    __slots__ = ("_deltas", "_events", "_texts", "first", "length")

    def __init__(self, row: JsonObject) -> None:
        """Check the whole row, and make its first event.

        Raises:
            KeyError, TypeError, ValueError, pydantic.ValidationError: the row is none.
        """
        deltas, texts = row["dt"], row["texts"]
        if not texts or len(deltas) != len(texts):
            raise ValueError("a run of chunks with a gap")
        if set(map(type, deltas)) != _INTS or set(map(type, texts)) != _STRINGS:
            raise ValueError("a run of chunks that holds something else")
        seq, time = row["seq0"], row["time0"]
        if type(seq) is not int or type(time) is not int:
            raise ValueError("a run of chunks without its place")
        tag = row["type"]
        chunk = {**row["chunk"], RUN_KEYS[tag]: texts[0]}
        data = decode(AssistantChunk, {"turn": row["turn"], "step": row["step"], "chunk": chunk})
        if _RUNS.get(type(data.chunk), ("",))[0] != tag:
            raise ValueError(f"a chunk of another kind among {tag}")
        self.length = len(texts)
        self.first = LogEvent(seq=seq, time=time + deltas[0], data=data)
        self._deltas: list[int] = deltas
        self._texts: list[str] = texts
        self._events: list[LogEvent] = []

    @property
    def last(self) -> LogEvent:
        """The event at the end of the run."""
        if self._events or self.length == 1:
            return self._events[-1] if self._events else self.first
        time = self.first.time + sum(self._deltas[1:])
        return next(self._make(self.first.seq + self.length - 1, [time], self._texts[-1:]))

    def event(self, seq: int) -> LogEvent:
        """One event of the run."""
        if seq == self.first.seq:
            return self.first
        return self.last if seq == self.last.seq else self.events()[seq - self.first.seq]

    def events(self) -> Sequence[LogEvent]:
        """All events of the run."""
        if not self._events:
            times = accumulate(self._deltas[1:], initial=self.first.time)
            self._events = list(self._make(self.first.seq, times, self._texts))
            self._deltas, self._texts = [], []
        return self._events

    def _make(self, seq: int, times: Iterable[int], texts: Iterable[str]) -> Iterator[LogEvent]:
        """Events like the first one; made directly, since their row was checked."""
        shared: AssistantChunk = self.first.data  # type: ignore[assignment]
        chunks = _like(shared.chunk, texts)
        for place, time, chunk in zip(count(seq), times, chunks, strict=False):
            data = AssistantChunk(turn=shared.turn, step=shared.step, chunk=chunk)
            yield LogEvent(seq=place, time=time, data=data)


def pack(events: Iterable[LogEvent]) -> Iterator[JsonObject]:
    """The rows of events; deltas that follow each other and continue the same block share one."""
    for same, run in groupby(events, key=_run_of):
        first, *others = run
        if same is None or not others:
            yield from map(encode_event, (first, *others))
        else:
            yield _encode_run([first, *others])


_Run = tuple[type, int, int, int, str | None, str | None]  # all that the chunks of a run have in common


def _run_of(event: LogEvent) -> _Run | None:
    """What an event must share with its neighbours to stand in one row with them."""
    if not isinstance(data := event.data, AssistantChunk):
        return None
    match data.chunk:
        case TextDelta(index=index) | ReasoningDelta(index=index):
            return type(data.chunk), data.turn, data.step, index, None, None
        case ToolCallDelta(index=index, id=call_id, name=name):
            return ToolCallDelta, data.turn, data.step, index, call_id, name
        case _:
            return None


def _encode_run(run: Sequence[LogEvent]) -> JsonObject:
    """One row: what the chunks share, and of each its text and the milliseconds since the one before."""
    first = run[0]
    shared = encode(first.data)
    tag, key = _RUNS[type(first.data.chunk)]  # type: ignore[union-attr]
    del shared["chunk"][key]
    times = [event.time for event in run]
    return {
        "type": tag,
        "seq0": first.seq,
        "time0": first.time,
        **shared,
        "dt": [later - earlier for earlier, later in zip([first.time, *times], times, strict=False)],
        "texts": [_text_of(event) for event in run],
    }


def _text_of(event: LogEvent) -> str:
    chunk = event.data.chunk  # type: ignore[union-attr]
    return chunk.arguments_delta if isinstance(chunk, ToolCallDelta) else chunk.text  # type: ignore[union-attr]


def _like(shared: Chunk, texts: Iterable[str]) -> Iterator[TextDelta | ReasoningDelta | ToolCallDelta]:
    match shared:
        case TextDelta(index=index):
            return (TextDelta(index=index, text=text) for text in texts)
        case ReasoningDelta(index=index):
            return (ReasoningDelta(index=index, text=text) for text in texts)
        case ToolCallDelta(index=index, id=call_id, name=name):
            return (ToolCallDelta(index=index, id=call_id, arguments_delta=text, name=name) for text in texts)
        case _:
            raise TypeError(f"{type(shared).__name__} does not stand in runs")
