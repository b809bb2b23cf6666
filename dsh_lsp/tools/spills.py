"""Spills: results that were too large for the model, kept where it can read the rest by pages."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.to_thread

from dsh_lsp.errors import ToolError


class Spills:
    """The spilled results of one session, one file each, in a folder beside its log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    async def keep(self, text: str) -> str:
        """Keep a text; the name by which it is read.

        Raises:
            OSError: it cannot be written.
        """
        return await anyio.to_thread.run_sync(self._write, text)

    async def read(self, name: str) -> str:
        """Read a kept text.

        Raises:
            ToolError: `NOT_FOUND`.
        """
        if not name.startswith("output-") or not name.removeprefix("output-").isdecimal():
            raise ToolError(f"there is no output {name!r}", code="NOT_FOUND")
        try:
            kept = await anyio.to_thread.run_sync((self._folder / f"{name}.txt").read_bytes)
        except OSError as error:
            raise ToolError(f"there is no output {name!r}", code="NOT_FOUND") from error
        return kept.decode("utf-8", "surrogatepass")

    def _write(self, text: str) -> str:
        """Write a file of its own; an earlier life of the session may have left some, which history still names."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            self._count += 1
            name = f"output-{self._count}"
            path = self._folder / f"{name}.txt"
            try:
                path.touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                continue
            path.write_bytes(text.encode("utf-8", "surrogatepass"))  # as it is: line ends too
            return name
