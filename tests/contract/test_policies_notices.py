"""Policies: what a model is told of its own answers, and its user of a server that cuts prompts in silence."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from dsh_lsp.llm.scripted import call, finish_as, say, use
from dsh_lsp.messages import Finish, TokenUsage
from dsh_lsp.plugins import notices
from dsh_lsp.plugins.notices import CUT, FORGETS, UNREAD
from tests.support.headless import Add, headless
from tests.support.headless_tools import with_plugins
from tests.support.loop import ends, texts

UNREADABLE = replace(say("<tool_call>{"), finish=Finish(reason="stop", replay_state={"unreadCalls": True}))


async def test_an_answer_that_was_cut_is_told_of_once_before_the_next_prompt() -> None:
    cut = say("Half of") + call("add", a=1, b=2) + finish_as("max-tokens")
    async with with_plugins([cut, say("whole"), say("more")], notices, tools=[Add()]) as w:
        for text in ("one", "two", "three"):
            await w.h.ask(text)
        assert ends(w.h.log) == ["max-tokens", "completed", "completed"]
        assert not w.h.of("tool/call")
        assert texts(w.h.model.requests[1].messages) == ["one", "Half of", CUT, "two"]
        assert texts(w.h.model.requests[2].messages).count(CUT) == 1


def test_an_answer_without_a_call_is_not_said_to_have_had_one() -> None:
    assert "A tool call in it" not in CUT


async def test_it_is_told_in_the_sessions_next_life_too() -> None:
    async with headless([say("Half of") + finish_as("max-tokens")]) as h:
        await h.ask("one")
        events = list(h.log)
    async with with_plugins([say("whole")], notices, events=events) as w:
        await w.h.ask("two")
        assert texts(w.h.model.requests[0].messages) == ["one", "Half of", CUT, "two"]


async def test_a_call_that_could_not_be_read_gives_one_more_step_and_no_endless_loop() -> None:
    async with with_plugins([UNREADABLE, UNREADABLE, UNREADABLE], notices) as w:
        await w.h.ask("one")
        assert len(w.h.model.requests) == 2
        assert texts(w.h.model.requests[1].messages) == ["one", "<tool_call>{", UNREAD]
        await w.h.ask("two")
        assert len(w.h.model.requests) >= 3


@pytest.mark.parametrize(
    ("counted", "warned"), [(1_100, 1), (3_000, 0), (10, 0)], ids=["far fewer", "as many", "none in truth"]
)
async def test_a_server_that_reads_less_than_it_was_sent_is_told_of_once(counted, warned, caplog) -> None:
    reply = say("ok") + use(TokenUsage(input_tokens=counted, output_tokens=1))
    with caplog.at_level(logging.WARNING):
        async with with_plugins([reply, reply, reply], notices) as w:
            await w.h.ask("x" * 10_000)
            await w.h.ask("y")
            await w.h.ask("z")
    assert caplog.text.count("OLLAMA_CONTEXT_LENGTH") == warned
    told = [event.data for event in w.h.of("user/message") if event.data.text == FORGETS]
    assert len(told) == warned, "people see it where they talk to the model"
    assert all("OLLAMA_CONTEXT_LENGTH" in message.source.summary for message in told)


@pytest.mark.parametrize("counted", [TokenUsage(input_tokens=0, output_tokens=9), None], ids=["zero", "nothing"])
async def test_a_server_that_counts_nothing_is_not_said_to_forget(counted, caplog) -> None:
    reply = say("ok") + use(counted) if counted else say("ok")
    with caplog.at_level(logging.WARNING):
        async with with_plugins([reply, reply], notices) as w:
            await w.h.ask("x" * 10_000)
            await w.h.ask("y")
            assert FORGETS not in texts(w.h.model.requests[-1].messages)
    assert "OLLAMA_CONTEXT_LENGTH" not in caplog.text
