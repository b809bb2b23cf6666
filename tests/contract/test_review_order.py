"""Review order: the edits of one step are shown in the order in which the model asked for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import GrantKey, ReviewOpened
from dsh_lsp.events import TurnStart
from dsh_lsp.lsp.workspace import EditorWorkspace
from dsh_lsp.plugins.tools.edit_file import EditFile
from dsh_lsp.plugins.tools.language import Language
from dsh_lsp.plugins.tools.write_file import WriteFile
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.tools.arguments import validate
from dsh_lsp.tools.pipeline import ToolHooks, ToolPipeline
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Execution
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.edits import FileEdit, Snapshot
from dsh_lsp.workspace.files import FileWorkspace, accept_all
from dsh_lsp.workspace.paths import NOTHING
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.rope import Rope
from tests.support.fake_languages import FakeLanguageServers
from tests.support.review_bench import make_bench, run_virtually
from tests.support.simulated_manners import Manners


async def as_slow_disk(path: str) -> None:
    """Let one file take its time, as on a disk far away; the time is virtual."""
    await anyio.sleep(1 if path == "slow.py" else 0)


class SlowEditorWorkspace(EditorWorkspace):
    """The workspace over an editor, on such a disk."""

    async def read(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> Snapshot:
        await as_slow_disk(path)
        return await super().read(path, approved)


class SlowFileWorkspace(FileWorkspace):
    """The workspace over files alone, on such a disk."""

    async def read(self, path: str, approved: frozenset[GrantKey] = NOTHING) -> Snapshot:
        await as_slow_disk(path)
        return await super().read(path, approved)


SLOW_FIRST: dict[str, dict[str, Any]] = {
    "edit_file": {"path": "slow.py", "old_text": "slow = 1", "new_text": "slow = 2"},
    "write_file": {"path": "slow.py", "content": "slow = 2\n"},
    "language": {"operation": "rename", "path": "slow.py", "symbol": "slow", "new_name": "fast"},
}
QUICK = ("edit_file", {"path": "quick.py", "old_text": "quick = 1", "new_text": "quick = 2"})


async def begin_together(tasks: TaskGroup, workspace: Workspace, *calls: tuple[str, dict[str, Any]]) -> None:
    """Start calls as a step does: one after the other, none waiting for those before it."""
    languages = FakeLanguageServers()
    base = await workspace.read("slow.py")
    languages.edits = [FileEdit(path="slow.py", base=base, new=Rope.of("fast = 1\n"))]
    languages.rename_takes_s = 1
    registry = ToolRegistry()
    for tool in (EditFile(workspace), WriteFile(workspace), Language(workspace, languages)):
        registry.register(tool)
    pipeline = ToolPipeline(registry, ToolHooks())
    for number, (name, arguments) in enumerate(calls):
        call = Execution(call_id=f"c{number}", name=name, arguments=arguments, turn=1, step=1, signal=AbortSignal())
        assert await pipeline.admit(call) is None
        tool = registry.get(name)
        assert tool is not None
        assert tool.mode_of(validate(tool, arguments)) == "parallel"
        tasks.start_soon(pipeline.dispatch, call)


def editor_workspace(root: Path, tasks: TaskGroup) -> tuple[Workspace, SessionLog]:
    bench = make_bench(root, tasks, Manners())
    return SlowEditorWorkspace(root, bench.documents, bench.reviews), bench.log


def file_workspace(root: Path, _: TaskGroup) -> tuple[Workspace, SessionLog]:
    log = SessionLog(SessionHeader(id="s1", created_at=0, cwd=str(root)), clock=lambda: 0)
    log.append(TurnStart(turn=1))
    copies = Copies(root.parent / "copies")
    ids = iter(f"h{number}" for number in range(1_000))
    return SlowFileWorkspace(root, log, decide=accept_all, new_id=lambda: next(ids), copies=copies), log


@pytest.mark.parametrize("name", SLOW_FIRST)
@pytest.mark.parametrize("make", [editor_workspace, file_workspace])
def test_an_edit_that_takes_long_to_plan_is_shown_before_the_quick_one_that_the_model_asked_for_later(
    tmp_path: Path, name: str, make: Callable[[Path, TaskGroup], tuple[Workspace, SessionLog]]
) -> None:
    root = tmp_path / "w"
    root.mkdir()
    (root / "slow.py").write_text("slow = 1\n")
    (root / "quick.py").write_text("quick = 1\n")

    async def story(tasks: TaskGroup) -> list[str]:
        workspace, log = make(root, tasks)
        await begin_together(tasks, workspace, (name, SLOW_FIRST[name]), QUICK)
        return await opened(log, 2)

    assert run_virtually(story) == ["slow.py", "quick.py"]


async def opened(log: SessionLog, count: int) -> list[str]:
    """The files of the first reviews, in the order in which they were opened."""
    with anyio.fail_after(60):
        while True:
            files = [event.data.files for event in log if isinstance(event.data, ReviewOpened)]
            if len(files) >= count:
                return [file.uri.rpartition("/")[2] for (file,) in files]
            await anyio.sleep(0.05)
