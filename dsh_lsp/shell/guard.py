"""Guard: a process of its own that runs one command and outlives nobody: whatever the command started ends with it.

Run as a script: `guard.py STATUS_FD GRACE_S MARKER PROGRAM ARGUMENT...`. Its standard input is the life line: when
that ends, because the server wishes it or is dead, everything is ended. On STATUS_FD it writes one line of JSON,
`{"code", "left", "survivors"}` or `{"error"}`, when nothing runs any more.

Rules: nothing but the standard library, and little of that: it starts with every command. The command gets a session
of its own, no standard input and no terminal. On Linux all descendants are found, whatever group or session they
moved to, since orphans become children of this process; elsewhere by their parents, their group, and the marker in
their environment.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress

KILL_S = 3.0  # how long what cannot be killed is tried
POLL_S = 0.02
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main(arguments: list[str]) -> int:
    """Run the command, and end when nothing of it is left."""
    status_fd, grace_s, marker, command = int(arguments[0]), float(arguments[1]), arguments[2], arguments[3:]
    os.set_inheritable(status_fd, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, _noted)
    subreaper = _prctl(PR_SET_CHILD_SUBREAPER, 1)
    failed, reason = os.pipe()
    child = os.fork()
    if child == 0:
        _become(command, reason)
    os.close(reason)
    error = os.read(failed, 4096)
    if error:
        os.waitpid(child, 0)
        _report(status_fd, {"error": error.decode(errors="replace")})
        return 127
    _let_go_of_output()
    code = _watch(child, woken)
    family = _Family(child, marker, subreaper=subreaper)
    if code is None:
        code = family.end(grace_s)
        left = 0
    else:
        left = len(family.members())
        family.end(grace_s if left else 0.0)
    _report(status_fd, {"code": code, "left": left, "survivors": family.members()})
    return 0


def _noted(_number: int, _frame: object) -> None:
    """Wake up; what happened is looked at there."""


def _prctl(option: int, value: int) -> bool:
    """Set something of this process; False where there is no such thing."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _become(command: list[str], reason: int) -> None:
    """Turn into the command, or tell why not."""
    try:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.execvp(command[0], command)  # noqa: S606 - that is what this is for
    except OSError as error:
        os.write(reason, (error.strerror or "it cannot be started").encode())
    finally:
        os._exit(127)


def _let_go_of_output() -> None:
    """Leave the output to the command alone, so that its end can be seen."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _watch(child: int, woken: int) -> int | None:
    """Wait for the command or for the end of the life line; the command's status, or None."""
    while True:
        ready, _, _ = select.select([0, woken], [], [], 1.0)
        if 0 in ready and not os.read(0, 64):
            return None
        if woken in ready:
            os.read(woken, 512)
        done, status = _reap(child)
        if done:
            return status


def _reap(child: int) -> tuple[bool, int]:
    """Collect whoever has died; whether the command is among them, and how it ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False, 0
        if pid == 0:
            return False, 0
        if pid == child:
            return True, os.waitstatus_to_exitcode(status)


class _Family:
    """The command and all that it started."""

    def __init__(self, child: int, marker: str, *, subreaper: bool) -> None:
        self._child = child
        self._marker = marker.encode()
        self._subreaper = subreaper
        self._code = -int(signal.SIGKILL)

    def members(self) -> list[int]:
        """Those that run."""
        rows = _linux_processes() if self._subreaper else _listed_processes(self._marker)
        below, found = {os.getpid()}, set()
        grown = True
        while grown:
            grown = False
            for pid, parent, group, marked in rows:
                ours = parent in below or marked or (group == self._child and not self._subreaper)
                if ours and pid not in found and pid != os.getpid():
                    found.add(pid)
                    below.add(pid)
                    grown = True
        return sorted(found)

    def end(self, grace_s: float) -> int:
        """Ask all to end, then make them; the command's status."""
        self._signal(signal.SIGTERM)
        self._wait(grace_s)
        deadline = time.monotonic() + KILL_S
        while self.members() and time.monotonic() < deadline:  # what forks meanwhile is met by the next round
            self._signal(signal.SIGKILL)
            self._wait(POLL_S)
        return self._code

    def _signal(self, number: int) -> None:
        for pid in self.members():
            with suppress(OSError):
                os.kill(pid, number)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            done, status = _reap(self._child)
            if done:
                self._code = status
            if not self.members() or time.monotonic() >= deadline:
                return
            time.sleep(POLL_S)


def _linux_processes() -> list[tuple[int, int, int, bool]]:
    """All processes that run: id, parent, group; a zombie does not run."""
    rows = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - no pathlib here: it costs a third of the start
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if state != b"Z":
            rows.append((int(name), int(parent), int(group), False))
    return rows


def _listed_processes(marker: bytes) -> list[tuple[int, int, int, bool]]:
    """All processes that run, as `ps` of the BSDs and of macOS lists them, with their environment."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 1)
        with suppress(OSError):
            os.execv("/bin/ps", ["ps", "-axwwE", "-o", "pid=,ppid=,pgid=,state=,command="])  # noqa: S606
        os._exit(127)
    os.close(writing)
    with open(reading, "rb") as listing:  # noqa: PTH123
        text = listing.read()
    with suppress(OSError):
        os.waitpid(pid, 0)
    return [row for line in text.splitlines() if (row := read_row(line, marker)) is not None and row[0] != pid]


def read_row(line: bytes, marker: bytes) -> tuple[int, int, int, bool] | None:
    """One row of `ps`; None for a zombie or a row that is none."""
    parts = line.split(None, 4)
    if len(parts) < 4 or not all(part.isdigit() for part in parts[:3]) or parts[3].startswith(b"Z"):
        return None
    marked = len(parts) > 4 and marker in parts[4].split()
    return int(parts[0]), int(parts[1]), int(parts[2]), marked


def _report(status_fd: int, report: dict[str, object]) -> None:
    with suppress(OSError):  # the server may be dead
        os.write(status_fd, json.dumps(report).encode() + b"\n")
    os.close(status_fd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
