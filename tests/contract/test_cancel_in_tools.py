"""Cancel in tools: a body that takes long ends when the user cancels, and what it had started ends too."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.plugins.tools.edit_file import EditFile
from dsh_lsp.plugins.tools.list_files import ListFiles
from dsh_lsp.plugins.tools.read_file import ReadFile
from dsh_lsp.plugins.tools.search import Search
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.pipeline import ToolHooks, ToolPipeline
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Execution
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.files import FileWorkspace, accept_all

BOUND_S = 5.0  # each would take a minute, but for the large file: some ten seconds

CALLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "large.txt", "offset": 10**9},
    "list_files": {},
    "search": {"pattern": "x"},
    "edit_file": {"path": "lines.txt", "old_text": "x = 1\nx = 3\n" * 20_000, "new_text": ""},
}


class NoLog:
    """A log of which nobody reads."""

    def append(self, event: object) -> None:
        """Nothing is proposed here."""
        raise AssertionError(event)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """A folder whose git never answers, with a large file for the tool that reads it."""
    root = tmp_path / "w"
    root.mkdir()
    if name == "read_file":
        (root / "large.txt").write_bytes(b"x\n" * 75_000_000)
    (root / "lines.txt").write_text("x = 1\nx = 2\n" * 20_000)
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\nexec sleep 60\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}{os.pathsep}{os.environ['PATH']}")
    return root


@pytest.mark.skipif(os.name == "nt", reason="a shell script plays git")
@pytest.mark.parametrize("name", CALLS)
async def test_a_cancel_ends_a_body_that_is_at_work(root: Path, name: str) -> None:
    ids = iter(map(str, range(99)))
    workspace = FileWorkspace(
        root,
        NoLog(),  # type: ignore[arg-type]
        decide=accept_all,
        new_id=ids.__next__,
        copies=Copies(root.parent / "copies"),
    )
    registry = ToolRegistry()
    for tool in (ReadFile(workspace), ListFiles(workspace), Search(workspace), EditFile(workspace)):
        registry.register(tool)
    pipeline, signal, outcomes = ToolPipeline(registry, ToolHooks()), AbortSignal(), list[Outcome]()
    execution = Execution(call_id="c", name=name, arguments=CALLS[name], turn=1, step=1, signal=signal)
    assert await pipeline.admit(execution) is None

    async def dispatch() -> None:
        outcomes.append(await pipeline.dispatch(execution))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(dispatch)
        await anyio.sleep(0.1)
        signal.abort(USER)
        began = time.monotonic()
    assert time.monotonic() - began < BOUND_S
    assert outcomes[0].error is not None
    assert outcomes[0].error.code == "ABORTED"
    assert await anyio.to_thread.run_sync(have_ended)


def have_ended() -> bool:
    """Whether all children have ended in time."""
    ends = time.monotonic() + BOUND_S
    while left := children():
        if time.monotonic() > ends:
            return not left
        time.sleep(0.05)
    return True


def children() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(") ")[2].split()[:2]
        except OSError:
            continue
        if parent == str(os.getpid()) and state != "Z":
            found.append(int(stat.parent.name))
    return found
