"""Store: what was flushed is on disk, and a failed write leaves nothing half-written that counts."""

from __future__ import annotations

import resource
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from dsh_lsp.errors import SessionError
from dsh_lsp.messages import TextBlock, UserMessage, UserSource
from dsh_lsp.session.loading import load_session
from dsh_lsp.session.lock import SessionLock
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.store import SessionStore, claim_session


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
    loaded = await anyio.to_thread.run_sync(load_session, store.path)
    assert (loaded.header, loaded.events) == (log.header, list(log))
    assert store.path.stat().st_mode & 0o077 == 0, "nobody else reads a session"


async def test_a_session_that_was_never_used_leaves_nothing(tmp_path: Path) -> None:
    lock = SessionLock(tmp_path / "s1.jsonl", folder=tmp_path / "locks")
    store = SessionStore.create(tmp_path / "sessions", new_log(), lock=lock)
    await store.flush()
    await store.close()
    await store.flush()
    assert [*tmp_path.iterdir()] == []  # noqa: ASYNC240


async def test_flushes_that_come_together_write_each_event_once(tmp_path: Path) -> None:
    log = new_log()
    store = SessionStore.create(tmp_path, log)
    async with anyio.create_task_group() as tasks:
        for turn in range(20):
            log.append(words(turn))
            tasks.start_soon(store.flush)
    loaded = await anyio.to_thread.run_sync(load_session, store.path)
    assert [event.seq for event in loaded.events] == list(range(20))


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


async def test_a_store_has_its_lock_from_the_first_write_until_it_is_closed(tmp_path: Path) -> None:
    log, path = new_log(), tmp_path / "s1.jsonl"
    lock = SessionLock(path, folder=tmp_path / "locks")
    store = SessionStore.create(tmp_path, log, lock=lock)
    assert not lock.taken
    log.append(words(1))
    await store.flush()
    assert lock.taken
    theirs = new_log()
    theirs.append(words(1))
    other = SessionStore(path, theirs, lock=SessionLock(path, folder=tmp_path / "locks"))
    with pytest.raises(SessionError) as refused:
        await other.flush()
    assert refused.value.code == "SESSION_LOCKED"
    await store.close()
    assert not lock.taken
    log.append(words(2))
    with pytest.raises(SessionError, match="is closed"):
        await store.flush()
    await SessionLock(path, folder=tmp_path / "locks").take(0)


async def test_a_claimed_session_belongs_to_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    log = new_log()
    store = SessionStore.create(tmp_path, log)
    log.append(words(0))
    await store.close()
    loaded = await claim_session(store.path)
    with pytest.raises(SessionError) as refused:
        await claim_session(store.path, wait_s=0.1)
    assert refused.value.code == "SESSION_LOCKED"
    resumed = SessionStore.resume(loaded)
    loaded.log.append(words(1))
    await resumed.close()
    again = await claim_session(store.path)
    assert again.events == list(loaded.log)
    await SessionStore.resume(again).close()


async def test_a_session_that_cannot_be_loaded_is_not_kept_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for _ in range(2):
        with pytest.raises(SessionError) as refused:
            await claim_session(tmp_path / "gone.jsonl", wait_s=0)
        assert refused.value.code == "UNKNOWN_SESSION"


async def test_what_another_program_wrote_is_not_written_over(tmp_path: Path) -> None:
    log = new_log()
    store = SessionStore.create(tmp_path, log)
    log.append(words(1))
    await store.flush()
    with store.path.open("ab") as file:
        file.write(b"theirs\n")
    before = store.path.read_bytes()
    log.append(words(2))
    with pytest.raises(SessionError, match="another program changed it") as refused:
        await store.flush()
    assert refused.value.code == "LOG_NOT_WRITABLE"
    assert store.path.read_bytes() == before


async def test_a_folder_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = new_log()
    store = SessionStore.create(tmp_path / "file", log)
    log.append(words(1))
    with pytest.raises(SessionError, match=r"cannot be written: (File exists|Not a directory)") as refused:
        await store.flush()
    assert refused.value.code == "LOG_NOT_WRITABLE"
