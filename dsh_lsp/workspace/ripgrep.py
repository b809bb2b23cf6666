"""Ripgrep: searches files and texts by the program of that name.

Rules: what it searches is told it, file by file, by what it shall leave out: no rule of its own counts, so that it
finds what a listing shows; it prints a line once, however often the line matches.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.git import program
from dsh_lsp.workspace.globs import expanded
from dsh_lsp.workspace.grep import MAX_FILE_BYTES, excerpt
from dsh_lsp.workspace.port import Query
from dsh_lsp.workspace.worker import Ended, run

Take = Callable[[str, int, str], bool]  # path, number and text of a line; whether that is enough

AROUND_BYTES: Final = 2048  # of a long line that are looked at on each side of the match


def ripgrep() -> str | None:
    """Where ripgrep is: on PATH, or installed beside this interpreter."""
    beside = Path(sys.executable).with_name("rg.exe" if sys.platform == "win32" else "rg")
    return program("rg") or (str(beside) if beside.is_file() else None)


async def search_text(rg: str, query: Query, folder: Path, text: bytes, take: Take) -> bool:
    """Search a text; whether the search could not be done to its end.

    Raises:
        ToolError: `BAD_PATTERN`, `SEARCH_FAILED`.
    """
    return await _search([*_words(rg, query), "--text", "-e", query.pattern, "--", "-"], folder, text, take)


async def search_files(rg: str, query: Query, folder: Path, rules: Path, take: Take) -> bool:
    """Search the files of a folder, but for what the rules of a file leave out; as `search_text`."""
    files = ["--hidden", "--no-ignore", f"--ignore-file={rules}", f"--max-filesize={MAX_FILE_BYTES}"]
    return await _search([*_words(rg, query), *files, "-e", query.pattern, "--", "."], folder, None, take)


def rules_of(glob: str | None, left_out: Iterable[str]) -> bytes:
    """What ripgrep shall not search, as an ignore file: what a glob does not mean, and what is left out.

    A glob on the command line would bring back what is left out, so it is among the rules.
    """
    rules = []
    if glob is not None:
        globs = [re.sub(" $", r"\\ ", one) for one in expanded(glob.removeprefix("!"))]
        rules = globs if glob.startswith("!") else ["*", "!*/", *(f"!{one}" for one in globs)]
    rules += [".git", *map(_rule, left_out)]
    return "".join(f"{rule}\n" for rule in rules).encode("utf-8", "replace")


@asynccontextmanager
async def kept(rules: bytes) -> AsyncIterator[Path]:
    """A file that holds rules as long as somebody needs it."""
    file = await anyio.to_thread.run_sync(_write, rules)
    try:
        yield file
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(file.unlink, True)


def _write(rules: bytes) -> Path:
    with tempfile.NamedTemporaryFile(prefix="dsh-search-", delete=False) as file:
        file.write(rules)
    return Path(file.name)


def _rule(path: str) -> str:
    """A path as a line of an ignore file; `?` stands for what such a line cannot hold."""
    if path == "./":
        return "*"
    literal = re.sub(r"([\\*?\[\]{}!# ])", r"\\\1", path.removeprefix("./"))
    return "/" + re.sub("[\n\r\0\udc80-\udcff]", "?", literal)


def _words(rg: str, query: Query) -> list[str]:
    words = [
        rg,
        "--no-config",
        "--no-messages",
        "--crlf",
        "--color=never",
        "--no-heading",
        "--with-filename",
        "--null",
    ]
    words += ["--line-number", "--column", f"--max-count={query.limit + 1}"]
    return words + ["--ignore-case"] * query.ignore_case + ["--fixed-strings"] * query.fixed


async def _search(command: list[str], folder: Path, given: bytes | None, take: Take) -> bool:
    found = 0

    def take_row(row: bytearray) -> bool:
        nonlocal found
        line = _line_of(row)
        found += line is not None
        return line is not None and take(*line)

    return _failed(await run(command, folder, given, take_row), found)


def _failed(ended: Ended, found: int) -> bool:
    """Whether a search was not done to its end, which is an error where it has found nothing.

    An exit code of 2 without a word is files that cannot be read.
    """
    if ended.code in (None, 0, 1) or (ended.code == 2 and not ended.said):
        return False
    if not found:
        if "regex" in ended.said:
            raise ToolError(f"the pattern is not understood: {ended.said}", code="BAD_PATTERN")
        raise ToolError(f"the search failed: {ended.said or f'exit code {ended.code}'}", code="SEARCH_FAILED")
    return True


def _line_of(row: bytearray) -> tuple[str, int, str] | None:
    r"""Path, number and excerpt of `path\0number:column:text`; None for what is no such row."""
    path_end = row.find(b"\0")
    if path_end < 0:
        return None
    number_end = row.find(b":", path_end)
    start = row.find(b":", number_end + 1) + 1
    match = start + int(row[number_end + 1 : start - 1]) - 1
    end = len(row) - row.endswith(b"\r")
    before = row[max(start, match - AROUND_BYTES) : match].decode("utf-8", "replace")
    after = row[match : min(end, match + AROUND_BYTES)].decode("utf-8", "replace")
    path = os.fsdecode(bytes(row[:path_end])).replace(os.sep, "/").removeprefix("./")
    return path, int(row[path_end + 1 : number_end]), excerpt(before + after, len(before))
