"""Policies: a session whose model reads less than it has: it asks for less, gives up more, and goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

from dsh_lsp.agent.prompt import Section
from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.adapter import PreparedCall
from dsh_lsp.llm.scripted import Reply, ScriptedAdapter, fail, say
from dsh_lsp.messages import CallConfig
from dsh_lsp.plugins import compaction, retry
from dsh_lsp.plugins.summary import INSTRUCTION
from tests.contract.test_policies_compaction import (
    LIMITS,
    OVERFLOW,
    QUICK,
    FakeModel,
    compacted,
    reads,
    refusing,
    steps,
    tokens_of,
    working,
)
from tests.support import model_server
from tests.support.adapters import ADAPTERS
from tests.support.headless_tools import with_plugins
from tests.support.loop import ends
from tests.support.model_server import FakeModelServer, Request, refusal


def size_of(body: Any) -> int:
    """What the fake server counts: more than the session estimates."""
    return (len(json.dumps(body["messages"])) + len(json.dumps(body.get("tools", [])))) // 4 + 200


def is_summary(body: Any) -> bool:
    return body["messages"][-1]["content"].endswith(INSTRUCTION)


class FakeSmallServer:
    """Answers at length, refuses what does not fit its window in these words, and keeps what it took."""

    def __init__(self, window: int, words: str, *, answer_words: int = 800) -> None:
        self.window, self.words, self.answer_words = window, words, answer_words
        self.taken: list[Any] = []
        self.refused: list[Any] = []

    def __call__(self, request: Request) -> model_server.Reply:
        body, size = request.body, size_of(request.body)
        if size + body["max_tokens"] > self.window:
            self.refused.append(body)
            words = self.words.format(window=self.window, total=size + body["max_tokens"], prompt=size)
            return refusal(400, {"error": {"message": words}})
        self.taken.append(body)
        text = "In short. " if is_summary(body) else "word " * self.answer_words
        return model_server.answer(text, usage=(size, len(text) // 4), delta_chars=5_000)


SUM = "This model's maximum context length is {window} tokens. However, you requested {total} tokens"
PARTS = SUM + " ({prompt} in the messages, the rest in the completion)"
SILENT = "context_length_exceeded"


@pytest.mark.parametrize("words", [SUM, PARTS, SILENT], ids=["sum", "parts", "no numbers"])
async def test_a_session_with_a_small_window_works_for_many_turns(words) -> None:
    model = FakeSmallServer(8_192, words)
    with FakeModelServer(*[model] * 60) as server:
        adapter = ADAPTERS["tags"](server.url, context_window=8_192)
        plugins = ((retry, QUICK), (compaction, None))
        async with with_plugins(
            [], *plugins, adapters=[adapter], provider="openai_compatible", model="m", tools=[reads(10)]
        ) as w:
            w.prompt.register(Section(name="long", order=1, text="Do what is asked for. " * 450))
            for number in range(10):
                await w.h.ask(f"question {number}")
        await adapter.aclose()
    assert ends(w.h.log) == ["completed"] * 10
    assert any(map(is_summary, model.taken)), "more was said than fits"
    assert not any(map(is_summary, model.refused)), "a summarizer is asked for what fits"
    for before, after in zip(model.refused, model.refused[1:], strict=False):
        assert before != after, "the same request is not sent again"
    assert len(model.refused) <= 2


async def test_a_switch_to_a_much_smaller_window_gives_up_as_much_as_it_must() -> None:
    large = FakeSmallServer(200_000, SUM, answer_words=8_000)
    small = FakeSmallServer(9_000, SUM, answer_words=100)
    replies = [lambda r: (large if r.body["model"] == "large" else small)(r)] * 60
    with FakeModelServer(*replies) as server:
        server.documents["/models"] = refusal(
            200, {"data": [{"id": "large", "context_length": 200_000}, {"id": "small", "context_length": 9_000}]}
        )
        adapter = ADAPTERS["tags"](server.url)
        await adapter.models()  # type: ignore[attr-defined]
        plugins = ((retry, QUICK), (compaction, None))
        async with with_plugins([], *plugins, adapters=[adapter], provider="openai_compatible", model="large") as w:
            for number in range(5):
                await w.h.ask(f"question {number}")
            w.h.agent.ledger.select("openai_compatible", "small")
            for number in range(3):
                await w.h.ask(f"and now {number}")
        await adapter.aclose()
    assert ends(w.h.log) == ["completed"] * 8
    assert len([body for body in small.taken if is_summary(body)]) >= 2
    assert not any(map(is_summary, small.refused))


@pytest.mark.parametrize(
    ("words", "asked"),
    [(SUM, 8_000 - 3_200), (PARTS, 8_000 - 3_200), ("requested 7000 tokens", None), (SILENT, 8_000 - 3_750)],
    ids=["sum", "parts", "another sum", "no numbers"],
)
async def test_a_refusal_teaches_what_the_prompt_has_and_less_is_asked_for(words, asked) -> None:
    def refused(request: Request) -> model_server.Reply:
        total = 3_200 + request.body["max_tokens"]
        return refusal(400, {"error": {"message": words.format(window=8_000, total=total, prompt=3_200)}})

    with FakeModelServer(refused, model_server.answer("Fine.")) as server:
        adapter = ADAPTERS["tags"](server.url, context_window=8_000)
        async with with_plugins(
            [], (compaction, None), adapters=[adapter], provider="openai_compatible", model="m"
        ) as w:
            await w.h.ask("x" * 12_000)
        await adapter.aclose()
    if asked is None:
        assert len(server.requests) == 1
        return
    first, second = (request.body["max_tokens"] for request in server.requests)
    assert second <= asked < first
    assert server.requests[0].body["messages"] == server.requests[1].body["messages"]
    assert ends(w.h.log) == ["completed"]


# -- a summarizer that fails -----------------------------------------------------------------------------------


def saying(*replies: Reply) -> Any:
    rest: Iterator[Reply] = iter(replies)
    return lambda request: next(rest, say("SUMMARY"))


@pytest.mark.parametrize("code", ["SERVER", "RATE_LIMIT", "STREAM_CLOSED"])
async def test_a_summarizer_that_fails_for_a_moment_is_asked_again(code) -> None:
    model = FakeModel(refusing(4, fail(OVERFLOW)), summary=saying(fail(code), fail(code)))
    async with working(model) as w:
        await w.h.ask("the task")
        assert ends(w.h.log) == ["completed"]
        assert len(model.summarized) == 3
        assert len(w.h.of("compaction/summary")) == 1
        assert len(w.h.of("compaction/end")) == 1


async def test_a_summarizer_that_goes_on_failing_is_named_in_the_turns_error() -> None:
    model = FakeModel(refusing(4, fail(OVERFLOW)), summary=fail("SERVER", message="the cook is ill"))
    async with working(model, tool=reads(100)) as w:
        await w.h.ask("the task")
        error = w.h.of("turn/end")[0].data.reason.error
        assert error.code == "CONTEXT_WINDOW_EXCEEDED"
        assert "the cook is ill; gave up after 5 retries" in error.message
        assert "nothing left" not in error.message


async def test_a_summarizer_that_is_refused_too_gets_less() -> None:
    model = FakeModel(refusing(30, fail(OVERFLOW)), summary=saying(fail(OVERFLOW), fail(OVERFLOW)), window=None)
    async with working(model, tool=reads(390)) as w:
        await w.h.ask("the task")
        assert ends(w.h.log) == ["completed"]
        sizes = [request.prompt_tokens for request in model.summarized]
        assert sizes == sorted(sizes, reverse=True)
        assert len(set(sizes)) == 3


async def test_one_text_that_is_longer_than_the_window_is_summarized_without_its_middle() -> None:
    told = LlmFailure(message="too long", code="CONTEXT_WINDOW_EXCEEDED", status=400, context_window=3_000)
    replies = iter([say("begin " + "x" * 60_000 + " end"), fail(told), say("done")])
    model = FakeModel(lambda number: next(replies), window=100_000)
    async with working(model) as w:
        await w.h.ask("the task")
        await w.h.ask("go on")
        assert ends(w.h.log) == ["completed", "completed"]
        (asked,) = model.summarized
        assert asked.prompt_tokens + (asked.config.max_tokens or 0) <= 3_000
        assert asked.messages[1].text.startswith("begin x")
        assert asked.messages[1].text.endswith("x end")


class FakeShrinkingModel(ScriptedAdapter):
    """A model whose window becomes smaller between two turns, as after a switch to another."""

    window = 100_000

    def prepare(self, config: CallConfig) -> PreparedCall:
        return replace(super().prepare(config), context_window=self.window)


async def test_what_does_not_fit_at_all_is_given_up_beyond_the_usual_passes() -> None:
    model = FakeModel(steps(60))
    adapter = FakeShrinkingModel(default=model, provider="small")
    plugins = ((retry, QUICK), (compaction, LIMITS))
    async with with_plugins([], *plugins, adapters=[adapter], provider="small", model="m", tools=[reads(600)]) as w:
        await w.h.ask("the task")
        adapter.window = 2_000
        with anyio.fail_after(10):
            await w.h.ask("go on")
        assert len(w.h.of("compaction/summary")) > LIMITS.passes
        assert tokens_of(model.requests[-1]) <= 2_000
        assert all(request.prompt_tokens <= 2_000 for request in model.summarized)


async def test_a_window_that_the_header_fills_leaves_room_for_nothing_and_that_is_said() -> None:
    told = LlmFailure(message="too long", code="CONTEXT_WINDOW_EXCEEDED", status=400, context_window=500)
    model = FakeModel(refusing(4, fail(told)))
    async with working(model, tool=reads(100)) as w:
        w.prompt.register(Section(name="long", order=1, text="Do what is asked for. " * 90))
        await w.h.ask("the task")
        message = w.h.of("turn/end")[0].data.reason.error.message
        assert "the system text and the tools leave no room for a summary" in message
        assert not model.summarized


async def test_one_that_is_asked_for_goes_on_until_the_conversation_fits() -> None:
    model = FakeModel(steps(60))
    adapter = FakeShrinkingModel(default=model, provider="small")
    async with with_plugins(
        [], (compaction, LIMITS), adapters=[adapter], provider="small", model="m", tools=[reads(600)]
    ) as w:
        await w.h.ask("the task")
        adapter.window = 2_000
        outcome = await compacted(w)
        assert outcome.ok
        assert outcome.after <= 2_000
        assert len(w.h.of("compaction/summary")) > 2


async def test_a_model_that_makes_nothing_much_shorter_is_not_asked_for_ever() -> None:
    told = LlmFailure(message="too long", code="CONTEXT_WINDOW_EXCEEDED", status=400, context_window=2_000)
    wordy = FakeModel(refusing(60, fail(told), fail(told)), summary=say("word " * 380), window=100_000)
    async with working(wordy) as w:
        with anyio.fail_after(10):
            await w.h.ask("the task")
        assert len(wordy.summarized) <= 40
        assert ends(w.h.log)[0] in {"completed", "error"}
