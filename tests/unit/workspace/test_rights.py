"""Rights: what gives them by more than its own name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsh_lsp.workspace.paths import effects_of
from dsh_lsp.workspace.rights import MANY


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize("written", ["tools/hooks", '"tools/hooks"', "./tools/hooks ; ours", "{root}/tools/hooks"])
def test_the_folder_that_git_is_told_to_take_hooks_from_gives_rights(root: Path, written: str) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(f"[core]\n\tbare = false\n\thooksPath = {written.format(root=root)}\n")
    kinds = {
        path: [one.kind for one in effects_of(root, path, "edit")] for path in ("tools/hooks/pre-commit", "tools/a")
    }
    assert kinds == {"tools/hooks/pre-commit": ["edit", "rights"], "tools/a": ["edit"]}


@pytest.mark.parametrize("written", [".", "..", "", "~nobody-of-that-name/x", "/dev/null", '"', "\0"])
def test_a_folder_for_hooks_that_is_none_makes_nobody_ask(root: Path, written: str) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(f"[core]\n\thooksPath = {written}\n")
    assert [one.kind for one in effects_of(root, "tools/a", "edit")] == ["edit"]


def test_a_link_that_gives_rights_is_found_among_very_many_files(root: Path) -> None:
    (root / "editor").mkdir()
    (root / ".vscode").symlink_to("editor")
    for number in range(MANY):
        (root / str(number)).touch()
    assert [effect.kind for effect in effects_of(root, "editor/a", "edit")] == ["edit", "rights"]
    assert [effect.kind for effect in effects_of(root, "sub/a", "edit")] == ["edit"]


def test_a_configuration_that_is_a_pipe_is_not_waited_for(root: Path) -> None:
    (root / ".git").mkdir()
    os.mkfifo(root / ".git" / "config")
    assert [one.kind for one in effects_of(root, "tools/a", "edit")] == ["edit"]
