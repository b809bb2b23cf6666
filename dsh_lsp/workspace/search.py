"""Search: the lines of a workspace that match a regular expression, unsaved text included.

ripgrep where there is one, else Python's expressions in a process of their own.

Rules: what an editor holds is searched as it is there and its file is not; of the files, those are searched that a
listing shows; nothing outside the folder is opened; the time, the number of matches and their size are bounded, and
the search is killed at a bound.
"""

from __future__ import annotations

import json
import os
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.globs import fitting
from dsh_lsp.workspace.paths import is_inside, shown
from dsh_lsp.workspace.port import Found, Match, OpenDocument, Query
from dsh_lsp.workspace.ripgrep import kept, rules_of, search_files, search_text
from dsh_lsp.workspace.threads import Stop, in_thread
from dsh_lsp.workspace.walk import check_folder, files, ignored, left_out
from dsh_lsp.workspace.worker import run

TIMEOUT_S: Final = 20.0
MAX_FILES: Final = 200_000
MAX_PATTERN_CHARS: Final = 10_000

_GREP: Final = Path(__file__).with_name("grep.py")


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
        ToolError: `NOT_FOUND`, `BAD_PATTERN`, `TIMEOUT`, `SEARCH_FAILED`.
    """
    _check(query)
    lines = _Lines(query.limit)
    scope, failed = None, False
    with anyio.move_on_after(timeout_s) as bound:
        scope = await in_thread(lambda stop: _scope_of(root, folder, query, documents, stop))
        if program is not None:
            failed = await _by_ripgrep(program, scope, query, lines)
        else:
            failed = await _by_python(scope, query, lines, timeout_s)
    if scope is None or (bound.cancelled_caught and not lines.found):
        raise ToolError(f"the search took longer than {timeout_s:g} s; narrow it", code="TIMEOUT")
    lines.found.sort(key=lambda match: (match.path, match.line))
    return Found(
        matches=tuple(lines.found[: query.limit]),
        truncated=len(lines.found) > query.limit or bound.cancelled_caught or failed,
        unsaved=tuple(sorted(scope.texts)),
    )


def _check(query: Query) -> None:
    """Refuse what no search can be made of.

    Raises:
        ToolError: `BAD_PATTERN`.
    """
    if any(end in query.pattern for end in "\n\r\0"):
        raise ToolError("a pattern is matched line by line and holds no line end", code="BAD_PATTERN")
    if len(query.pattern) > MAX_PATTERN_CHARS:
        raise ToolError(f"a pattern has at most {MAX_PATTERN_CHARS} characters", code="BAD_PATTERN")
    if re.search("[\ud800-\udfff]", query.pattern + (query.glob or "")):
        raise ToolError("a pattern or glob cannot hold half of a character", code="BAD_PATTERN")


class _Lines:
    """What was found; one more than the limit tells that there is more."""

    def __init__(self, limit: int) -> None:
        self.limit = limit + 1
        self.found: list[Match] = []

    def take(self, path: str, line: int, text: str) -> bool:
        """Keep a line; whether that is enough."""
        self.found.append(Match(path=path, line=line, text=text))
        return self.enough

    @property
    def enough(self) -> bool:
        """Whether nobody needs more."""
        return len(self.found) >= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What is searched: a folder, whose name as a prefix of the paths in it is `prefix`, and what the editor holds.

    `held` are all documents there, `texts` those that are searched; `fits` is whether a path is wanted.
    """

    root: Path
    folder: Path
    prefix: str
    held: frozenset[str]
    texts: dict[str, str]
    fits: Callable[[str], bool]


def _scope_of(root: Path, folder: Path, query: Query, documents: Sequence[OpenDocument], stop: Stop) -> _Scope:
    """Look at what there is. Blocks.

    Raises:
        ToolError: `NOT_FOUND`, `NOT_READABLE`, `BAD_PATTERN`.
    """
    check_folder(folder, query.path)
    held = {}
    for document in documents:
        real = root / document.path
        if is_inside(folder, real):
            held[shown(folder, real)] = document.text
    fits = fitting(query.glob)
    wanted = [path for path in held if fits(path)]
    out = ignored(root, folder, wanted, stop=stop)
    name = shown(root, folder)
    return _Scope(
        root=root,
        folder=folder,
        prefix="" if name == "." else f"{name}/",
        held=frozenset(held),
        texts={path: held[path] for path in wanted if path not in out},
        fits=fits,
    )


async def _by_ripgrep(program: str, scope: _Scope, query: Query, lines: _Lines) -> bool:
    """Search the texts that an editor holds in one go, and then the files; whether it was not done to its end."""
    failed, rules, problem = False, b"", None

    async def find_rules() -> None:
        nonlocal rules
        rules = await in_thread(lambda stop: rules_of(query.glob, left_out(scope.root, scope.folder, stop=stop)))

    def take_file(path: str, line: int, text: str) -> bool:
        return path not in scope.held and scope.fits(path) and lines.take(scope.prefix + path, line, text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(find_rules)
        try:
            failed = await _by_ripgrep_held(program, scope, query, lines)
        except ToolError as error:  # a group would wrap it
            problem = error
        if problem or lines.enough:
            tasks.cancel_scope.cancel()
    if problem:
        raise problem
    if lines.enough:
        return failed
    async with kept(rules) as file:
        return await search_files(program, query, scope.folder, file, take_file) or failed


async def _by_ripgrep_held(program: str, scope: _Scope, query: Query, lines: _Lines) -> bool:
    if not scope.texts:
        return False
    names, joined, first_lines = _joined(scope.texts)

    def take(_: str, line: int, text: str) -> bool:
        place = bisect_left(first_lines, line) - 1
        return lines.take(scope.prefix + names[place], line - first_lines[place], text)

    return await search_text(program, query, scope.folder, joined, take)


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


async def _by_python(scope: _Scope, query: Query, lines: _Lines, timeout_s: float) -> bool:
    """Search all of it by Python's expressions; whether it was not done to its end.

    Raises:
        ToolError: `BAD_PATTERN`, `SEARCH_FAILED`.
    """
    given, too_many = await in_thread(lambda stop: _task(scope, query, lines.limit, timeout_s, stop))
    problems: list[str] = []

    def take(row: bytearray) -> bool:
        match json.loads(row):
            case {"error": problem}:
                problems.append(problem)
                return True
            case found:
                return lines.take(scope.prefix + found["path"], found["line"], found["text"])

    ended = await run([sys.executable, "-I", "-S", str(_GREP)], scope.folder, given, take)
    if problems:
        raise ToolError(f"the pattern is not understood: {problems[0]}", code="BAD_PATTERN")
    if ended.code and not lines.found:
        raise ToolError(f"the search failed: {ended.said or f'exit code {ended.code}'}", code="SEARCH_FAILED")
    return too_many or bool(ended.code)


def _task(scope: _Scope, query: Query, limit: int, timeout_s: float, stop: Stop) -> tuple[bytes, bool]:
    """What the process is told, and whether there are more files than it can be told. Blocks."""
    listed = list(islice(files(scope.root, scope.folder, stop=stop), MAX_FILES + 1))
    task = {
        "pattern": query.pattern,
        "ignoreCase": query.ignore_case,
        "fixed": query.fixed,
        "folder": str(scope.folder),
        "paths": [path for path in listed[:MAX_FILES] if path not in scope.held and scope.fits(path)],
        "texts": scope.texts,
        "limit": limit,
        "timeoutS": timeout_s + 1,
        "parent": os.getpid(),
    }
    return json.dumps(task).encode(), len(listed) > MAX_FILES
