"""Reviews under fire: whatever a user, an editor and a model do meanwhile, an accepted edit is what the report says.

A generated scenario is an editor's manners and a list of actions, each followed by a pause. Time is virtual and
skipped, so a scenario runs the same way each time and hypothesis can shrink it. The laws are named in `Watch`.

An editor that applies edits of version 0 unseen may garble a text whose first keystroke it has not told of; there
the laws are those of the report alone. Not simulated: previews of an editor's own.
"""

from __future__ import annotations

import logging
import os
import tempfile
from itertools import count
from pathlib import Path

import anyio
from hypothesis import HealthCheck, given, settings

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.decisions import EditLanded
from dsh_lsp.errors import SessionError, ToolError
from dsh_lsp.workspace.changes import Prepared
from dsh_lsp.workspace.edits import FileEdit, HunkOutcome, Snapshot
from dsh_lsp.workspace.rope import Rope
from tests.support.review_bench import make_bench, run_virtually
from tests.support.review_laws import Trouble, Watch
from tests.support.review_scenarios import (
    EDITORS,
    NAMES,
    PASTE,
    Action,
    Cancel,
    Cut,
    Decide,
    Key,
    Propose,
    Scenario,
    TakeBack,
    Type,
    scenarios,
)

REST_S = 90.0  # virtual; more than all attempts together may take


class Machine:
    """One scenario."""

    def __init__(self, scenario: Scenario, root: Path, tasks: anyio.abc.TaskGroup) -> None:
        self.scenario = scenario
        self.paths = [root / name for name in NAMES]
        self.tokens = count(1)
        self.first_token = 0
        self.fresh = count()
        self.tasks = tasks
        bench = make_bench(root, tasks, scenario.manners)
        self.documents, self.editor, self.reviews, log = bench.documents, bench.editor, bench.reviews, bench.log
        self.watch = Watch(self.documents, self.editor, log)
        self.watch.opening = lambda proposal: self.reviews._open[proposal].items
        self.signals: list[AbortSignal] = []
        self.outcomes: list[list[HunkOutcome]] = []

    async def run(self) -> None:
        for path, text, opened in zip(self.paths, self.scenario.texts, self.scenario.opened, strict=True):
            path.write_bytes(text.encode())
            if opened:
                self.editor.open(path)
        await anyio.sleep(1)
        for action, pause in self.scenario.actions:
            self.watch.tell(f"-- {action}")
            self.act(action)
            await anyio.sleep(pause)
            self.watch.look_at_what_waits()
        self.editor.flush_all()
        await anyio.sleep(REST_S)
        busy = [item.hunk.id for item in self.watch.items.values() if item.state in ("accepted", "sent")]
        if busy:
            self.watch.breaks(f"7: {busy} are accepted and nobody works on them")
        for signal in self.signals:
            signal.abort(USER)
        await anyio.sleep(REST_S)
        self.watch.at_the_end(self.outcomes)
        if len(self.outcomes) != len(self.signals):
            self.watch.breaks("7: a proposal does not end")

    def act(self, action: Action) -> None:
        match action:
            case Type(file, at, size, kind):
                self.type(self.paths[file].as_uri(), at, size, kind)
            case Key(file, does):
                self.press(self.paths[file], does)
            case Propose(cuts, again):
                if not again:
                    self.first_token = next(self.tokens)
                self.fresh = count(self.first_token)
                self.propose(cuts)
            case Decide(number, kind):
                self.decide(number, kind)
            case TakeBack(number):
                landed = self.reviews.landed.of_turn(1)
                chosen = landed if number < 0 else landed[number : number + 1]
                if chosen:
                    self.tasks.start_soon(self.take_back, chosen)
            case Cancel(number) if self.signals:
                self.signals[number % len(self.signals)].abort(USER)
            case _:
                pass

    def type(self, uri: str, at: int, size: int, kind: str) -> None:
        buffer = self.editor.buffers.get(uri)
        if buffer is None:
            return
        token = f"«{next(self.tokens)}»"
        text = {"word": token, "line": f"{token}\n", "lines": f"\n{token}a\na\n", "paste": PASTE, "nothing": ""}[kind]
        start = at % (len(buffer.state.text) + 1)
        end = min(len(buffer.state.text), start + (size or (kind == "nothing")))
        if text or end > start:
            self.editor.type(uri, start, end, text)

    def press(self, path: Path, does: str) -> None:
        uri = path.as_uri()
        is_open = uri in self.editor.buffers
        if does == "open" and not is_open:
            self.watch.reopened.add(uri)
            self.editor.open(path)
        elif is_open and does == "close":
            self.editor.close(uri)
        elif is_open and does == "undo":
            self.editor.undo(uri)
        elif is_open and does == "save":
            self.editor.save(uri)

    def propose(self, cuts: tuple[Cut, ...]) -> None:
        edits: list[Prepared] = []
        for number, path in enumerate(self.paths):
            mine = sorted((cut for cut in cuts if cut.file == number), key=lambda cut: cut.line, reverse=True)
            document = self.documents.at(path)
            rope = document.rope if document is not None else Rope.of(path.read_bytes().decode())
            body = list(rope.lines())
            for cut in mine:
                self.cut(body, cut)
            if mine and "".join(body) != str(rope):
                base = Snapshot(uri=path.as_uri(), path=path.name, rope=rope)
                change = FileEdit(path=path.name, base=base, new=Rope.of("".join(body)))
                edits.append(Prepared(change=change, path=path))
        if edits:
            self.signals.append(AbortSignal())
            self.tasks.start_soon(self.wait, edits, self.signals[-1])

    def cut(self, body: list[str], cut: Cut) -> None:
        at = cut.line % (len(body) + 1)
        fresh = f"⟦{next(self.fresh)} of {self.first_token}😀⟧\n"
        if cut.kind == "insert" or at == len(body):
            if at == len(body) and body and not body[-1].endswith("\n"):
                at -= 1
            body.insert(at, fresh)
        elif cut.kind == "replace":
            body[at] = fresh
        elif cut.kind == "delete":
            del body[at]
        elif cut.kind == "bare":  # a model forgets the last line end
            body[-1] = fresh.removesuffix("\n")
        elif body[at].endswith("\n"):
            body.insert(at, body[at])

    async def wait(self, edits: list[Prepared], signal: AbortSignal) -> None:
        try:
            self.outcomes.append(await self.reviews.propose(edits, signal=signal))
        except ToolError as error:
            self.watch.breaks(f"a proposal failed: {error}")

    async def take_back(self, edits: list[EditLanded]) -> None:
        for undone in await self.reviews.take_back(edits, signal=AbortSignal()):
            self.watch.tell(f"taken back: {undone.edit.hunk}: {undone.reason or 'yes'}")
            self.watch.taken_back[undone.edit.hunk] = undone.reason

    def decide(self, number: int, kind: str) -> None:
        waiting = [item.hunk for item in self.reviews.pending()]
        if not waiting:
            return
        hunk = waiting[number % len(waiting)]
        if kind == "reject":
            self.reviews.reject([hunk.id], uri=None, comment="no")
            return
        chosen = [one.id for one in waiting] if kind == "all" else [hunk.id]
        edited = {hunk.id: f"⟦{next(self.tokens)} mine⟧\n"} if kind == "edit" else {}
        for one in chosen:
            state = self.editor.mirrored.get(self.watch.items[one].file.path.as_uri())
            self.watch.accepted[one] = state.typed if state is not None else -1
        try:
            self.reviews.accept(chosen, uri=None, edited=edited)
        except SessionError as error:
            self.watch.breaks(f"7: what waits cannot be accepted: {error}")


def play(scenario: Scenario) -> tuple[list[str], list[str]]:
    """Run a scenario: the laws that it broke, and what happened."""

    async def main(tasks: anyio.abc.TaskGroup) -> Watch:
        machine = Machine(scenario, root, tasks)
        trouble = Trouble(machine.watch.broken)
        logging.getLogger("dsh_lsp").addHandler(trouble)
        try:
            await machine.run()
        finally:
            logging.getLogger("dsh_lsp").removeHandler(trouble)
        return machine.watch

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "project"
        root.mkdir()
        watch = run_virtually(main)
    return watch.broken, watch.story


@settings(
    max_examples=max(100, settings.default.max_examples),
    # The long run looks for what is new, but not where others wait for it.
    derandomize=settings.default.max_examples <= 100 or os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(scenarios)
def test_an_accepted_edit_is_what_the_report_says_whatever_else_happens(scenario: Scenario) -> None:
    broken, story = play(scenario)
    assert broken == [], "\n".join(story)


def test_an_edit_that_was_given_up_and_is_proposed_again_is_logged_once() -> None:
    """All that the editor shows is one edit: it is the later one, and the earlier is not awaited any more."""
    liar = next(manners for manners in EDITORS if manners.name == "a liar")
    edit = (Cut(0, 1, "replace"),)
    twice = (
        (Propose(edit), 0.3),
        (Decide(0, "all"), 13.0),
        (Propose(edit, again=True), 0.3),
        (Decide(0, "all"), 1.0),
    )
    broken, story = play(Scenario(liar, ("a\nb\nc\n", "a\n"), (True, True), twice))
    assert not broken, "\n".join(story)
    landed = [line for line in story if "log: EditLanded" in line]
    assert len(landed) == 1, "\n".join(story)
    assert any("unconfirmed" in line for line in story)
