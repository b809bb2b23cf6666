"""Search: the lines of a workspace that match a regular expression, unsaved text included.

ripgrep where there is one, else Python's expressions in a process of their own.

Rules: what an editor holds is searched as it is there and its file is not; ignored files are left out; nothing
outside the folder is opened; the time, the number of matches and their size are bounded, and the search is killed at
a bound.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import Process

from dsh_lsp.errors import ToolError
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.git import plain_environment
from dsh_lsp.workspace.git import program as find_program
from dsh_lsp.workspace.globs import expanded, fitting
from dsh_lsp.workspace.grep import compiled
from dsh_lsp.workspace.paths import is_inside, shown
from dsh_lsp.workspace.port import Found, Match, OpenDocument, Query
from dsh_lsp.workspace.walk import ignored, list_folder

TIMEOUT_S: Final = 20.0
END_S: Final = 0.1  # a program that has printed all has ended by then
MAX_FILES: Final = 200_000
SHOWN_CHARS: Final = 240  # of a line
BEFORE_CHARS: Final = 60  # of them before the match

_GREP: Final = Path(__file__).with_name("grep.py")

Line = tuple[str, int, str, int]  # path below the folder, number, text, where the match begins


def ripgrep() -> str | None:
    """Where ripgrep is: on PATH, or installed beside this interpreter."""
    beside = Path(sys.executable).with_name("rg.exe" if sys.platform == "win32" else "rg")
    return find_program("rg") or (str(beside) if beside.is_file() else None)


async def search(
    root: Path,
    folder: Path,
    query: Query,
    documents: Sequence[OpenDocument],
    *,
    program: str | None,
    timeout_s: float = TIMEOUT_S,
) -> Found:
    """Search a folder; `documents` are those that the editor holds, `program` is ripgrep or None.

    Raises:
        ToolError: `NOT_FOUND`, `BAD_PATTERN`, `TIMEOUT`.
    """
    if any(end in query.pattern for end in "\n\r\0"):
        raise ToolError("a pattern is matched line by line and holds no line end", code="BAD_PATTERN")
    scope = await anyio.to_thread.run_sync(_scope_of, root, folder, query, documents)
    limit = query.limit + 1  # one more tells that there are more
    found: list[Line] = []
    with anyio.move_on_after(timeout_s) as bound:
        if program is not None:
            await _by_ripgrep(program, scope, query, found, limit)
        else:
            await _by_python(root, scope, query, found, limit)
    if bound.cancelled_caught and not found:
        raise ToolError(f"the search took longer than {timeout_s:g} s; narrow it", code="TIMEOUT")
    found.sort(key=lambda line: (line[0], line[1]))
    return Found(
        matches=tuple(_match(scope.prefix, line) for line in found[: query.limit]),
        truncated=len(found) > query.limit or bound.cancelled_caught,
        unsaved=tuple(sorted(scope.texts)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What is searched: a folder, whose name as a prefix of the paths in it is `prefix`, and what the editor holds.

    `held` are all documents there, `texts` those that are searched.
    """

    folder: Path
    prefix: str
    held: frozenset[str]
    texts: dict[str, str]


def _scope_of(root: Path, folder: Path, query: Query, documents: Sequence[OpenDocument]) -> _Scope:
    """Look at what there is. Blocks.

    Raises:
        ToolError: `NOT_FOUND`, `BAD_PATTERN`.
    """
    if not folder.is_dir():
        raise ToolError(f"{query.path} is not a folder of the workspace", code="NOT_FOUND")
    held = {}
    for document in documents:
        real = root / document.path
        if is_inside(folder, real):
            held[shown(folder, real)] = document.text
    fits = fitting(query.glob)
    wanted = [path for path in held if fits(path)]
    left_out = ignored(folder, wanted)
    name = shown(root, folder)
    return _Scope(
        folder=folder,
        prefix="" if name == "." else f"{name}/",
        held=frozenset(held),
        texts={path: held[path] for path in wanted if path not in left_out},
    )


def _match(prefix: str, line: Line) -> Match:
    path, number, text, start = line
    first = max(0, start - BEFORE_CHARS) if len(text) > SHOWN_CHARS else 0
    piece = text[first : first + SHOWN_CHARS]
    shortened = ("…" if first else "") + piece + ("…" if first + SHOWN_CHARS < len(text) else "")
    return Match(path=prefix + path, line=number, text=shortened)


# -- ripgrep -----------------------------------------------------------------------------------------------------


async def _by_ripgrep(program: str, scope: _Scope, query: Query, found: list[Line], limit: int) -> None:
    """Search the files and, in one go, the texts that an editor holds."""
    words = [program, "--no-config", "--json", "--crlf", "--no-messages", "--max-columns=100000"]
    words += ["--ignore-case"] * query.ignore_case + ["--fixed-strings"] * query.fixed
    tail = ["-e", query.pattern, "--"]

    def enough(path: str, row: JsonObject) -> bool:
        text, start = _line_of(row)
        found.append((path, row["line_number"], text, start))
        return len(found) >= limit

    if scope.texts:
        names, joined, first_lines = _joined(scope.texts)

        def take_held(row: JsonObject) -> bool:
            place = bisect_left(first_lines, row["line_number"]) - 1
            here = {**row, "line_number": row["line_number"] - first_lines[place]}
            return enough(names[place], here)

        await _run([*words, "--text", *tail, "-"], scope.folder, joined, _matching(take_held))
    if len(found) >= limit:
        return

    def take_file(row: JsonObject) -> bool:
        path = _text_of(row["path"]).removeprefix("./")
        return path not in scope.held and enough(path, row)

    files = ["--hidden", "--no-require-git", "--max-filesize=8M", "--glob=!.git"]
    files += [f"--glob={one}" for one in (expanded(query.glob) if query.glob is not None else ())]
    await _run([*words, *files, *tail, "."], scope.folder, None, _matching(take_file))


def _matching(take: Callable[[JsonObject], bool]) -> Callable[[JsonObject], bool]:
    """Look at ripgrep's matches and at none of its other rows."""
    return lambda row: row.get("type") == "match" and take(row["data"])


def _joined(texts: dict[str, str]) -> tuple[list[str], bytes, list[int]]:
    """Texts as one, since one process searches them all: their names, the text, and the lines before each."""
    names, parts, first_lines, lines = [], [], [], 0
    for name, text in texts.items():
        data = text.encode("utf-8", "replace")
        data += b"" if data.endswith(b"\n") else b"\n"
        names.append(name)
        parts.append(data)
        first_lines.append(lines)
        lines += data.count(b"\n")
    return names, b"".join(parts), first_lines


def _line_of(row: JsonObject) -> tuple[str, int]:
    """A line without its end, and where the match begins in it."""
    line = _text_of(row["lines"]).rstrip("\r\n")
    starts = [match["start"] for match in row["submatches"]]
    return line, len(line.encode("utf-8", "replace")[: starts[0]].decode("utf-8", "ignore")) if starts else 0


def _text_of(value: JsonObject) -> str:
    text = value.get("text")
    return text if isinstance(text, str) else base64.b64decode(value["bytes"]).decode("utf-8", "replace")


# -- without it --------------------------------------------------------------------------------------------------


async def _by_python(root: Path, scope: _Scope, query: Query, found: list[Line], limit: int) -> None:
    """Search all of it by Python's expressions."""
    task: JsonObject = {
        "pattern": query.pattern,
        "ignoreCase": query.ignore_case,
        "fixed": query.fixed,
        "folder": str(scope.folder),
        "paths": await anyio.to_thread.run_sync(_files_of, root, scope, query),
        "texts": scope.texts,
        "limit": limit,
    }
    try:
        compiled(task)
    except re.error as error:
        raise ToolError(f"the pattern is not understood: {error}", code="BAD_PATTERN") from error

    def take(row: JsonObject) -> bool:
        found.append((row["path"], row["line"], row["text"], row["start"]))
        return len(found) >= limit

    await _run([sys.executable, "-I", "-S", str(_GREP)], scope.folder, json.dumps(task).encode(), take)


def _files_of(root: Path, scope: _Scope, query: Query) -> list[str]:
    """The files that no editor holds. Blocks."""
    fits = fitting(query.glob)
    listing = list_folder(root, scope.folder, limit=MAX_FILES)
    below = (entry.path.removeprefix(scope.prefix) for entry in listing.entries)
    return [path for path in below if path not in scope.held and fits(path)]


# -- a program that prints rows ----------------------------------------------------------------------------------


async def _run(command: list[str], folder: Path, given: bytes | None, take: Callable[[JsonObject], bool]) -> None:
    """Hand over the JSON rows that a program prints; it is killed when `take` has had enough.

    Raises:
        ToolError: `BAD_PATTERN`, in the program's own words.
    """
    with anyio.CancelScope(shield=True):  # a cancel in the middle of it would leave a process that nobody knows
        process = await anyio.open_process(
            command,
            stdin=PIPE if given is not None else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env=plain_environment(),
        )
    try:
        async with anyio.create_task_group() as tasks:
            if given is not None:
                tasks.start_soon(_feed, process, given)
            silent = await _take_rows(process, take)
            tasks.cancel_scope.cancel()
        if silent:
            said = await _said(process)
            if "regex" in said:
                raise ToolError(f"the pattern is not understood: {said}", code="BAD_PATTERN")
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _end(process: Process) -> None:
    """Let a program end that has printed all, or finds nobody who reads on; kill one that does not.

    Killing one that is about to end by itself takes its exit code away from asyncio, which warns of that.
    """
    if process.stdout is not None:
        await process.stdout.aclose()
    with anyio.move_on_after(END_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


async def _take_rows(process: Process, take: Callable[[JsonObject], bool]) -> bool:
    """Read rows until there are no more or enough; whether there was none at all."""
    assert process.stdout is not None  # noqa: S101 - for the type checker
    rest, silent = b"", True
    async for data in process.stdout:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            silent = False
            if take(json.loads(line)):
                return False
    return silent


async def _feed(process: Process, given: bytes) -> None:
    """Write a program's standard input."""
    assert process.stdin is not None  # noqa: S101 - for the type checker
    try:
        await process.stdin.send(given)
        await process.stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # it has found enough


async def _said(process: Process) -> str:
    """What a program said of its failure, shortened."""
    assert process.stderr is not None  # noqa: S101 - for the type checker
    try:
        return " ".join((await process.stderr.receive(4096)).decode("utf-8", "replace").split())[:500]
    except anyio.EndOfStream:
        return "it failed"
