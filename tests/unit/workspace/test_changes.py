"""Changes: what may be proposed at all, and may still be done when it was decided on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.changes import copy_of, prepare
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.edits import FileChange, FileDelete, FileEdit, FileRename, HunkOutcome, Snapshot
from dsh_lsp.workspace.files import Choice, HunkQuestion
from dsh_lsp.workspace.paths import NOTHING, Guarded, rights_key
from dsh_lsp.workspace.rope import Rope
from tests.unit.workspace.test_files import new_workspace

KEY = "sk-canary-0123456789abcdef"


def edit(path: Path, text: str) -> FileEdit:
    base = Snapshot(uri=path.as_uri(), path=path.name, rope=Rope.of(path.read_text()))
    return FileEdit(path=path.name, base=base, new=Rope.of(text))


def refusal(root: Path, change: FileChange, guarded: Guarded) -> str:
    with pytest.raises(ToolError) as refused:
        prepare(root, change, NOTHING, is_open=lambda _: False, guarded=guarded)
    assert refused.value.code == "RIGHTS"
    return str(refused.value)


@pytest.mark.parametrize("before", ["", "key = ", "# the first line\n"])
def test_a_file_that_holds_a_key_in_use_is_not_written_moved_or_deleted(tmp_path: Path, before: str) -> None:
    """A review would show its lines, the log would keep them, and a copy of it would lie beside the log."""
    path = tmp_path / "settings.ini"
    path.write_text(f"{before}{KEY}\nother = 1\n")
    guarded = Guarded(keys=lambda: {KEY})
    for change in (
        edit(path, f"{before}{KEY}\nother = 2\n"),
        FileDelete(path=path.name),
        FileRename(path=path.name, new_path="public.ini"),
    ):
        text = refusal(tmp_path, change, guarded)
        assert text == "settings.ini holds an API key that is in use; the agent never writes it"
        assert prepare(tmp_path, change, NOTHING, is_open=lambda _: False).path == path, "without a key it may be"


@pytest.mark.skipif(sys.platform == "win32", reason="a folder there does not keep its files by its mode")
def test_a_folder_into_which_nobody_may_look_is_told_of_and_nothing_of_the_system_escapes() -> None:
    """In a process of its own, for nothing is forbidden to root; nor is its way through other folders."""
    script = """
import os
from pathlib import Path
from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.changes import Prepared, carry_out, is_done, prepare
from dsh_lsp.workspace.disk import missing_folders
from dsh_lsp.workspace.edits import FileDelete, FileRename
if os.geteuid() == 0:
    os.seteuid(65_534)
for change in (
    FileDelete(path="closed/a.txt"),
    FileRename(path="closed/a.txt", new_path="c.txt"),
    FileRename(path="b.txt", new_path="closed/b.txt"),
    FileRename(path="b.txt", new_path="closed/deep/b.txt"),
):
    try:
        prepared = prepare(Path("."), change, frozenset(), is_open=lambda _: False)
        print(missing_folders(prepared.lands_at))
        carry_out(prepared)
    except ToolError as error:
        print(error.code, error)
print(is_done(Prepared(change=FileDelete(path="a.txt"), path=Path("closed/a.txt"))))
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with tempfile.TemporaryDirectory() as name:
        closed = Path(name, "closed")
        closed.mkdir()
        for path in (closed / "a.txt", Path(name, "b.txt")):
            path.write_text("one\n")
        if os.geteuid() == 0:
            for path in (Path(name), *Path(name).rglob("*")):
                os.chown(path, 65_534, 65_534)
        closed.chmod(0)
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=name, env=env)
        closed.chmod(0o755)
    assert done.stdout.splitlines() == [
        "NOT_READABLE closed/a.txt cannot be read: Permission denied",
        "NOT_READABLE closed/a.txt cannot be read: Permission denied",
        "0",
        "NOT_WRITABLE the file cannot be moved: Permission denied",
        "1",
        "NOT_WRITABLE the file cannot be moved: Permission denied",
        "False",
    ], done.stderr


def test_no_copy_is_kept_of_a_key_that_came_into_a_file_after_its_rename_was_proposed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    guarded = Guarded(keys=lambda: {KEY})
    change = FileRename(path="a.txt", new_path="b.txt")
    prepared = prepare(tmp_path, change, NOTHING, is_open=lambda _: False, guarded=guarded)
    (tmp_path / "a.txt").write_text(KEY)
    with pytest.raises(ToolError) as refused:
        copy_of(prepared, "h1", Copies(tmp_path / "copies"))
    assert refused.value.code == "RIGHTS"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_is_not_renamed_to_another_name_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").hardlink_to(tmp_path / "a.txt")
    allowed = frozenset(map(rights_key, ("a.txt", "b.txt")))
    with pytest.raises(ToolError) as refused:
        prepare(tmp_path, FileRename(path="a.txt", new_path="b.txt"), allowed, is_open=lambda _: False)
    assert (refused.value.code, str(refused.value)) == ("EXISTS", "b.txt exists already")


def test_what_makes_a_file_unreadable_as_what_was_reviewed_is_refused_before_the_review(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    nul = "the new text of {} holds a NUL character, which makes a file a binary one"
    mark = "the new text of a.txt begins with a byte-order mark; that of a file is kept as it is"
    for change, words in (
        (edit(path, "one\nt\0wo\n"), nul.format("a.txt")),
        (FileEdit(path="new.txt", base=None, new=Rope.of("\0")), nul.format("new.txt")),
        (edit(path, "\ufeffone\n"), mark),
    ):
        with pytest.raises(ToolError) as refused:
            prepare(tmp_path, change, NOTHING, is_open=lambda _: True)
        assert (refused.value.code, str(refused.value)) == ("NOT_TEXT", words)
    for there in ("\ufeffone\n\0", ""):  # as an editor may hold it
        base = Snapshot(uri=path.as_uri(), path=path.name, rope=Rope.of(there))
        change = FileEdit(path=path.name, base=base, new=Rope.of(there + "more\n"))
        assert prepare(tmp_path, change, NOTHING, is_open=lambda _: True).change is change


def held(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def decide_after(act: Callable[[], None], root: Path, *changes: FileChange, outside: Path) -> list[HunkOutcome]:
    """What becomes of changes if something happens while a person looks at them."""
    done: list[None] = []

    async def decide(_: HunkQuestion) -> Choice:
        if not done:
            done.append(await anyio.to_thread.run_sync(act))
        return Choice(accepts=True)

    workspace, _ = new_workspace(root, decide)
    before = held(outside)
    outcomes = await workspace.propose(changes, signal=AbortSignal())
    assert held(outside) == before
    return outcomes


async def test_a_link_that_takes_a_folders_place_while_a_person_decides_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "d", outside):
        folder.mkdir(parents=True)
        for name in ("a.txt", "b.txt", "c.txt"):
            (folder / name).write_text("one\n")

    def swap() -> None:
        (root / "d").rename(tmp_path / "old")
        (root / "d").symlink_to(outside)

    base = Snapshot(uri=(root / "d/a.txt").as_uri(), path="d/a.txt", rope=Rope.of("one\n"))
    changes = (
        FileEdit(path="d/a.txt", base=base, new=Rope.of("two\n")),
        FileEdit(path="d/new.txt", base=None, new=Rope.of("new\n")),
        FileDelete(path="d/b.txt"),
        FileRename(path="d/c.txt", new_path="d/e.txt"),
    )
    outcomes = await decide_after(swap, root, *changes, outside=outside)
    assert [outcome.outcome for outcome in outcomes] == ["notLanded"] * 4
    assert all("leads elsewhere by now" in str(outcome.note) for outcome in outcomes)


async def test_a_file_that_becomes_one_that_is_never_written_meanwhile_is_left_alone(tmp_path: Path) -> None:
    root, git = tmp_path / "root", tmp_path / "root" / ".git"
    git.mkdir(parents=True)
    for path in (root / "a.txt", git / "config"):
        path.write_text("one\n")

    def link() -> None:
        (root / "a.txt").unlink()
        (root / "a.txt").hardlink_to(git / "config")

    base = Snapshot(uri=(root / "a.txt").as_uri(), path="a.txt", rope=Rope.of("one\n"))
    edit = FileEdit(path="a.txt", base=base, new=Rope.of("two\n"))
    (outcome,) = await decide_after(link, root, edit, outside=git)
    assert (outcome.outcome, outcome.note) == (
        "notLanded",
        "a.txt belongs to version control; the agent never writes it",
    )
