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
        self._count += 1
        name = f"output-{self._count}"
        await anyio.to_thread.run_sync(self._write, name, text)
        return name

    async def read(self, name: str) -> str:
        """Read a kept text.

        Raises:
            ToolError: `NOT_FOUND`.
        """
        if not name.startswith("output-") or not name.removeprefix("output-").isdecimal():
            raise ToolError(f"there is no output {name!r}", code="NOT_FOUND")
        try:
            return await anyio.to_thread.run_sync((self._folder / f"{name}.txt").read_text, "utf-8")
        except OSError as error:
            raise ToolError(f"there is no output {name!r}", code="NOT_FOUND") from error

    def _write(self, name: str, text: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{name}.txt"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
