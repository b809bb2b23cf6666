"""Plugins: mounted from the setting, exchanged while the agent runs, and never the end of anything else."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugin_host import PluginFailure, PluginReport, join_reports
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import read_settings
from tests.support.fake_editor import fake_editor
from tests.unit.plugins.hosted import hosted, write

# What a plugin registers, in every way there is, and what becomes of it.
WORDS = """
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.decisions import Effect
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import (Tool, ToolArgs,)

name = "words"
inject = (AgentHooks, SystemPrompt, ToolRegistry, list)
VERSION = {version!r}


class Tell(Tool[ToolArgs]):
    name = "tell"
    description = f"Version {{VERSION}}."
    Args = ToolArgs

    def __init__(self, seen):
        self.seen = seen

    async def execute(self, args, execution):
        await self.seen[0]({version!r})
        return f"told by {{VERSION}}"

    def effects(self, args):
        return []


def apply(ctx, settings):
    seen = ctx.get(list)
    ctx.own(lambda: seen.append(f"connection of {{VERSION}} closed"))
    ctx.register(SystemPrompt, Section(name="words", order=1, text=f"Words {{VERSION}}."))
    ctx.register(ToolRegistry, Tell(seen))

    async def assemble(assembly, call_next):
        seen.append(f"assembled by {{VERSION}}")
        return await call_next(assembly)

    ctx.listen(ctx.get(AgentHooks).assemble, assemble)
    ctx.own(lambda: seen.append(f"last of {{VERSION}} closed"))
    {more}
"""


def words(version: int, more: str = "") -> str:
    return WORDS.format(version=version, more=more)


async def quiet(_version: int) -> None:
    """What the tool does while it runs."""


# -- the setting ---------------------------------------------------------------------------------------------


def test_the_setting_takes_names_and_names_with_settings() -> None:
    raw = {"plugins": ["a.b", {"use": "/c.py", "settings": {"level": "debug"}}]}
    settings, problems = read_settings(Settings, raw)
    assert not problems
    assert [(entry.use, entry.settings) for entry in settings.plugins] == [
        ("a.b", None),
        ("/c.py", {"level": "debug"}),
    ]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (7, "plugins.1"),
        ({}, "plugins.1.use"),
        ("", "plugins.1"),
        ({"use": "a", "setings": {}}, "plugins.1.setings"),
    ],
)
def test_an_entry_that_is_wrong_is_told_by_its_path_and_nothing_is_loaded(entry: object, path: str) -> None:
    settings, problems = read_settings(Settings, {"plugins": ["a", entry]})
    assert [problem.path for problem in problems] == [path]
    assert settings.plugins == []


# -- mounting ------------------------------------------------------------------------------------------------

FINE = "name = 'fine'\ndef apply(ctx, settings): ...\n"
WANTS = """
from pydantic import Field
from dsh_lsp.settings import SettingsModel
name = 'wants'
class Settings(SettingsModel):
    word: str
    max_words: int = Field(default=1, ge=1)
def apply(ctx, settings):
    ctx.get(list).append(settings)
"""


@pytest.mark.parametrize(
    ("source", "settings", "name", "reason"),
    [
        ("def (", None, "{file}", "SyntaxError: "),
        ("1 / 0", None, "{file}", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", None, "{file}", "SystemExit: 3"),
        ("x = 1", None, "{file}", "is not a plugin: it needs `name` and `apply(ctx, settings)`"),
        ("name = 'p'\ndef apply(ctx, s): raise ValueError('no')", None, "p", "ValueError: no"),
        ("name = 'p'\ninject = (dict,)\ndef apply(ctx, s): ...", None, "p", "p needs dict, which nobody provides"),
        ("name = 'p'\ndef apply(ctx, s): ...", {"a": 1}, "p", "it takes no settings"),
        ("name = 'p'\nSettings = 7\ndef apply(ctx, s): ...", {}, "p", "its `Settings` must be a pydantic model"),
        ("name = 'fine'\ndef apply(ctx, s): ...", None, "{file}", "a plugin of this name is loaded already"),
        (WANTS, None, "wants", "settings.word: is missing"),
        (
            WANTS,
            {"word": 7, "maxWords": 0},
            "wants",
            "settings.word: must be a string; settings.maxWords: must be greater than or equal",
        ),
        (WANTS, {"word": "w", "more": 1}, "wants", "settings.more: there is no such setting"),
    ],
)
async def test_a_plugin_that_fails_is_reported_by_name_and_the_rest_runs(
    tmp_path: Path, source: str, settings: object, name: str, reason: str
) -> None:
    fine, file = write(tmp_path / "fine.py", FINE), write(tmp_path / "bad.py", source)
    entries = (str(fine), {"use": str(file), "settings": settings}, "json")
    async with hosted([say("hello")], *entries, provide=[(list, [])]) as h:
        report = h.plugins.report()
        assert report.loaded == ("fine",)
        assert [failure.name for failure in report.failed] == [name.format(file=file), "json"]
        assert reason in report.failed[0].reason
        await h.headless.ask("hi")
        assert h.headless.types[-1] == "turn/end"


async def test_settings_reach_the_plugin_as_its_own_model(tmp_path: Path) -> None:
    file, seen = write(tmp_path / "wants.py", WANTS), []
    entry = {"use": str(file), "settings": {"word": "w", "maxWords": 2}}
    async with hosted([], entry, provide=[(list, seen)]) as h:
        assert h.plugins.report() == PluginReport(loaded=("wants",))
        assert [(settings.word, settings.max_words) for settings in seen] == [("w", 2)]
        assert h.plugins.files() == (file,)


async def test_a_plugin_that_fails_while_it_is_applied_leaves_nothing_behind(tmp_path: Path) -> None:
    file, seen = write(tmp_path / "words.py", words(1, more="raise ValueError('no')")), [quiet]
    async with hosted([], str(file), provide=[(list, seen)]) as h:
        assert h.headless.registry.names() == []
        assert seen[1:] == ["last of 1 closed", "connection of 1 closed"]


# -- exchanging ----------------------------------------------------------------------------------------------


async def test_the_step_after_a_change_sees_the_new_version_and_the_old_one_is_undone_last_first(
    tmp_path: Path,
) -> None:
    file, seen = write(tmp_path / "words.py", words(1)), []

    async def changes(_version: int) -> None:
        seen.append("the tool runs")
        await asyncio.to_thread(write, file, words(2))

    seen.append(changes)
    script = [call("tell"), say("done")]
    async with hosted(script, str(file), provide=[(list, seen)]) as h:
        await h.headless.ask("go")
        first, second = h.headless.model.requests
        assert [request.tools[0].description for request in (first, second)] == ["Version 1.", "Version 2."]
        assert h.systems() == ["You are a test.\n\nWords 1.", "You are a test.\n\nWords 2."]
        assert seen[1:] == [
            "assembled by 1",
            "the tool runs",
            "last of 1 closed",
            "connection of 1 closed",
            "assembled by 2",
        ]
        assert h.headless.registry.names() == ["tell"]


async def test_an_unchanged_file_is_left_alone(tmp_path: Path) -> None:
    file, seen = write(tmp_path / "words.py", words(1)), [quiet]
    async with hosted([call("tell"), say("done")], str(file), provide=[(list, seen)]) as h:
        await h.headless.ask("go")
        await asyncio.to_thread(file.unlink)
        assert await h.plugins.refresh() == PluginReport()
        assert seen[1:] == ["assembled by 1", "assembled by 1"]


async def test_a_new_version_that_fails_leaves_the_old_one_and_is_told_once(tmp_path: Path) -> None:
    file, seen = write(tmp_path / "words.py", words(1)), [quiet]
    async with hosted([call("tell"), say("done")], str(file), provide=[(list, seen)]) as h:
        told: list[PluginReport] = []
        h.plugins.reported.listen(told.append)
        for broken in ("def (", words(2, more="raise ValueError('no')"), "name = 'words'", "import nobody_has_this"):
            await asyncio.to_thread(write, file, broken)
            (failure,) = (await h.plugins.refresh()).failed
            assert failure.name == "words"
            assert failure.reason.endswith("(the version before goes on)")
            assert await h.plugins.refresh() == PluginReport()
        assert len(told) == 4
        await h.headless.ask("go")
        assert h.systems()[-1].endswith("Words 1.")
        assert "told by 1" in str(h.headless.of("tool/result"))
        assert "connection of 1 closed" not in seen

        await asyncio.to_thread(write, file, words(3))
        assert (await h.plugins.refresh()).loaded == ("words",)
        assert h.plugins.report() == PluginReport(loaded=("words",))


async def test_a_plugin_that_could_not_be_loaded_is_tried_again_once_its_file_is_there(tmp_path: Path) -> None:
    file, seen = tmp_path / "words.py", [quiet]
    async with hosted([say("done")], str(file), provide=[(list, seen)]) as h:
        assert h.plugins.report().failed == (PluginFailure(name=str(file), reason=f"there is no file {file}"),)
        await asyncio.to_thread(write, file, words(1))
        await h.headless.ask("go")
        assert h.systems() == ["You are a test.\n\nWords 1."]


async def test_a_running_tool_of_the_old_version_finishes_and_only_then_is_its_connection_closed(
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "words.py", words(1))
    began, gate = asyncio.Event(), asyncio.Event()

    async def waits(version: int) -> None:
        began.set()
        await gate.wait()
        seen.append(f"body of {version} over")

    seen: list[object] = [waits]
    script = [call("tell"), call("tell"), say("done")]
    async with hosted(script, str(file), provide=[(list, seen)]) as h:
        h.agent.followup(h.headless.say("go"))
        await began.wait()
        await asyncio.to_thread(write, file, words(2))
        assert await h.plugins.reload("words") == PluginReport(loaded=("words",))
        assert h.headless.registry.get("tell").description == "Version 2."
        assert seen[1:] == ["assembled by 1"]
        gate.set()
        await h.headless.idle()
        assert seen[2:5] == ["body of 1 over", "last of 1 closed", "connection of 1 closed"]
        results = [str(event.data) for event in h.headless.of("tool/result")]
        assert ["told by 1" in results[0], "told by 2" in results[1]] == [True, True]


async def test_a_plugin_in_a_workspace_folder_is_exchanged_by_command_alone(tmp_path: Path) -> None:
    file, seen = write(tmp_path / "words.py", words(1)), [quiet]
    async with hosted([say("one")], str(file), root=tmp_path, provide=[(list, seen)]) as h:
        await asyncio.to_thread(write, file, words(2))
        await h.headless.ask("go")
        assert h.systems() == ["You are a test.\n\nWords 1."]
        await h.plugins.reload()
        assert h.prompt.assemble(()).sections[-1].text == "Words 2."


async def test_a_folder_that_comes_into_the_window_makes_a_plugin_in_it_one_of_the_workspace(tmp_path: Path) -> None:
    file, seen, folders = write(tmp_path / "words.py", words(1)), [quiet], []
    async with hosted([say("one")], str(file), folders=folders, provide=[(list, seen)]) as h:
        folders.append(tmp_path)
        await asyncio.to_thread(write, file, words(2))
        await h.headless.ask("go")
        assert h.systems() == ["You are a test.\n\nWords 1."]
        h.plugins.distrust()
        assert "not trusted" in h.plugins.report().failed[0].reason


async def test_a_plugin_of_the_workspace_is_unloaded_when_trust_is_taken_back(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "mine.py").write_text(FINE.replace("fine", "mine"))
    (outside / "fine.py").write_text(FINE)
    async with hosted([], str(inside / "mine.py"), str(outside / "fine.py"), root=inside) as h:
        assert h.plugins.report().loaded == ("mine", "fine")
        h.plugins.distrust()
        report = h.plugins.report()
        assert report.loaded == ("fine",)
        assert "not trusted" in report.failed[0].reason
        assert "not trusted" in (await h.plugins.reload()).failed[0].reason
        h.plugins.trust()
        assert (await h.plugins.reload("mine")).loaded == ("mine",)


async def test_no_plugin_of_a_workspace_that_is_not_trusted_runs(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    sly, fine = write(inside / "sly.py", "raise AssertionError('it ran')"), write(outside / "fine.py", FINE)
    async with hosted([], str(sly), str(fine), root=inside, trusted=False) as h:
        report = h.plugins.report()
        assert report.loaded == ("fine",)
        assert "not trusted" in report.failed[0].reason
        assert "not trusted" in (await h.plugins.reload()).failed[0].reason


async def test_one_or_all_are_loaded_again_by_name_and_an_unknown_name_is_told(tmp_path: Path) -> None:
    one = write(tmp_path / "one.py", FINE.replace("fine", "one"))
    two = write(tmp_path / "two.py", FINE.replace("fine", "two"))
    async with hosted([], str(one), str(two)) as h:
        assert (await h.plugins.reload()).loaded == ("one", "two")
        assert (await h.plugins.reload("two")).loaded == ("two",)
        assert (await h.plugins.reload(str(one))).loaded == ("one",)
        (failure,) = (await h.plugins.reload("three")).failed
        assert failure == PluginFailure(name="three", reason="no plugin is called so; the plugins are: one, two")


async def test_a_plugin_may_be_given_another_name_by_its_new_version(tmp_path: Path) -> None:
    file = write(tmp_path / "fine.py", FINE)
    async with hosted([], str(file)) as h:
        await asyncio.to_thread(write, file, FINE.replace("fine", "finer"))
        assert (await h.plugins.reload("fine")).loaded == ("finer",)


async def test_what_was_provided_and_shown_goes_with_the_session(tmp_path: Path) -> None:
    file, seen = write(tmp_path / "words.py", words(1)), [quiet]
    async with hosted([], str(file), provide=[(list, seen)]) as h:
        registry = h.headless.registry
    assert registry.names() == []
    assert seen[1:] == ["last of 1 closed", "connection of 1 closed"]


def test_the_reports_of_several_sessions_are_joined() -> None:
    failure = PluginFailure(name="b", reason="no")
    one = PluginReport(loaded=("a",), failed=(failure,))
    two = PluginReport(loaded=("a", "c"), failed=(failure,))
    assert join_reports([one, two]) == PluginReport(loaded=("a", "c"), failed=(failure,))


# -- over the wire -------------------------------------------------------------------------------------------


async def test_the_command_loads_plugins_again_and_failures_are_told_to_the_user(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    fine, bad = write(tmp_path / "fine.py", FINE), write(tmp_path / "bad.py", "1 / 0")
    async with fake_editor(project, options={"plugins": [str(fine), str(bad)]}) as editor:
        await editor.command("dsh.status", {})
        told = f"plugin {bad}: ZeroDivisionError"
        await editor.until(lambda: any(told in message for message in editor.messages))
        await asyncio.to_thread(write, bad, FINE.replace("fine", "mended"))
        assert await editor.command("dsh.plugins.reload", {}) == {"loaded": ["fine", "mended"], "failed": []}
        unknown = await editor.command("dsh.plugins.reload", {"name": "other"})
        assert unknown["loaded"] == []
        assert unknown["failed"][0]["name"] == "other"


@pytest.fixture(autouse=True)
def forget_modules():
    """Nothing that a test brought in is found by the next."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("dsh_plugin_"):
            del sys.modules[name]
