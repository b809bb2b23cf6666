"""Settings: one bad key costs that key alone, and the user reads its path."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import read_settings, settings_under


def test_good_settings_are_read_in_camel_case() -> None:
    settings, problems = read_settings(Settings, {"maxParallelToolCalls": 3, "model": {"apiKeyEnv": "KEY"}})
    assert (settings.max_parallel_tool_calls, settings.model.api_key_env) == (3, "KEY")
    assert problems == []


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        ({"maxParallelToolCalls": 0}, "maxParallelToolCalls", "greater"),
        ({"maxParallelToolCalls": "3"}, "maxParallelToolCalls", "integer"),
        ({"model": {"maxTokens": -1}}, "model.maxTokens", "greater"),
        ({"model": {"provider": "openai"}}, "model.provider", "'deepseek'"),
        ({"model": 7}, "model", "must be an object"),
        ({"edits": {"save": "yes"}}, "edits.save", "must be true or false"),
        ({"eventToken": 1.5}, "eventToken", "must be a string or an integer"),
        ({"model": {"name": ""}}, "model.name", "must not be empty"),
        ({"shell": {"allow": "x"}}, "shell.allow", "must be a list"),
        ({"plugins": [""]}, "plugins.0", "must not be empty"),
        ({"modle": {}}, "modle", "did you mean mode or model?"),
        ({"model": {"nmae": "x"}}, "model.nmae", "did you mean name?"),
    ],
)
def test_a_wrong_key_is_told_and_keeps_its_default(raw, path, words) -> None:
    settings, problems = read_settings(Settings, raw)
    assert settings == Settings()
    (problem,) = problems
    assert problem.path == path
    assert words in problem.message


def test_settings_that_are_no_object_raise_no_rights_and_an_empty_list_is_how_lua_writes_none() -> None:
    settings, problems = read_settings(Settings, "all of them")
    assert (settings.mode, settings.workspace_trusted) == ("read-only", False)
    assert [problem.path for problem in problems] == ["(all)"]
    assert read_settings(Settings, []) == (Settings(), [])
    assert read_settings(Settings, {"model": [], "plugins": []}) == (Settings(), [])


def test_a_wrong_key_costs_no_other() -> None:
    raw = {"model": {"name": "x", "maxTokens": "many"}, "edits": {"save": False}, "zzz": 1}
    settings, problems = read_settings(Settings, raw)
    assert settings.model.name == "x"
    assert settings.model.max_tokens is None
    assert not settings.edits.save
    assert {problem.path for problem in problems} == {"model.maxTokens", "zzz"}
    assert raw["zzz"] == 1, "what the client sent is not touched"


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["model", "name", "edits", "save", "mode", "eventToken", "x", "sessions", "directory"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(json)
def test_any_json_gives_settings(raw) -> None:
    settings, _ = read_settings(Settings, raw)
    assert isinstance(settings, Settings)


def test_a_problem_that_no_key_causes_gives_the_defaults() -> None:
    from pydantic import model_validator

    from dsh_lsp.settings import SettingsModel

    class Pair(SettingsModel):
        low: int = 0
        high: int = 1

        @model_validator(mode="after")
        def ordered(self) -> Pair:
            if self.low >= self.high:
                raise ValueError("low must be below high")
            return self

    settings, problems = read_settings(Pair, {"low": 5})
    assert (settings.low, settings.high) == (0, 1)
    assert "low must be below high" in str(problems[0])


def test_what_a_command_line_chooses_stands_over_the_file_and_leaves_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": {"name": "a", "maxTokens": 3}, "edits": []}')
    chosen = {"model.name": "b", "model.provider": None, "edits.save": False, "mode": "plan"}
    assert settings_under(path, chosen) == {
        "model": {"name": "b", "maxTokens": 3},
        "edits": {"save": False},
        "mode": "plan",
    }
    assert settings_under(None, {"sessions.directory": "/s"}) == {"sessions": {"directory": "/s"}}


@pytest.mark.parametrize(
    ("given", "read"),
    [("/s", "/s"), ("~/s", str(Path.home() / "s")), ("s", None), ("", None), ("~nobody-at-all/s", None)],
)
def test_the_folder_of_sessions_is_absolute_or_told(given: str, read: str | None) -> None:
    settings, problems = read_settings(Settings, {"sessions": {"directory": given}})
    assert settings.sessions.directory == read
    assert [problem.path for problem in problems] == ([] if read else ["sessions.directory"])


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"shell": {"allow": ['rm "x']}}, "shell.allow: 'rm \"x' is not one plain command with its words, and"),
        ({"plugins": [{"settings": {}}]}, "plugins.0.use: is missing"),
        ({"sessions": {"directory": "here"}}, "sessions.directory: must be an absolute path; ~ stands for your home"),
    ],
)
def test_what_a_setting_says_of_itself_is_told_in_its_words_alone(raw, told) -> None:
    _, (problem,) = read_settings(Settings, raw)
    assert str(problem).startswith(told)
