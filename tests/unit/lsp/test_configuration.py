"""Configuration: every way in which settings come, and that none of them raises rights that it must not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.lsp.configuration import Configuration
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import rights_of, value_at

RIGHTS = {
    "model": {"baseUrl": "http://127.0.0.1:1", "apiKeyEnv": "OTHER"},
    "mode": "plan",
    "shell": {"allow": ["rm *"], "timeoutSeconds": 7.0},
    "sessions": {"directory": "/elsewhere"},
    "workspaceTrusted": False,
    "plugins": ["evil"],
}


def test_all_that_could_raise_rights_is_marked() -> None:
    assert rights_of(Settings) == {
        "model.baseUrl": None,
        "model.apiKeyEnv": None,
        "mode": "read-only",
        "shell.allow": [],
        "sessions.directory": None,
        "workspaceTrusted": False,
        "plugins": [],
    }


def test_a_client_that_does_not_vouch_raises_no_rights_and_is_told_once() -> None:
    configuration = Configuration({}, vouches=False)
    (problem,) = configuration.update(RIGHTS)
    assert "shell.allow" in problem.path
    settings = configuration.settings
    assert settings == Settings(shell={"timeoutSeconds": 7.0}), "the rest counts"
    assert configuration.update(RIGHTS) == []
    (again,) = configuration.update({"shell": {"allow": ["make"]}})
    assert again.path == "shell.allow", "another wish is told"


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"model": {"base_url": "http://127.0.0.1:1"}}, "model.base_url"),
        ({"model": {"api_key_env": "OTHER"}}, "model.api_key_env"),
        ({"workspace_trusted": True}, "workspace_trusted"),
    ],
)
def test_a_key_has_one_spelling(section: Any, path: str) -> None:
    configuration = Configuration({"model": {"baseUrl": "http://127.0.0.1:2"}}, vouches=False)
    (problem,) = configuration.update(section)
    assert (problem.path, problem.unknown) == (path, True)
    assert configuration.settings == Settings(model={"baseUrl": "http://127.0.0.1:2"})


def test_what_is_wrong_is_told_when_it_becomes_so() -> None:
    section = {"limits": {"steps": "many"}}
    configuration = Configuration({}, vouches=True)
    assert len(configuration.update(section)) == 1
    assert configuration.update(section) == []
    assert configuration.update({}) == []
    assert len(configuration.update(section)) == 1, "it was mended, and is wrong again"


def test_a_client_of_ours_vouches() -> None:
    configuration = Configuration({}, vouches=True)
    assert configuration.update(RIGHTS) == []
    assert configuration.settings.shell.allow == ("rm *",)
    assert not configuration.settings.workspace_trusted


def test_the_handshake_wins_and_its_token_is_no_setting_of_a_workspace() -> None:
    configuration = Configuration({"eventToken": "t", "limits": {"steps": 3}}, vouches=True)
    section = {"eventToken": "x", "limits": {"steps": 9, "seconds": 5.0}, "trace": {"server": "x"}, "client": 1}
    assert configuration.update(section) == []
    settings = configuration.settings
    assert (settings.event_token, settings.limits.steps, settings.limits.seconds) == ("t", 3, 5.0)


def test_a_wrong_value_keeps_the_last_good_one_of_its_key_and_nothing_is_reset_by_it() -> None:
    configuration = Configuration({"limits": {"steps": 3}}, vouches=True)
    configuration.update({"limits": {"seconds": 5.0}, "edits": {"save": False}})
    (problem,) = configuration.update({"limits": {"seconds": "long"}, "edits": {"save": False}})
    assert problem.path == "limits.seconds"
    assert (configuration.settings.limits.seconds, configuration.settings.limits.steps) == (5.0, 3)
    assert not configuration.settings.edits.save
    configuration.update({"limits": "none"})
    assert configuration.settings.limits.seconds == 5.0


@pytest.mark.parametrize(
    ("section", "path", "strictest"),
    [
        ({"mode": "loud"}, "mode", "read-only"),
        ({"workspaceTrusted": "yes"}, "workspaceTrusted", False),
        ({"shell": {"allow": ["git; rm"]}}, "shell.allow", []),
        ({"shell": 7}, "shell.allow", []),
        ({"plugins": "all"}, "plugins", []),
    ],
)
@pytest.mark.parametrize("where", ["handshake", "configuration"])
def test_a_wrong_value_that_could_raise_rights_falls_to_the_strictest(
    section: Any, path: str, strictest: Any, where: str
) -> None:
    good = {"mode": "ask", "shell": {"allow": ["make"]}, "plugins": ["mine"]}
    if where == "handshake":
        settings = Configuration(section, vouches=True).settings
    else:
        configuration = Configuration({}, vouches=True)
        configuration.update(good)
        assert configuration.update(section)
        settings = configuration.settings
    assert value_at(settings.model_dump(mode="json", by_alias=True), path.split(".")) == strictest


@pytest.mark.parametrize("section", [None, [], "x", 7])
def test_no_section_is_no_change(section: Any) -> None:
    configuration = Configuration({"limits": {"steps": 3}}, vouches=True)
    configuration.update(section)
    assert configuration.settings.limits.steps == 3


KEYS = (
    "model",
    "baseUrl",
    "mode",
    "shell",
    "allow",
    "workspaceTrusted",
    "plugins",
    "sessions",
    "directory",
    "limits",
    "base_url",
    "apiKeyEnv",
    "api_key_env",
    "workspace_trusted",
)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["ask", "auto-edit", "make", "/x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=15,
)


@given(json)
def test_whatever_a_workspace_sets_its_rights_stay_as_they_were(section: Any) -> None:
    configuration = Configuration({}, vouches=False)
    configuration.update(section)
    told = configuration.settings.model_dump(mode="json", by_alias=True)
    plain = Settings().model_dump(mode="json", by_alias=True)
    for path, strictest in rights_of(Settings).items():
        here = value_at(told, path.split("."))
        assert here in (value_at(plain, path.split(".")), strictest)
