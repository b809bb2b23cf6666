"""Assembly: the chunks of one model call become the blocks of its message.

Rules: blocks stand in the order in which their indexes were first seen; the first `BlockEnd` of an index is
authoritative and what comes later for it is ignored. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from dsh_lsp.messages import (
    AssistantBlock,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
)

# After these the calls may be cut short or withdrawn: nobody may run them.
_CALLS_ARE_VOID = frozenset({"max-tokens", "refusal"})


@dataclass(slots=True)
class _Open:
    """One block while it grows; `closed` is what its `BlockEnd` said."""

    kind: Literal["text", "reasoning", "tool-call"]
    pieces: list[str] = field(default_factory=list)
    call_id: str = ""
    call_name: str = ""
    closed: AssistantBlock | None = None

    def block(self, index: int) -> AssistantBlock:
        if self.closed is not None:
            return self.closed
        text = "".join(self.pieces)
        match self.kind:
            case "text":
                return TextBlock(text=text)
            case "reasoning":
                return ReasoningBlock(text=text)
            case "tool-call":
                return ToolCallBlock(id=self.call_id or f"call-{index}", name=self.call_name, arguments=text or "{}")


class BlockAssembler:
    """Collects one stream; may be asked for its blocks at any time."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._finish: Finish | None = None
        self._usage: TokenUsage | None = None

    @property
    def finish(self) -> Finish | None:
        """The end of the stream, once it has come."""
        return self._finish

    @property
    def usage(self) -> TokenUsage | None:
        """What the call cost, if the provider has said so."""
        return self._usage

    def push(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        match chunk:
            case BlockStart(index=index, block_type=kind):
                self._open.setdefault(index, _Open(kind))
            case TextDelta(index=index, text=text):
                self._add(index, "text", text)
            case ReasoningDelta(index=index, text=text):
                self._add(index, "reasoning", text)
            case ToolCallDelta(index=index, arguments_delta=text):
                block = self._add(index, "tool-call", text)
                block.call_id = block.call_id or chunk.id
                block.call_name = chunk.name or block.call_name
            case BlockEnd(index=index, block=ended):
                block = self._open.setdefault(index, _Open(ended.type))
                block.closed = block.closed or _named(ended, index)
            case UsageChunk(usage=usage):
                self._usage = usage
            case Finish():
                self._finish = chunk

    def blocks(self) -> tuple[AssistantBlock, ...]:
        """Give the blocks of the message; without tool calls if the answer was cut short or refused."""
        blocks = _with_own_ids(block.block(index) for index, block in self._open.items())
        if self._finish is None or self._finish.reason not in _CALLS_ARE_VOID:
            return blocks
        return tuple(block for block in blocks if not isinstance(block, ToolCallBlock))

    def interrupted_blocks(self) -> tuple[AssistantBlock, ...]:
        """Give what is worth keeping of a stream that was torn: visible text and reasoning."""
        return tuple(
            block
            for block in (open_block.block(index) for index, open_block in self._open.items())
            if not isinstance(block, ToolCallBlock) and block.text.strip()
        )

    def _add(self, index: int, kind: Literal["text", "reasoning", "tool-call"], text: str) -> _Open:
        block = self._open.setdefault(index, _Open(kind))
        block.pieces.append(text)
        return block


def _with_own_ids(blocks: Iterable[AssistantBlock]) -> tuple[AssistantBlock, ...]:
    """The blocks with an id of its own for each call: a result answers by id, and two calls must not share one."""
    taken: set[str] = set()
    own: list[AssistantBlock] = []
    for block in blocks:
        if isinstance(block, ToolCallBlock):
            number, call_id = 1, block.id
            while call_id in taken:
                number += 1
                call_id = f"{block.id}-{number}"
            taken.add(call_id)
            block = replace(block, id=call_id)  # noqa: PLW2901 - the same block under its own name
        own.append(block)
    return tuple(own)


def _named(block: AssistantBlock, index: int) -> AssistantBlock:
    if isinstance(block, ToolCallBlock) and not block.id:
        return ToolCallBlock(id=f"call-{index}", name=block.name, arguments=block.arguments)
    return block
