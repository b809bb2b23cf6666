"""Crashes: whenever the process dies, what it acknowledged is there, and the session goes on.

Scripted turns run over a store whose disk remembers each write and sync. A crash keeps what was synced and any first
part of the rest; each of the hundreds of files that this may leave is opened again, looked at, and gone on with.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.agent.inbox import Inbox
from dsh_lsp.decisions import (
    Allowed,
    ApprovalAsked,
    ApprovalDecided,
    EditLanded,
    HunkDecided,
    Position,
    Range,
    ReviewDecided,
    ReviewFile,
    ReviewHunk,
    ReviewOpened,
)
from dsh_lsp.events import EventData, InboxSpliced, LogEvent, ToolCall, ToolResult, TurnEnd, TurnStart
from dsh_lsp.llm.scripted import Reply, call, fail, hold, say, think
from dsh_lsp.messages import AssistantMessage, Message, ToolResultBlock, UserMessage
from dsh_lsp.session.loading import Loaded, inspect_session
from dsh_lsp.session.log import SessionLog
from dsh_lsp.session.store import SessionStore
from tests.support.disk import RecordingFile, crashes
from tests.support.headless import Add, Headless, headless
from tests.support.loop import Acts, Waits, settled

FILE = "s1.jsonl"
SECOND_CRASH_EVERY = 7 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 28
HERE = Range(start=Position(line=0, character=0), end=Position(line=0, character=1))


@dataclass
class Recording:
    """A run: its disk, and what it promised after how many operations of the disk."""

    disk: RecordingFile = field(default_factory=RecordingFile)
    accepted: dict[str, int] = field(default_factory=dict)  # messages whose command answered
    asked: list[tuple[int, tuple[Message, ...]]] = field(default_factory=list)  # requests that were sent
    ran: dict[str, int] = field(default_factory=dict)  # calls whose body ran
    states: Counter[str] = field(default_factory=Counter)

    def now(self) -> int:
        return len(self.disk.operations)


class Stage:
    """A scripted run over a recording."""

    def __init__(self, h: Headless, store: SessionStore, recording: Recording) -> None:
        self.h, self.store, self.recording = h, store, recording

    async def accept(self, send: Callable[[UserMessage], object], text: str) -> UserMessage:
        """Send input and wait, as its command does, until it is on disk."""
        message = self.h.say(text)
        send(message)
        await self.store.flush()
        self.recording.accepted[message.id] = self.recording.now()
        return message


@asynccontextmanager
async def stage(script: Sequence[Reply], recording: Recording, *, eager: bool) -> AsyncIterator[Stage]:
    """An agent over a recorded store; `eager` puts each event on disk on its own, not only at barriers."""
    stores: list[SessionStore] = []

    def body(number: int) -> Callable[..., object]:
        def run(execution) -> None:
            recording.ran.setdefault(execution.call_id, recording.now())
            for data in DECIDED[number]:
                h.log.append(data)

        return run

    def noted(reply: Reply) -> Callable[..., Reply]:
        def answer(request) -> Reply:
            recording.asked.append((recording.now(), request.messages))
            return reply

        return answer

    tools = [Add(), *(Acts(body(number), name) for number, name in enumerate(("approves", "reviews", "plain")))]
    async with headless(
        [noted(reply) for reply in script], tools=[*tools, Waits()], parts={"barrier": _barrier(stores)}
    ) as h:
        store = SessionStore.create(Path("/nowhere"), h.log, opener=recording.disk.open)
        stores.append(store)
        async with anyio.create_task_group() as flushes:
            if eager:
                h.log.appended.listen(lambda _: flushes.start_soon(store.flush))
            yield Stage(h, store, recording)
            await h.idle()
            await store.flush()
    await store.close()


def _barrier(stores: Sequence[SessionStore]) -> Callable[[], Awaitable[None]]:
    """The barrier of a store that is made after its agent."""

    async def barrier() -> None:
        await stores[0].flush()

    return barrier


HUNKS = tuple(ReviewHunk(id=f"h{n}", range=HERE, old_text="a", new_text="b") for n in range(2))
DECIDED: tuple[tuple[EventData, ...], ...] = (
    (
        ApprovalAsked(id="ap", tool_name="approves", call_id="c1", effects=()),
        ApprovalDecided(id="ap", outcome=Allowed(kind="allowedOnce")),
    ),
    (
        ReviewOpened(proposal="p", files=(ReviewFile(uri="file:///a", kind="edit", hunks=HUNKS),)),
        EditLanded(proposal="p", hunk="h0", uri="file:///a", range=HERE, before="a", after="b"),
        ReviewDecided(proposal="p", hunks=(HunkDecided(id="h0", outcome="landed"),)),
        ReviewDecided(proposal="p", hunks=(HunkDecided(id="h1", outcome="rejected"),)),
    ),
    (),
)


async def _tools(recording: Recording, *, eager: bool) -> None:
    """Thinking, calls in parallel and alone, an approval, a review, a steer, a failed attempt, a queue."""
    script = [
        think("I must add these two numbers, one after the other.")
        + call("add", id="a1", a=1, b=2)
        + call("add", id="a2", a=3, b=4),
        say("Now I ask.") + call("approves", id="c1") + call("plain", id="c2"),
        call("reviews", id="c3"),
        say("All of it is done, and it took a while to say so."),
        fail("PROVIDER_DOWN"),
        say("After the failure I am here again."),
        say("The last one."),
    ]
    async with stage(script, recording, eager=eager) as s:
        agent = s.h.agent
        await s.accept(agent.followup, "Add them.")
        await s.accept(agent.steer, "And quickly.")
        await s.accept(agent.inject, "A note.")
        await s.accept(agent.followup, "Then this one.")
        await s.h.idle()
        await s.accept(agent.followup, "And again.")
        await s.h.idle()


async def _cancels(recording: Recording, *, eager: bool) -> None:
    """A cancel while it streams, one while a tool runs, dropped and edited input."""
    gate = anyio.Event()
    script = [
        say("This is a long answer that is cut") + hold(gate) + say(" here."),
        call("waits", id="w1"),
        say("Done."),
    ]
    async with stage(script, recording, eager=eager) as s:
        agent = s.h.agent
        await s.accept(agent.followup, "One.")
        await settled(60)
        waiting = await s.accept(agent.followup, "Two.")
        await s.store.flush()
        agent.cancel(USER)
        await s.h.idle()
        edited = s.h.say("Two, but better.")
        agent.inbox.replace(waiting.id, edited)
        await s.store.flush()
        recording.accepted[edited.id] = recording.now()
        await s.accept(agent.followup, "Three.")
        await settled(60)
        await s.store.flush()
        agent.cancel(USER, keep_inbox=False)
        await s.h.idle()
        await s.accept(agent.inject, "Four.")
        await s.accept(agent.followup, "Five.")
        await s.h.idle()


SCRIPTS = {"tools": _tools, "cancels": _cancels}


@cache
def recorded(name: str, eager: bool) -> Recording:
    recording = Recording()
    anyio.run(lambda: SCRIPTS[name](recording, eager=eager))
    assert recording.accepted
    assert recording.asked
    return recording


def opened(path: Path, content: bytes) -> Loaded | None:
    """The session after a crash, closed in memory; None if nothing of it was ever on disk."""
    path.unlink(missing_ok=True)  # a file that is emptied and written again waits for the disk
    path.write_bytes(content)
    if b"\n" not in content and not content.endswith(b"}"):
        return None
    return inspect_session(path)


def calls_and_results(messages: Sequence[Message]) -> None:
    """History is valid: the results of an answer's calls follow it, each once, before anything else."""
    owed: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            assert not owed
            owed = [call.id for call in message.tool_calls]
            continue
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                owed.remove(block.tool_call_id)
            else:
                assert not owed
    assert not owed


def fates(log: SessionLog) -> Counter[str]:
    """How often each message met a fate: became history, was dropped, or waits."""
    found: Counter[str] = Counter()
    lists: dict[str, list[UserMessage]] = {"next-turn": [], "next-step": []}
    for event in log:
        match event.data:
            case UserMessage(id=message_id):
                found[message_id] += 1
            case InboxSpliced(target=target, start=start, removed_count=count, inserted=inserted, outcome=outcome):
                end = start + (count or 0)
                if outcome == "canceled":
                    found.update(message.id for message in lists[target][start:end])
                lists[target][start:end] = inserted
            case _:
                pass
    inbox = Inbox(log)
    found.update(message.id for message in (*inbox.next_turn, *inbox.next_step))
    return found


def decided(log: SessionLog) -> bool:
    """Whether every question has its answer."""
    asked = {event.data.id for event in log if isinstance(event.data, ApprovalAsked)}
    answered = [event.data.id for event in log if isinstance(event.data, ApprovalDecided)]
    opened_ = {h.id for e in log if isinstance(e.data, ReviewOpened) for f in e.data.files for h in f.hunks}
    closed = [hunk.id for e in log if isinstance(e.data, ReviewDecided) for hunk in e.data.hunks]
    return sorted(asked) == sorted(answered) and sorted(opened_) == sorted(closed)


def state_of(loaded: Loaded) -> str:
    """What the crash interrupted, by the first closers."""
    if not loaded.closers:
        return "between turns"
    first = loaded.closers[0]
    if isinstance(first.data, ToolResult):
        assert first.data.error is not None
        return first.data.error.code
    before = loaded.log[first.seq - 1].type
    return f"{first.type} after {before}"


def check(recording: Recording, operations: int, loaded: Loaded | None) -> None:
    """All that must hold after a crash at this point."""
    promised = {message for message, at in recording.accepted.items() if at <= operations}
    if loaded is None:
        assert not promised
        assert not [at for at, _ in recording.asked if at < operations]
        return
    log = loaded.log
    assert not log.state.turn_open
    found = fates(log)
    assert all(found[message] == 1 for message in promised), "accepted input has exactly one fate"
    assert set(found.values()) <= {1}
    calls_and_results(log.derive_messages())
    assert decided(log)
    sent = [messages for at, messages in recording.asked if at <= operations]
    if sent:
        assert log.derive_messages()[: len(sent[-1])] == sent[-1], "what was sent to a model is history"
    logged = {event.data.call_id for event in log if isinstance(event.data, ToolCall)}
    assert {call_id for call_id, at in recording.ran.items() if at <= operations} <= logged, "what ran is known"
    started = [event.data.turn for event in log if isinstance(event.data, TurnStart)]
    ended = [event.data.turn for event in log if isinstance(event.data, TurnEnd)]
    assert started == ended == list(range(1, len(started) + 1))


@pytest.mark.parametrize("eager", [False, True], ids=["barriers", "each event"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_after_a_crash_at_any_point_what_was_promised_is_there(tmp_path: Path, name: str, eager: bool) -> None:
    recording = recorded(name, eager)
    path, other = tmp_path / FILE, tmp_path / "s2.jsonl"
    other.write_bytes(b"another session")
    points = list(crashes(recording.disk))
    states: Counter[str] = Counter()
    for operations, content in points:
        loaded = opened(path, content)
        check(recording, operations, loaded)
        states[state_of(loaded) if loaded else "nothing"] += 1
        assert path.read_bytes() == content
    assert other.read_bytes() == b"another session"
    assert len(points) > (150 if eager else 30)
    if eager and name == "tools":
        expected = {
            "nothing",
            "between turns",
            "TOOL_NOT_STARTED",
            "TOOL_OUTCOME_UNKNOWN",
            "approval/decided after approval/asked",
        }
        expected |= {
            "step/end after assistant/chunk",
            "step/end after tool/result",
            "review/decided after review/opened",
        }
        assert expected <= set(states), states


def _distinct(recording: Recording, path: Path) -> list[tuple[bytes, Loaded]]:
    """One crash for each state of the log; by turns with a whole, a torn and an unended last line."""
    found: dict[tuple[int, int], list[tuple[bytes, Loaded]]] = {}
    for _, content in crashes(recording.disk):
        if (loaded := opened(path, content)) is not None:
            found.setdefault((len(loaded.log), len(loaded.closers)), []).append((content, loaded))
    return [same[number % len(same)] for number, same in enumerate(found.values())]


async def _go_on(loaded: Loaded, disk: RecordingFile) -> tuple[list[LogEvent], list[tuple[Message, ...]]]:
    """Resume a session and run one more turn on it."""
    stores: list[SessionStore] = []
    async with headless(
        [say("I go on."), say("And on.")], events=loaded.events, parts={"barrier": _barrier(stores)}
    ) as h:
        stores.append(store := SessionStore.resume(replace(loaded, log=h.log), opener=disk.open))
        h.agent.followup(replace(h.say("Go on."), id="again"))
        await h.idle()
        await store.close()
    return list(h.log), [request.messages for request in h.model.requests]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_session_goes_on_after_a_crash_and_survives_the_next_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / FILE
    crashed = _distinct(recorded(name, True), path)
    assert len(crashed) >= 40
    for number, (content, loaded) in enumerate(crashed):
        disk = RecordingFile(before=content)
        events, requests = anyio.run(_go_on, loaded, disk)
        assert requests
        for messages in requests:
            calls_and_results(messages)
        path.write_bytes(disk.content)
        again = inspect_session(path)
        assert again.events == events
        assert (again.torn, again.unended) == (False, False)
        assert again.closers == (), "closers are written once"
        if number % SECOND_CRASH_EVERY == 0:
            for _, second in crashes(disk):
                after = opened(path, second)
                assert after is not None
                calls_and_results(after.log.derive_messages())
                shared = len(loaded.log) - len(loaded.closers)
                assert after.events[:shared] == loaded.events[:shared], "nothing is taken back"
                assert set(fates(after.log).values()) <= {1}
