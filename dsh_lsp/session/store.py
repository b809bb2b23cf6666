"""Session store: one JSON Lines file a session, header line first, written behind an explicit barrier.

Rules: `enqueue` never blocks; after `await flush()` everything enqueued before it is on disk (fsync); a write that
fails takes its partial bytes back and closes the store for writing until the session is opened again; a torn end is
cut off by the next write, not before; who wrote to the file meanwhile is noticed, whatever the locks say.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from dsh_lsp.directories import locks_directory
from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.events import LogEvent
from dsh_lsp.session.loading import Loaded, inspect_session, load_session
from dsh_lsp.session.lock import WAIT_S, SessionLock
from dsh_lsp.session.log import SessionLog
from dsh_lsp.session.rows import pack
from dsh_lsp.wire import JsonObject, dump_bytes, encode

log = logging.getLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def session_lock(path: Path) -> SessionLock:
    """The lock of a session, not taken yet; always in the local state directory, wherever the session lies."""
    return SessionLock(path, folder=locks_directory())


async def claim_session(path: Path, *, wait_s: float = WAIT_S) -> Loaded:
    """Lock a session, read it and close what a crash left open, for `SessionStore.resume`.

    Raises:
        SessionError: `SESSION_LOCKED`, another process has it still after `wait_s`; and as `load_session`.
    """
    lock = session_lock(path)
    await lock.take(wait_s)
    try:
        loaded = await anyio.to_thread.run_sync(inspect_session, path)
    except BaseException:
        lock.release()
        raise
    return replace(loaded, lock=lock)


def look_at(path: Path) -> Loaded:
    """Read a session without going on with it: closed in memory where a crash broke it off, as it is while it lives.

    Raises:
        SessionError: as `load_session`.
    """
    return load_session(path) if session_lock(path).is_held() else inspect_session(path)


class RowFile(Protocol):
    """A file that grows at its end."""

    def size(self) -> int:
        """Its bytes now."""

    def write(self, data: memoryview) -> int:
        """Append some of the bytes, at least one; how many."""

    def sync(self) -> None:
        """Return when all is on disk, the file's name too."""

    def truncate(self, length: int) -> None:
        """Cut it off."""

    def close(self) -> None:
        """Let it go."""


class DiskFile:
    """A row file of the operating system, with its folder; made for this user alone."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags, 0o600)
        self._unnamed = path.parent if self.size() == 0 else None
        self.close = weakref.finalize(self, os.close, self._descriptor)

    def size(self) -> int:
        """Its bytes now."""
        return os.fstat(self._descriptor).st_size

    def write(self, data: memoryview) -> int:
        """Append some of the bytes."""
        return os.write(self._descriptor, data)

    def sync(self) -> None:
        """Put it on disk, and the name of a new file as well."""
        os.fsync(self._descriptor)
        folder, self._unnamed = self._unnamed, None
        if folder is not None and hasattr(os, "O_DIRECTORY"):
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def truncate(self, length: int) -> None:
        """Cut it off."""
        os.ftruncate(self._descriptor, length)


Opener = Callable[[Path], RowFile]


class SessionStore:
    """The file of one live session; follows its log.

    `lock` is taken with the first write at the latest, and kept until `close`. `opener` opens the file; tests give
    one that fails or forgets.
    """

    def __init__(
        self, path: Path, log: SessionLog, *, lock: SessionLock | None = None, opener: Opener = DiskFile
    ) -> None:
        self.path = path
        self._session_lock = lock
        self._header: list[JsonObject] = [{"type": "session", **encode(log.header)}]  # until it is written
        self._pending: list[LogEvent] = list(log)
        self._file = _Tail(path, opener)
        self._lock = anyio.Lock(fast_acquire=True)
        # A thread of its own, which ends with the store: a barrier is on the way to every request and every tool.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="session-log")
        self._failure: SessionError | None = None
        self._failure_logged = False
        self._closed = False
        log.appended.listen(self.enqueue)

    @classmethod
    def create(
        cls, directory: Path, log: SessionLog, *, lock: SessionLock | None = None, opener: Opener = DiskFile
    ) -> SessionStore:
        """Follow a new session; its file appears with the first flush.

        Raises:
            UsageError: its id cannot be the name of a file.
        """
        if not _ID.fullmatch(log.header.id):
            raise UsageError(f"{log.header.id!r} cannot be the name of a session")
        return cls(directory / f"{log.header.id}.jsonl", log, lock=lock, opener=opener)

    @classmethod
    def resume(cls, loaded: Loaded, *, opener: Opener = DiskFile) -> SessionStore:
        """Follow a session that was loaded; the next flush cuts its torn end off and appends its closers."""
        store = cls(loaded.path, loaded.log, lock=loaded.lock, opener=opener)
        store._header, store._pending = [], list(loaded.closers)
        store._file.continue_at(loaded.good_bytes, size=loaded.file_bytes, unended=loaded.unended)
        return store

    def enqueue(self, event: LogEvent) -> None:
        """Take an event to be written by the next flush."""
        self._pending.append(event)

    async def settle(self) -> None:
        """Put all on disk when nobody waits for it; a failure is logged once, and told to whoever flushes next."""
        try:
            await self.flush()
        except SessionError as error:
            if not self._failure_logged:
                self._failure_logged = True
                log.error("%s", error)

    async def flush(self) -> None:
        """Put all that was enqueued on disk; callers that come together share one barrier.

        Raises:
            SessionError: `LOG_NOT_WRITABLE`, or `SESSION_LOCKED`; the session stays read-only from then on.
        """
        async with self._lock:
            if self._failure is not None:
                raise self._failure
            if not self._pending:  # a header alone makes no file
                return
            if self._closed:
                raise SessionError(f"session {self.path.stem} is closed", code="LOG_NOT_WRITABLE")
            header, self._header = self._header, []
            events, self._pending = self._pending, []
            try:
                # Shielded: a torn await would leave the bytes of a running thread unaccounted for.
                with anyio.CancelScope(shield=True):
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(self._writer, self._write, header, events)
            except SessionError as error:
                self._failure = error
                raise
            except Exception as error:  # whatever it was, the file lacks events now
                why = (error.strerror if isinstance(error, OSError) else None) or error
                also = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
                self._failure = SessionError(
                    f"the session log {self.path} cannot be written: {why}{also}; "
                    "the session is read-only until it is opened again",
                    code="LOG_NOT_WRITABLE",
                )
                raise self._failure from error

    def _write(self, header: list[JsonObject], events: list[LogEvent]) -> None:
        if self._session_lock is not None:
            self._session_lock.take_now()
        self._file.append(header, events)

    async def close(self) -> None:
        """Put all on disk and let others have the session; what is appended later is not written."""
        await self.settle()
        async with self._lock:
            self._closed = True
            with anyio.CancelScope(shield=True):
                await asyncio.get_running_loop().run_in_executor(self._writer, self._let_go)

    def _let_go(self) -> None:
        self._file.close()
        if self._session_lock is not None:
            self._session_lock.release()


class _Tail:
    """The end of a file of rows; the file is opened by the first write."""

    def __init__(self, path: Path, opener: Opener) -> None:
        self._path = path
        self._opener = opener
        self._file: RowFile | None = None
        self._size = 0  # of the file as we know it
        self._good_bytes = 0  # where the next row goes
        self._gap = b""  # what the row before still lacks

    def continue_at(self, good_bytes: int, *, size: int, unended: bool) -> None:
        """Begin at the end of a file that is there; rows go where the good ones end."""
        self._good_bytes, self._size, self._gap = good_bytes, size, b"\n" if unended else b""

    def append(self, header: list[JsonObject], events: list[LogEvent]) -> None:
        """Put rows on disk; on an error take back the bytes that were written.

        Encodes too: events are frozen, and the loop need not wait while a long answer becomes rows.

        Raises:
            OSError: they could not be written.
        """
        data = self._gap + b"".join(dump_bytes(row) + b"\n" for row in chain(header, pack(events)))
        if self._file is None:
            self._file = self._opener(self._path)
        file = self._file
        if file.size() != self._size:
            raise OSError(f"another program changed it ({file.size()} bytes instead of {self._size})")
        try:
            if self._size > self._good_bytes:
                file.truncate(self._good_bytes)
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            file.sync()
        except OSError as error:
            try:
                file.truncate(self._good_bytes)
            except OSError as second:
                error.add_note(f"what was written of it could not be taken back: {second.strerror or second}")
            raise
        self._good_bytes += len(data)
        self._size, self._gap = self._good_bytes, b""

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
