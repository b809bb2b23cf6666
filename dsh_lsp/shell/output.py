"""Output: what a command printed, its head and its tail, never more than a model can read.

Rules: bounded memory whatever is printed; bytes that are no text are replaced; colours and cursor moves are left out.
"""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES: Final = 16_384
TAIL_BYTES: Final = 16_384
PROGRESS_BYTES: Final = 2_048

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTINUATION: Final = range(0x80, 0xC0)


class Output:
    """The bytes of one command as they come."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take more bytes."""
        self.size += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 4 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    @property
    def text(self) -> str:
        """What was printed, with a notice where something is left out."""
        tail = self._tail[-TAIL_BYTES:]
        left_out = self.size - len(self._head) - len(tail)
        if not left_out:
            return _readable(bytes(self._head + tail))
        head = _readable(bytes(self._head))
        return f"{head}\n[... {left_out} bytes left out ...]\n{_readable(_from_character(bytes(tail)))}"

    @property
    def recent(self) -> str:
        """The last whole lines, to show while it runs."""
        data = bytes((self._tail or self._head)[-PROGRESS_BYTES:])
        if self.size > len(data):
            data = data.partition(b"\n")[2] or _from_character(data)
        return _readable(data)


def _from_character(data: bytes) -> bytes:
    """The bytes from the first that begins a character."""
    start = next((place for place, byte in enumerate(data[:4]) if byte not in _CONTINUATION), 0)
    return data[start:]


def _readable(data: bytes) -> str:
    return (
        _ESCAPES.sub("", data.decode("utf-8", "replace"))
        .replace("\r\n", "\n")
        .replace("\0", "\N{REPLACEMENT CHARACTER}")
    )
