"""Prose: a text block or a reasoning block of an answer while it grows.

Rules: opened by its first character; what leaves here can be encoded as UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from dsh_lsp.llm.surrogates import SurrogateJoiner
from dsh_lsp.messages import BlockEnd, BlockStart, Chunk, ReasoningBlock, ReasoningDelta, TextBlock, TextDelta


class Prose:
    """One block; `kind` may still change, since its end alone counts."""

    def __init__(self, kind: Literal["text", "reasoning"], indexes: Iterator[int]) -> None:
        self.kind = kind
        self._indexes = indexes
        self._joiner = SurrogateJoiner()
        self._pieces: list[str] = []
        self._index = -1

    @property
    def open(self) -> bool:
        """Whether anything stands in it."""
        return bool(self._pieces)

    def push(self, piece: str) -> Iterator[Chunk]:
        """Take the next piece and show what is whole of it."""
        return self._show(self._joiner.push(piece))

    def flush(self) -> Iterator[Chunk]:
        """Show what was held back."""
        return self._show(self._joiner.flush())

    def end(self) -> Iterator[Chunk]:
        """End the block, if there is one."""
        if self.open:
            text = "".join(self._pieces)
            block = TextBlock(text=text) if self.kind == "text" else ReasoningBlock(text=text)
            yield BlockEnd(index=self._index, block=block)

    def _show(self, piece: str) -> Iterator[Chunk]:
        if not piece:
            return
        if not self.open:
            self._index = next(self._indexes)
            yield BlockStart(index=self._index, block_type=self.kind)
        self._pieces.append(piece)
        delta = TextDelta if self.kind == "text" else ReasoningDelta
        yield delta(index=self._index, text=piece)
