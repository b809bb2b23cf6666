from __future__ import annotations

import pytest

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.assemble import BlockAssembler
from dsh_lsp.messages import (
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

CALL = ToolCallBlock(id="a", name="f", arguments="{}")


def assembled(*chunks: Chunk) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.push(chunk)
    return assembler


def test_blocks_stand_in_the_order_in_which_their_indexes_came() -> None:
    assembler = assembled(
        BlockStart(index=5, block_type="reasoning"),
        TextDelta(index=1, text="b"),
        ReasoningDelta(index=5, text="a"),
    )
    assert assembler.blocks() == (ReasoningBlock(text="a"), TextBlock(text="b"))


def test_the_first_end_is_authoritative_over_deltas_and_later_ends() -> None:
    assembler = assembled(
        TextDelta(index=0, text="x"),
        BlockEnd(index=0, block=TextBlock(text="whole")),
        TextDelta(index=0, text="late"),
        BlockEnd(index=0, block=TextBlock(text="second")),
        BlockStart(index=0, block_type="tool-call"),
    )
    assert assembler.blocks() == (TextBlock(text="whole"),)


def test_deltas_alone_make_a_block_and_a_call_without_id_gets_one() -> None:
    assembler = assembled(
        ToolCallDelta(index=2, id="", name="f", arguments_delta='{"x"'),
        ToolCallDelta(index=2, id="", arguments_delta=":1}"),
        BlockEnd(index=3, block=ToolCallBlock(id="", name="g", arguments="{}")),
    )
    assert assembler.blocks() == (
        ToolCallBlock(id="call-2", name="f", arguments='{"x":1}'),
        ToolCallBlock(id="call-3", name="g", arguments="{}"),
    )


@pytest.mark.parametrize("reason", ["max-tokens", "refusal"])
def test_calls_of_an_answer_cut_short_or_refused_are_dropped(reason: str) -> None:
    ended = (BlockEnd(index=0, block=TextBlock(text="x")), BlockEnd(index=1, block=CALL))
    assembler = assembled(*ended, Finish(reason=reason))  # type: ignore[arg-type]
    assert assembler.blocks() == (TextBlock(text="x"),)
    assert assembled(*ended, Finish(reason="tool-calls")).blocks() == (TextBlock(text="x"), CALL)
    assert assembled(*ended).blocks() == (TextBlock(text="x"), CALL)


def test_of_a_torn_stream_only_visible_text_and_reasoning_are_kept() -> None:
    assembler = assembled(
        ReasoningDelta(index=0, text=" \n"),
        BlockEnd(index=1, block=TextBlock(text="shown")),
        BlockEnd(index=2, block=CALL),
        ReasoningDelta(index=3, text="why"),
    )
    assert assembler.interrupted_blocks() == (TextBlock(text="shown"), ReasoningBlock(text="why"))


def test_usage_and_finish_are_kept() -> None:
    usage = TokenUsage(input_tokens=1, output_tokens=2)
    finish = Finish(reason="error", failure=LlmFailure(message="m", code="X"))
    assembler = assembled(UsageChunk(usage=usage), finish)
    assert (assembler.usage, assembler.finish) == (usage, finish)
    assert (BlockAssembler().usage, BlockAssembler().finish) == (None, None)


def test_two_calls_of_one_answer_never_share_an_id() -> None:
    assembler = BlockAssembler()
    for index in range(3):
        call = ToolCallBlock(id="same", name="f", arguments="{}")
        assembler.push(BlockEnd(index=index, block=call))
    assert [block.id for block in assembler.blocks()] == ["same", "same-2", "same-3"]
