"""Plugin docs: every block of `docs/writing-a-plugin.md` runs, and its table is the code's."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.hooks import Emit, HookSet, Serial, Waterfall
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugin_host import PluginEntry
from dsh_lsp.plugins import tracer
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import read_settings
from tests.support.headless import Add
from tests.unit.plugins.hosted import hosted, write

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-plugin.md").read_text()
BLOCKS = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def entry(tmp_path: Path):
    """Write a block of the page to a file, and name it as a setting would."""

    def make(block: str, **settings: Any) -> dict[str, Any]:
        return {"use": str(write(tmp_path / block, BLOCKS[block])), "settings": settings or None}

    return make


def test_every_block_is_run_by_a_test_below() -> None:
    assert PAGE.count("```python") == len(BLOCKS)
    tested = Path(__file__).read_text()
    assert [block for block in BLOCKS if f'entry("{block}"' not in tested] == []


def test_the_settings_on_the_page_are_settings() -> None:
    blocks = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        settings, problems = read_settings(Settings, json.loads(block))
        assert not problems
        assert all(isinstance(one, PluginEntry) for one in settings.plugins)


def test_the_tracer_on_the_page_is_the_one_that_ships() -> None:
    assert isinstance(tracer, ModuleType)
    assert BLOCKS["tracer.py"] == Path(tracer.__file__ or "").read_text()


# -- the table -----------------------------------------------------------------------------------------------


def points(hooks: HookSet, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """The name, attribute and mode of each extension point."""
    for attribute, hook in vars(hooks).items():
        match hook:
            case HookSet():
                yield from points(hook, f"{prefix}{attribute}.")
            case Emit() | Serial() | Waterfall():
                yield hook.name, prefix + attribute, type(hook).__name__.lower()


def test_the_table_has_every_extension_point_and_no_other() -> None:
    session_log = SessionLog(SessionHeader(id="s", created_at=0, cwd="/"))
    known = {
        *points(AgentHooks()),
        (session_log.appended.name, "ctx.get(SessionLog).appended", "emit"),
    }
    rows = re.findall(r"^\| `([a-z/-]+)` \| `([\w.()]+)` \| (emit|serial|waterfall) \|", PAGE, re.MULTILINE)
    assert set(rows) == known


# -- the blocks ----------------------------------------------------------------------------------------------


async def test_the_tracer_block_traces(entry, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dsh_lsp.plugin.tracer")
    script = [call("add", a=1, b=2), say("3")]
    async with hosted(script, entry("tracer.py", level="info"), tools=[Add()]) as h:
        await h.headless.ask("1 + 2?")
    assert any("of add is done" in record.getMessage() for record in caplog.records)


async def test_the_gate_blocks_a_turn_before_a_model_sees_it(entry) -> None:
    async with hosted([say("hello")], entry("gate.py", forbidden=["hunter2"])) as h:
        await h.headless.ask("my password is hunter2")
        assert [event.data.reason.kind for event in h.headless.of("turn/end")] == ["blocked"]
        assert h.headless.model.requests == []
        await h.headless.ask("hi")
        assert [event.data.reason.kind for event in h.headless.of("turn/end")] == ["blocked", "completed"]
        assert "hunter2" not in str(h.headless.model.requests)


async def test_the_gate_needs_its_setting(entry) -> None:
    async with hosted([], entry("gate.py")) as h:
        assert [str(failure) for failure in h.plugins.report().failed] == [
            "plugin gate: settings.forbidden: is missing"
        ]


async def test_the_planner_takes_another_model_for_the_first_step_alone(entry) -> None:
    script = [call("add", a=1, b=2), say("3"), say("hello")]
    async with hosted(script, entry("planner.py", model="planning"), tools=[Add()]) as h:
        await h.headless.ask("1 + 2?")
        await h.headless.ask("hi")
        models = [request.config.model for request in h.headless.model.requests]
        assert models == ["planning", "script", "planning"]


async def test_the_second_look_continues_each_turn_once(entry) -> None:
    script = [say("done"), say("really done"), say("and this"), say("yes")]
    async with hosted(script, entry("second_look.py")) as h:
        await h.headless.ask("do it")
        await h.headless.ask("do that")
        assert len(h.headless.of("turn/end")) == 2
        assert len(h.headless.model.requests) == 4
        sources = [event.data.source.kind for event in h.headless.of("user/message")]
        assert sources == ["user", "plugin", "user", "plugin"]


async def test_the_die_is_a_tool_that_the_model_can_call(entry) -> None:
    async with hosted([call("roll", sides=20), say("done")], entry("dice.py", seed=7)) as h:
        await h.headless.ask("roll")
        (result,) = h.headless.of("tool/result")
        assert result.data.message.content[0].content[0].text == str(random.Random(7).randint(1, 20))
        (spec,) = h.headless.model.requests[0].tools
        assert spec.parameters["properties"]["sides"]["description"] == "how many sides the die has"


async def test_the_tally_is_a_fact_that_outlives_its_plugin(entry) -> None:
    script = [call("add", a=1, b=2), say("3"), say("hello")]
    async with hosted(script, entry("tally.py"), tools=[Add()]) as h:
        await h.headless.ask("1 + 2?")
        await h.headless.ask("hi")
        tallies = [event.data for event in h.headless.of("tally/turn")]
        assert [tally.data for tally in tallies] == [{"turn": 1, "tools": 1}, {"turn": 2, "tools": 0}]
        assert all(tally.ignorable for tally in tallies), "or a session without the plugin could not be opened"


async def test_all_blocks_run_together(entry) -> None:
    entries = [entry(block, **({"forbidden": ["x"]} if block == "gate.py" else {})) for block in BLOCKS]
    async with hosted([say("one"), say("two")], *entries) as h:
        report = h.plugins.report()
        assert report.failed == ()
        assert report.loaded == ("tracer", "gate", "planner", "second-look", "dice", "tally")
        await h.headless.ask("hi")
        assert h.headless.types[-1] == "turn/end"
        assert (await h.plugins.reload()).loaded == report.loaded


async def test_an_observer_of_the_session_cannot_append(tmp_path: Path) -> None:
    source = """
from dsh_lsp.agent.driver import Agent
from dsh_lsp.session.log import SessionLog
name = "appends"
def apply(ctx, settings):
    agent = ctx.get(Agent)
    def event(logged):
        try:
            agent.inject(agent.message("lost"))
        except Exception as error:
            ctx.get(list).append(error.code)
            raise
    ctx.listen(ctx.get(SessionLog).appended, event)
"""
    codes: list[str] = []
    async with hosted([say("hello")], str(write(tmp_path / "appends.py", source)), provide=[(list, codes)]) as h:
        await h.headless.ask("hi")
        assert set(codes) == {"REENTRANT"}
        assert h.headless.types[-1] == "turn/end"
        assert "lost" not in str(h.headless.model.requests)
