"""Disk: row files in memory that remember what was written and synced, fail on request, and crash at any point."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Operation = tuple[str, bytes | int]  # ("write", data), ("truncate", length), ("sync", 0)


@dataclass
class RecordingFile:
    """One file; `before` is what it held when recording began."""

    before: bytes = b""
    operations: list[Operation] = field(default_factory=list)
    content: bytes = b""
    fails: dict[str, int] = field(default_factory=dict)  # an operation, and the errno with which it fails
    room: int | None = None  # bytes that still fit; a write that does not fit is cut, then refused
    closed: bool = False

    def __post_init__(self) -> None:
        self.content = self.before

    def open(self, _path: Path) -> RecordingFile:
        """What a store takes as its opener."""
        self._do("open")
        return self

    def size(self) -> int:
        return len(self.content)

    def write(self, data: memoryview) -> int:
        self._do("write")
        taken = bytes(data) if self.room is None else bytes(data)[: self.room]
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.room is not None:
            self.room -= len(taken)
        self.content += taken
        self.operations.append(("write", taken))
        return len(taken)

    def sync(self) -> None:
        self._do("sync")
        self.operations.append(("sync", 0))

    def truncate(self, length: int) -> None:
        self._do("truncate")
        self.content = self.content[:length]
        self.operations.append(("truncate", length))

    def close(self) -> None:
        self.closed = True

    def _do(self, operation: str) -> None:
        if (code := self.fails.get(operation)) is not None:
            import os

            raise OSError(code, os.strerror(code))


def crashes(file: RecordingFile) -> Iterator[tuple[int, bytes]]:
    """What may be on disk after a crash: how many operations had ended, and the content.

    What was synced is there, and of what was done since then any first part. Writes are cut at line ends, beside
    them, and in the middle of lines.
    """
    synced = content = file.before
    for number, (kind, value) in enumerate(file.operations):
        if kind == "sync":
            synced = content
        elif isinstance(value, int):
            content = content[:value]
        else:
            for cut in _cuts(value):
                yield number, content + value[:cut]
            content += value
        yield number + 1, content
        if synced != content:
            yield number + 1, synced
    yield len(file.operations), content


def _cuts(data: bytes) -> list[int]:
    cuts, start = {0, 1, len(data) - 1}, 0
    while (end := data.find(b"\n", start)) >= 0:
        cuts |= {(start + end) // 2, end, end + 1}
        start = end + 1
    return sorted(cut for cut in cuts if 0 <= cut < len(data))
