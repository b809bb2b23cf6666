"""Directories: they follow the system's rules, and an empty variable counts as none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dsh_lsp.directories import cache_directory, locks_directory, logs_directory, sessions_directory, state_directory


@pytest.mark.skipif(sys.platform != "linux", reason="the rules of Linux")
def test_they_lie_where_the_desktop_says_else_in_the_home(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    state = tmp_path / "state" / "dsh_lsp"
    assert state_directory() == state
    assert [sessions_directory(), locks_directory(), logs_directory()] == [
        state / "sessions",
        state / "locks",
        state / "logs",
    ]
    assert cache_directory() == tmp_path / "cache" / "dsh_lsp"
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert state_directory() == Path.home() / ".local" / "state" / "dsh_lsp"
    assert cache_directory() == Path.home() / ".cache" / "dsh_lsp"


def test_they_are_known_before_anything_else_of_the_package_is_imported() -> None:
    program = "import sys, dsh_lsp.directories; print([n for n in sys.modules if n.startswith('dsh_lsp')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['dsh_lsp', 'dsh_lsp.directories']\n"
