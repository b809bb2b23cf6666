"""Tools over documents: each on one with unsaved text, on a closed file, and on one that is not there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import anyio
import pytest
from anyio.abc import TaskGroup
from blockbuster import blockbuster_ctx

from dsh_lsp.abort import AbortSignal
from dsh_lsp.events import TurnStart
from dsh_lsp.plugins.toolbox import find_tools
from dsh_lsp.secrets import Keys
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.shell.environment import ChildEnvironment
from dsh_lsp.shell.rules import CommandRules, ShellSettings
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.pipeline import ToolHooks, ToolPipeline
from dsh_lsp.tools.questions import Questions
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.spills import Spills
from dsh_lsp.tools.tool import Execution, Tool
from dsh_lsp.workspace.language import LanguageServers, Place, Symbol
from dsh_lsp.workspace.port import Workspace
from tests.support.fake_languages import FakeLanguageServers, problem
from tests.support.review_bench import Bench, make_bench, run_virtually
from tests.support.simulated_manners import Manners

DISK, UNSAVED = "disk = 1\n", "unsaved = 2\n"


def tools(bench: Bench, languages: FakeLanguageServers) -> list[Tool[Any]]:
    """All tools that the scan finds, each with what its constructor names."""
    log = SessionLog(SessionHeader(id="s2", created_at=0, cwd=str(bench.root)), clock=lambda: 0)
    log.append(TurnStart(turn=1))

    async def answer(*_: object) -> str:
        return "Yes."

    services: dict[type, object] = {
        Workspace: bench.workspace,
        LanguageServers: languages,
        CommandRules: CommandRules(bench.root, ShellSettings()),
        ChildEnvironment: ChildEnvironment(Keys()),
        Spills: Spills(bench.root.parent / "outputs"),
        Questions: Questions(log, answer, lambda: "q1"),
        SessionLog: log,
    }
    needs = [
        [hint for key, hint in get_type_hints(kind.__init__).items() if key != "return"] for kind in find_tools()
    ]
    return [kind(*(services[need] for need in wanted)) for kind, wanted in zip(find_tools(), needs, strict=True)]


async def use(
    bench: Bench, name: str, arguments: dict[str, Any], languages: FakeLanguageServers | None = None
) -> Outcome:
    registry = ToolRegistry()
    for tool in tools(bench, languages or FakeLanguageServers()):
        registry.register(tool)
    pipeline = ToolPipeline(registry, ToolHooks())
    execution = Execution(call_id="c", name=name, arguments=arguments, turn=1, step=1, signal=AbortSignal())
    assert await pipeline.admit(execution) is None
    with anyio.fail_after(20), nullcontext() if name in LOOK_AT_PATHS else blockbuster_ctx("dsh_lsp"):
        return await pipeline.dispatch(execution)


# A review knows at once where a path leads, before the editor's next message; so does who asks for open documents.
LOOK_AT_PATHS = {"edit_file", "write_file", "move_file", "delete_file", "shell"}
RUNS_PROGRAMS = {"search", "shell"}


def over(root: Path, name: str, story: Callable[[Bench], Any]) -> Any:
    """Play a story of a tool with an editor that applies edits at once; in virtual time, unless it runs programs."""

    async def play(tasks: TaskGroup) -> Any:
        bench = make_bench(root, tasks, Manners())
        bench.at_once = True
        return await story(bench)

    async def main() -> Any:
        async with anyio.create_task_group() as tasks:
            result = await play(tasks)
            tasks.cancel_scope.cancel()
        return result

    return anyio.run(main) if name in RUNS_PROGRAMS else run_virtually(play)


PATH = {"path": "a.py"}
CALLS: dict[str, dict[str, Any]] = {
    "read_file": PATH,
    "edit_file": {**PATH, "old_text": " = ", "new_text": " == "},
    "write_file": {**PATH, "content": "whole\n"},
    "list_files": {},
    "search": {"pattern": r" = \d"},
    "language": {**PATH, "operation": "diagnostics"},
    "shell": {"command": "cat a.py"},
    "move_file": {**PATH, "new_path": "b.py"},
    "delete_file": PATH,
    "ask": {"question": "May I?"},
    "todo": {"items": [{"text": "read a.py"}]},
    "read_output": {"name": "output-1"},
}

# These have nothing to do with documents.
SAME = {"ask": "The user answered: Yes.", "todo": "1 of 1 are open", "read_output": None}

# What each says of a document with unsaved text, of a closed file, and of one that is not there; None is NOT_FOUND.
SAYS: dict[str, tuple[str | None, str | None, str | None]] = {
    "read_file": ("1\tunsaved = 2\n[the editor holds unsaved changes", "1\tdisk = 1", None),
    "edit_file": ("is in the document, line 1", "is in the document, line 1", None),
    "write_file": ("is in the document, line 1", "is in the document, line 1", "is in the document, line 1"),
    "list_files": ("a.py", "a.py", "No files"),
    "search": ("a.py:1: unsaved = 2", "a.py:1: disk = 1", "No matches."),
    "language": ("No diagnostics are available", "No diagnostics are available", None),
    "shell": (
        "disk = 1\n[exit code 0]\n[the command did not see the unsaved text of: a.py]",
        "disk = 1",
        "No such file",
    ),
    "move_file": ("holds text of it that is not saved", "the file is b.py now", None),
    "delete_file": ("holds text of it that is not saved", "the file is gone", None),
    **{name: (text, text, text) for name, text in SAME.items()},
}

# What then stands in the editor and on disk.
LEAVES: dict[str, tuple[tuple[str, str], str | None, str | None]] = {
    "edit_file": (("unsaved == 2\n", DISK), "disk == 1\n", None),
    "write_file": (("whole\n", DISK), "whole\n", "whole\n"),
    "move_file": ((UNSAVED, DISK), None, None),
    "delete_file": ((UNSAVED, DISK), None, None),
}


def test_every_tool_is_in_the_tables() -> None:
    assert CALLS.keys() == SAYS.keys() == {kind.name for kind in find_tools()}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("state", ["unsaved", "closed", "missing"])
def test_a_tool_works_on_what_the_editor_holds_on_a_file_and_on_none(tmp_path: Path, name: str, state: str) -> None:
    root = tmp_path / "w"
    root.mkdir()
    number = ["unsaved", "closed", "missing"].index(state)
    if state != "missing":
        (root / "a.py").write_text(DISK)

    async def story(bench: Bench) -> tuple[Outcome, str | None]:
        if state == "unsaved":
            await bench.open("a.py")
            await bench.type("a.py", DISK, UNSAVED)
        outcome = await use(bench, name, CALLS[name])
        return outcome, bench.text("a.py") if state == "unsaved" else None

    outcome, held = over(root, name, story)
    wanted = SAYS[name][number]
    if wanted is None:
        assert outcome.error is not None
        assert outcome.error.code == "NOT_FOUND"
    else:
        assert wanted in outcome.text
    on_disk = (root / "a.py").read_text() if (root / "a.py").exists() else None
    left = LEAVES.get(name, ((UNSAVED, DISK), DISK, None))[number]
    if state == "unsaved":
        assert (held, on_disk) == left
    else:
        assert on_disk == left


@cache
def much_said() -> FakeLanguageServers:
    """Language servers that have more to say than anybody can read."""
    languages = FakeLanguageServers(before=[problem(n, "m" * 1_000) for n in range(5_000)])
    languages.text = "x\n" * 100_000 + "x" * 1_000_000
    languages.places = [Place(path="a.py", line=n, column=1, text="x" * 5_000) for n in range(5_000)]
    languages.symbols = [Symbol(name="x" * 5_000, kind="class", path="a.py", line=n) for n in range(5_000)]
    return languages


MOST = 64_000  # characters; the spill policy keeps what is above 48,000 aside, but for what comes by pages


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "wide.txt", "limit": 2_000}),
        ("search", {"pattern": "^x", "limit": 1_000}),
        ("list_files", {"limit": 2_000}),
        ("shell", {"command": "cat wide.txt; ls many"}),
        ("edit_file", {"path": "wide.txt", "old_text": ("x" * 5_000 + "\n") * 200 + "y", "new_text": ""}),
        ("edit_file", {"path": "wide.txt", "old_text": "x", "new_text": "y"}),
        ("edit_file", {"path": "wide.txt", "old_text": "xx\n", "new_text": "y", "replace_all": True}),
        ("write_file", {"path": "wide.txt", "content": "y\n" * 50_000}),
        ("move_file", {"path": "wide.txt", "new_path": "b.txt"}),
        ("delete_file", {"path": "wide.txt"}),
        ("language", {"operation": "hover", "path": "wide.txt", "symbol": "x"}),
        ("language", {"operation": "references", "path": "wide.txt", "symbol": "x"}),
        ("language", {"operation": "symbols", "path": "wide.txt"}),
        ("language", {"operation": "diagnostics", "path": "wide.txt"}),
        ("read_output", {"name": "output-1"}),
        ("todo", {"items": [{"text": "x" * 500}] * 50}),
        ("ask", {"question": "x" * 100_000, "options": ["y" * 1_000, "z"]}),
    ],
)
def test_no_result_grows_beyond_what_a_model_can_read(tmp_path: Path, name: str, arguments: dict[str, Any]) -> None:
    root = tmp_path / "w"
    (root / "many").mkdir(parents=True)
    (root / "wide.txt").write_text(("x" * 5_000 + "\n") * 300)
    (root / "many" / "f0").write_text("x\n")
    for number in range(1, 300):
        (root / "many" / f"f{number}").hardlink_to(root / "many" / "f0")  # faster than a file of its own

    outputs = tmp_path / "outputs"
    outputs.mkdir()
    (outputs / "output-1.txt").write_text("x" * 1_000_000)

    async def story(bench: Bench) -> Outcome:
        return await use(bench, name, arguments, much_said())

    outcome = over(root, name, story)
    limit = 300_000 if name == "search" else MOST  # its matches are bounded by number and width
    assert 0 < len(outcome.text) <= limit
    assert outcome.is_error == (name == "edit_file" and "replace_all" not in arguments)


def test_every_tool_is_held_to_a_bound() -> None:
    marks = test_no_result_grows_beyond_what_a_model_can_read.pytestmark  # type: ignore[attr-defined]
    assert {name for name, _ in marks[0].args[1]} == {kind.name for kind in find_tools()}


def test_the_names_of_files_that_a_command_made_are_spelled_out(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    outcome = over(root, "shell", lambda bench: use(bench, "shell", {"command": "touch $'a\\n[exit code 1]'"}))
    assert r"[created: a\n[exit code 1]]" in outcome.text.splitlines()


@pytest.mark.parametrize("typed", [False, True], ids=["clean", "dirty"])
def test_a_file_that_changed_on_disk_while_it_is_open_is_told_of(tmp_path: Path, typed: bool) -> None:
    (tmp_path / "a.py").write_text(DISK)

    async def story(bench: Bench) -> None:
        await bench.open("a.py")
        assert "newer" not in (await use(bench, "read_file", {"path": "a.py"})).text
        if typed:
            await bench.type("a.py", "1", "2")
            told = (await use(bench, "read_file", {"path": "a.py"})).text
            assert "the editor holds unsaved changes" in told
            assert "newer" not in told
        (tmp_path / "a.py").write_text("other = 3\n")
        later = time.time() + 10
        os.utime(tmp_path / "a.py", (later, later))
        told = (await use(bench, "read_file", {"path": "a.py"})).text
        assert "the file on disk is newer and differs" in told
        assert bench.text("a.py").strip() in told
        (tmp_path / "a.py").write_text(bench.text("a.py"))
        assert "newer" not in (await use(bench, "read_file", {"path": "a.py"})).text

    over(tmp_path, "read_file", story)
