"""Lock: one process at a time writes a session, and the others learn which.

The lock of a session is a file of its own in the local state folder, named by a hash of the session's path, since a
session may lie where locks are emulated or missing. It holds who has it, as JSON. The system frees it when its
process ends, however that ends.

Rules: a lock file is never removed, or two processes could lock two files of one name; where the system has no
locks, numbered files take their place, and one whose process is gone does not count.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import socket
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread
from pydantic import ValidationError

from dsh_lsp import __version__
from dsh_lsp.errors import SessionError
from dsh_lsp.wire import Wire, decode, dump_bytes, encode, loads

log = logging.getLogger(__name__)

WAIT_S = 5.0  # a window that reloads needs this long to end its server
POLL_S = 0.05

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}
_BUSY = {errno.EACCES, errno.EAGAIN, errno.EDEADLK}
_LOCKED_BYTE = 2**30  # Windows locks bytes against reading, too: one far behind the JSON
_CLOCK_SLACK_MS = 2_000
FREE = "null"  # what a file says that nobody has
_WRITTEN_S = 5.0  # a file that says nothing for longer was left by a process that died while it wrote
_drafts = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder(Wire):
    """The process that has a session open; `since` is milliseconds since 1970."""

    pid: int
    host: str
    since: int
    app: str

    def __str__(self) -> str:
        began = datetime.fromtimestamp(self.since / 1000, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
        return f"process {self.pid} ({self.app}) on {self.host} since {began} UTC"


def system_lock(descriptor: int) -> None:
    """Lock an open file for this process alone, without waiting.

    Raises:
        OSError: another has it, or the system cannot lock here.
    """
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class SessionLock:
    """The lock of one session; taken at most once, freed by `release`, with its object or with its process.

    `lock` is what locks an open file; tests give one that cannot.
    """

    def __init__(self, session: Path, *, folder: Path, lock: Callable[[int], None] = system_lock) -> None:
        self._session = session
        self._folder = folder
        self._lock = lock
        self._free: Callable[[], object] | None = None
        self._me = Holder(pid=os.getpid(), host=socket.gethostname(), since=_now_ms(), app=f"dsh-lsp {__version__}")

    @property
    def taken(self) -> bool:
        """Whether this object has the lock."""
        return self._free is not None

    async def take(self, wait_s: float = WAIT_S) -> None:
        """Take the lock, waiting for another process to end.

        Raises:
            SessionError: `SESSION_LOCKED`, with the holder; `LOG_NOT_WRITABLE`, the lock file cannot be made.
        """
        deadline = anyio.current_time() + wait_s
        while not await anyio.to_thread.run_sync(self._try):  # each look is short; nobody waits in a thread
            if anyio.current_time() >= deadline:
                raise await anyio.to_thread.run_sync(self._refusal)
            await anyio.sleep(POLL_S)

    def take_now(self) -> None:
        """Take the lock or fail at once; for a thread.

        Raises:
            SessionError: as `take`.
        """
        if not self._try():
            raise self._refusal()

    def is_held(self) -> bool:
        """Whether somebody has the session now; makes no file, and counts what cannot be known as held."""
        if self._plain_is_held(*self._last_plain()):
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        except OSError as error:
            return not isinstance(error, FileNotFoundError)
        try:
            self._lock(descriptor)
        except OSError as error:
            return error.errno not in _UNSUPPORTED
        finally:
            os.close(descriptor)  # and so unlocks it
        return False

    def release(self) -> None:
        """Let others have the session; a second call changes nothing."""
        free, self._free = self._free, None
        if free is not None:
            free()

    @cached_property
    def _path(self) -> Path:
        name = hashlib.sha256(os.fsencode(os.path.realpath(self._session))).hexdigest()[:32]
        return self._folder / f"{name}.lock"

    # -- one look --------------------------------------------------------------------------------------------

    def _try(self) -> bool:
        if self._free is not None:
            return True
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return self._try_system()
        except OSError as error:
            raise SessionError(
                f"the lock {self._path} of session {self._session.stem} cannot be made: {error.strerror}",
                code="LOG_NOT_WRITABLE",
            ) from error

    def _try_system(self) -> bool:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self._path, flags, 0o600)
        try:
            self._lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno in _BUSY:
                return False
            if error.errno not in _UNSUPPORTED:
                raise
            _warn_once(self._folder, error)
            return self._try_plain()
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, dump_bytes(encode(self._me)))
        self._free = weakref.finalize(self, os.close, descriptor)
        return True

    def _try_plain(self) -> bool:
        """Take the session by a numbered file: the highest number has it, and only one process can make the next.

        The highest is never removed, so that a process which looked long ago cannot make a number that was used; one
        that did so for a lower number sees the higher one and takes its own back.
        """
        last, holder = self._last_plain()
        if self._plain_is_held(last, holder):
            return False
        mine = self._plain(last + 1)
        if not _made_whole(mine, dump_bytes(encode(self._me))):
            return False  # somebody else was faster
        numbers = self._numbers()
        if numbers[-1] != last + 1:
            mine.unlink(missing_ok=True)
            return False
        for number in numbers[:-1]:
            self._plain(number).unlink(missing_ok=True)
        self._free = weakref.finalize(self, partial(_let_go, mine, self._me))
        return True

    @staticmethod
    def _plain_is_held(last: int, holder: Holder | str | None) -> bool:
        return last > 0 and holder is not FREE and not (isinstance(holder, Holder) and _is_gone(holder))

    def _plain(self, number: int) -> Path:
        return self._path.with_suffix(f".{number}.held")

    def _numbers(self) -> list[int]:
        """The numbers of the files that there are, in order."""
        names = (path.name.split(".") for path in self._folder.glob(f"{self._path.stem}.*.held"))
        return sorted(int(parts[1]) for parts in names if parts[1].isdecimal())

    def _last_plain(self) -> tuple[int, Holder | str | None]:
        numbers = self._numbers()
        return (numbers[-1], _holder_or_free(self._plain(numbers[-1]))) if numbers else (0, FREE)

    def _refusal(self) -> SessionError:
        _, plain = self._last_plain()
        who = (
            (plain if isinstance(plain, Holder) else None)
            or _holder_in(self._path)
            or "a process that does not say who it is"
        )
        return SessionError(
            f"session {self._session.stem} is open in another window, by {who}; close it there",
            code="SESSION_LOCKED",
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _holder_in(path: Path) -> Holder | None:
    """Who a lock file names; None while it is being written."""
    try:
        return decode(Holder, loads(path.read_bytes()))
    except (OSError, ValueError, ValidationError):
        return None


def _holder_or_free(path: Path) -> Holder | str | None:
    """Who a numbered file names, that it is free, or None where it says neither and was not written long ago."""
    try:
        data = path.read_bytes()
        if data == FREE.encode() or time.time() - path.stat().st_mtime > _WRITTEN_S:
            return _holder_in(path) or FREE
    except FileNotFoundError:
        return None  # the next look finds the one that took its place
    return _holder_in(path)


def _made_whole(path: Path, data: bytes) -> bool:
    """Make a file that must not exist, with all its content at once where the file system can; False if it exists."""
    draft = path.with_suffix(f".{os.getpid()}-{next(_drafts)}")
    try:
        draft.write_bytes(data)
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError:
            return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def _let_go(path: Path, holder: Holder) -> None:
    if _holder_in(path) == holder:
        path.write_bytes(FREE.encode())


def _is_gone(holder: Holder) -> bool:
    """Whether a holder's process has ended; one on another host is taken to live."""
    if holder.host != socket.gethostname() or sys.platform == "win32":
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    began = _process_start_ms(holder.pid)
    return began is not None and began > holder.since + _CLOCK_SLACK_MS  # its number was given to another


def _process_start_ms(pid: int) -> int | None:
    """When a process began; None where the system has no such files."""
    try:
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(boot.split()[1]) * 1000 + int(fields[19]) * 1000 // os.sysconf("SC_CLK_TCK")
    except (OSError, StopIteration, ValueError, IndexError):
        return None


_warned: set[Path] = set()


def _warn_once(folder: Path, error: OSError) -> None:
    if folder not in _warned:
        _warned.add(folder)
        log.warning(
            "%s: the system cannot lock files here (%s); a file beside them stands for the lock", folder, error
        )
