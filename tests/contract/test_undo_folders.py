"""Undo of what was made in new folders: they go with it, and no folder in which there is something else."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from dsh_lsp.workspace.edits import FileEdit, FileRename
from dsh_lsp.workspace.rope import Rope
from tests.support.review_bench import Bench, play

NEW = FileEdit(path="pkg/inner/new.txt", base=None, new=Rope.of("new\n"))
RENAME = FileRename(path="a.txt", new_path="pkg/inner/a.txt")
CHANGES = pytest.mark.parametrize("change", [NEW, RENAME], ids=["made", "renamed"])
FILES = {"a.txt": "one\n"}


def tree(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


@pytest.mark.parametrize(
    "operations", [frozenset({"rename", "delete"}), frozenset()], ids=["by the editor", "directly"]
)
@CHANGES
def test_folders_that_were_made_for_a_file_go_with_it(root, change, operations) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(change)
        if bench.uri("a.txt") in bench.editor.buffers:
            bench.editor.close(bench.uri("a.txt"))
        await anyio.sleep(0.5)
        assert "pkg/inner" in tree(root)
        assert await bench.rewind() == [None]
        assert tree(root) == {"a.txt"}

    play(root, story, resource_operations=operations)


@CHANGES
def test_folders_that_were_made_for_a_file_go_with_it_though_it_was_elsewhere_in_between(root, change) -> None:
    async def story(bench: Bench) -> None:
        await bench.land(change)
        made = change.path if change.kind == "create" else change.new_path
        await bench.land(FileRename(path=made, new_path="other/b.txt"))
        assert await bench.rewind() == [None, None]
        assert tree(root) == {"a.txt"}

    play(root, story)


@CHANGES
def test_a_folder_that_was_there_before_or_that_the_user_uses_stays(root, change) -> None:
    (root / "pkg").mkdir()

    async def story(bench: Bench) -> None:
        await bench.land(change)
        assert await bench.rewind() == [None]
        assert tree(root) == {"a.txt", "pkg"}
        await bench.land(change)
        (root / "pkg/inner/mine.txt").write_text("mine\n")
        assert await bench.rewind() == [None]
        assert tree(root) == {"a.txt", "pkg", "pkg/inner", "pkg/inner/mine.txt"}

    play(root, story)
