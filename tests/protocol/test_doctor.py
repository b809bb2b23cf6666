"""The doctor, as its user runs it: what it finds, what it advises, and that it keeps the key to itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import FakeModelServer, raw, refusal

KEY = "sk-very-secret-0123456789"
LIST = {"object": "list", "data": [{"id": "deepseek-flash"}, {"id": "deepseek-v4-pro"}]}
BALANCE = {"is_available": True, "balance_infos": [{"currency": "USD", "total_balance": "12.50"}]}


def document(value: Any):
    return raw(json.dumps(value).encode(), content_type="application/json")


@pytest.fixture
def server():
    with FakeModelServer() as running:
        running.documents["/models"] = document(LIST)
        yield running


def doctor(
    folder: Path, settings: dict[str, Any], *arguments: str, key: str = KEY, environ: dict[str, str] | None = None
) -> tuple[int, str]:
    """Run it; the exit code, and what it prints with its line breaks made spaces."""
    path = folder / "settings.json"
    path.write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "dsh_lsp", "doctor", "--settings", str(path), *arguments],
        env={**os.environ, "DEEPSEEK_API_KEY": key, "XDG_STATE_HOME": str(folder), **(environ or {})},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert KEY not in done.stdout + done.stderr
    return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)


def test_an_account_that_has_too_little_is_called_so(tmp_path, server) -> None:
    server.documents["/user/balance"] = document({**BALANCE, "is_available": False})
    code, said = doctor(tmp_path, {"model": {"baseUrl": server.url}})
    assert code == 1
    assert "12.50 USD: too little for a call top it up" in said


def test_a_key_in_the_address_is_shown_nowhere(tmp_path, server) -> None:
    _, said = doctor(
        tmp_path, {"model": {"baseUrl": f"{server.url}?key={KEY}&api-version=2024-10-21"}}, key="other-77"
    )
    assert "api-version=2024-10-21" in said


def test_a_good_installation_is_called_good(tmp_path, server) -> None:
    server.documents["/user/balance"] = document(BALANCE)
    code, said = doctor(tmp_path, {"model": {"baseUrl": server.url}})
    assert code == 0
    for words in (
        f"deepseek-flash of deepseek at {server.url}",
        "in the environment variable DEEPSEEK_API_KEY",
        "offers 2 models",
        "12.50 USD",
        str(tmp_path / "dsh_lsp" / "sessions"),
        "pygls 2.1.1",
        "All is well.",
    ):
        assert words in said
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_wrong_key_and_a_missing_one_are_told_apart(tmp_path, server) -> None:
    server.documents["/models"] = refusal(401, {"error": {"message": f"bad key {KEY}"}})
    code, said = doctor(tmp_path, {"model": {"baseUrl": server.url}})
    assert code == 1
    assert "WRONG server" in said
    assert "check the key in DEEPSEEK_API_KEY" in said
    code, said = doctor(tmp_path, {"model": {"baseUrl": server.url}}, key="")
    assert code == 1
    assert "WRONG key" in said
    assert "set DEEPSEEK_API_KEY in the environment" in said


def test_a_server_that_is_not_there_is_named(tmp_path, server) -> None:
    server.stop()
    code, said = doctor(tmp_path, {"model": {"provider": "openai_compatible", "baseUrl": server.url, "name": "m"}})
    assert code == 1
    assert f"cannot connect to 127.0.0.1:{server.port}" in said
    assert "none, and none is needed here" in said


def test_a_model_that_is_not_offered_is_noted_with_those_that_are(tmp_path, server) -> None:
    code, said = doctor(tmp_path, {"model": {"baseUrl": server.url}}, "--model", "deepseek-chat")
    assert code == 0
    assert "deepseek-chat is not in the server's list" in said
    assert "it offers deepseek-flash, deepseek-v4-pro" in said


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": {"nmae": "x", "baseUrl": "http://127.0.0.1:9"}}, "did you mean name"),
        ({"model": {"provider": "openai_compatible"}}, "set model.baseUrl"),
        ({"model": {"provider": "anthropic"}}, "set model.name"),
        ({"model": {"baseUrl": "deepseek.com"}}, "must be an http"),
        ({"plugins": ["nope"], "model": {"provider": "demo"}}, "nope: no entry point"),
        (
            {"plugins": [{"use": "dsh_lsp.plugins.tracer", "settings": {"level": 3}}], "model": {"provider": "demo"}},
            "tracer: settings.level",
        ),
        ({"sessions": {"directory": "/dev/null/none"}, "model": {"provider": "demo"}}, "set sessions.directory"),
        (
            {"sessions": {"directory": "here"}, "model": {"provider": "demo"}},
            "sessions.directory: must be an absolute",
        ),
    ],
)
def test_what_is_wrong_with_settings_is_told_with_their_keys(tmp_path, settings, words) -> None:
    code, said = doctor(tmp_path, settings)
    assert code == 1
    assert words in said


@pytest.mark.skipif(sys.platform != "linux", reason="a folder in which nobody may make anything")
def test_folders_that_look_writable_but_are_not_are_found_and_nothing_is_left_behind(tmp_path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    settings = {"sessions": {"directory": "/proc/x"}, "model": {"provider": "demo"}}
    code, said = doctor(tmp_path, settings, environ={"XDG_STATE_HOME": str(state)})
    assert code == 1
    assert "WRONG sessions /proc/x cannot be made: " in said
    assert f"ok locks {state}/dsh_lsp/locks" in said
    assert f"ok log {state}/dsh_lsp/logs" in said
    assert list(state.iterdir()) == []
    code, said = doctor(tmp_path, {"model": {"provider": "demo"}}, environ={"XDG_STATE_HOME": "/proc/x"})
    assert code == 1
    for topic, folder in (("sessions", "sessions"), ("locks", "locks"), ("log", "logs")):
        assert f"WRONG {topic} /proc/x/dsh_lsp/{folder} cannot be made: " in said
    assert "set XDG_STATE_HOME" in said


def test_a_home_is_put_in_the_place_of_its_sign(tmp_path) -> None:
    settings = {"sessions": {"directory": "~/s"}, "model": {"provider": "demo"}}
    _, said = doctor(tmp_path, settings, environ={"HOME": str(tmp_path)})
    assert f"ok sessions {tmp_path}/s" in said


def test_a_log_level_that_is_none_is_found(tmp_path) -> None:
    code, said = doctor(tmp_path, {"model": {"provider": "demo"}}, environ={"DSH_LOG_LEVEL": "foo"})
    assert code == 1
    assert "WRONG log level DSH_LOG_LEVEL is 'foo', and must be one of DEBUG, INFO" in said


def test_settings_that_cannot_be_read_are_wrong_usage(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dsh_lsp", "doctor", "--settings", str(tmp_path / "none.json")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "cannot be read" in done.stderr
