"""Streams, L061 to L074: one model call as it arrives, fails, is tried again or cut short, and what it was told."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.agent.hooks import Retry
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.agent.snapshot import CLEARED, SOURCE
from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.llm.scripted import call, fail, hold, say, think
from dsh_lsp.messages import (
    BlockEnd,
    BlockStart,
    Finish,
    PluginSource,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
    UserMessage,
    UserSource,
)
from tests.support.headless import Add, headless
from tests.support.loop import RAW, Acts, RawAdapter, Refuse, ends, settled, texts, until


async def again(failed, call_next):
    return Retry()


def recovery_of(h) -> list[str]:
    """The failures that recovery is asked about."""
    asked: list[str] = []

    async def note(failed, call_next):
        asked.append(failed.failure.code)
        return await call_next(failed)

    h.agent.hooks.request_error.listen(note)
    return asked


async def cancel_after(h, chunks: int) -> None:
    """Ask, and cancel once so many chunks have come."""
    h.agent.followup(h.say("a"))
    await until(lambda: len(h.of("assistant/chunk")) >= chunks)
    await settled()
    h.agent.cancel(USER)
    await h.idle()


async def test_l061_a_refused_chunk_is_an_error_turn_that_nobody_recovers() -> None:
    async with headless([say("hello you")], checks=[Refuse("assistant/chunk")]) as h:
        asked = recovery_of(h)
        await h.ask("a")
        assert ends(h.log) == ["error"]
        assert not asked
        assert not h.of("assistant/message")
        assert h.of("assistant/attempt")[0].data.chunks is None


@pytest.mark.parametrize(
    ("error", "code"),
    [(RuntimeError("bug"), "UNKNOWN"), (LlmError(LlmFailure(message="m", code="QUOTA", status=402)), "QUOTA")],
    ids=["a bug", "an LlmError"],
)
async def test_l062_a_stream_listener_that_raises_ends_the_turn_without_recovery(error, code) -> None:
    async with headless([say("ok")]) as h:
        asked = recovery_of(h)

        async def breaks(request, call_next):
            raise error

        h.agent.hooks.llm_stream.listen(breaks)
        await h.ask("a")
        failure = h.of("turn/end")[0].data.reason.error
        assert failure.code == code
        if isinstance(error, LlmError):
            assert failure == error.failure
        assert not asked


async def test_l063_a_retry_is_a_second_request_of_the_same_step() -> None:
    async with headless([say("lost words") + fail("SERVER"), say("kept")]) as h:
        h.agent.hooks.request_error.listen(again)
        await h.ask("a")
        assert (h.types.count("step/start"), h.types.count("user/message"), len(h.model.requests)) == (1, 1, 2)
        attempt, answer = h.of("assistant/attempt")[0], h.of("assistant/message")[0]
        own = [event.seq for event in h.of("assistant/chunk") if event.seq > attempt.seq]
        assert answer.sources == ((own[0], own[-1]),)
        assert texts(h.log.derive_messages()) == ["a", "kept"]
        assert texts(h.model.requests[1].messages) == ["a"]


async def test_l064_an_unanswered_failure_is_the_turns_and_leaves_an_attempt() -> None:
    failure = LlmFailure(
        message="slow down", code="RATE_LIMIT", status=429, provider_retry_after_ms=5, request_id="r"
    )
    async with headless([say("x y") + fail(failure)]) as h:
        await h.ask("a")
        assert h.of("turn/end")[0].data.reason.error == failure
        attempt = h.of("assistant/attempt")[0].data
        chunks = [event.seq for event in h.of("assistant/chunk")]
        assert (attempt.attempt, attempt.failure, attempt.chunks) == (1, failure, (chunks[0], chunks[-1]))
        assert not h.of("assistant/message")


async def test_l065_a_provider_that_aborts_by_itself_is_an_error() -> None:
    failure = LlmFailure(message="gone", code="ABORTED")
    async with headless([], adapters=[RawAdapter([Finish(reason="aborted", failure=failure)])], **RAW) as h:
        await h.ask("a")
        assert ends(h.log) == ["error"]
        assert h.of("turn/end")[0].data.reason.error.code == "ABORTED"


async def test_l066_a_cancel_wins_over_a_retry() -> None:
    async with headless([say("lost") + fail("SERVER"), say("never")]) as h:

        async def cancelled_retry(failed, call_next):
            assert h.types[-1] == "assistant/attempt"
            h.agent.cancel(USER)
            return Retry()

        drafts = []

        async def note(draft, call_next):
            drafts.append(draft)
            return await call_next(draft)

        h.agent.hooks.request_error.listen(cancelled_retry)
        h.agent.hooks.request.listen(note)
        await h.ask("a")
        assert ends(h.log) == ["aborted"]
        assert len(drafts) == 1
        assert len(h.model.requests) == 1
        assert not h.of("assistant/message")


async def test_l067_a_recovery_that_raises_is_an_error_turn() -> None:
    async with headless([fail("SERVER"), say("never")]) as h:

        async def breaks(failed, call_next):
            raise RuntimeError("recovery bug")

        h.agent.hooks.request_error.listen(breaks)
        await h.ask("a")
        assert ends(h.log) == ["error"]
        assert "recovery bug" in h.of("turn/end")[0].data.reason.error.message
        assert len(h.model.requests) == 1


async def test_l068_a_cancel_in_mid_text_keeps_what_was_read() -> None:
    usage = TokenUsage(input_tokens=3, output_tokens=1)
    torn = [TextDelta(index=0, text="Once "), UsageChunk(usage=usage), anyio.Event(), TextDelta(index=0, text="upon")]
    adapter = RawAdapter(torn)
    async with headless([], adapters=[adapter], **RAW) as h:
        await cancel_after(h, 2)
        kept = h.of("assistant/message")[0].data
        assert (kept.message.text, kept.interrupted, kept.usage) == ("Once ", True, usage)
        assert h.types[-3:] == ["assistant/message", "step/end", "turn/end"]
        assert ends(h.log) == ["aborted"]
        await h.ask("b")
        assert texts(adapter.requests[1].messages) == ["a", "Once ", "b"]


@pytest.mark.parametrize(
    ("reply", "kept"),
    [(think("hm hm"), "hm hm"), (think("  ") + say(" \n"), None), (say(""), None)],
    ids=["reasoning", "whitespace", "nothing"],
)
async def test_l069_a_cancel_before_any_text_keeps_reasoning_and_no_blank(reply, kept) -> None:
    async with headless([reply + hold(anyio.Event())]) as h:
        await cancel_after(h, 1)
        if kept is None:
            assert not h.of("assistant/message")
            assert h.of("assistant/attempt")[0].data.failure is None
        else:
            assert [block.text for block in h.of("assistant/message")[0].data.message.content] == [kept]
            assert not h.of("assistant/attempt")
        assert ends(h.log) == ["aborted"]


async def test_l070_a_cancel_in_a_tool_call_keeps_the_text_and_drops_the_call() -> None:
    async with headless([say("Let me add.") + call("add", a=1, b=2) + hold(anyio.Event())], tools=[Add()]) as h:
        await cancel_after(h, 6)
        assert h.of("assistant/message")[0].data.message.content == (TextBlock(text="Let me add."),)
        assert not h.of("tool/call", "tool/result")


async def test_l071_the_message_is_assembled_by_the_first_end_of_each_block() -> None:
    chunks = [
        TextDelta(index=4, text="only "),
        TextDelta(index=4, text="deltas"),
        BlockStart(index=1, block_type="text"),
        BlockEnd(index=1, block=TextBlock(text="whole")),
        BlockEnd(index=1, block=TextBlock(text="second end")),
        TextDelta(index=1, text="late"),
        ToolCallDelta(index=7, id="", name="acts", arguments_delta="{}"),
        Finish(reason="tool-calls"),
    ]
    async with headless([], tools=[Acts(lambda execution: None)], adapters=[RawAdapter(chunks)], **RAW) as h:
        await h.ask("a")
        assert h.of("assistant/message")[0].data.message.content == (
            TextBlock(text="only deltas"),
            TextBlock(text="whole"),
            ToolCallBlock(id="call-7", name="acts", arguments="{}"),
        )
        assert h.of("tool/result")[0].data.message.source.call_id == "call-7"


def snapshots(h) -> list[str]:
    return [
        event.data.text.split("\n\n")[-1]
        for event in h.of("user/message")
        if isinstance(event.data.source, PluginSource) and event.data.source.plugin == SOURCE
    ]


async def test_l072_the_runtime_context_is_told_when_it_changes_and_at_the_tail() -> None:
    facts: dict[str, str | None] = {"open": None}
    async with headless([say("ok")] * 7) as h:
        h.agent.context.register("open", 0, lambda: facts["open"])
        await h.ask("nothing yet")
        assert snapshots(h) == []
        facts["open"] = "a.py"
        await h.ask("one")
        assert texts(h.model.requests[-1].messages)[-2] == "one"
        await h.ask("unchanged")
        facts["open"] = "b.py"
        await h.ask("changed")
        assert snapshots(h) == ["a.py", "b.py"]
        facts["open"] = None
        await h.ask("empty")
        await h.ask("still empty")
        assert snapshots(h) == ["a.py", "b.py", CLEARED]
        assert h.types.count("request/header") == 1


async def test_l072_a_context_that_was_compacted_away_or_cannot_be_read_is_told_again() -> None:
    async with headless([say("ok")] * 3) as h:
        h.agent.context.register("open", 0, lambda: "a.py")
        await h.ask("one")
        nodes = [event.seq for event in h.log.surface.nodes()]
        summary = UserMessage(id="sum", content=(TextBlock(text="summary"),), source=UserSource())
        span = (nodes[0], nodes[-1])
        h.log.append(summary, sources=(span,), replaces=span)
        await h.ask("two")
        assert snapshots(h) == ["a.py", "a.py"]
        two_blocks = (TextBlock(text="x"), TextBlock(text="y"))
        h.log.append(UserMessage(id="odd", content=two_blocks, source=PluginSource(plugin=SOURCE)))
        await h.ask("three")
        assert snapshots(h)[-1] == "a.py"
        assert len(snapshots(h)) == 4


async def test_l073_the_system_text_is_its_sections_in_order_with_variables_filled_in() -> None:
    prompt = SystemPrompt()
    prompt.register(Section(name="guidance", order=100, text="Use tools."))
    prompt.register(Section(name="persona", order=0, text="Work in {{cwd}}."))
    prompt.register(Section(name="identity", order=-100, text="You are {{model}} of {{provider}}."))
    prompt.register(Section(name="nothing", order=50, text=" \n"))
    async with headless([say("ok")], prompt=prompt) as h:
        await h.ask("a")
        assert h.model.requests[0].system == "You are script of scripted.\n\nWork in /w.\n\nUse tools."
    async with headless([say("ok")], prompt=SystemPrompt()) as h:
        await h.ask("a")
        assert h.model.requests[0].system is None
        assert h.of("request/header")[0].data.header.system is None


@pytest.mark.parametrize(
    ("order", "names"),
    [(None, ["add", "b", "c"]), (("c", "<unlisted-tools>"), ["c", "add", "b"]), (("b", "b"), ["b", "add", "c"])],
    ids=["by name", "as told", "named twice, the rest last"],
)
async def test_l074_tools_stand_in_one_order_however_they_were_registered(order, names) -> None:
    tools = [Acts(lambda execution: None, "c"), Add(), Acts(lambda execution: None, "b")]
    async with headless([say("ok")], tools=tools, tool_order=order) as h:
        await h.ask("a")
        assert [tool.name for tool in h.of("request/header")[0].data.header.tools] == names
        assert [tool.name for tool in h.model.requests[0].tools] == names
