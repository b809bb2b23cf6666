"""Grep: searches files with Python's regular expressions, in a process of its own that can be killed.

Run as a script, without the package: standard input is one JSON object `{"pattern", "ignoreCase", "fixed", "folder",
"paths", "texts", "limit", "timeoutS", "parent"}`, the last a process; standard output one JSON object a match,
`{"path", "line", "text"}`, or `{"error"}` for a pattern that is none.

Rules: nothing but the standard library; what is no text is passed over; a pattern that takes for ever takes no more
than this process, which ends with its parent (Linux), at the latest after its time.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any

MAX_FILE_BYTES = 8 << 20
SHOWN_CHARS = 240  # of a line
BEFORE_CHARS = 60  # of them before the match

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def excerpt(line: str, start: int) -> str:
    """A line, or the part of a long one around the match that begins at `start`."""
    first = max(0, start - BEFORE_CHARS) if len(line) > SHOWN_CHARS else 0
    piece = line[first : first + SHOWN_CHARS]
    return ("…" if first else "") + piece + ("…" if first + SHOWN_CHARS < len(line) else "")


def matches(expression: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    """The lines that match: number from 1, and excerpt."""
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.removesuffix("\r")
        found = expression.search(line)
        if found is not None:
            yield number, excerpt(line, found.start())


def contents(query: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is searched: the given texts, then the files."""
    yield from query["texts"].items()
    for path in query["paths"]:
        data = read_plain(f"{query['folder']}/{path}", MAX_FILE_BYTES + 1)
        if data is None or len(data) > MAX_FILE_BYTES:
            continue
        if data.startswith(_UTF16):
            yield path, data.decode("utf-16", "replace")
        elif b"\0" not in data:
            yield path, data.decode("utf-8", "replace").removeprefix("\ufeff")


def read_plain(path: str, limit: int) -> bytes | None:
    """The first bytes of a file; None for a link, which leads elsewhere, and for what is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            return file.read(limit) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):
        return None


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent ends, where it can; a search does not look up to notice."""
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    pr_set_pdeathsig = 1  # of <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before that
        sys.exit(1)


def compiled(query: dict[str, Any]) -> re.Pattern[str]:
    """The query's expression.

    Raises:
        ValueError: it is none that Python can read.
    """
    pattern = re.escape(query["pattern"]) if query["fixed"] else query["pattern"]
    try:
        return re.compile(pattern, re.IGNORECASE if query["ignoreCase"] else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from error


def main() -> int:
    """Search, and print what is found until there is enough of it."""
    query = json.load(sys.stdin)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - pathlib is slow to import
        faulthandler.dump_traceback_later(query["timeoutS"], exit=True, file=nowhere)  # in the midst of a match too
        end_with_parent(query["parent"])
        return search(query)


def search(query: dict[str, Any]) -> int:
    """Print what is found until there is enough of it."""
    left = query["limit"]
    try:
        expression = compiled(query)
    except ValueError as error:
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
        return 0
    for path, text in contents(query):
        for number, line in matches(expression, text):
            sys.stdout.write(json.dumps({"path": path, "line": number, "text": line}) + "\n")
            left -= 1
            if not left:
                return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
