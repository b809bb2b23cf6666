"""Session files, L147 to L154: each line of `docs/sessions.md` has a test here, and each test a line there."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.decisions import (
    ApprovalAsked,
    EditLanded,
    HunkDecided,
    ReviewDecided,
    ReviewFile,
    ReviewHunk,
    ReviewOpened,
)
from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.events import (
    Ended,
    EventData,
    PluginEvent,
    RequestHeaderLogged,
    StepStart,
    ToolResult,
    TurnEnd,
    TurnStart,
    encode_event,
)
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.messages import TextBlock, UserMessage, UserSource
from dsh_lsp.session.loading import Loaded, inspect_session, load_session
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.store import SessionStore
from dsh_lsp.wire import dump_bytes
from tests.contract.test_crash import HERE
from tests.contract.test_session_lines import answer, called
from tests.support.disk import RecordingFile
from tests.support.headless import Add, headless
from tests.support.loop import ends, texts

ROOT = Path(__file__).parents[2]
DONE = Ended(kind="completed")
PAGE = (ROOT / "docs" / "sessions.md").read_text()


def test_the_page_and_the_tests_have_the_same_lines() -> None:
    page = re.findall(r"^- \*\*L(\d{3})\*\* ", PAGE, re.MULTILINE)
    tests = set(re.findall(r"^(?:async )?def test_l(\d{3})_", Path(__file__).read_text(), re.MULTILINE))
    assert sorted(tests) == page == [str(number) for number in range(147, 155)]


def words(number: int) -> UserMessage:
    return UserMessage(id=f"m{number}", content=(TextBlock(text=f"words {number}"),), source=UserSource())


def new_log(*data: EventData, session: str = "s") -> SessionLog:
    log = SessionLog(SessionHeader(id=session, created_at=5, cwd="/w"), clock=lambda: 7)
    for each in data:
        log.append(each)
    return log


async def written(folder: Path, *data: EventData) -> Path:
    """A session file with these events."""
    store = SessionStore.create(folder, new_log(*data))
    await store.close()
    return store.path


async def loaded_from(path: Path) -> Loaded:
    return await anyio.to_thread.run_sync(inspect_session, path)


def add_to(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


# -- writing -------------------------------------------------------------------------------------------------


async def test_l147_no_file_before_the_first_barrier_then_one_with_its_header_first(tmp_path: Path) -> None:
    log = new_log()
    store = SessionStore.create(tmp_path / "deep", log)
    log.append(words(1))
    log.append(TurnStart(turn=1))
    assert not (tmp_path / "deep").exists()
    await store.close()
    rows = (tmp_path / "deep" / "s.jsonl").read_bytes().splitlines()
    assert rows[0] == b'{"type":"session","id":"s","createdAt":5,"cwd":"/w","version":0}'
    assert rows[1:] == [dump_bytes(encode_event(event)) for event in log]


@pytest.mark.parametrize(
    "session", ["", ".", "..", "../x", "a/b", "a\\b", "C:x", ".hidden", "a b", "é", "x" * 129, "a\n"]
)
def test_l147_an_id_that_is_no_plain_file_name_is_refused(tmp_path: Path, session: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a session"):
        SessionStore.create(tmp_path, new_log(session=session))


async def test_l147_a_file_that_is_there_already_is_not_written_to(tmp_path: Path) -> None:
    path = await written(tmp_path, words(1))
    before = path.read_bytes()
    store = SessionStore.create(tmp_path, new_log(words(2)))
    with pytest.raises(SessionError, match="another program changed it"):
        await store.flush()
    await store.close()
    assert path.read_bytes() == before


async def test_l148_what_comes_between_barriers_is_one_write_and_one_sync() -> None:
    disk, log = RecordingFile(), new_log()
    store = SessionStore.create(Path("/nowhere"), log, opener=disk.open)
    for number in range(20):
        log.append(words(number))
    assert disk.operations == []
    await store.flush()
    await store.flush()
    assert [kind for kind, _ in disk.operations] == ["write", "sync"]
    async with anyio.create_task_group() as tasks:
        for number in range(20, 40):
            log.append(words(number))
            tasks.start_soon(store.flush)
    assert [kind for kind, _ in disk.operations] == ["write", "sync"] * 2
    assert disk.content.count(b"\n") == 41
    await store.close()


FAULTS: dict[str, dict[str, Any]] = {
    "the disk is full": {"room": 300},
    "the disk is full at once": {"room": 0},
    "a write fails": {"fails": {"write": errno.EIO}},
    "a sync fails": {"fails": {"sync": errno.EIO}},
    "no permission": {"fails": {"open": errno.EACCES}},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_l149_a_failed_write_leaves_no_part_and_no_gap(tmp_path: Path, fault: dict[str, Any]) -> None:
    log = new_log(words(1))
    good = RecordingFile()
    store = SessionStore.create(tmp_path, log, opener=good.open)
    if "open" not in fault.get("fails", {}):
        await store.flush()
    before = good.content
    for name, value in fault.items():
        setattr(good, name, value)
    for number in range(2, 9):
        log.append(words(number))
    for _ in range(2):
        with pytest.raises(SessionError, match=r"cannot be written: .+; the session is read-only") as refused:
            await store.flush()
        assert refused.value.code == "LOG_NOT_WRITABLE"
    assert good.content == before
    await store.close()
    (tmp_path / "s.jsonl").write_bytes(before)
    if not before:
        return
    loaded = await loaded_from(tmp_path / "s.jsonl")
    assert [event.seq for event in loaded.events] == [0]
    again = SessionStore.resume(loaded)
    loaded.log.append(words(9))
    await again.close()
    assert [event.seq for event in (await loaded_from(again.path)).events] == [0, 1]


async def test_l149_what_cannot_be_taken_back_is_told_and_does_not_count(tmp_path: Path) -> None:
    disk, log = RecordingFile(), new_log(words(1))
    store = SessionStore.create(tmp_path, log, opener=disk.open)
    await store.flush()
    log.append(words(2))
    disk.room, disk.fails = 50, {"truncate": errno.EIO}
    with pytest.raises(
        SessionError, match="No space left on device; what was written of it could not be taken back: Inp"
    ):
        await store.flush()
    await store.close()
    (tmp_path / "s.jsonl").write_bytes(disk.content)
    loaded = await loaded_from(tmp_path / "s.jsonl")
    assert (len(loaded.log), loaded.torn) == (1, True)


# -- loading -------------------------------------------------------------------------------------------------

OPEN = (words(1), TurnStart(turn=1), StepStart(turn=1, step=1), answer("c"), called("c"))


async def test_l150_a_torn_end_is_left_out_and_cut_off_by_the_next_write(tmp_path: Path) -> None:
    path = await written(tmp_path, *OPEN)
    before = path.read_bytes()
    torn = b'{"type":"tool/result","seq":5,"time":12345'
    add_to(path, torn)
    loaded = await loaded_from(path)
    store = SessionStore.resume(loaded)
    assert path.read_bytes() == before + torn, "opening writes nothing"
    await store.flush()
    after = path.read_bytes()
    assert after.startswith(before)
    assert torn not in after
    assert [event.type for event in load_session(path).events[5:]] == ["tool/result", "step/end", "turn/end"]
    await store.close()


async def test_l150_a_whole_last_record_without_its_line_end_is_kept(tmp_path: Path) -> None:
    path = await written(tmp_path, words(1), words(2))
    path.write_bytes(path.read_bytes()[:-1])
    loaded = await loaded_from(path)
    assert (len(loaded.log), loaded.torn, loaded.unended) == (2, False, True)
    store = SessionStore.resume(loaded)
    loaded.log.append(words(3))
    await store.close()
    assert load_session(path).events == list(loaded.log)
    assert path.read_bytes().count(b"\n") == 4


async def test_l150_damage_before_the_end_of_a_later_turn_is_refused_with_its_line(tmp_path: Path) -> None:
    path = await written(tmp_path, TurnStart(turn=1), words(1), TurnEnd(turn=1, reason=DONE))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\0" * 40 + b"\n", *lines[3:]]))
    with pytest.raises(SessionError, match="line 3 is damaged") as refused:
        load_session(path)
    assert refused.value.code == "LOG_NOT_READABLE"


async def test_l150_one_bad_log_hides_no_other(tmp_path: Path) -> None:
    good = await written(tmp_path, words(1))
    (tmp_path / "bad.jsonl").write_bytes(b"\0\0\0")
    with pytest.raises(SessionError, match="not a session log"):
        load_session(tmp_path / "bad.jsonl")
    assert len(load_session(good).log) == 1


async def test_l151_an_unknown_event_is_refused_unless_it_may_be_ignored(tmp_path: Path) -> None:
    known = await written(tmp_path / "a", words(1), PluginEvent(tag="x/y", data={}, ignorable=True), words(2))
    assert [event.type for event in load_session(known).events] == ["user/message", "x/y", "user/message"]
    unknown = await written(tmp_path / "b", words(1), PluginEvent(tag="x/y", data={}))
    with pytest.raises(SessionError, match="line 3: this version does not know the event 'x/y'") as refused:
        load_session(unknown)
    assert refused.value.code == "LOG_NOT_SUPPORTED"


def test_l151_a_newer_format_is_refused_as_newer(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"type":"session","id":"s","createdAt":5,"cwd":"/w","version":1}\n')
    with pytest.raises(SessionError, match="a newer version of this program: it has format 1") as refused:
        load_session(path)
    assert refused.value.code == "LOG_NOT_SUPPORTED"


async def test_l152_inspecting_changes_no_file_and_resuming_closes_once(tmp_path: Path) -> None:
    asked = ApprovalAsked(id="a", tool_name="t", call_id="c", effects=())
    seen = EditLanded(proposal="p", hunk="h1", uri="file:///a", range=HERE, before="a", after="b")
    decided = ReviewDecided(proposal="p", hunks=(HunkDecided(id="h3", outcome="rejected"),))
    path = await written(tmp_path, *OPEN, asked, review("p", "h1", "h2", "h3"), seen, decided)
    before = path.read_bytes()
    first = await loaded_from(path)
    expected = ["approval/decided", "review/decided", "tool/result", "step/end", "turn/end"]
    assert [event.type for event in first.closers] == expected
    assert first.closers[0].data.outcome.kind == "cancelled"
    outcomes = [(hunk.id, hunk.outcome) for hunk in first.closers[1].data.hunks]
    assert outcomes == [("h1", "landed"), ("h2", "cancelled")], "what was seen in its document has landed"
    assert path.read_bytes() == before
    for _ in range(3):
        loaded = await loaded_from(path)
        store = SessionStore.resume(loaded)
        await store.flush()
        await store.close()
        assert load_session(path).events == first.events


def review(proposal: str, *hunks: str) -> ReviewOpened:
    made = tuple(ReviewHunk(id=hunk, range=HERE, old_text="a", new_text="b") for hunk in hunks)
    return ReviewOpened(proposal=proposal, files=(ReviewFile(uri="file:///a", kind="edit", hunks=made),))


async def test_l152_a_live_session_is_not_repaired() -> None:
    log = new_log(*OPEN)
    store = SessionStore.create(Path("/nowhere"), log, opener=RecordingFile().open)
    await store.close()
    assert len(log) == len(OPEN)
    assert log.state.turn_open


# -- going on ------------------------------------------------------------------------------------------------


async def test_l153_a_resumed_session_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    async with headless([say("One.")]) as first:
        store = SessionStore.create(tmp_path, first.log)
        await first.ask("First.")
        first.agent.inject(first.say("A note."))
        await store.close()
        before, history = list(first.log), first.log.derive_messages()
    loaded = await loaded_from(path)
    assert loaded.events == before
    assert loaded.log.derive_messages() == history
    async with headless([say("Two.")], events=loaded.events) as second:
        assert texts(second.agent.inbox.next_step) == ["A note."]
        await second.ask("Second.")
        assert [event.seq for event in second.log] == list(range(len(second.log)))
        assert [e.data.turn for e in second.of("turn/start")] == [1, 2]
        headers = [e.data.reason for e in second.log if isinstance(e.data, RequestHeaderLogged)]
        assert headers == ["initial", "resume"]
        assert texts(second.model.requests[0].messages) == ["First.", "One.", "A note.", "Second."]


async def test_l153_a_session_that_is_not_there_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(SessionError) as refused:
        await loaded_from(tmp_path / "gone.jsonl")
    assert refused.value.code == "UNKNOWN_SESSION"


def barrier_that_fails(after: int, log_full: RecordingFile) -> Any:
    """What an agent waits for; the disk is full from one of the barriers on."""
    left = after
    stores: list[SessionStore] = []

    async def barrier() -> None:
        nonlocal left
        if left == 0:
            log_full.room = 0
        left -= 1
        await stores[0].flush()

    return barrier, stores


async def test_l154_a_failed_barrier_before_a_request_ends_the_turn_unasked() -> None:
    disk = RecordingFile()
    barrier, stores = barrier_that_fails(0, disk)
    async with headless([say("never")], parts={"barrier": barrier}) as h:
        stores.append(SessionStore.create(Path("/nowhere"), h.log, opener=disk.open))
        await h.ask("Hello.")
        assert h.model.requests == []
        assert ends(h.log) == ["error"]
        assert h.log[-1].data.reason.error.code == "LOG_NOT_WRITABLE"
        await stores[0].close()
    assert disk.content == b""


async def test_l154_a_failed_barrier_before_a_tool_answers_its_call_and_runs_nothing() -> None:
    disk = RecordingFile()
    barrier, stores = barrier_that_fails(1, disk)
    ran: list[object] = []

    class Noted(Add):
        async def execute(self, args: Any, execution: Any) -> Any:
            ran.append(args)
            return await super().execute(args, execution)

    async with headless([call("add", a=1, b=2)], tools=[Noted()], parts={"barrier": barrier}) as h:
        stores.append(SessionStore.create(Path("/nowhere"), h.log, opener=disk.open))
        await h.ask("Add.")
        assert ran == []
        (result,) = [e.data for e in h.log if isinstance(e.data, ToolResult)]
        assert result.error is not None
        assert result.error.code == "LOG_NOT_WRITABLE"
        assert ends(h.log) == ["error"], "the next request's barrier fails, too"
        await stores[0].close()


async def test_l154_a_cancel_during_the_barrier_before_a_tool_dispatches_nothing() -> None:
    barriers = 0
    reached, release = anyio.Event(), anyio.Event()

    async def barrier() -> None:
        nonlocal barriers
        barriers += 1
        if barriers == 2:
            reached.set()
            await release.wait()

    async with headless([call("add", a=1, b=2)], tools=[Add()], parts={"barrier": barrier}) as h:
        h.agent.followup(h.say("Add."))
        await reached.wait()
        h.agent.cancel(USER)
        release.set()
        await h.idle()
        (result,) = [e.data for e in h.log if isinstance(e.data, ToolResult)]
        assert result.error is not None
        assert result.error.code == "ABORTED_BEFORE_DISPATCH"
        assert ends(h.log) == ["aborted"]
