"""Copies: what a session takes away from the user's files, kept beside its log so that it can be given back."""

from __future__ import annotations

from pathlib import Path

from dsh_lsp.errors import ToolError


class Copies:
    """The copies of one session, one file each, by the id of the hunk that they belong to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, name: str, data: bytes) -> str:
        """Keep a file's bytes; the name by which they are read.

        Raises:
            ToolError: `NOT_WRITABLE`; what cannot be kept must not be taken away.
        """
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
