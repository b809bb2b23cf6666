"""Paths: what is inside is inside whatever it is called, and what gives rights is not written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.paths import check_writable, effects_of, resolve, shown


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "in").symlink_to(root / "sub")
    return root


@pytest.mark.parametrize("path", ["a", "./a", "sub/../a", "in/a", "nicht da/ü.py", "a\u2028b"])
def test_what_lies_inside_is_found(root: Path, path: str) -> None:
    real = resolve(root, path)
    assert resolve(root, str(real)) == real
    assert resolve(root, shown(root, real)) == real


@pytest.mark.parametrize("path", ["..", "../a", "/etc/passwd", "out/a", "sub/../../a", "~", "~/a", "in/../../a"])
def test_what_lies_outside_is_refused(root: Path, path: str) -> None:
    with pytest.raises(ToolError) as error:
        resolve(root, path)
    assert error.value.code == "OUTSIDE"


def test_a_folder_whose_name_begins_like_the_root_is_outside(root: Path) -> None:
    with pytest.raises(ToolError):
        resolve(root, f"{root}-other/a")


@pytest.mark.parametrize(
    "path",
    [".git/config", "sub/.git/hooks/x", ".vscode/settings.json", ".envrc", "sub/.nvim.lua", "x.code-workspace"],
)
def test_what_gives_rights_is_not_written(root: Path, path: str) -> None:
    with pytest.raises(ToolError) as error:
        check_writable(root, resolve(root, path))
    assert error.value.code == "RIGHTS"


@pytest.mark.parametrize("path", [".github/x.yml", "sub/git/config", "vscode/a", ".gitignore"])
def test_other_files_are_written(root: Path, path: str) -> None:
    check_writable(root, resolve(root, path))


def test_a_path_that_no_system_has_is_refused(root: Path) -> None:
    with pytest.raises(ToolError) as error:
        resolve(root, "a\0b")
    assert error.value.code == "INVALID_PATH"
    assert effects_of(root, "a\0b", "read") == []


@pytest.mark.parametrize(
    ("path", "kind", "kinds"),
    [
        ("a", "read", ["read"]),
        ("a", "edit", ["edit"]),
        ("out/a", "read", ["read", "outside"]),
        ("../a", "edit", ["edit", "outside"]),
        (".envrc", "read", ["read"]),
        (".envrc", "edit", ["edit", "rights"]),
        ("../.vscode/x", "edit", ["edit", "outside", "rights"]),
    ],
)
def test_the_effects_say_what_needs_a_permission(root: Path, path: str, kind, kinds) -> None:
    assert [effect.kind for effect in effects_of(root, path, kind)] == kinds


def test_what_the_user_allowed_is_touched_and_version_control_never(root: Path) -> None:
    assert resolve(root, "../outside/a", frozenset({"outside"})).name == "a"
    check_writable(root, resolve(root, ".envrc"), frozenset({"rights"}))
    with pytest.raises(ToolError):
        check_writable(root, resolve(root, ".git/config"), frozenset({"rights", "outside"}))
