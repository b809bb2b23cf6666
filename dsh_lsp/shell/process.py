"""Process: runs one command line under a guard, reads what it prints, and ends it with all that it started.

Rules: the command has no standard input and no terminal; it ends at its time limit, with a cancel, with the server,
and nothing that it started survives it; a reader that is slow slows it down and never loses its end.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import anyio.to_thread

from dsh_lsp.abort import Aborted, AbortSignal
from dsh_lsp.errors import ToolError
from dsh_lsp.shell.environment import MARKER, ChildEnvironment
from dsh_lsp.shell.guard import LINUX, descendants, processes
from dsh_lsp.shell.output import Output
from dsh_lsp.shell.scan import scan

GRACE_S: Final = 1.0  # between the request to end and the end
END_S: Final = 4.5  # how long a guard may take to end its command
LEAVE_S: Final = 0.5  # how long it may take to end itself
DRAIN_S: Final = 0.5  # for what was printed and not read yet
PROGRESS_S: Final = 0.1
READ_BYTES: Final = 1 << 16

_GUARD: Final = Path(__file__).with_name("guard.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended: `code` is its exit code, or the negative of the signal that killed it.

    `left` counts the processes that it had left behind, which were ended; `survivors` could not be.
    """

    how: Literal["exited", "timeout", "aborted"]
    code: int | None
    output: Output
    left: int = 0
    survivors: tuple[int, ...] = ()


def argv_of(command: str) -> list[str]:
    """How a line is run: one plain command without a shell, all else by a shell that reads nobody's start files."""
    script = scan(command)
    if script is not None and script.plain:
        words = script.commands[0]
        if "/" not in words[0] and shutil.which(words[0]) is not None:  # else a builtin, or the shell's own error
            return list(words)
    bash = shutil.which("bash")
    if bash is not None:
        return [bash, "--norc", "--noprofile", "-p", "-c", command]
    return ["/bin/sh", "-c", command]


async def run_command(
    command: str,
    *,
    folder: Path,
    environment: ChildEnvironment,
    timeout_s: float,
    abort: AbortSignal,
    on_output: Callable[[str], None],
) -> Finished:
    """Run a line to its end, its time limit or the signal, whatever comes first.

    Raises:
        ToolError: `NOT_STARTED`.
    """
    run = uuid.uuid4().hex
    output = Output(environment.keys.known())
    guard = await anyio.to_thread.run_sync(lambda: _Guard(argv_of(command), folder, environment.of_run(run), run))
    how: Literal["exited", "timeout", "aborted"] = "exited"
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, guard, output, on_output)
            try:
                with anyio.move_on_after(timeout_s) as limit, abort.guard():
                    await guard.ended()
            except Aborted:
                how = "aborted"
            if limit.cancelled_caught:
                how = "timeout"
            if how != "exited":
                guard.let_go()
                with anyio.CancelScope(shield=True), anyio.move_on_after(END_S):
                    await guard.ended()
            with anyio.move_on_after(DRAIN_S):
                await guard.drained.wait()
            tasks.cancel_scope.cancel()
    finally:
        guard.let_go()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(guard.close)
    report = guard.report
    if "error" in report:
        raise ToolError(f"the command cannot be started: {report['error']}", code="NOT_STARTED")
    return Finished(
        how=how,
        code=report.get("code"),
        output=output,
        left=report.get("left", 0),
        survivors=tuple(report.get("survivors", ())),
    )


async def _read(guard: _Guard, output: Output, on_output: Callable[[str], None]) -> None:
    """Read what the command prints, and show it soon, but not for each piece of it."""
    shown_at = -math.inf
    unseen = False
    while True:
        wait_s = max(shown_at + PROGRESS_S - time.monotonic(), 0.0) if unseen else math.inf
        data: bytes | None = b""
        with anyio.move_on_after(wait_s):
            data = await guard.read()
        if data is None:
            break
        output.add(data)
        unseen = unseen or bool(data)
        if unseen and time.monotonic() - shown_at >= PROGRESS_S:
            shown_at, unseen = time.monotonic(), False
            on_output(output.recent)
    guard.drained.set()


class _Guard:
    """The guard of one run: a process, its life line, what the command prints, and its report."""

    def __init__(self, argv: Sequence[str], folder: Path, env: dict[str, str], run: str) -> None:
        self.drained = anyio.Event()
        self.report: dict[str, Any] = {}
        self._marker = f"{MARKER}={run}"
        self._told = b""
        self._over = False
        self._deadline = math.inf
        self._status, status = os.pipe()
        command = [sys.executable, "-I", "-S", str(_GUARD), str(status), str(GRACE_S), self._marker, *argv]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the person or their rules have allowed it
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=env,
                bufsize=0,
                start_new_session=True,
                pass_fds=(status,),
            )
        except BaseException as error:
            os.close(self._status)
            if isinstance(error, OSError):
                raise ToolError(f"the command cannot be started: {error.strerror}", code="NOT_STARTED") from error
            raise
        finally:
            os.close(status)
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        assert self._process.stdout is not None  # noqa: S101
        self._life_line, self._printed = self._process.stdin, self._process.stdout
        self._output = self._printed.fileno()
        os.set_blocking(self._output, False)
        os.set_blocking(self._status, False)

    async def read(self) -> bytes | None:
        """More of what is printed; None at its end."""
        while True:
            await anyio.wait_readable(self._output)
            with suppress(BlockingIOError):
                return os.read(self._output, READ_BYTES) or None

    async def ended(self) -> None:
        """Wait until nothing runs any more, by the report or by the guard's death."""
        while not self._over:
            await anyio.wait_readable(self._status)
            with suppress(BlockingIOError):
                self._take(os.read(self._status, 4096))

    def _take(self, data: bytes) -> None:
        """Take more of the report; its second process may be stopped, so that the pipe does not end."""
        self._told += data
        self._over = not data or self._told.endswith(b"\n")

    def let_go(self) -> None:
        """Cut the life line: the guard ends all that runs, or is ended when its time is over."""
        self._deadline = min(self._deadline, time.monotonic() + END_S)
        with suppress(OSError):
            self._life_line.close()

    def close(self) -> None:
        """Wait for the guard, clean up after one that was killed or stopped, and give everything back. Blocks."""
        patience_s = LEAVE_S if self._over else max(self._deadline - time.monotonic(), 0.0)
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            sweep(self._marker, below=self._process.pid)  # while it holds them together
            self._process.kill()
            self._process.wait()
        with suppress(BlockingIOError):
            while not self._over:
                self._take(os.read(self._status, 4096))
        self.report = _read_report(self._told)
        if not self.report:
            sweep(self._marker)
        self._printed.close()
        os.close(self._status)


def _read_report(told: bytes) -> dict[str, Any]:
    """What the guard said first; empty if that is nothing, or something that a command wrote in its place."""
    try:
        report = json.loads(told.partition(b"\n")[0])
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


_NOBODY: Final = -1  # never 0, which is the parent of the first process


def sweep(marker: str, *, below: int = _NOBODY) -> None:
    """End what carries a marker in its environment, or runs below a process, where the system shows that. Blocks."""
    if not LINUX:
        return
    for _ in range(50):
        found = descendants(processes(marker.encode(), look=True), below, spared={below})
        if not found:
            return
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
