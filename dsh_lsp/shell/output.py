"""Output: what a command printed, its head and its tail, never more than a model can read.

Rules: bounded memory whatever is printed; what is no text is replaced; colours and cursor moves are left out;
no cut goes through a key, or what is left of it would not be known for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HEAD_BYTES: Final = 16_384
TAIL_BYTES: Final = 16_384
PROGRESS_BYTES: Final = 2_048

# ECMA-48, with an introducer of one character (C1) or two; one that never ends goes no further than its line.
_ESCAPES: Final = re.compile(
    r"""
      (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?                                  # control sequences: colours, cursor moves
    | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?  # strings: titles, links, images
    | \x1b[ -/]*[0-~]?                                                   # the others: character sets, resets
    """,
    re.VERBOSE,
)
_LINE_ENDS: Final = re.compile(r"\r+\n?")  # alone it would hide what stands before it
_CONTROLS: Final = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f]")
_CONTINUATION: Final = range(0x80, 0xC0)


class Output:
    """The bytes of one command as they come."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.size = 0
        self._keys = [key.encode() for key in keys]
        self._beside = max(map(len, self._keys), default=0)  # how much more is kept, to know a key that is cut
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take more bytes."""
        self.size += len(data)
        room = HEAD_BYTES + self._beside - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 4 * TAIL_BYTES:
            del self._tail[: -TAIL_BYTES - self._beside]

    @property
    def text(self) -> str:
        """What was printed, with a notice where something is left out."""
        if self.size <= HEAD_BYTES + TAIL_BYTES:
            return _readable(bytes(self._head + self._tail))
        head = bytes(self._head[: self._cut(self._head, HEAD_BYTES)[0]])
        end = self._end()
        tail = bytes(end[self._cut(end, len(end) - TAIL_BYTES)[1] :])
        left_out = self.size - len(head) - len(tail)
        return f"{_readable(head)}\n[... {left_out} bytes left out ...]\n{_readable(_from_character(tail))}"

    @property
    def recent(self) -> str:
        """The last whole lines, to show while it runs."""
        end = self._end()
        data = bytes(end[self._cut(end, max(len(end) - PROGRESS_BYTES, 0))[1] :])
        if self.size > len(data):
            data = data.partition(b"\n")[2] or _from_character(data)
        return _readable(data)

    def _end(self) -> bytearray:
        """The last bytes, more of them than are shown."""
        return self._tail if len(self._tail) >= TAIL_BYTES + self._beside else self._head + self._tail

    def _cut(self, data: bytearray, at: int) -> tuple[int, int]:
        """Where to cut instead, to keep what is before, or what is after: beside a key that stands there."""
        before, after = at, at
        for key in self._keys:
            found = data.find(key, max(at - len(key) + 1, 0), at + len(key) - 1)
            if found >= 0:
                before, after = min(before, found), max(after, found + len(key))
        return before, after


def _from_character(data: bytes) -> bytes:
    """The bytes from the first that begins a character."""
    start = next((place for place, byte in enumerate(data[:4]) if byte not in _CONTINUATION), 0)
    return data[start:]


def _readable(data: bytes) -> str:
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", data.decode("utf-8", "replace")))
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
