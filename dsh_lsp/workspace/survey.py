"""Survey: how the files of a workspace stand, so that what a command did to them can be told.

Rules: ignored files are left out, as in listings; a file counts as changed when its size, its time or its identity
did; a workspace that is too large is not surveyed, and the model is told so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dsh_lsp.workspace.walk import list_folder

MAX_FILES: Final = 50_000

Stamp = tuple[int, int, int]  # time in nanoseconds, size, identity
Survey = dict[str, Stamp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What became different, by paths relative to the root, sorted."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.created, *self.changed, *self.deleted)


def survey(root: Path) -> Survey | None:
    """Look at all files; None when there are too many. Blocks."""
    listing = list_folder(root, root, limit=MAX_FILES)
    if listing.truncated:
        return None
    found: Survey = {}
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
