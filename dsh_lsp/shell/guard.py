"""Guard: a process of its own that runs one command and outlives nobody: whatever the command started ends with it.

Run as a script: `guard.py STATUS_FD GRACE_S MARKER PROGRAM ARGUMENT...`. Its standard input is the life line: when
that ends, because the server wishes it or is dead, everything is ended. On STATUS_FD it writes one line of JSON,
`{"code", "left", "survivors"}` or `{"error"}`, when nothing runs any more.

There are two of it. The guard is the command's parent; the second is the guard's, and takes its place when the
command kills or stops it.

Rules: nothing but the standard library, and little of that: it starts with every command. The command gets a session
of its own, no standard input and no terminal. On Linux all descendants are found, whatever group, session or
environment they moved to, and however fast they fork: orphans become children of this process, and all have ended
when it has no child. Elsewhere they are found by their parents, their group, and the marker in their environment.
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
QUICK_ROUNDS = 20  # through the direct children, for each through all processes
QUIET_LOOKS = 3  # that found nobody, one after the other, where that is all that can be known
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LINUX = sys.platform.startswith("linux")

Row = tuple[int, int, int, bool]  # process, parent, group, whether it has the marker


def main(arguments: list[str]) -> int:
    """Run the command, and end when nothing of it is left."""
    status_fd, grace_s, marker, command = int(arguments[0]), float(arguments[1]), arguments[2], arguments[3:]
    os.set_inheritable(status_fd, False)
    subreaper = _prctl(PR_SET_CHILD_SUBREAPER, 1)
    second = os.getpid()
    guard = os.fork()
    if guard != 0:
        return _stand_by(guard, status_fd, Family(0, marker, subreaper=subreaper))
    _prctl(PR_SET_CHILD_SUBREAPER, 1)  # a fork does not inherit it
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, _noted)
    failed, reason = os.pipe()
    child = os.fork()
    if child == 0:
        _become(command, reason)
    os.close(reason)
    error = os.read(failed, 4096)
    if error:
        os.waitpid(child, 0)
        _report(status_fd, {"error": error.decode(errors="replace")})
        return 0
    _let_go_of_output()
    family = Family(child, marker, subreaper=subreaper, spared=second)
    ended = _watch(family, woken)
    left = family.count() if ended else 0
    family.end(grace_s)
    _report(status_fd, {"code": family.code, "left": left, "survivors": family.survivors()})
    return 0


def _stand_by(guard: int, status_fd: int, family: Family) -> int:
    """Wait for the guard; one that is killed or stopped has a command that wants to outlive it."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _let_go_of_output()
    _, status = os.waitpid(guard, os.WUNTRACED)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:  # it has reported
        return 0
    with suppress(OSError):
        os.kill(guard, signal.SIGKILL)
    family.end(0.0)
    _report(status_fd, {"code": None, "left": 0, "survivors": family.survivors()})
    return 0


def _noted(_number: int, _frame: object) -> None:
    """Wake up; what happened is looked at there."""


def _prctl(option: int, value: int) -> bool:
    """Set something of this process; False where there is no such thing."""
    if not LINUX:
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


def _watch(family: Family, woken: int) -> bool:
    """Wait for the command, or for the end of the life line; whether it was the command."""
    while True:
        ready, _, _ = select.select([0, woken], [], [], 1.0)
        if 0 in ready and not os.read(0, 64):
            return False
        if woken in ready:
            os.read(woken, 512)
        family.collect()
        if family.code is not None:
            return True


class Family:
    """The command and all that it started, below this process; `code` is how the command ended, once it has."""

    def __init__(self, child: int, marker: str, *, subreaper: bool, spared: int = 0) -> None:
        self.code: int | None = None
        self._child = child
        self._marker = marker.encode()
        self._subreaper = subreaper
        self._spared = {os.getpid(), spared}
        self._quiet = 0

    def collect(self) -> bool:
        """Collect whoever has died; whether this process may have children still."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._child:
                self.code = os.waitstatus_to_exitcode(status)

    def gone(self) -> bool:
        """Whether nothing of it is left."""
        children = self.collect()
        if self._subreaper:
            return not children
        self._quiet = 0 if self._members() else self._quiet + 1
        return self._quiet >= QUIET_LOOKS

    def count(self) -> int:
        """How many are left."""
        running = len(self._members())
        return 0 if self.gone() else max(running, 1)

    def survivors(self) -> list[int]:
        """Those that could not be ended."""
        return [] if self.gone() else self._members()

    def end(self, grace_s: float) -> None:
        """Ask all to end, then make them."""
        if grace_s and not self.gone():
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + grace_s
            while not self.gone() and time.monotonic() < deadline:
                time.sleep(POLL_S)
        deadline = time.monotonic() + KILL_S
        while not self.gone() and time.monotonic() < deadline:
            for _ in range(QUICK_ROUNDS):  # one that forks and ends is met before its next fork
                for pid in _own_children():
                    _kill(pid, signal.SIGKILL)
            self._signal(signal.SIGKILL)
            self.collect()
            time.sleep(0.001)  # let them die
        if self.code is None:
            self.code = -int(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        for pid in self._members():
            _kill(pid, number)

    def _members(self) -> list[int]:
        """Those that run, as far as one look over all processes can tell."""
        group = 0 if self._subreaper else self._child
        return descendants(processes(self._marker, look=not self._subreaper), os.getpid(), group, self._spared)


def descendants(
    rows: list[Row], root: int, group: int = 0, spared: set[int] | frozenset[int] = frozenset()
) -> list[int]:
    """The processes below one, those of a group, those with the marker, and all below them."""
    below, found = {root}, set[int]()
    grown = True
    while grown:
        grown = False
        for pid, parent, its_group, marked in rows:
            ours = parent in below or marked or (group != 0 and its_group == group)
            if ours and pid not in found and pid != root and pid not in spared:
                found.add(pid)
                below.add(pid)
                grown = True
    return sorted(found)


def _kill(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _own_children() -> list[int]:
    """The direct children, where the system lists them; much faster than a look over all processes."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123
            return [int(pid) for pid in file.read().split()]
    except (OSError, ValueError):
        return []


def processes(marker: bytes, *, look: bool) -> list[Row]:
    """All processes that run; on Linux the marker is only looked for if wished."""
    if LINUX:
        return _linux_processes(marker if look else b"")
    return _listed_processes(marker)


def _linux_processes(marker: bytes) -> list[Row]:
    rows = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - no pathlib here: it costs a third of the start
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                state, parent, group, *rest = file.read().rpartition(b")")[2].split()
        except (OSError, ValueError):
            continue
        if state == b"Z" and rest[14] in (b"0", b"1"):  # with more threads than that, only its first has ended
            continue
        rows.append((int(name), int(parent), int(group), bool(marker) and marker in _environment_of(name)))
    return rows


def _environment_of(pid: str) -> list[bytes]:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        return file.read().split(b"\0")
    return []


def _listed_processes(marker: bytes) -> list[Row]:
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


def read_row(line: bytes, marker: bytes) -> Row | None:
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
