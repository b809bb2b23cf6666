"""Walk: the files of a folder without those that the project ignores.

Rules: git says what is ignored where there is a repository, exactly; elsewhere the ignore files do. No program that a
repository's configuration names is run, and children get no more of the environment than they need.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.ignore import ignores, walk
from dsh_lsp.workspace.paths import shown
from dsh_lsp.workspace.port import Entry, Listing

TIMEOUT_S: Final = 20.0

_NEEDED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "XDG_CONFIG_HOME", "TMPDIR", "SYSTEMROOT", "USERPROFILE")


def plain_environment() -> dict[str, str]:
    """What a program that only reads needs to run; no key is among it."""
    return {name: os.environ[name] for name in _NEEDED if name in os.environ}


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
    said = _git(folder, "check-ignore", "-z", "--stdin", given="\0".join(paths))
    if said is not None and said.returncode in (0, 1):
        own = (path for path in paths if ".git" in path.split("/"))  # git does not speak of itself
        return frozenset([*own, *(name for name in os.fsdecode(said.stdout).split("\0") if name)])
    return frozenset(path for path in paths if ignores(folder, path))


def _git_files(folder: Path) -> list[str] | None:
    """What git tracks or would track below a folder; None where there is no repository or no git."""
    found = _git(folder, "ls-files", "-coz", "--exclude-standard")
    if found is None or found.returncode != 0:
        return None
    names = {name for name in os.fsdecode(found.stdout).split("\0") if name}
    return sorted(name for name in names if os.path.lexists(folder / name))


def _git(folder: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[bytes] | None:
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", str(folder), *arguments]
    try:
        return subprocess.run(  # noqa: S603 - fixed words
            command,
            input=os.fsencode(given),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            env=plain_environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
