"""Copies: what a session takes away from the user's files or moves, kept beside its log to be given back or known."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections import Counter
from pathlib import Path

from dsh_lsp.errors import ToolError

log = logging.getLogger(__name__)

_MODE = re.compile(r"\.([0-7]{4})\Z")


class Copies:
    """The copies of one session, one file each, by the ids of their hunks and the modes of what went."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, name: str, data: bytes, mode: int | None = None) -> str:
        """Keep a file's bytes and its mode; the name by which they are read.

        Raises:
            ToolError: `NOT_WRITABLE`; what cannot be kept must not be taken away.
        """
        if mode is not None:
            name = f"{name}.{mode & 0o7777:04o}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._folder / name
            path.touch(mode=0o600)
            path.write_bytes(data)
        except OSError as error:
            raise ToolError(f"no copy can be kept: {error.strerror}", code="NOT_WRITABLE") from error
        return name

    def read(self, name: str) -> bytes:
        """Read kept bytes.

        Raises:
            ToolError: `NOT_FOUND`.
        """
        try:
            return (self._folder / Path(name).name).read_bytes()
        except OSError as error:
            raise ToolError("its copy is gone", code="NOT_FOUND") from error

    def mode_of(self, name: str) -> int | None:
        """The mode of what a copy was made of, where it is known."""
        found = _MODE.search(name)
        return int(found[1], 8) if found else None

    def take_over(self, other: Copies) -> None:
        """Hold what another session holds, too; it may be thrown away. Blocks."""
        try:
            for path in other._folder.iterdir() if other._folder.is_dir() else ():
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                try:
                    os.link(path, self._folder / path.name)  # nobody changes a copy
                except OSError:
                    shutil.copy2(path, self._folder / path.name)
        except OSError as error:  # what is missing is told when it is wanted
            log.warning("copies of deleted files cannot be taken over: %s", error.strerror)


def is_like(kept: bytes, now: bytes) -> bool:
    """Whether a file is, as far as its text tells, the one that was kept: at least half of the lines are the same."""
    if kept == now:
        return True
    before, after = (Counter(filter(None, map(bytes.strip, data.splitlines()))) for data in (kept, now))
    return 2 * (before & after).total() >= max(before.total(), after.total(), 1)
