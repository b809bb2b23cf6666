"""Session store: one JSON Lines file a session, header line first, written behind an explicit barrier.

Rules: `enqueue` never blocks; after `await flush()` everything enqueued before it is on disk (fsync); a write that
fails takes its partial bytes back and closes the store for writing until the session is opened again.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from dsh_lsp.errors import SessionError
from dsh_lsp.events import LogEvent, decode_event, encode_event
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.wire import decode, dump_bytes, encode, loads

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
        self._pending = [dump_bytes({"type": "session", **encode(log.header)})]
        self._log = log
        self._lock = anyio.Lock()
        self._failure: SessionError | None = None
        for event in log:
            self.enqueue(event)
        log.appended.listen(self.enqueue)

    @classmethod
    def create(cls, directory: Path, log: SessionLog) -> SessionStore:
        """Follow a new session; its file appears with the first flush."""
        return cls(directory / f"{log.header.id}.jsonl", log)

    def enqueue(self, event: LogEvent) -> None:
        """Take an event to be written by the next flush."""
        self._pending.append(dump_bytes(encode_event(event)))

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
            if not self._pending:
                return
            rows, self._pending = self._pending, []
            try:
                # Shielded: a torn await would leave the bytes of a running thread unaccounted for.
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(_write, self.path, b"\n".join(rows) + b"\n")
            except OSError as error:
                self._failure = SessionError(
                    f"the session log {self.path} cannot be written: {error.strerror or error}",
                    code="LOG_NOT_WRITABLE",
                )
                raise self._failure from error


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = not path.exists()
    path.touch(mode=0o600)
    with path.open("ab") as file:
        length = os.fstat(file.fileno()).st_size
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                os.ftruncate(file.fileno(), length)
            raise
    if fresh and hasattr(os, "O_DIRECTORY"):
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def read_session(path: Path) -> tuple[SessionHeader, list[LogEvent]]:
    """Read a whole, undamaged session file.

    Raises:
        SessionError: `LOG_NOT_READABLE`, with the line that is wrong.
    """
    rows = _rows(path)
    header = next(rows, None)
    if header is None or header.get("type") != "session":
        raise SessionError(f"{path} is not a session log", code="LOG_NOT_READABLE")
    return decode(SessionHeader, header), [decode_event(row) for row in rows]


def _rows(path: Path) -> Iterator[dict[str, object]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield loads(line)
            except ValueError as error:
                raise SessionError(f"{path}, line {number}: {error}", code="LOG_NOT_READABLE") from error
