"""Tracer: what the plugin of that name tells of turns, steps and calls."""

from __future__ import annotations

import logging

import pytest

from dsh_lsp.llm.scripted import call, say
from tests.support.headless import Add
from tests.unit.plugins.hosted import hosted


async def test_the_tracer_tells_turns_steps_calls_and_status(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dsh_lsp.plugin.tracer")
    async with hosted([call("add", id="c1", a=1, b=2), say("three")], "dsh_lsp.plugins.tracer", tools=[Add()]) as h:
        await h.headless.ask("1 + 2?")
    told = [record.getMessage() for record in caplog.records if record.name == "dsh_lsp.plugin.tracer"]
    told = [line.partition(" after ")[0] for line in told]
    assert told == [
        "status running",
        "turn 1 starts",
        "turn 1 step 1 starts",
        "call c1 of add starts",
        "call c1 of add is done",
        "turn 1 step 1 ends",
        "turn 1 step 2 starts",
        "turn 1 step 2 ends",
        "turn 1 ends: completed",
        "status idle",
    ]


async def test_the_tracer_is_as_loud_as_it_is_told_and_hears_failures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dsh_lsp.plugin.tracer")
    entry = {"use": "dsh_lsp.plugins.tracer", "settings": {"level": "debug"}}
    async with hosted([], entry) as h:
        await h.headless.ask("hi")
    told = [record for record in caplog.records if record.name == "dsh_lsp.plugin.tracer"]
    assert {record.levelname for record in told} == {"DEBUG"}
    assert any(record.getMessage().startswith("turn 1 step 1 failed: the script ended") for record in told)
