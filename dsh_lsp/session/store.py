"""Session store: one JSON Lines file a session, header line first, written behind an explicit barrier.

A run of chunks that differ in nothing but their text is one row; all other events are a row each.

Rules: `enqueue` never blocks; after `await flush()` everything enqueued before it is on disk (fsync); a write that
fails takes its partial bytes back and closes the store for writing until the session is opened again; what is read
equals what was enqueued, packed or not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, groupby
from pathlib import Path

import anyio

from dsh_lsp.errors import SessionError
from dsh_lsp.events import AssistantChunk, LogEvent, decode_event, encode_event
from dsh_lsp.messages import ReasoningDelta, TextDelta, ToolCallDelta
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.wire import JsonObject, decode, dump_bytes, encode, loads

log = logging.getLogger(__name__)


def state_directory() -> Path:
    """Where sessions live unless a setting says otherwise: the user's local state directory."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "dsh_lsp"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "dsh_lsp"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dsh_lsp"


class SessionStore:
    """The file of one live session; follows its log."""

    def __init__(self, path: Path, log: SessionLog) -> None:
        self.path = path
        self._header: list[JsonObject] = [{"type": "session", **encode(log.header)}]  # until it is written
        self._pending: list[LogEvent] = list(log)
        self._file = _File(path)
        self._lock = anyio.Lock(fast_acquire=True)
        # A thread of its own, which ends with the store: a barrier is on the way to every request and every tool.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="session-log")
        self._failure: SessionError | None = None
        log.appended.listen(self.enqueue)

    @classmethod
    def create(cls, directory: Path, log: SessionLog) -> SessionStore:
        """Follow a new session; its file appears with the first flush."""
        return cls(directory / f"{log.header.id}.jsonl", log)

    @classmethod
    def resume(cls, path: Path, log: SessionLog, *, written: int) -> SessionStore:
        """Go on with a file that holds the header and the first `written` events of the log."""
        store = cls(path, log)
        store._header, store._pending = [], list(log)[written:]
        return store

    def enqueue(self, event: LogEvent) -> None:
        """Take an event to be written by the next flush."""
        self._pending.append(event)

    async def settle(self) -> None:
        """Put all on disk when nobody waits for it; a failure is logged, and told to whoever flushes next."""
        try:
            await self.flush()
        except SessionError as error:
            log.error("%s", error)

    async def flush(self) -> None:
        """Put all that was enqueued on disk; callers that come together share one barrier.

        Raises:
            SessionError: `LOG_NOT_WRITABLE`; the session stays read-only from then on.
        """
        async with self._lock:
            if self._failure is not None:
                raise self._failure
            if not (self._header or self._pending):
                return
            header, self._header = self._header, []
            events, self._pending = self._pending, []
            try:
                # Shielded: a torn await would leave the bytes of a running thread unaccounted for.
                with anyio.CancelScope(shield=True):
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(self._writer, self._file.append, header, events)
            except Exception as error:  # whatever it was, the file lacks events now
                why = (error.strerror if isinstance(error, OSError) else None) or error
                self._failure = SessionError(
                    f"the session log {self.path} cannot be written: {why}", code="LOG_NOT_WRITABLE"
                )
                raise self._failure from error


class _File:
    """A file of rows that grows at its end; opened by the first write, closed with the last reference to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def append(self, header: list[JsonObject], events: list[LogEvent]) -> None:
        """Put rows on disk; on an error take back the bytes that were written.

        Encodes too: events are frozen, and the loop need not wait while a long answer becomes rows.

        Raises:
            OSError: they could not be written.
        """
        data = b"".join(dump_bytes(row) + b"\n" for row in chain(header, pack(events)))
        if self._descriptor < 0:
            self._open()
        length = os.fstat(self._descriptor).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, length)
            raise
        if length == 0:
            _sync_directory(self._path.parent)

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        binary = getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | binary, 0o600)
        weakref.finalize(self, os.close, self._descriptor)


def _sync_directory(path: Path) -> None:
    """Make the name of a new file as durable as the file."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


# -- rows ----------------------------------------------------------------------------------------------------

_RUNS: dict[type, tuple[str, str]] = {  # the row's type, and the key under which a chunk holds its text
    TextDelta: ("text-chunks", "text"),
    ReasoningDelta: ("reasoning-chunks", "text"),
    ToolCallDelta: ("tool-call-chunks", "argumentsDelta"),
}
_TEXT_KEYS = dict(_RUNS.values())


def pack(events: Iterable[LogEvent]) -> Iterator[JsonObject]:
    """The rows of events; deltas that follow each other and continue the same block share one."""
    for same, run in groupby(events, key=_run_of):
        first, *others = run
        if same is None or not others:
            yield from map(encode_event, (first, *others))
        else:
            yield _encode_run([first, *others])


def unpack(row: JsonObject) -> Iterator[LogEvent]:
    """The events of a row.

    Raises:
        KeyError, ValueError, pydantic.ValidationError: the row is none, as in `decode_event`.
    """
    key = _TEXT_KEYS.get(row["type"])
    if key is None:
        yield decode_event(row)
        return
    moment = row["time0"]
    for number, (elapsed, text) in enumerate(zip(row["dt"], row["texts"], strict=True)):
        moment += elapsed
        chunk = {**row["chunk"], key: text}
        data = decode(AssistantChunk, {"turn": row["turn"], "step": row["step"], "chunk": chunk})
        yield LogEvent(seq=row["seq0"] + number, time=moment, data=data)


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


def read_session(path: Path) -> tuple[SessionHeader, list[LogEvent]]:
    """Read a whole, undamaged session file.

    Raises:
        SessionError: `LOG_NOT_READABLE`, with the line that is wrong.
    """
    rows = _rows(path)
    header = next(rows, None)
    if header is None or header.get("type") != "session":
        raise SessionError(f"{path} is not a session log", code="LOG_NOT_READABLE")
    return decode(SessionHeader, header), [event for row in rows for event in unpack(row)]


def _rows(path: Path) -> Iterator[dict[str, object]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield loads(line)
            except ValueError as error:
                raise SessionError(f"{path}, line {number}: {error}", code="LOG_NOT_READABLE") from error
