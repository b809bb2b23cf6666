"""Paths: what lies inside the workspace, and what a tool may touch only with the user's permission, or never.

Rules: a path is judged by where it really leads, symbolic links followed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from dsh_lsp.decisions import Effect, EffectKind
from dsh_lsp.errors import ToolError

# Files that decide what an editor or a shell runs; a model that can write them has more rights than it was given.
_RIGHTS_FOLDERS = frozenset({".vscode", ".dsh"})
_RIGHTS_FILES = frozenset({".nvim.lua", ".envrc"})
_RIGHTS_SUFFIX = ".code-workspace"
_NEVER_FOLDERS = frozenset({".git"})

NOTHING: frozenset[EffectKind] = frozenset()


def locate(root: Path, path: str) -> Path:
    """Where what a model calls `path` really is, inside the workspace or not.

    Raises:
        ToolError: `INVALID_PATH`.
    """
    if "\0" in path:
        raise ToolError("a path cannot hold a NUL character", code="INVALID_PATH")
    return Path(os.path.realpath(Path(os.path.realpath(root)) / Path(path).expanduser()))


def is_inside(root: Path, real: Path) -> bool:
    """Whether a located path lies in the workspace."""
    real_root = Path(os.path.realpath(root))
    return real == real_root or real_root in real.parents


def resolve(root: Path, path: str, approved: frozenset[EffectKind] = NOTHING) -> Path:
    """Locate a path that a tool may touch.

    Raises:
        ToolError: `OUTSIDE`, it does not lie below the root and the user has not allowed that.
    """
    real = locate(root, path)
    if "outside" not in approved and not is_inside(root, real):
        raise ToolError(f"{path} lies outside the workspace {os.path.realpath(root)}", code="OUTSIDE")
    return real


def shown(root: Path, real: Path) -> str:
    """A located path as the model and people read it: relative to the root where it lies inside, with `/`."""
    return real.relative_to(os.path.realpath(root)).as_posix() if is_inside(root, real) else real.as_posix()


def gives_rights(real: Path) -> bool:
    """Whether a file decides what other programs may run."""
    folders = _RIGHTS_FOLDERS.intersection(part.lower() for part in real.parts)
    name = real.name.lower()
    return bool(folders) or name in _RIGHTS_FILES or name.endswith(_RIGHTS_SUFFIX)


def check_writable(root: Path, real: Path, approved: frozenset[EffectKind] = NOTHING) -> None:
    """Refuse files that no tool writes, and those that need a permission that was not given.

    Raises:
        ToolError: `RIGHTS`.
    """
    if _NEVER_FOLDERS.intersection(part.lower() for part in real.parts):
        raise ToolError(f"{shown(root, real)} belongs to version control; the agent never writes it", code="RIGHTS")
    if "rights" not in approved and gives_rights(real):
        raise ToolError(
            f"{shown(root, real)} decides what other programs may run; the user has not allowed writing it",
            code="RIGHTS",
        )


def effects_of(root: Path, path: str, kind: Literal["read", "edit"]) -> list[Effect]:
    """What touching a path means, for whoever judges it."""
    try:
        real = locate(root, path)
    except ToolError:
        return []  # the tool itself says what is wrong
    name = shown(root, real)
    effects = [Effect(kind=kind, detail=name, grant_key=f"{kind}:{name}")]
    if not is_inside(root, real):
        effects.append(Effect(kind="outside", detail=f"{kind} {name}", grant_key=f"outside:{kind}:{name}"))
    if kind == "edit" and gives_rights(real):
        effects.append(Effect(kind="rights", detail=name, grant_key=f"rights:{name}"))
    return effects
