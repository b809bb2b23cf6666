"""Log file: where a server writes what goes wrong: a capped file of its own, and a stderr that never blocks.

Owns: the log's place and size, descriptor 2.
Rules: a file of its own for each process, which appears with its first record and only its user can read; another
server may rotate or remove it at any time; no key is written; nothing here raises into the code that logs.
Knows nothing of: LSP, asyncio.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import select
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from dsh_lsp.directories import logs_directory
from dsh_lsp.errors import ConfigError
from dsh_lsp.log_level import read_level
from dsh_lsp.secrets import redact

log = logging.getLogger(__name__)

DEFAULT_LEVEL: Final = "WARNING"
MAX_FILE_BYTES: Final = 1 << 20
MAX_RECORD_CHARS: Final = 64 << 10
KEPT_FILES: Final = 10  # of servers that are gone
STDERR_WAITING_BYTES: Final = 256 << 10

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# -- the file ------------------------------------------------------------------------------------------------


def start_logging(path: str | None = None, *, environ: Mapping[str, str] = os.environ) -> None:
    """Log to stderr and to a file in the user's state directory that names this process; or to `path` alone.

    A level that is none, and a `path` that cannot be written, are told of first.
    """
    complaints: list[str] = []
    try:
        level = read_level(environ, default=DEFAULT_LEVEL)
    except ConfigError as error:
        level = DEFAULT_LEVEL
        complaints.append(f"{error}; {level} counts")
    file = LogFile(Path(path) if path else logs_directory() / f"dsh-lsp-{os.getpid()}.log")
    handlers: list[logging.Handler] = [file]
    if path and (reason := file.begin()):
        handlers = []
        complaints.append(f"the log {path} cannot be written ({reason}); it goes to standard error")
    if (path is None or not handlers) and sys.stderr is not None:
        handlers.append(logging.StreamHandler(sys.stderr))
    for handler in handlers:
        handler.setFormatter(_Redacting(_FORMAT))
    logging.basicConfig(level=level, handlers=handlers)
    logging.getLogger("pygls").setLevel(logging.WARNING)  # it logs every message at INFO
    for complaint in complaints:
        log.warning("%s", complaint)


def log_path() -> Path | None:
    """The file that this process logs to."""
    return next((handler.path for handler in logging.getLogger().handlers if isinstance(handler, LogFile)), None)


class LogFile(logging.Handler):
    """A file that is kept below a size by setting its older half aside as `<name>.1`.

    It is opened for each record: so it may be rotated or removed by anybody, on Windows too, and a server that has
    nothing to say leaves none behind.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> None:
        super().__init__()
        self.path = path
        self._max_bytes = max_bytes
        self._begun = False
        self._failed = False

    def begin(self) -> str:
        """Make the file now instead of with its first record; why it cannot be written, or nothing."""
        try:
            self._append(b"")
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record; a file that cannot be written is complained of once."""
        if self._failed:
            return
        try:
            self._append((self.format(record) + "\n").encode("utf-8", "backslashreplace"))
        except OSError as error:
            self._failed = True
            with suppress(AttributeError, OSError, ValueError):
                sys.stderr.write(f"the log {self.path} cannot be written: {error.strerror or error}\n")
        except Exception:  # noqa: BLE001 - what is logged may be anything; `handleError` is logging's own border
            self.handleError(record)

    def _append(self, data: bytes) -> None:
        if not self._begun:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _forget_old_files(self.path)
            self._begun = True
        with open(self.path, "ab", opener=_open_private) as file:
            file.write(data)
            size = file.tell()
        if size > self._max_bytes // 2 and self.path.stat().st_size > self._max_bytes // 2:
            self.path.replace(self.path.with_name(self.path.name + ".1"))


class _Redacting(logging.Formatter):
    """Hides keys and cuts what is endless."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record)[:MAX_RECORD_CHARS])


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _forget_old_files(path: Path) -> None:
    """Remove the oldest files of other servers; one that still runs makes itself a new one."""
    others = sorted(_ages(path.parent.glob("dsh-lsp-*.log*")), reverse=True)
    for _, other in others[KEPT_FILES:]:
        with suppress(OSError):  # another server does the same
            other.unlink()


def _ages(paths: Iterator[Path]) -> Iterator[tuple[float, Path]]:
    for path in paths:
        with suppress(OSError):  # removed meanwhile
            yield path.stat().st_mtime, path


# -- stderr --------------------------------------------------------------------------------------------------


class StderrRelay:
    """Descriptor 2 as a pipe of ours; a daemon thread passes on what the real stderr can take.

    A client that does not drain the real one would stop whatever writes to it, the event loop or a child; so what
    does not fit into a small buffer is lost.
    """

    def __init__(self) -> None:
        self._real = os.dup(2)
        self._source, target = os.pipe()
        os.dup2(target, 2)
        os.close(target)
        self._waiting = bytearray()
        self._lost = 0
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="stderr", daemon=True)
        self._thread.start()
        atexit.register(self.close, timeout_s=0.3)  # a crash at the start is still told

    def close(self, *, timeout_s: float) -> None:
        """Pass on what is left, as far as the client takes it in time; later output goes nowhere."""
        empty = os.open(os.devnull, os.O_WRONLY)
        os.dup2(empty, 2)
        os.dup2(empty, 1)  # the other copy of the pipe's end, see `transport.claim_descriptors`
        os.close(empty)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        poller, reads = select.poll(), True
        poller.register(self._source, select.POLLIN)
        while reads or self._waiting:
            if self._waiting:
                poller.register(self._real, select.POLLOUT)
            for descriptor, mask in poller.poll():
                if descriptor == self._real:
                    self._write(mask)
                    if not self._waiting:
                        poller.unregister(self._real)
                elif not self._read():
                    reads = False
                    poller.unregister(self._source)

    def _read(self) -> bool:
        """Take what has come; False at the end."""
        data = os.read(self._source, 64 << 10)
        if self._broken or len(self._waiting) + len(data) > STDERR_WAITING_BYTES:
            self._lost += len(data)
            return True
        if self._lost:
            self._waiting += b"[%d bytes of stderr were lost]\n" % self._lost
            self._lost = 0
        self._waiting += data
        return bool(data)

    def _write(self, mask: int) -> None:
        """Write as much as cannot block."""
        try:
            if mask & select.POLLOUT:
                del self._waiting[: os.write(self._real, self._waiting[: select.PIPE_BUF])]
                return
        except OSError as error:
            if error.errno == errno.EAGAIN:  # the client made it non-blocking
                return
        self._broken = True  # nobody can read it any more
        self._waiting.clear()
