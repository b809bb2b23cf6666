"""Show: what is told of a session that broke off, and of one that goes on elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_lsp.events import EventData, StepStart, TurnStart, encode_event
from dsh_lsp.messages import TextBlock, UserMessage, UserSource
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.store import session_lock
from dsh_lsp.show import show_session
from dsh_lsp.wire import dump_bytes, encode

ASKED = UserMessage(id="m", content=(TextBlock(text="Mend it."),), source=UserSource())
BROKEN_OFF: tuple[EventData, ...] = (TurnStart(turn=1), ASKED, StepStart(turn=1, step=1))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    log = SessionLog(SessionHeader(id="s", created_at=5, cwd="/w"))
    for data in BROKEN_OFF:
        log.append(data)
    rows = [{"type": "session", **encode(log.header)}, *(encode_event(event) for event in log)]
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(dump_bytes(row) + b"\n" for row in rows) + b'{"type":"assis')
    return path


def test_a_session_that_a_crash_broke_off_is_shown_as_ended_and_its_file_stays(session: Path, capsys) -> None:
    before = session.read_bytes()
    assert show_session(str(session)) == 0
    told = capsys.readouterr().out
    assert "The turn ended as interrupted" in told
    assert "running" not in told
    assert session.read_bytes() == before
    assert [path.name for path in session.parent.iterdir()] == ["s.jsonl"], "no lock was made either"


def test_a_session_that_another_process_has_is_shown_as_running(session: Path, capsys) -> None:
    lock = session_lock(session)
    lock.take_now()
    try:
        assert show_session(str(session)) == 0
    finally:
        lock.release()
    assert "the session is running" in capsys.readouterr().out
    assert show_session(str(session)) == 0
    assert "The turn ended as interrupted" in capsys.readouterr().out
