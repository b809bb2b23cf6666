"""Reading: an answer as an adapter gives it, held against what its wire vector wants."""

from __future__ import annotations

import json
from typing import Any

from dsh_lsp.abort import AbortSignal
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.assemble import BlockAssembler
from dsh_lsp.llm.http_adapter import HttpAdapter
from dsh_lsp.messages import (
    BlockEnd,
    BlockStart,
    CallConfig,
    Chunk,
    Finish,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    UsageChunk,
)
from dsh_lsp.wire import dumps, encode
from tests.support.wire_vectors.vector import TOOLS, Vector


async def collect(adapter: HttpAdapter, signal: AbortSignal | None = None) -> list[Chunk]:
    """Ask for an answer and give all its chunks."""
    prepared = adapter.prepare(CallConfig(provider=adapter.provider, model="deepseek-flash"))
    request = ModelRequest(
        config=prepared.config, messages=(), session_id="s", signal=signal or AbortSignal(), tools=TOOLS
    )
    return [piece async for piece in prepared.stream(request)]


def finish_of(chunks: list[Chunk]) -> Finish:
    finish = chunks[-1]
    assert isinstance(finish, Finish)
    return finish


def assert_obeys_the_contract(chunks: list[Chunk]) -> None:
    assert sum(isinstance(item, Finish) for item in chunks) == 1
    assert sum(isinstance(item, UsageChunk) for item in chunks) <= 1
    started = [item.index for item in chunks if isinstance(item, BlockStart)]
    ended = [item.index for item in chunks if isinstance(item, BlockEnd)]
    assert len(set(started)) == len(started)
    finish = finish_of(chunks)
    assert (finish.failure is not None) == (finish.reason == "error")
    assert sorted(ended) == ([] if finish.reason == "error" else sorted(started))


def assert_reads(vector: Vector, chunks: list[Chunk]) -> None:
    """Hold the chunks of a vector against what it wants."""
    assert_obeys_the_contract(chunks)
    assembler = BlockAssembler()
    for item in chunks:
        assembler.push(item)
    blocks = assembler.blocks()
    finish = finish_of(chunks)
    assert finish.reason == vector.finish
    assert (finish.failure.code if finish.failure else None) == vector.error
    assert "".join(block.text for block in blocks if isinstance(block, TextBlock)) == vector.text
    assert "".join(block.text for block in blocks if isinstance(block, ReasoningBlock)) == vector.reasoning
    if vector.error is None:
        calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
        assert tuple((call.name, arguments_of(call)) for call in calls) == vector.calls
        assert len({call.id for call in calls}) == len(calls)
        assert all(call.id for call in calls)
        written = vector.id.startswith("50") and vector.id != "50-own-form-wins"
        assert all((call.origin == "text") == written for call in calls), "approval must know where a call came from"
    if vector.usage is not None:
        assert assembler.usage is not None
        assert (assembler.usage.input_tokens, assembler.usage.output_tokens) == vector.usage
    for item in chunks:
        dumps(encode(item, Chunk)).encode()  # no half of an emoji is left


def arguments_of(call: ToolCallBlock) -> dict[str, Any] | None:
    try:
        value = json.loads(call.arguments)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
