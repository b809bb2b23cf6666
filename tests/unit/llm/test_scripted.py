from __future__ import annotations

import asyncio

import anyio
import pytest

from dsh_lsp.abort import USER, Aborted, AbortSignal
from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.assemble import BlockAssembler
from dsh_lsp.llm.scripted import ScriptedAdapter, call, call_text, fail, finish_as, hold, say, think, use
from dsh_lsp.messages import (
    BlockEnd,
    BlockStart,
    CallConfig,
    Chunk,
    Finish,
    ReasoningBlock,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
)

CONFIG = CallConfig(provider="scripted", model="demo")


def request(signal: AbortSignal | None = None) -> ModelRequest:
    return ModelRequest(config=CONFIG, messages=(), session_id="s", signal=signal or AbortSignal())


async def play(adapter: ScriptedAdapter, asked: ModelRequest | None = None) -> BlockAssembler:
    assembler = BlockAssembler()
    async for chunk in adapter.prepare(CONFIG).stream(asked or request()):
        assembler.push(chunk)
    return assembler


def failure_of(assembler: BlockAssembler) -> LlmFailure:
    assert assembler.finish is not None
    assert assembler.finish.failure is not None
    return assembler.finish.failure


async def test_a_reply_is_its_parts_in_order() -> None:
    adapter = ScriptedAdapter([think("hm") + say("I ") + say("look.") + call("read_file", path="a.py", id="x")])
    played = await play(adapter)
    assert played.blocks() == (
        ReasoningBlock(text="hm"),
        TextBlock(text="I look."),
        ToolCallBlock(id="x", name="read_file", arguments='{"path":"a.py"}'),
    )
    assert played.finish == Finish(reason="tool-calls")
    assert played.usage is not None


async def test_text_comes_in_small_pieces_that_make_the_whole() -> None:
    text = " Some  words,\n\nand anextraordinarilylongword. \n"
    chunks: list[Chunk] = [item async for item in ScriptedAdapter([say(text)]).prepare(CONFIG).stream(request())]
    pieces = [item.text for item in chunks if isinstance(item, TextDelta)]
    assert "".join(pieces) == text
    assert len(pieces) > 5
    assert isinstance(chunks[0], BlockStart)
    assert isinstance(chunks[-3], BlockEnd)


async def test_a_reply_may_be_made_from_the_request_and_requests_are_kept() -> None:
    adapter = ScriptedAdapter([lambda asked: say(asked.session_id)])
    asked = request()
    assert (await play(adapter, asked)).blocks() == (TextBlock(text="s"),)
    assert adapter.requests == [asked]


async def test_calls_without_id_get_ids_unique_over_the_script() -> None:
    adapter = ScriptedAdapter([call("f") + call_text("f", "{oops"), call("f")])
    blocks = (*(await play(adapter)).blocks(), *(await play(adapter)).blocks())
    assert len({block.id for block in blocks if isinstance(block, ToolCallBlock)}) == 3


async def test_a_failure_ends_the_reply_with_open_blocks() -> None:
    played = await play(ScriptedAdapter([say("half") + fail("SERVER")]))
    assert failure_of(played).code == "SERVER"
    assert played.interrupted_blocks() == (TextBlock(text="half"),)


async def test_finish_and_usage_may_be_given() -> None:
    usage = TokenUsage(input_tokens=1, output_tokens=2)
    played = await play(ScriptedAdapter([call("f") + finish_as("max-tokens") + use(usage)]))
    assert played.finish == Finish(reason="max-tokens")
    assert played.usage == usage


async def test_after_the_script_comes_the_default_or_a_clear_failure() -> None:
    adapter = ScriptedAdapter([say("one")], default=say("again"))
    assert [(await play(adapter)).blocks()[0].type for _ in range(3)] == ["text"] * 3
    assert failure_of(await play(ScriptedAdapter())).code == "SCRIPT_ENDED"


async def test_a_gate_holds_the_reply_until_it_is_opened() -> None:
    gate = asyncio.Event()
    stream = aiter(ScriptedAdapter([say("a") + hold(gate) + say("b")]).prepare(CONFIG).stream(request()))
    assert isinstance(await anext(stream), BlockStart)
    assert await anext(stream) == TextDelta(index=0, text="a")
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    gate.set()
    assert await waiting == TextDelta(index=0, text="b")
    assert [item.type async for item in stream] == ["block-end", "usage", "finish"]


@pytest.mark.parametrize("delay_s", [0.0, 60.0])
async def test_cancelling_stops_a_hold_and_a_pause(delay_s: float) -> None:
    signal = AbortSignal()
    adapter = ScriptedAdapter([hold(anyio.Event()) + say("never")], delay_s=delay_s)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.sleep, 0.01)
        asyncio.get_running_loop().call_later(0.01, signal.abort, USER)
        with pytest.raises(Aborted):
            await play(adapter, request(signal))
