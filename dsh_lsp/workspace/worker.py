"""Worker: a program that prints what it finds, a row a line, read while it runs and ended when that is enough.

Rules: what it prints is never held whole, nor is a row that is longer than any file that is searched; however the
reading ends, the program has ended after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, Process

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.git import plain_environment

MAX_ROW_BYTES: Final = 16 << 20
MAX_SAID_BYTES: Final = 4096
END_S: Final = 0.1  # a program that has printed all has ended by then


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended: its exit code, negative for a signal, None where it was ended; what it said of it."""

    code: int | None
    said: str


async def run(command: Sequence[str], folder: Path, given: bytes | None, take: Callable[[bytearray], bool]) -> Ended:
    """Run a program and hand over its rows without their ends, until `take` has had enough.

    Raises:
        ToolError: `SEARCH_FAILED`, it cannot be started.
    """
    with anyio.CancelScope(shield=True):  # a cancel in the middle of it would leave a process that nobody knows
        try:
            process = await anyio.open_process(
                command,
                stdin=PIPE if given is not None else DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                cwd=folder,
                env=plain_environment(),
            )
        except OSError as error:
            raise ToolError(f"{command[0]} cannot be run: {error.strerror}", code="SEARCH_FAILED") from error
    assert process.stdout is not None  # noqa: S101 - for the type checker
    assert process.stderr is not None  # noqa: S101 - for the type checker
    said = bytearray()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, process.stderr, said)
            if given is not None:
                tasks.start_soon(_feed, process, given)
            enough = await _take_rows(process.stdout, take)
            if not enough:
                with anyio.move_on_after(END_S):
                    await process.wait()
            tasks.cancel_scope.cancel()
        code = None if enough else process.returncode
        return Ended(code=code, said=" ".join(said.decode("utf-8", "replace").split())[:500])
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _end(process: Process) -> None:
    """Let a program end that has printed all, or finds nobody who reads on; kill one that does not.

    Killing one that is about to end by itself takes its exit code away from asyncio, which warns of that.
    """
    if process.stdout is not None:
        await process.stdout.aclose()
    with anyio.move_on_after(END_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


async def _take_rows(output: ByteReceiveStream, take: Callable[[bytearray], bool]) -> bool:
    """Read rows until there are no more, or enough, which is told; a row that is too long is passed over."""
    rest, looked, too_long = bytearray(), 0, False
    async for data in output:
        rest += data
        while (end := rest.find(b"\n", looked)) >= 0:
            if not too_long and take(rest[:end]):
                return True
            del rest[: end + 1]
            looked, too_long = 0, False
        looked = len(rest)
        if looked > MAX_ROW_BYTES:
            rest, looked, too_long = bytearray(), 0, True
    return False


async def _listen(errors: ByteReceiveStream, said: bytearray) -> None:
    """Keep the beginning of what a program says of its failures, and read on, so that it does not wait for that."""
    async for data in errors:
        said += data[: MAX_SAID_BYTES - len(said)]


async def _feed(process: Process, given: bytes) -> None:
    """Write a program's standard input."""
    assert process.stdin is not None  # noqa: S101 - for the type checker
    try:
        await process.stdin.send(given)
        await process.stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # it has found enough
