"""The command line: what it says of itself, and what it says to who got it wrong."""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from dsh_lsp.__main__ import build_parser, main
from dsh_lsp.providers import PROVIDERS

COMMANDS = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_does(command: str) -> None:
    for action in COMMANDS[command]._actions:
        assert action.help, action.dest


def test_whoever_asks_for_nothing_is_told_what_there_is(capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_the_last_of_no_sessions_is_told_as_that(tmp_path: Path, capsys) -> None:
    assert main(["show", "last", "--sessions", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"dsh-lsp show: there is no session in {tmp_path} yet\n"


@pytest.mark.parametrize("command", [["run", "Hi."], ["doctor"]], ids=["run", "doctor"])
@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), ("{", "Expecting property name")])
def test_settings_that_cannot_be_read_are_told_with_file_and_reason(
    command: list[str], content: str | None, reason: str, tmp_path: Path, capsys
) -> None:
    path = tmp_path / "settings.json"
    if content is not None:
        path.write_text(content)
    assert main([*command, "--settings", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"dsh-lsp {command[0]}: the settings in {path} cannot be read: {reason}")


@pytest.mark.parametrize("command", [["run", "Hi."], ["doctor"]], ids=["run", "doctor"])
@pytest.mark.parametrize("section", [3, None, "x", [1]])
def test_a_section_that_is_none_is_told_whatever_the_command_line_adds_to_it(
    command: list[str], section: object, tmp_path: Path, capsys
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"model": section}))
    assert main([*command, "--settings", str(path), "--provider", "demo", "--model", "x"]) != 0
    captured = capsys.readouterr()
    assert "model: must be an object" in captured.out + captured.err


@pytest.mark.parametrize("command", [["run", "Hi."], ["doctor"]], ids=["run", "doctor"])
@pytest.mark.parametrize("content", ["[]", "null", "3"])
def test_a_file_of_settings_that_holds_no_object_is_wrong_usage(
    command: list[str], content: str, tmp_path: Path, capsys
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content)
    assert main([*command, "--settings", str(path)]) == 2
    assert f"the settings in {path} must be an object" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["run", "Hi."], ["show", "x"], ["sessions"]], ids=["run", "show", "sessions"])
def test_a_file_in_the_place_of_a_folder_of_sessions_is_wrong_usage(
    command: list[str], tmp_path: Path, capsys
) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SystemExit) as exit_:
        main([*command, "--sessions", str(file)])
    assert exit_.value.code == 2
    assert f"argument --sessions: {file} is not a directory" in capsys.readouterr().err


def test_to_show_no_session_at_all_is_told_as_that(tmp_path: Path, capsys) -> None:
    assert main(["show", "", "--sessions", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("dsh-lsp show: say which session: an id, ")


def test_a_log_that_cannot_be_written_is_told_once_and_in_words(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"sessions": {"directory": "/dev/null/x"}}))
    done = subprocess.run(
        [sys.executable, "-m", "dsh_lsp", "run", "Hi.", "--provider", "demo", "--settings", str(settings)],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    (told,) = done.stderr.splitlines()
    assert told.startswith("dsh-lsp run: the session log /dev/null/x/")


def test_a_log_level_that_is_none_is_wrong_usage(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSH_LOG_LEVEL", "foo")
    assert main(["run", "Hi.", "--directory", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("dsh-lsp run: DSH_LOG_LEVEL is 'foo', and must be one of DEBUG, ")


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_the_help_names_every_provider(command: str) -> None:
    text = COMMANDS[command].format_help()
    assert all(provider in text for provider in PROVIDERS)


def test_whoever_starts_the_server_at_a_terminal_is_told_what_it_is_for() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "dsh_lsp", "serve"], stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs
    ) as server:
        os.close(theirs)
        try:
            assert select.select([ours], [], [], 30)[0]
            assert b"talks LSP with an editor" in os.read(ours, 4096)
        finally:
            server.kill()
            os.close(ours)
