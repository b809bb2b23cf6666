"""Changes: what may be proposed at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.changes import prepare
from dsh_lsp.workspace.edits import FileChange, FileDelete, FileEdit, FileRename, Snapshot
from dsh_lsp.workspace.paths import NOTHING, Guarded
from dsh_lsp.workspace.rope import Rope

KEY = "sk-canary-0123456789abcdef"


def edit(path: Path, text: str) -> FileEdit:
    base = Snapshot(uri=path.as_uri(), path=path.name, rope=Rope.of(path.read_text()))
    return FileEdit(path=path.name, base=base, new=Rope.of(text))


def refusal(root: Path, change: FileChange, guarded: Guarded) -> str:
    with pytest.raises(ToolError) as refused:
        prepare(root, change, NOTHING, is_open=lambda _: False, guarded=guarded)
    assert refused.value.code == "RIGHTS"
    return str(refused.value)


def test_a_file_that_holds_a_key_in_use_is_not_written_moved_or_deleted(tmp_path: Path) -> None:
    """A review would show its lines, the log would keep them, and a copy of it would lie beside the log."""
    path = tmp_path / "settings.ini"
    path.write_text(f"key = {KEY}\nother = 1\n")
    guarded = Guarded(keys=lambda: {KEY})
    for change in (
        edit(path, f"key = {KEY}\nother = 2\n"),
        FileDelete(path=path.name),
        FileRename(path=path.name, new_path="public.ini"),
    ):
        text = refusal(tmp_path, change, guarded)
        assert text == "settings.ini holds an API key that is in use; the agent never writes it"
        assert prepare(tmp_path, change, NOTHING, is_open=lambda _: False).path == path, "without a key it may be"
