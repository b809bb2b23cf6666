"""Survey: how the files of a workspace stand, so that what a command did to them can be told.

Rules: ignored files are left out, as in listings; a file counts as changed when its size, its time or its identity
did; a workspace that is too large is not surveyed, and the model is told so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.threads import Stop, never
from dsh_lsp.workspace.walk import list_folder

MAX_FILES: Final = 50_000

Stamp = tuple[int, int, int]  # time in nanoseconds, size, identity
Survey = dict[str, Stamp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What became different, by paths as the model reads them, sorted."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.created, *self.changed, *self.deleted)


def survey(root: Path, others: Iterable[Path] = (), stop: Stop = never) -> Survey | None:
    """Look at all files of the root and of other folders; None when there are too many, or it shall stop. Blocks."""
    found: Survey = {}
    for folder in dict.fromkeys(Path(os.path.realpath(one)) for one in (root, *others)):
        try:
            listing = list_folder(root, folder, limit=MAX_FILES - len(found), stop=stop)
        except ToolError:  # it went away meanwhile
            continue
        if listing.truncated or stop():
            return None
        for entry in listing.entries:
            try:
                stat = (root / entry.path).stat()
            except OSError:
                continue
            found[entry.path] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return found


def compare(before: Survey, after: Survey) -> Difference:
    """What became different between two looks."""
    return Difference(
        created=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(sorted(path for path in after.keys() & before.keys() if after[path] != before[path])),
        deleted=tuple(sorted(before.keys() - after.keys())),
    )
