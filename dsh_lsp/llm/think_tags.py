"""Think tags: reasoning that a server leaves in the text, between `<think>` and `</think>` at its start.

Rules: only a tag at the very start opens. One that only closes ends a reasoning that began in the prompt, unless the
text speaks of tags: it quotes this one, has opened one before, or stands in a fence. What may still become a tag is
held back and nothing else is; the same text gives the same parts however it is cut into deltas.
Source: https://github.com/QwenLM/qwen-code/issues/3411, https://github.com/sgl-project/sglang/issues/8099.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Literal

OPEN, CLOSE, EMPTY = "<think>", "</think>", "<think/>"
_FENCE = re.compile("(?<!`)```")
_QUOTES = "`'\"()"

Part = tuple[Literal["text", "reasoning", "retype"], str]


class ThinkSplitter:
    """Splits one text; `retype` says that all text so far was reasoning."""

    def __init__(self) -> None:
        self._state: Literal["start", "reasoning", "text", "after", "over"] = "start"
        self._held = ""
        self._tail = ""  # the end of the text so far, and what is known of the rest
        self._fences = 0
        self._opened = False

    @property
    def unclosed(self) -> bool:
        """Whether a tag was opened and never closed."""
        return self._state == "reasoning"

    def push(self, piece: str) -> Iterator[Part]:
        """Take the next piece and give what is sure of it."""
        text, self._held = self._held + piece, ""
        while text:
            match self._state:
                case "start":
                    text = self._open(text)
                case "reasoning":
                    before, text, _ = self._until(CLOSE, text)
                    if before:
                        yield "reasoning", before
                case "text":
                    text = yield from self._until_lone_close(text, over=False)
                case "after":  # the lines between the thinking and the answer belong to neither
                    text = text.lstrip("\r\n")
                    self._state = "over" if text else "after"
                case "over":
                    yield "text", text
                    text = ""

    def flush(self) -> Iterator[Part]:
        """End the text."""
        held, self._held = self._held, ""
        if self._state == "text" and held == CLOSE:
            held = yield from self._until_lone_close(held, over=True)
        if held:
            yield ("reasoning" if self._state == "reasoning" else "text"), held

    def stop(self) -> Iterator[Part]:
        """Look for tags no more: the server has a field for reasoning."""
        yield from self.flush()
        self._state = "over"

    def _open(self, text: str) -> str:
        bare = text.lstrip()
        if bare.startswith(EMPTY):
            self._state = "after"
            return bare[len(EMPTY) :]
        if bare.startswith(OPEN):
            self._state = "reasoning"
            return bare[len(OPEN) :]
        if bare.startswith(CLOSE):
            self._state = "after"
            return bare[len(CLOSE) :]
        if any(tag.startswith(bare) for tag in (OPEN, EMPTY, CLOSE)):
            self._held = text
            return ""
        self._state = "text"
        return text

    def _until_lone_close(self, text: str, *, over: bool) -> Generator[Part, None, str]:
        """Show the text up to a tag that only closes; the rest is what is left to read."""
        before, rest, found = _cut(CLOSE, text)
        if before:
            self._note(before)
            yield "text", before
        if not found:
            self._held = rest
            return ""
        closes = self._closes(rest, over=over)
        if closes is None:
            self._held = CLOSE
            return ""
        if closes:
            self._state = "after"
            yield "retype", ""
        else:
            self._note(CLOSE)
            yield "text", CLOSE
        return rest

    def _closes(self, rest: str, *, over: bool) -> bool | None:
        """Whether a tag between the text so far and `rest` ends a reasoning; None while a letter is missing."""
        if self._opened or self._fences % 2:
            return False
        last = self._tail[-1:]
        if last in {"", "\n"}:
            return True
        if last in _QUOTES:
            return False
        if not rest:
            return not last.isspace() if over else None
        return rest[0] in "\r\n" if last.isspace() else rest[0] not in _QUOTES

    def _note(self, piece: str) -> None:
        """Remember of the text what tells whether it speaks of tags."""
        text, known = self._tail + piece, len(self._tail)
        self._opened |= OPEN in text
        self._fences += sum(found.end() > known for found in _FENCE.finditer(text))
        self._tail = text[-len(OPEN) + 1 :]

    def _until(self, tag: str, text: str) -> tuple[str, str, bool]:
        """What stands before a tag and after it, and whether it is there; what may begin it is held back."""
        before, rest, found = _cut(tag, text)
        if found:
            self._state = "after"
            return before, rest, True
        self._held = rest
        return before, "", False


def _cut(tag: str, text: str) -> tuple[str, str, bool]:
    """What stands before a tag and after it; or, if it is not there, before what may begin it, and that."""
    at = text.find(tag)
    if at >= 0:
        return text[:at], text[at + len(tag) :], True
    keep = next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-size:])), 0)
    return text[: len(text) - keep], text[len(text) - keep :], False
