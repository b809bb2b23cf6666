"""Loading: a session file read back as far as it can be trusted.

    loaded = load_session(path)              # what the file says
    loaded = inspect_session(path)           # and closed where it broke off; in memory only
    loaded = await claim_session(path)       # (store.py) the same under the session's lock, to go on with it
    store = SessionStore.resume(loaded)      # follows `loaded.log`; the next write mends the file

Rules:
- A file is its header and the records after it up to the first bad one: not JSON, of another shape, out of
  sequence, illegal in its place. If a turn ended later, that is damage and refused, with the line; else it is the
  torn end of the last write and left out. A whole last record counts also without its line end.
- A row of chunks counts whole or not at all.
- An unknown event is refused unless its writer said that it may be ignored; then it keeps its place as a
  `PluginEvent`.
- A file is read line by line, and runs of chunks stay packed: time and memory are those of its lines.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from dsh_lsp.decisions import CLOSERS
from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.events import CLASSES, AssistantChunk, EventData, LogEvent, PluginEvent, decode_event
from dsh_lsp.messages import ReasoningDelta, TextDelta, ToolCallDelta
from dsh_lsp.session.lock import SessionLock
from dsh_lsp.session.log import PluginEventKind, SessionHeader, SessionLog
from dsh_lsp.session.repair import PairCloser, closers
from dsh_lsp.session.rows import RUN_KEYS, ChunkRun
from dsh_lsp.wire import JsonObject, decode

log = logging.getLogger(__name__)

VERSION = 0

_BAD = (ValueError, KeyError, TypeError, RecursionError, UsageError)  # what a bad line raises
_DELTAS: dict[str, type[TextDelta | ReasoningDelta]] = {"text-delta": TextDelta, "reasoning-delta": ReasoningDelta}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A session as its file has it.

    Appending continues at `good_bytes`; the file's `file_bytes` are more where its end is torn. `unended`: the last
    record lacks its line end. `closers` are events at the end of the log that are not in the file yet. `lock` is
    there if the session was claimed, and belongs to the store that resumes it.
    """

    path: Path
    log: SessionLog
    good_bytes: int
    file_bytes: int
    unended: bool = False
    closers: tuple[LogEvent, ...] = ()
    lock: SessionLock | None = None

    @property
    def header(self) -> SessionHeader:
        """What is fixed for the session's life."""
        return self.log.header

    @property
    def events(self) -> list[LogEvent]:
        """All events, with the closers."""
        return list(self.log)

    @property
    def torn(self) -> bool:
        """Whether the file ends in something that does not count."""
        return self.file_bytes > self.good_bytes


def load_session(path: Path, *, kinds: Iterable[PluginEventKind] = ()) -> Loaded:
    """Read a session file; `kinds` are the events of plugins that may be in it.

    Raises:
        SessionError: `UNKNOWN_SESSION`, there is no such file; `LOG_NOT_READABLE`, it is damaged or no session log,
            with the line; `LOG_NOT_SUPPORTED`, another version of this program wrote it.
    """
    try:
        with path.open("rb") as file:
            return _Reading(path, file, {kind.tag: kind for kind in kinds}).load()
    except FileNotFoundError as error:
        raise SessionError(f"there is no session {path.stem}", code="UNKNOWN_SESSION") from error
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}", code="LOG_NOT_READABLE") from error


def inspect_session(path: Path, *, kinds: Iterable[PluginEventKind] = ()) -> Loaded:
    """Read a session file and close in memory what a crash left open; the file stays as it is.

    Raises:
        SessionError: as `load_session`.
    """
    loaded = load_session(path, kinds=kinds)
    if not loaded.log.state.turn_open:
        return loaded
    closing = tuple(closers(list(loaded.log.facts()), _PAIRS))
    loaded.log.replay(closing)
    return replace(loaded, closers=closing)


def _closer(close: Callable[[Iterable[object]], Iterable[EventData]]) -> PairCloser:
    return lambda events: tuple(close(event.data for event in events))


_PAIRS = tuple(_closer(close) for close in CLOSERS)


class _Reading:
    """One file being read; `good_bytes` and `line` say how far."""

    def __init__(self, path: Path, file: BinaryIO, kinds: Mapping[str, PluginEventKind]) -> None:
        self._path = path
        self._file = file
        self._kinds = kinds
        self._line = b""
        self._number = 1
        self._good_bytes = 0
        self._file_bytes = 0

    def load(self) -> Loaded:
        first = self._file.readline()
        session = SessionLog(self._header(first))
        self._line, self._good_bytes, self._file_bytes = first, len(first), len(first)
        ends_line = first.endswith(b"\n")
        try:
            session.replay(self._records(session))
            ends_line = self._line.endswith(b"\n")
        except _BAD as error:
            ends_line = True  # a bad line follows the good ones, so they have their ends
            self._check_tail(error)
        return Loaded(
            path=self._path,
            log=session,
            good_bytes=self._good_bytes,
            file_bytes=self._file_bytes,
            unended=not ends_line,
        )

    def _header(self, line: bytes) -> SessionHeader:
        try:
            row = _parse(line)
            if not isinstance(row, dict) or row.get("type") != "session":
                raise ValueError("its first line is no header")
            version = row.get("version", VERSION)
            if type(version) is not int:
                raise ValueError(f"its version is {version!r}")
            if version == VERSION:
                header = decode(SessionHeader, row)
        except _BAD as error:
            raise SessionError(
                f"{self._path} is not a session log: {_why(error)}", code="LOG_NOT_READABLE"
            ) from error
        if version != VERSION:
            age = "a newer" if version > VERSION else "an older"
            raise SessionError(
                f"{self._path} was written by {age} version of this program: "
                f"it has format {version}, and this one reads {VERSION}",
                code="LOG_NOT_SUPPORTED",
            )
        if header.id != self._path.stem:
            raise SessionError(f"{self._path} holds another session: {header.id}", code="LOG_NOT_READABLE")
        return header

    def _records(self, session: SessionLog) -> Iterator[LogEvent | ChunkRun]:
        """The records one by one; whoever asks for the next has taken the one before."""
        for line in self._file:
            self._number += 1
            self._line = line
            self._file_bytes += len(line)
            yield self._record(_parse(line), len(session))
            self._good_bytes += len(line)

    def _record(self, row: Any, seq: int) -> LogEvent | ChunkRun:
        if not isinstance(row, dict):
            raise ValueError("not a record")
        tag = row["type"]
        if tag in RUN_KEYS:
            return ChunkRun(row)
        if row["seq"] != seq or type(row["time"]) is not int:
            raise ValueError(f"event {row['seq']} in the place of event {seq}")
        if tag == "assistant/chunk":
            return _chunk(row)
        return decode_event(row) if tag in CLASSES else self._plugin_event(tag, row)

    def _plugin_event(self, tag: str, row: JsonObject) -> LogEvent:
        kind, ignorable = self._kinds.get(tag), row.get("ignorable") is True
        if kind is None and not ignorable:
            raise SessionError(
                f"{self._path}, line {self._number}: this version does not know the event {tag!r}",
                code="LOG_NOT_SUPPORTED",
            )
        if not isinstance(row["data"], dict):
            raise ValueError(f"{tag} without its data")
        needs_turn = kind is not None and kind.needs_turn
        data = PluginEvent(tag=tag, data=row["data"], needs_turn=needs_turn, ignorable=ignorable)
        return LogEvent(seq=row["seq"], time=row["time"], data=data)

    def _check_tail(self, error: Exception) -> None:
        """Tell a torn end from damage.

        Raises:
            SessionError: `LOG_NOT_READABLE`, a turn ended after the bad line.
        """
        bad = self._number
        torn = not self._line.endswith(b"\n")
        for line in chain([self._line], self._counted()):
            if _ends_turn(line):
                raise SessionError(
                    f"{self._path}, line {bad} is damaged, and the session went on after it: {_why(error)}",
                    code="LOG_NOT_READABLE",
                ) from error
        left_out = self._file_bytes - self._good_bytes
        note = "an unfinished write" if torn else f"line {bad} is bad: {_why(error)}"
        log.warning("%s: the last %d bytes are left out (%s)", self._path, left_out, note)

    def _counted(self) -> Iterator[bytes]:
        for line in self._file:
            self._file_bytes += len(line)
            yield line


def _why(error: Exception) -> str:
    """What is wrong with a line, on one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode


def _parse(line: bytes) -> Any:
    text = line.decode()
    value, end = _decode(text)
    if text[end:].strip():
        raise ValueError(f"more than one value: {text[end : end + 20]!r}")
    return value


def _chunk(row: JsonObject) -> LogEvent:
    """A chunk that stands alone; text is made directly, since there may be very many."""
    data = row["data"]
    turn, step, chunk = data["turn"], data["step"], data["chunk"]
    index, kind = chunk.get("index"), chunk["type"]
    if type(turn) is not int or type(step) is not int or type(index) is not int or "surfaceOp" in row:
        return decode_event(row)
    made: TextDelta | ReasoningDelta | ToolCallDelta
    if (cls := _DELTAS.get(kind)) is not None and type(text := chunk["text"]) is str:
        made = cls(index=index, text=text)
    elif kind == "tool-call-delta" and type(chunk["id"]) is type(text := chunk["argumentsDelta"]) is str:
        name = chunk.get("name")
        if name is not None and type(name) is not str:
            return decode_event(row)
        made = ToolCallDelta(index=index, id=chunk["id"], arguments_delta=text, name=name)
    else:
        return decode_event(row)
    return LogEvent(seq=row["seq"], time=row["time"], data=AssistantChunk(turn=turn, step=step, chunk=made))


def _ends_turn(line: bytes) -> bool:
    if b"turn/end" not in line:  # a record has it as its type, unescaped
        return False
    try:
        row = _parse(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.get("type") == "turn/end"
