"""Paths: what lies inside the workspace, and what no tool of ours may write."""

from __future__ import annotations

import os
from pathlib import Path

from dsh_lsp.errors import ToolError

# Files that decide what an editor or a shell runs; a model that can write them has more rights than it was given.
RIGHTS_FOLDERS = frozenset({".git", ".vscode", ".dsh"})
RIGHTS_FILES = frozenset({".nvim.lua", ".envrc"})
RIGHTS_SUFFIX = ".code-workspace"


def resolve(root: Path, path: str) -> Path:
    """The real path of what a model calls `path`, symbolic links followed.

    Raises:
        ToolError: `OUTSIDE`, it does not lie below the root.
    """
    if "\0" in path:
        raise ToolError("a path cannot hold a NUL character", code="OUTSIDE")
    real_root = Path(os.path.realpath(root))
    real = Path(os.path.realpath(real_root / Path(path).expanduser()))
    if real != real_root and real_root not in real.parents:
        raise ToolError(f"{path} lies outside the workspace {real_root}", code="OUTSIDE")
    return real


def relative(root: Path, real: Path) -> str:
    """A resolved path as the model and people read it: relative to the root, with `/`."""
    return real.relative_to(os.path.realpath(root)).as_posix()


def check_writable(root: Path, real: Path) -> None:
    """Refuse files whose content gives rights.

    Raises:
        ToolError: `RIGHTS`.
    """
    parts = real.relative_to(os.path.realpath(root)).parts
    if RIGHTS_FOLDERS.intersection(parts) or real.name in RIGHTS_FILES or real.name.endswith(RIGHTS_SUFFIX):
        raise ToolError(
            f"{'/'.join(parts)} decides what other programs may run; the agent does not write it", code="RIGHTS"
        )
