"""Grep: searches files with Python's regular expressions, in a process of its own that can be killed.

Run as a script, without the package: standard input is one JSON object `{"pattern", "ignoreCase", "fixed", "folder",
"paths", "texts", "limit"}`, standard output one JSON object a match, `{"path", "line", "text", "start"}`.

Rules: nothing but the standard library; what is no text is passed over; a pattern that takes for ever takes no more
than this process.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any

MAX_FILE_BYTES = 8 << 20
MAX_LINE_CHARS = 100_000


def matches(expression: re.Pattern[str], text: str) -> Iterator[tuple[int, str, int]]:
    """The lines that match: number from 1, text without its end, and where the match begins."""
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.removesuffix("\r")
        found = expression.search(line)
        if found is not None:
            yield number, line, found.start()


def compiled(query: dict[str, Any]) -> re.Pattern[str]:
    """The query's expression."""
    pattern = re.escape(query["pattern"]) if query["fixed"] else query["pattern"]
    return re.compile(pattern, re.IGNORECASE if query["ignoreCase"] else 0)


def contents(query: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is searched: the given texts, then the files."""
    yield from query["texts"].items()
    for path in query["paths"]:
        data = read_plain(f"{query['folder']}/{path}")
        if data is not None and b"\0" not in data[:8192]:
            yield path, data.decode("utf-8", "replace")


def read_plain(path: str) -> bytes | None:
    """A file's bytes; None for a link, which leads elsewhere, and for what is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        return file.read(MAX_FILE_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def main() -> int:
    """Search, and print what is found until there is enough of it."""
    query = json.load(sys.stdin)
    expression, left = compiled(query), query["limit"]
    for path, text in contents(query):
        for number, line, start in matches(expression, text):
            row = {"path": path, "line": number, "text": line[:MAX_LINE_CHARS], "start": min(start, MAX_LINE_CHARS)}
            sys.stdout.write(json.dumps(row) + "\n")
            left -= 1
            if not left:
                return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
