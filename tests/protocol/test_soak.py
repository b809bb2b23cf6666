"""Soak: one server, three sessions and many turns; at the end the server holds what it held at the start.

Rules: what has happened in a session stays in its log while the session is open, so the sessions are thrown away at
the end: whatever outlives them is a leak. `SOAK_TURNS` says how many turns there are; a run prints its figures.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from lsprotocol import types

from dsh_lsp.llm.chat_wire import Histories
from tests.support import soak_probe
from tests.support.fake_editor import FakeEditor, fake_editor
from tests.support.model_server import FakeModelServer, Gate, Reply, Request, answer, chunk, event, refusal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")

TURNS = int(os.environ.get("SOAK_TURNS", "500"))  # of all sessions together
READS, EDITS = 18, 6  # calls of a turn that nobody stops
FILES = 20
WAIT_S = 60.0
SUMMARY_TOKENS = 8_192  # what the answer to a request for a summary may have, and no other
TOKENS = 50_000  # of a request, as the server counts them
COMPACTED = 20  # turns of a session between two summaries
OPENED = 25  # turns between two sessions that come and go, and between two reloads
# What may be more, and why: a connection or a thread that is kept for the next who needs one.
IDLE = {"tasks": 0, "futures": 0, "descriptors": 4, "children": 0, "threads": 10}
BLOCKS_LIMIT = 1.05  # of those that Python has allocated
MEMORY_LIMIT = 16 << 20  # between two equal halves; the first one shows how much an allocator keeps for the next

Kind = Literal["plain", "shell", "rejected", "retried", "cancelled", "cancelledInReview"]
KINDS: tuple[Kind, ...] = (
    "plain",
    "shell",
    "rejected",
    "plain",
    "retried",
    "plain",
    "cancelled",
    "cancelledInReview",
)


class Tally(list[dict[str, Any]]):
    """The events of all sessions, counted and not kept; those of a replay were counted before."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.probes: list[dict[str, Any]] = []
        self._last: dict[str, int] = {}

    def append(self, value: dict[str, Any]) -> None:
        session, seq, tag = value["session"], value.get("seq"), value["type"]
        if seq is not None:
            if seq <= self._last.get(session, -1):
                return
            self._last[session] = seq
        self.counts[session, tag] += 1
        if tag == "review/decided":
            self.outcomes.update(hunk["outcome"] for hunk in value["data"]["hunks"])
        if tag == "tool/result":
            text = value["data"]["message"]["content"][0]["content"][0]["text"]
            if text.startswith('{"objects"'):
                self.probes.append(json.loads(text))

    def total(self, tag: str) -> int:
        return sum(count for (_, found), count in self.counts.items() if found == tag)


@dataclass
class Model:
    """Answers each request by what its turn is about: `Turn <number> <kind> <file>`."""

    root: Path
    editor: FakeEditor | None = None
    gates: dict[str, Gate] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)  # turns whose first request is refused

    def __call__(self, request: Request) -> Reply:
        messages = request.body["messages"]
        if request.body["max_tokens"] == SUMMARY_TOKENS:
            return _answer("In short: many lines were changed.")
        asked = [n for n, m in enumerate(messages) if m["role"] == "user" and m["content"].startswith("Turn ")]
        turn = messages[asked[-1]]["content"]
        _, number, kind, name = turn.split()
        step = sum(message["role"] == "assistant" for message in messages[asked[-1] :])
        if kind == "probe":
            return _answer("Done.") if step else _answer("", calls=[("probe", {})])
        if turn in self.busy:
            self.busy.remove(turn)
            return refusal(503, {"error": {"message": "busy"}}, headers={"Retry-After": "30"})
        if step == 0:
            return self._reads(turn, kind, name)
        return self._edits(number, name) if step == 1 else _answer(f"Turn {number} is done.")

    def _reads(self, turn: str, kind: str, name: str) -> Reply:
        if turn in self.gates:
            return _answer("x").before(event(chunk({"content": "Let me"})), self.gates[turn])
        calls: list[tuple[str, Any]] = [("read_file", {"path": f"data/{n}.txt"}) for n in range(READS - 4)]
        calls += [("read_file", {"path": name}), ("list_files", {}), ("search", {"pattern": "7"})]
        calls += [("shell", {"command": "echo hello"}) if kind == "shell" else ("todo", {"items": [{"text": turn}]})]
        return _answer("I look.", calls=calls)

    def _edits(self, number: str, name: str) -> Reply:
        assert self.editor is not None
        buffer = self.editor.buffers.get(self.editor.uri(name))
        lines = (buffer.text if buffer is not None else (self.root / name).read_text()).splitlines()
        edits = [
            ("edit_file", {"path": name, "old_text": line, "new_text": f"{line.split(' =')[0]} = {number}"})
            for line in lines[1 : EDITS + 1]
        ]
        return _answer("I edit.", calls=edits)


def _answer(text: str, calls: Iterable[tuple[str, Any]] = ()) -> Reply:
    return answer(text, reasoning="Hm. " * 20, calls=calls, usage=(TOKENS, 50), delta_chars=64)


class Soak:
    """Three people who work at once in one editor, each in a session of their own."""

    def __init__(self, editor: FakeEditor, model: Model) -> None:
        self.editor, self.model = editor, model
        self.tally: Tally = editor.events  # type: ignore[assignment]
        self.number = 0
        self.memory: list[tuple[int, int]] = []
        self.registered: Counter[str] = Counter()
        self._register(editor.client)

    def _register(self, client: Any) -> None:
        for method in ("client/registerCapability", "client/unregisterCapability"):
            client.protocol.fm.features.pop(method, None)

        @client.feature("client/registerCapability")
        def register(params: types.RegistrationParams) -> None:
            self.registered.update(one.id for one in params.registrations)
            assert max(self.registered.values()) == 1, "one id means two registrations"

        @client.feature("client/unregisterCapability")
        def unregister(params: types.UnregistrationParams) -> None:
            self.registered.subtract(one.id for one in params.unregisterations)

    async def measure(self) -> dict[str, Any]:
        """What the server holds, with a session that was made for it alone."""
        for _ in range(Histories.SESSIONS):  # so many histories are kept for requests to come, whosever they are
            await self._visit("probe")
        return self.tally.probes[-1]

    async def rounds(self, turns: int) -> None:
        """Work in three sessions, then throw them away."""
        desks = [("auto-edit", "a.py"), ("ask", "b.py"), ("ask", "c.py")]
        sessions = {name: (await self._new(mode), mode) for mode, name in desks}
        for name in ("a.py", "b.py"):  # nobody has opened the third
            self.editor.open(name)
        async with anyio.create_task_group() as work:
            for name, (session, mode) in sessions.items():
                work.start_soon(self._work, session, name, mode, turns // len(desks))
        for name in ("a.py", "b.py"):
            self.editor.close(name)
        for session, _ in sessions.values():
            await self._command("dsh.session.delete", session=session)

    async def _work(self, session: str, name: str, mode: str, turns: int) -> None:
        for turn in range(turns):
            self.number += 1
            number, kind = self.number, KINDS[turn % len(KINDS)]
            await self._turn(session, f"Turn {number} {kind} {name}", kind, mode, name)
            if name == "a.py":
                self.memory.append((number, _resident(self.editor.client._server.pid)))
            if turn % COMPACTED == COMPACTED - 1:
                done = self.tally.counts[session, "compact/done"]
                await self._command("dsh.compact", session=session)
                await self._count(session, "compact/done", done + 1)
            if number % OPENED == 0:
                await self._visit("plain")
                await self._command("dsh.session.open", session=session)
                await self._command("dsh.plugins.reload")

    async def _turn(self, session: str, text: str, kind: Kind, mode: str, name: str) -> None:
        tags = ("turn/end", "review/opened", "llm/retry")
        ended, opened, retried = (self.tally.counts[session, tag] for tag in tags)
        if kind == "cancelled":
            self.model.gates[text] = Gate()
        if kind == "retried":
            self.model.busy.add(text)
        await self._command("dsh.followup", session=session, text=text)
        match kind:
            case "cancelled":
                await self.model.gates[text].wait_reached(WAIT_S)
                await self._command("dsh.cancel", session=session)
            case "retried":
                await self._count(session, "llm/retry", retried + 1)
                await self._command("dsh.retry", session=session)
            case _:
                pass
        if kind != "cancelled" and mode == "ask":
            await self._count(session, "review/opened", opened + EDITS)
            await self._decide(session, kind, name)
        await self._count(session, "turn/end", ended + 1)
        self.model.gates.pop(text, None)

    async def _decide(self, session: str, kind: Kind, name: str) -> None:
        if self.editor.uri(name) in self.editor.buffers:
            self.editor.type(name, 0, 1, "#")  # a key while it waits
        if kind == "cancelledInReview":
            await self._command("dsh.cancel", session=session)
        else:
            verb = "reject" if kind == "rejected" else "accept"
            await self._command(f"dsh.review.{verb}", session=session, hunks="all")

    async def _visit(self, kind: str) -> None:
        """Open a session, have one turn in it, and throw it away."""
        session = await self._new("auto-edit")
        await self._command("dsh.followup", session=session, text=f"Turn 0 {kind} visit.py", wait=True)
        await self._command("dsh.session.delete", session=session)

    async def _new(self, mode: str) -> str:
        session: str = _field(await self._command("dsh.session.new"), "session")
        await self._command("dsh.mode.set", session=session, mode=mode)
        return session

    async def _command(self, name: str, **argument: Any) -> Any:
        return await self.editor.command(name, argument, timeout_s=WAIT_S)

    async def _count(self, session: str, tag: str, count: int) -> None:
        await self.editor.until(lambda: self.tally.counts[session, tag] >= count, WAIT_S)


def _field(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, dict) else getattr(value, name)


def _resident(process: int) -> int:
    """Bytes in memory."""
    fields = Path(f"/proc/{process}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def slope(points: Iterable[tuple[int, int]]) -> float:
    """The least squares' rise a turn, of the second half: the first one warms up."""
    known = list(points)
    half = known[len(known) // 2 :]
    xs, ys = zip(*half, strict=True)
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in half) / max(1.0, sum((a - x) ** 2 for a in xs))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    for number in range(FILES):
        (root / "data" / f"{number}.txt").write_text(f"This is number {number}.\n")
    for name in ("a", "b", "c", "visit"):
        (root / f"{name}.py").write_text("#\n" + "".join(f"value_{n} = 0\n" for n in range(EDITS)))
    return root


@pytest.mark.timeout(900)
async def test_a_server_holds_at_the_end_what_it_held_at_the_start(project, tmp_path) -> None:
    model = Model(project)
    capabilities = types.ClientCapabilities(
        window=types.WindowClientCapabilities(work_done_progress=True),
        workspace=types.WorkspaceClientCapabilities(
            apply_edit=True,
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(
                dynamic_registration=True, relative_pattern_support=True
            ),
        ),
    )
    options = {"plugins": [soak_probe.__file__], "shell": {"allow": ["echo *"]}}
    began = time.monotonic()
    with FakeModelServer(*[model] * (TURNS * 10)) as server:
        async with fake_editor(
            project,
            model_url=server.url,
            capabilities=capabilities,
            dsh={"save": True},
            options=options,
            events=Tally(),
        ) as editor:
            model.editor = editor
            soak = Soak(editor, model)
            await soak.rounds(3 * len(KINDS))
            before = await soak.measure()
            await soak.rounds(TURNS // 2)
            middle = await soak.measure()
            await soak.rounds(TURNS // 2)
            after = await soak.measure()
        report(soak, [before, middle, after], time.monotonic() - began)
    tally = soak.tally
    done = (tally.total("turn/end"), tally.total("tool/call"), tally.outcomes["landed"])
    assert all(number >= each * TURNS for number, each in zip(done, (1, 20, 4), strict=True)), done
    leaks = {name: (before["objects"].get(name, 0), n) for name, n in after["objects"].items()}
    assert {name: counts for name, counts in leaks.items() if counts[1] > counts[0]} == {}
    assert {name: after[name] - before[name] for name in IDLE if after[name] > before[name] + IDLE[name]} == {}
    assert after["blocks"] < before["blocks"] * BLOCKS_LIMIT
    assert after["memory"] - middle["memory"] < MEMORY_LIMIT
    assert not +soak.registered, "files are still watched"
    kinds: dict[str, list[str]] = {}
    for token, value in editor.progress:
        kinds.setdefault(token, []).append(value["kind"] if isinstance(value, dict) else value.kind)
    assert {(told[0], told[-1], told.count("end")) for told in kinds.values()} == {("begin", "end", 1)}
    assert all(message.startswith("DSH proposes") for message in editor.messages), editor.messages
    assert [path.read_text() for path in tmp_path.rglob("*.log")] == []


def report(soak: Soak, measured: list[dict[str, Any]], seconds: float) -> None:
    """Print the figures."""
    tally = soak.tally
    lines = [
        f"{tally.total('turn/end')} turns, {tally.total('tool/call')} tool calls in {seconds:.0f} s",
        f"edits: {dict(tally.outcomes)}",
        f"memory while the sessions grow: {slope(soak.memory) / 1024:.1f} KiB a turn",
        *(f"{name}: {', then '.join(str(one[name]) for one in measured)}" for name in (*IDLE, "blocks", "memory")),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
