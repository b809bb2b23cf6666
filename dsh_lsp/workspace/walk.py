"""Walk: the files of a folder without those that the project ignores.

Rules: git says what is ignored where there is a repository, exactly; elsewhere the ignore files do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.git import git
from dsh_lsp.workspace.ignore import ignores, walk
from dsh_lsp.workspace.paths import shown
from dsh_lsp.workspace.port import Entry, Listing


def list_folder(root: Path, folder: Path, *, limit: int) -> Listing:
    """List the files below a folder. Blocks.

    Raises:
        ToolError: `NOT_FOUND`.
    """
    if not folder.is_dir():
        name = os.path.relpath(folder, os.path.realpath(root))
        raise ToolError(f"{name} is not a folder of the workspace", code="NOT_FOUND")
    names = _git_files(folder)
    if names is None:
        names = list(islice(walk(folder), limit + 1))
    entries = tuple(Entry(path=shown(root, folder / name)) for name in names[:limit])
    return Listing(entries=entries, truncated=len(names) > limit)


def ignored(folder: Path, paths: Sequence[str]) -> frozenset[str]:
    """Those of some paths below a folder that the project ignores. Blocks."""
    if not paths:
        return frozenset()
    said = git(folder, "check-ignore", "-z", "--stdin", given="\0".join(paths))
    if said is not None and said.returncode in (0, 1):
        own = (path for path in paths if ".git" in path.split("/"))  # git does not speak of itself
        return frozenset([*own, *(name for name in os.fsdecode(said.stdout).split("\0") if name)])
    return frozenset(path for path in paths if ignores(folder, path))


def _git_files(folder: Path) -> list[str] | None:
    """What git tracks or would track below a folder; None where there is no repository or no git."""
    found = git(folder, "ls-files", "-coz", "--exclude-standard")
    if found is None or found.returncode != 0:
        return None
    names = {name for name in os.fsdecode(found.stdout).split("\0") if name}
    return sorted(name for name in names if os.path.lexists(folder / name))
