"""Think tags: reasoning that a server leaves in the text, between `<think>` and `</think>` at its start.

Rules: only a tag at the very start opens; what may still become a tag is held back and nothing else is; the same
text gives the same parts however it is cut into deltas.
Source: https://github.com/QwenLM/qwen-code/issues/3411, https://github.com/sgl-project/sglang/issues/8099.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

OPEN, CLOSE, EMPTY = "<think>", "</think>", "<think/>"
# A template may have opened the tag in the prompt: then the answer only closes it, on a line of its own.
LONE_CLOSE = f"\n{CLOSE}"

Part = tuple[Literal["text", "reasoning", "retype"], str]


class ThinkSplitter:
    """Splits one text; `retype` says that all text so far was reasoning."""

    def __init__(self) -> None:
        self._state: Literal["start", "reasoning", "text", "after", "over"] = "start"
        self._held = ""

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
                    before, text, found = self._until(LONE_CLOSE, text)
                    if before:
                        yield "text", before
                    if found:
                        yield "retype", ""
                case "after":  # the lines between the thinking and the answer belong to neither
                    text = text.lstrip("\r\n")
                    self._state = "over" if text else "after"
                case "over":
                    yield "text", text
                    text = ""

    def flush(self) -> Iterator[Part]:
        """End the text."""
        held, self._held = self._held, ""
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
        if OPEN.startswith(bare) or EMPTY.startswith(bare):
            self._held = text
            return ""
        self._state = "text"
        return text

    def _until(self, tag: str, text: str) -> tuple[str, str, bool]:
        """What stands before a tag and after it, and whether it is there; what may begin it is held back."""
        at = text.find(tag)
        if at >= 0:
            self._state = "after"
            return text[:at], text[at + len(tag) :], True
        keep = next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-size:])), 0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], "", False
