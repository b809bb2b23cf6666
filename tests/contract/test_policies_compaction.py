"""Policies: how a session stays within its model's context window, and what it never loses by that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.errors import LlmFailure, SessionError
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.meter import price_of, price_of_text
from dsh_lsp.llm.scripted import Reply, ScriptedAdapter, call, fail, finish_as, hold, say, think
from dsh_lsp.messages import AssistantMessage, ToolResultBlock, UserMessage
from dsh_lsp.plugins import compaction, retry
from dsh_lsp.plugins.compaction import Compactor, Outcome
from dsh_lsp.plugins.shortening import Settings
from dsh_lsp.plugins.summary import INSTRUCTION
from dsh_lsp.wire import dumps, encode
from tests.support.headless_tools import Does, with_plugins
from tests.support.loop import ends, settled, texts, until

WINDOW = 4_000
QUICK = retry.Settings(first_seconds=0.001, max_seconds=0.001)
LIMITS = Settings(summary_tokens=300, prune_above_chars=400, prune_head_chars=200, prune_tail_chars=50)
OVERFLOW = LlmFailure(message="too long", code="CONTEXT_WINDOW_EXCEEDED", status=400)


def tokens_of(request: ModelRequest) -> int:
    """The meter's own estimate of a whole request, anew."""
    tools = sum(price_of_text(dumps(encode(tool))) for tool in request.tools)
    return price_of_text(request.system or "") + tools + sum(map(price_of, request.messages))


@dataclass
class FakeModel:
    """A model that works, step by step, and summarizes when it is asked; `summary` is what it then says."""

    work: Callable[[int], Reply]
    summary: Any = field(default_factory=lambda: say("SUMMARY"))
    window: int = WINDOW
    requests: list[ModelRequest] = field(default_factory=list)
    summarized: list[ModelRequest] = field(default_factory=list)

    def __call__(self, request: ModelRequest) -> Reply:
        if request.messages[-1].text == INSTRUCTION:
            self.summarized.append(request)
            return self.summary(request) if callable(self.summary) else self.summary
        self.requests.append(request)
        return self.work(len(self.requests))


@asynccontextmanager
async def working(model: FakeModel, *, settings: Settings = LIMITS, tool: Does | None = None, **more: Any):
    adapter = ScriptedAdapter(default=model, provider="small", context_window=model.window)
    plugins = ((retry, QUICK), (compaction, settings))
    async with with_plugins(
        [], *plugins, adapters=[adapter], provider="small", model="m", tools=[tool or reads(600)], **more
    ) as w:
        yield w


def reads(chars: int) -> Does:
    """A tool with a result of so many characters."""
    return Does("reads", lambda execution: f"{execution.call_id} " + "x" * chars)


def steps(count: int) -> Callable[[int], Reply]:
    """Work that calls the tool so many times, then answers."""
    return lambda number: call("reads", id=f"c{number}", n=number) if number <= count else say("done")


def assert_whole(request: ModelRequest) -> None:
    """Every call in a request has its result right after it."""
    waiting: list[str] = []
    for message in request.messages:
        match message:
            case AssistantMessage():
                assert not waiting
                waiting = [block.id for block in message.tool_calls]
            case UserMessage():
                for block in message.content:
                    if isinstance(block, ToolResultBlock):
                        waiting.remove(block.tool_call_id)
    assert not waiting


# -- pressure --------------------------------------------------------------------------------------------------


async def test_a_session_of_five_hundred_steps_never_exceeds_the_window_and_keeps_its_task() -> None:
    model = FakeModel(steps(500))
    async with working(model) as w:
        w.h.agent.followup(w.h.say("Rename parse to read in every file, and leave the tests alone."))
        with anyio.fail_after(50):
            await w.h.agent.when_idle()
        assert ends(w.h.log) == ["completed"]
        assert len(model.requests) == 501
        assert max(map(tokens_of, model.requests)) <= WINDOW
        for request in model.summarized:
            assert tokens_of(request) <= request.prompt_tokens
            assert request.prompt_tokens + (request.config.max_tokens or 0) <= WINDOW
        for request in model.requests:
            assert any("leave the tests alone" in message.text for message in request.messages)
            assert_whole(request)
        for request in model.summarized:
            assert_whole(request)
        assert 5 < len(w.h.of("compaction/summary")) < 120
        assert all(event.data.error is None for event in w.h.of("compaction/end"))


async def test_long_results_lose_their_middle_first_and_that_may_be_enough() -> None:
    model = FakeModel(steps(3))
    async with working(model, tool=reads(4_000)) as w:
        await w.h.ask("go")
        assert w.h.of("compaction/prune")
        assert not w.h.of("compaction/start")
        first = w.h.of("compaction/prune")[0]
        rewrite = w.h.log[first.seq + 1]
        assert rewrite.type == "tool/result"
        assert rewrite.replaces == first.data.shadowed_seqs[0]
        text = rewrite.data.message.text
        assert text.startswith("c1 xxx")
        assert "tool result middle pruned" in text
        assert len(text) < 400
        newest = [message for message in model.requests[-1].messages if isinstance(message, UserMessage)][-1]
        assert len(newest.text) > 4_000, "what the model has not read yet stays whole"


async def test_a_summary_takes_the_place_of_the_head_and_the_tail_stays_word_for_word() -> None:
    model = FakeModel(steps(30))
    async with working(model) as w:
        await w.h.ask("the task")
        tags = [event.type for event in w.h.log]
        start = tags.index("compaction/start")
        assert tags[start : start + 4] == ["compaction/start", "compaction/summary", "user/message", "compaction/end"]
        summary, message, end = (w.h.log[start + offset] for offset in (1, 2, 3))
        assert summary.data.summary == "SUMMARY"
        assert message.replaces is not None
        assert message.sources == summary.data.shadowed_seqs
        assert "<compacted-summary>\nSUMMARY\n</compacted-summary>" in message.data.text
        assert "<open-task>\nthe task\n</open-task>" in message.data.text
        assert end.data.tokens_after < end.data.tokens_before
        after = next(request for request in model.requests if message.data in request.messages)
        assert after.messages[0] == message.data
        assert sum(map(price_of, after.messages[1:])) >= 0.16 * WINDOW
        header = next(event for event in w.h.log[message.seq :] if event.type == "request/header")
        assert header.data.starts_series, "the provider's cache begins anew, and the log says so"


async def test_a_summarizer_reads_the_conversation_as_it_was_sent() -> None:
    model = FakeModel(steps(30))
    async with working(model) as w:
        await w.h.ask("the task")
        asked, before = model.summarized[0], model.requests[-1]
        assert (asked.system, asked.tools) == (before.system, before.tools)
        assert asked.config.max_tokens == LIMITS.summary_tokens
        sent = next(r for r in model.requests if r.messages[: len(asked.messages) - 1] == asked.messages[:-1])
        assert sent is not None


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (say("你" * 5_000), "NOT_SMALLER"),
        (say(" \n"), "EMPTY_SUMMARY"),
        (think("hm"), "EMPTY_SUMMARY"),
        (say("half a") + finish_as("max-tokens"), "SUMMARY_CUT"),
        (say("no") + finish_as("refusal"), "SUMMARY_CUT"),
        (say("lost") + fail("SERVER"), "SERVER"),
    ],
    ids=["not smaller", "blank", "only reasoning", "cut", "refused", "failed"],
)
async def test_a_summary_that_is_none_leaves_the_surface_as_it_was_and_the_turn_goes_on(
    summary, code, caplog
) -> None:
    model = FakeModel(steps(30), summary=summary)
    with caplog.at_level(logging.WARNING):
        async with working(model) as w:
            await w.h.ask("the task")
            assert ends(w.h.log) == ["completed"]
            failed = w.h.of("compaction/end")
            assert failed
            assert {event.data.error.code for event in failed} == {code}
            assert len(failed) < 12, "it is not asked for at every step"
            assert not w.h.of("compaction/summary")
            assert texts(model.requests[-1].messages)[0] == "the task"
            assert len(model.requests[-1].messages) == 61
    assert "no room could be made" in caplog.text


async def test_a_cancel_in_a_summary_ends_the_turn_and_changes_nothing() -> None:
    gate = anyio.Event()
    model = FakeModel(steps(30), summary=say("never") + hold(gate))
    async with working(model) as w:
        w.h.agent.followup(w.h.say("go"))
        await until(lambda: model.summarized)
        await settled()
        w.h.agent.cancel(USER)
        await w.h.idle()
        assert ends(w.h.log) == ["aborted"]
        assert w.h.of("compaction/end")[-1].data.error.code == "CANCELLED"
        assert not w.h.of("compaction/summary")


async def test_a_model_whose_window_nobody_knows_is_told_of_once(caplog) -> None:
    model = FakeModel(steps(5), window=None)
    with caplog.at_level(logging.WARNING):
        async with working(model) as w:
            await w.h.ask("go")
            assert not w.h.of("compaction/start")
    assert caplog.text.count("model.contextWindow") == 1


async def test_without_auto_nothing_is_done() -> None:
    model = FakeModel(steps(30))
    async with working(model, settings=Settings(auto=False)) as w:
        await w.h.ask("go")
        assert not w.h.of("compaction/start", "compaction/prune")


async def test_what_the_model_was_told_of_its_surroundings_is_told_again_with_the_summary() -> None:
    model = FakeModel(steps(30))
    async with working(model) as w:
        w.h.agent.context.register("open", 0, lambda: "a.py is open")
        await w.h.ask("the task")
        assert w.h.of("compaction/summary")
        for request in model.requests:
            assert sum("a.py is open" in message.text for message in request.messages) == 1


# -- overflow --------------------------------------------------------------------------------------------------


def refusing(at: int, *replies: Reply) -> Callable[[int], Reply]:
    """Work that is refused from one step on by these replies, then done."""
    rest: Iterator[Reply] = iter(replies)
    return lambda number: call("reads", id=f"c{number}") if number < at else next(rest, say("done"))


async def test_a_refusal_is_answered_by_one_compaction_and_one_retry_in_the_same_step() -> None:
    model = FakeModel(refusing(4, fail(OVERFLOW)))
    async with working(model) as w:
        await w.h.ask("the task")
        assert ends(w.h.log) == ["completed"]
        assert len(w.h.of("compaction/summary")) == 1
        failed, retried = model.requests[-2:]
        assert tokens_of(retried) < tokens_of(failed)
        assert w.h.of("assistant/attempt")[0].data.failure == OVERFLOW
        assert not w.h.of("llm/retry"), "it did not count as a retry"
        assert_whole(retried)


async def test_a_second_refusal_is_the_turns_error_and_says_what_to_do() -> None:
    model = FakeModel(refusing(4, fail(OVERFLOW), fail(OVERFLOW)))
    async with working(model) as w:
        await w.h.ask("the task")
        assert ends(w.h.log) == ["error"]
        assert len(w.h.of("compaction/summary")) == 1
        assert len(model.requests) == 5
        error = w.h.of("turn/end")[0].data.reason.error
        assert error.code == "CONTEXT_WINDOW_EXCEEDED"
        assert "making room did not help: begin a new session" in error.message


async def test_a_refusal_with_nothing_to_give_up_is_the_error_at_once() -> None:
    model = FakeModel(refusing(1, fail(OVERFLOW)))
    async with working(model) as w:
        await w.h.ask("too long already")
        assert len(model.requests) == 1
        assert "nothing left to make room with" in w.h.of("turn/end")[0].data.reason.error.message


async def test_a_summary_that_fails_leaves_what_pruning_gained() -> None:
    model = FakeModel(refusing(3, fail(OVERFLOW)), summary=fail("SERVER"))
    async with working(model, tool=reads(2_000)) as w:
        await w.h.ask("the task")
        assert ends(w.h.log) == ["completed"]
        assert w.h.of("compaction/prune")
        assert w.h.of("compaction/end")[0].data.error.code == "SERVER"


async def test_an_answer_gives_the_next_refusal_its_own_chance() -> None:
    model = FakeModel(refusing(4, fail(OVERFLOW), call("reads", id="d1"), fail(OVERFLOW)))
    async with working(model) as w:
        await w.h.ask("the task")
        assert ends(w.h.log) == ["completed"]
        assert len(w.h.of("compaction/summary")) == 2


async def test_a_prompt_that_fits_is_sent_again_for_less_output_before_anything_is_given_up() -> None:
    told = LlmFailure(message="too long", code="CONTEXT_WINDOW_EXCEEDED", status=400, context_window=3_000)
    model = FakeModel(refusing(2, fail(told)))
    async with working(model) as w:
        await w.h.ask("the task")
        assert ends(w.h.log) == ["completed"]
        assert not w.h.of("compaction/start")
        assert model.requests[-1].messages == model.requests[-2].messages


# -- asked for -------------------------------------------------------------------------------------------------


async def compacted(w: Any) -> Outcome:
    done: list[Outcome] = []
    w.context.get(Compactor).start(done.append)
    await until(lambda: done)
    return done[0]


async def test_a_user_may_ask_for_it_between_turns() -> None:
    model = FakeModel(steps(6), window=100_000)
    async with working(model) as w:
        await w.h.ask("one")
        outcome = await compacted(w)
        assert outcome.ok
        assert outcome.after < outcome.before
        assert w.h.of("compaction/start")[0].data.turn is None
        assert w.h.log.state.turn == 1, "it used no turn"
        await w.h.ask("two")
        assert "SUMMARY" in model.requests[-1].messages[0].text


async def test_what_is_said_meanwhile_waits_and_then_runs() -> None:
    gate = anyio.Event()
    model = FakeModel(steps(6), summary=say("SUMMARY") + hold(gate), window=100_000)
    async with working(model) as w:
        await w.h.ask("one")
        done: list[Outcome] = []
        w.context.get(Compactor).start(done.append)
        await until(lambda: model.summarized)
        w.h.agent.followup(w.h.say("two"))
        await settled()
        assert w.h.types.count("turn/start") == 1
        with pytest.raises(SessionError) as caught:
            w.context.get(Compactor).start(done.append)
        assert caught.value.code == "BUSY"
        gate.set()
        await w.h.idle()
        assert done[0].ok
        assert ends(w.h.log) == ["completed", "completed"]
        assert w.h.types.index("compaction/end") < len(w.h.types) - 1 - w.h.types[::-1].index("turn/start")


async def test_it_may_be_cancelled_and_there_may_be_nothing_to_do() -> None:
    model = FakeModel(steps(6), summary=say("x") + hold(anyio.Event()), window=100_000)
    async with working(model) as w:
        nothing = await compacted(w)
        assert (nothing.ok, nothing.code) == (False, "NOTHING_TO_COMPACT")
        await w.h.ask("one")
        done: list[Outcome] = []
        w.context.get(Compactor).start(done.append)
        await until(lambda: model.summarized)
        await settled()
        w.h.agent.cancel(USER)
        await until(lambda: done)
        assert (done[0].ok, done[0].code) == (False, "CANCELLED")
        assert not w.h.of("compaction/summary")


async def test_a_log_that_cannot_be_written_is_told_and_ends_nothing_else() -> None:
    model = FakeModel(steps(6), window=100_000)
    broken: list[bool] = []

    async def barrier() -> None:
        if broken:
            raise SessionError("the disk is full", code="LOG_NOT_WRITABLE")

    async with working(model, parts={"barrier": barrier}) as w:
        await w.h.ask("one")
        broken.append(True)
        outcome = await compacted(w)
        assert (outcome.ok, outcome.code) == (False, "LOG_NOT_WRITABLE")
        broken.clear()
        await w.h.ask("two")
        assert ends(w.h.log) == ["completed", "completed"]


async def test_it_does_not_begin_while_a_turn_runs() -> None:
    gate = anyio.Event()
    model = FakeModel(lambda number: say("x") + hold(gate))
    async with working(model) as w:
        w.h.agent.followup(w.h.say("one"))
        await until(lambda: model.requests)
        with pytest.raises(SessionError, match="at work"):
            w.context.get(Compactor).start(lambda outcome: None)
        gate.set()
        await w.h.idle()
