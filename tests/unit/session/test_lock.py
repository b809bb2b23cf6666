"""Lock: one process writes a session, and another one waits, then names it."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from dsh_lsp import __version__
from dsh_lsp.errors import SessionError
from dsh_lsp.session import lock as lock_module
from dsh_lsp.session.lock import SessionLock, system_lock

HOLD = """
import sys
from pathlib import Path
from dsh_lsp.session.lock import SessionLock, system_lock
lock = SessionLock(Path(sys.argv[1]), folder=Path(sys.argv[2]))
lock.take_now()
print("taken", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(session: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the session until its input ends."""
    arguments = [sys.executable, "-c", HOLD, str(session), str(folder)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        try:
            yield process
        finally:
            process.kill()


def cannot(code: int) -> Callable[[int], None]:
    """A system that has no locks."""

    def lock(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    return lock


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "s.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "locks"


def test_a_session_that_another_process_has_is_refused_with_its_name(session: Path, folder: Path) -> None:
    with another_process(session, folder) as process:
        with pytest.raises(SessionError) as refused:
            SessionLock(session, folder=folder).take_now()
        text = str(refused.value)
        assert refused.value.code == "SESSION_LOCKED"
        assert f"process {process.pid} (dsh-lsp {__version__}) on {socket.gethostname()} since 20" in text
        other = SessionLock(session.with_name("t.jsonl"), folder=folder)
        other.take_now()
        assert other.taken, "another session is not concerned"


def test_a_killed_process_has_no_session(session: Path, folder: Path) -> None:
    with another_process(session, folder) as process:
        process.kill()
        process.wait()
        SessionLock(session, folder=folder).take_now()


def test_two_in_one_process_exclude_each_other_until_release_or_the_end_of_the_first(
    session: Path, folder: Path
) -> None:
    first, second = (SessionLock(session, folder=folder) for _ in range(2))
    first.take_now()
    first.take_now()
    with pytest.raises(SessionError):
        second.take_now()
    first.release()
    first.release()
    second.take_now()
    del second
    gc.collect()
    first.take_now()


def test_the_file_of_a_lock_says_who_has_it_and_stays(session: Path, folder: Path) -> None:
    lock = SessionLock(session, folder=folder)
    lock.take_now()
    (file,) = folder.iterdir()
    holder = json.loads(file.read_text())
    assert (holder["pid"], holder["host"], holder["app"]) == (
        os.getpid(),
        socket.gethostname(),
        f"dsh-lsp {__version__}",
    )
    assert abs(holder["since"] / 1000 - time.time()) < 60
    assert file.stat().st_mode & 0o077 == 0
    before = file.stat().st_ino
    lock.release()
    SessionLock(session, folder=folder).take_now()
    assert [entry.stat().st_ino for entry in folder.iterdir()] == [before]


def test_one_session_by_two_names_is_one_lock(session: Path, folder: Path) -> None:
    session.parent.mkdir()
    link = session.parent.with_name("link")
    link.symlink_to(session.parent)
    SessionLock(session, folder=folder).take_now()
    first = SessionLock(session, folder=folder)
    first.take_now()
    with pytest.raises(SessionError):
        SessionLock(link / "s.jsonl", folder=folder).take_now()


def test_children_do_not_inherit_a_lock(session: Path, folder: Path) -> None:
    lock = SessionLock(session, folder=folder)
    lock.take_now()
    arguments = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout is not None
        child.stdout.readline()
        lock.release()
        again = SessionLock(session, folder=folder)
        again.take_now()
        assert again.taken
        child.kill()


async def test_a_window_that_reloads_gets_its_session_as_soon_as_the_old_server_is_gone(
    session: Path, folder: Path
) -> None:
    old, new = (SessionLock(session, folder=folder) for _ in range(2))
    await old.take()
    got = anyio.Event()

    async def wait() -> None:
        await new.take()
        got.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.sleep(0.12)
        assert not new.taken
        old.release()
        with anyio.fail_after(4):
            await got.wait()
    assert new.taken


async def test_waiting_has_an_end(session: Path, folder: Path) -> None:
    first = SessionLock(session, folder=folder)
    await first.take()
    began = anyio.current_time()
    with pytest.raises(SessionError) as refused:
        await SessionLock(session, folder=folder).take(0.2)
    assert refused.value.code == "SESSION_LOCKED"
    assert 0.2 <= anyio.current_time() - began < 3


def test_a_lock_file_that_cannot_be_made_is_named(session: Path, tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file")
    with pytest.raises(SessionError, match="cannot be made: ") as refused:
        SessionLock(session, folder=tmp_path / "locks").take_now()
    assert refused.value.code == "LOG_NOT_WRITABLE"
    with pytest.raises(SessionError, match="cannot be made: "):
        SessionLock(session, folder=tmp_path / "other", lock=cannot(errno.EIO)).take_now()


# -- systems without locks -----------------------------------------------------------------------------------

UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@pytest.mark.parametrize("code", UNSUPPORTED, ids=errno.errorcode.get)
def test_where_files_cannot_be_locked_a_file_stands_for_the_lock_with_one_warning(
    session: Path, folder: Path, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    first, second = (SessionLock(session, folder=folder, lock=cannot(code)) for _ in range(2))
    first.take_now()
    with pytest.raises(SessionError, match=f"process {os.getpid()} "):
        second.take_now()
    first.release()
    second.take_now()
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    second.release()
    assert [file.read_text() for file in folder.glob("*.held")] == ["null"], "one file says that nobody has it"
    assert {file.suffix for file in folder.iterdir()} == {".lock", ".held"}, "nothing else stays"


def left_behind(session: Path, folder: Path, **changes: object) -> None:
    """The file of a holder, changed."""
    lock = SessionLock(session, folder=folder, lock=cannot(errno.ENOLCK))
    lock.take_now()
    (file,) = folder.glob("*.held")
    holder = json.loads(file.read_text())
    lock.release()
    file.write_text(json.dumps({**holder, **changes}))


def a_dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def takes(session: Path, folder: Path) -> bool:
    try:
        anyio.run(SessionLock(session, folder=folder, lock=cannot(errno.ENOLCK)).take, 0.2)
    except SessionError:
        return False
    return True


def test_a_file_that_a_dead_process_left_does_not_count(session: Path, folder: Path) -> None:
    left_behind(session, folder, pid=a_dead_process())
    assert takes(session, folder)
    assert len(list(folder.glob("*.held"))) == 1


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs the start times of processes")
def test_a_file_of_a_process_whose_number_another_one_has_now_does_not_count(session: Path, folder: Path) -> None:
    left_behind(session, folder, since=1_000_000_000_000)
    assert takes(session, folder)


@pytest.mark.parametrize("changes", [{}, {"host": "elsewhere", "pid": 2**22 + 1}], ids=["alive", "another host"])
def test_a_file_of_a_process_that_may_live_counts(session: Path, folder: Path, changes: dict[str, object]) -> None:
    left_behind(session, folder, **changes)
    assert not takes(session, folder)


def test_an_unreadable_file_is_nobodys_after_a_while(session: Path, folder: Path) -> None:
    left_behind(session, folder)
    (file,) = folder.glob("*.held")
    file.write_text("")
    assert not takes(session, folder), "somebody may be writing it"
    os.utime(file, (1, 1))
    assert takes(session, folder)


def test_one_of_many_takes_what_a_dead_process_left(session: Path, folder: Path) -> None:
    left_behind(session, folder, pid=a_dead_process())
    locks = [SessionLock(session, folder=folder, lock=cannot(errno.ENOLCK)) for _ in range(8)]

    async def race() -> int:
        won = 0

        async def one(lock: SessionLock) -> None:
            nonlocal won
            try:
                await lock.take(0.1)
                won += 1
            except SessionError:
                pass

        async with anyio.create_task_group() as tasks:
            for lock in locks:
                tasks.start_soon(one, lock)
        return won

    for _ in range(5):
        assert anyio.run(race) == 1
        for lock in locks:
            lock.release()


def test_the_highest_number_counts_whatever_else_lies_there(session: Path, folder: Path) -> None:
    left_behind(session, folder, pid=a_dead_process())
    first, late = (SessionLock(session, folder=folder, lock=cannot(errno.ENOLCK)) for _ in range(2))
    first.take_now()
    first.release()
    first.take_now()
    (file,) = folder.glob("*.held")
    stem, number, _ = file.name.split(".")
    assert number == "3"
    (folder / f"{stem}.2.held").write_text("null")
    with pytest.raises(SessionError):
        late.take_now()
    assert takes(session, folder) is False
    first.release()


def test_the_module_says_how_long_a_window_may_take_to_reload() -> None:
    assert lock_module.WAIT_S == 5.0


@pytest.mark.parametrize("system", [system_lock, cannot(errno.ENOLCK)], ids=["locks", "no locks"])
def test_whether_a_session_is_held_can_be_asked_without_taking_it(
    session: Path, folder: Path, system: Callable[[int], None]
) -> None:
    lock, asking = (SessionLock(session, folder=folder, lock=system) for _ in range(2))
    assert not asking.is_held()
    assert not folder.exists(), "a look makes nothing"
    lock.take_now()
    assert asking.is_held()
    lock.release()
    assert not asking.is_held()
    lock.take_now()
    assert asking.is_held()
    lock.release()
