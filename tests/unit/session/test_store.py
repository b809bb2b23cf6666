"""Store: what was flushed is on disk, and a failed write leaves nothing half-written that counts."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import anyio
import pytest

from dsh_lsp.errors import SessionError
from dsh_lsp.messages import TextBlock, UserMessage, UserSource
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.store import SessionStore, read_session


def words(number: int) -> UserMessage:
    return UserMessage(id=f"m{number}", content=(TextBlock(text="x"),), source=UserSource())


def new_log() -> SessionLog:
    return SessionLog(SessionHeader(id="s1", created_at=5, cwd="/w"), clock=lambda: 7)


async def test_a_session_reads_back_as_it_was(tmp_path: Path) -> None:
    log = new_log()
    store = SessionStore.create(tmp_path / "deep", log)
    assert not (tmp_path / "deep").exists(), "no file before the first flush"
    log.append(words(1))
    await store.flush()
    log.append(words(2))
    await store.flush()
    header, events = read_session(store.path)
    assert (header, events) == (log.header, list(log))
    assert store.path.stat().st_mode & 0o077 == 0, "nobody else reads a session"


async def test_flushes_that_come_together_write_each_event_once(tmp_path: Path) -> None:
    log = new_log()
    store = SessionStore.create(tmp_path, log)
    async with anyio.create_task_group() as tasks:
        for turn in range(20):
            log.append(words(turn))
            tasks.start_soon(store.flush)
    assert [event.seq for event in read_session(store.path)[1]] == list(range(20))


async def test_a_write_that_fails_takes_its_bytes_back_and_closes_the_session(tmp_path: Path) -> None:
    log = new_log()
    store = SessionStore.create(tmp_path, log)
    log.append(words(1))
    await store.flush()
    before = store.path.read_bytes()
    for turn in range(200):
        log.append(words(turn))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        with pytest.raises(SessionError, match="cannot be written") as failure:
            await store.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert failure.value.code == "LOG_NOT_WRITABLE"
    assert store.path.read_bytes() == before
    with pytest.raises(SessionError):
        await store.flush()
    await store.settle()


def test_what_is_no_session_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"type":"session","id":"s","createdAt":1,"cwd":"/"}\n{oops\n')
    with pytest.raises(SessionError, match="line 2"):
        read_session(path)
    path.write_text("")
    with pytest.raises(SessionError, match="not a session log"):
        read_session(path)


def test_the_state_directory_follows_the_systems_rules(tmp_path: Path) -> None:
    from dsh_lsp.session.store import state_directory

    old = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path)
    try:
        assert state_directory() in (tmp_path / "dsh_lsp", Path.home() / "Library/Application Support/dsh_lsp")
    finally:
        os.environ.pop("XDG_STATE_HOME")
        if old is not None:
            os.environ["XDG_STATE_HOME"] = old
