"""Reviews under fire: whatever a user, an editor and a model do meanwhile, an accepted edit is what the report says.

A generated scenario is an editor's manners and a list of actions, each followed by a pause. Time is virtual and
skipped, so a scenario runs the same way each time and hypothesis can shrink it. The laws are named in `Watch`.

An editor that applies edits of version 0 unseen may garble a text whose first keystroke it has not told of; there
the laws are those of the report alone. Not simulated: previews of an editor's own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_lsp.abort import AbortSignal, Cause
from dsh_lsp.decisions import EditLanded, ReviewDecided, ReviewOpened
from dsh_lsp.errors import SessionError, ToolError
from dsh_lsp.events import LogEvent
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.landing import without_own_end
from dsh_lsp.lsp.proposal import Item
from dsh_lsp.session.log import SessionLog
from dsh_lsp.workspace.changes import Prepared
from dsh_lsp.workspace.edits import FileEdit, HunkOutcome, Snapshot, minimal
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span, split_lines, without_last_end
from tests.support.review_bench import make_bench, run_virtually
from tests.support.simulated_editor import Application, Manners, SimulatedEditor, State

PASTE = "".join(f"pasted {n}\x0c\u2028\r\n" for n in range(40)) + "a\rb\n😀"
REST_S = 90.0  # virtual; more than all attempts together may take
NAMES = ("one.py", "two.py")

# -- scenarios -----------------------------------------------------------------------------------------------

NEOVIM: dict[str, Any] = {"client": "Neovim", "splits_at_return": False, "last_end_apart": True}
EDITORS = [
    Manners(name="VS Code", saves=True),
    Manners(name="a client of ours", saves=True, reviews=True),
    Manners(name="stock Neovim", tells="after", delay=0.138, stale="yes"),
    Manners(name="Neovim, debounced", tells="debounced", delay=0.15, stale="yes"),
    Manners(name="our Neovim client", tells="debounced", delay=0.15, saves=True, reviews=True, **NEOVIM),
    Manners(name="eglot", tells="debounced", delay=0.5, stale="error"),
    Manners(name="lsp-mode", stale="null", first_version=0, unchecked_zero=True),
    Manners(
        name="Neovim at version 0", tells="debounced", delay=0.15, stale="yes", first_version=0, unchecked_zero=True
    ),
    Manners(name="edit by edit", edit_by_edit=True),
    Manners(name="edit by edit, after the reply", tells="after", delay=0.3, edit_by_edit=True, stale="yes"),
    Manners(name="very late", tells="after", delay=14.0),
    Manners(name="very late and joined", tells="debounced", delay=14.0, stale="yes"),
    Manners(name="one that never answers", answers="silence"),
    Manners(name="one that never answers, late", tells="after", delay=0.5, answers="silence"),
    Manners(name="one that answers null", answers="null"),
    Manners(name="one that answers with an error", answers="error"),
    Manners(name="a liar", lies=1, saves=True),
    Manners(name="a debounced liar", lies=1, tells="debounced", delay=0.2, stale="yes"),
]


@dataclass(frozen=True)
class Type:
    file: int
    at: int
    size: int = 0  # how much of the text after it is replaced
    kind: Literal["word", "line", "lines", "paste", "nothing"] = "word"


@dataclass(frozen=True)
class Key:
    file: int
    does: Literal["undo", "save", "close", "open"]


@dataclass(frozen=True)
class Cut:
    """One change that a proposal makes: at a line, counted over the text as it is."""

    file: int
    line: int
    kind: Literal["replace", "insert", "delete", "repeat"]


@dataclass(frozen=True)
class Propose:
    cuts: tuple[Cut, ...]
    again: bool = False  # with the tokens of the proposal before, as a model that tries again


@dataclass(frozen=True)
class Decide:
    number: int  # which of those that wait
    kind: Literal["accept", "edit", "reject", "all"]


@dataclass(frozen=True)
class Cancel:
    number: int


@dataclass(frozen=True)
class TakeBack:
    number: int  # which of those that landed; -1: all, as a rewind does


Action = Type | Key | Propose | Decide | Cancel | TakeBack


@dataclass(frozen=True)
class Scenario:
    manners: Manners
    texts: tuple[str, str]
    opened: tuple[bool, bool]
    actions: tuple[tuple[Action, float], ...]


LANDED = ((Propose((Cut(0, 1, "replace"), Cut(0, 4, "insert"))), 0.3), (Decide(0, "all"), 1.5))

files = st.sampled_from([0, 0, 0, 1])
places = st.integers(0, 60)
lines = st.lists(st.sampled_from(["a\n", "a\n", "b\n", "c\r\n", "\n", "é😀\n", "d ü\n"]), max_size=9)
texts = st.builds(lambda body, last: "".join(body) + last, lines, st.sampled_from(["", "", "end"]))
cuts = st.builds(Cut, files, st.integers(0, 9), st.sampled_from(["replace", "insert", "delete", "repeat"]))
proposals = st.builds(
    lambda c, again: Propose(tuple(c), again),
    st.lists(cuts, min_size=1, max_size=3),
    st.sampled_from([False, False, False, True]),
)
kinds = st.sampled_from(["word", "word", "line", "lines", "paste", "nothing"])
actions = st.one_of(
    st.builds(Type, files, places, st.sampled_from([0, 0, 1, 3]), kinds),
    st.builds(Key, files, st.sampled_from(["undo", "undo", "save", "close", "open"])),
    proposals,
    st.builds(Decide, st.integers(0, 5), st.sampled_from(["accept", "accept", "all", "edit", "reject"])),
    st.builds(Decide, st.integers(0, 5), st.sampled_from(["accept", "all"])),
    st.just(Decide(0, "all")),
    st.builds(Cancel, st.integers(0, 2)),
    st.builds(TakeBack, st.integers(-1, 3)),
    st.just(TakeBack(-1)),
)
pauses = st.sampled_from([0.0, 0.0, 0.001, 0.003, 0.05, 0.25, 0.7, 1.5, 13.0])
manners = st.builds(
    lambda base, encoding, whole, first: replace(
        base, encoding=encoding, whole_text=whole, first_version=min(base.first_version, first)
    ),
    st.sampled_from(EDITORS),
    st.sampled_from(["utf-16", "utf-16", "utf-8", "utf-32"]),
    st.sampled_from([False, False, True]),
    st.sampled_from([1, 1, 0]),
)
scenarios = st.builds(
    Scenario,
    manners,
    st.tuples(texts, texts),
    st.sampled_from([(True, True), (True, True), (True, False)]),
    st.builds(
        lambda start, rest: (*start, *rest),
        st.sampled_from([(), LANDED]),  # half of them begin with an edit that has landed
        st.lists(st.tuples(actions, pauses), min_size=3, max_size=20),
    ),
)


# -- the laws ------------------------------------------------------------------------------------------------


class Watch:
    """Sees everything that happens, and keeps what breaks a law.

    1. A hunk is logged as landed once when it is seen where it belongs, and never otherwise.
    2. No hunk is in a buffer twice.
    3. The server's text is what the editor told.
    4. Nothing of the user's is lost, and 5. nothing but accepted hunks changes: an edit takes out exactly the lines
       that the person saw, in the place where they saw them.
    6. The report says what the buffer shows.
    7. Each hunk is decided once, proposals end, and what waits stands over its own old text.
    8. Nothing that the user has typed or taken out is saved for them.
    """

    def __init__(self, documents: Documents, editor: SimulatedEditor, log: SessionLog) -> None:
        self.broken: list[str] = []
        self.documents, self.editor = documents, editor
        self.items: dict[str, Item] = {}
        self.accepted: dict[str, int] = {}  # how much the server knew of the user's typing by then
        self.wished: dict[str, str] = {}  # a hunk's new text as it was proposed
        self.proposed: dict[str, tuple[int, ...]] = {}  # the cells that a hunk's old text was made of
        self.applied: dict[str, list[tuple[Application, Span]]] = {}
        self.landed: Counter[str] = Counter()
        self.decided: dict[str, str] = {}
        self.taken_back: dict[str, str | None] = {}
        self.seen: set[str] = set()  # the server was told of a text with the hunk in it, now or before
        self.reopened: set[str] = set()
        self.garbled: set[str] = set()
        self.opening: Callable[[str], list[Item]] = lambda _: []
        self.story: list[str] = []
        editor.applied = self.on_applied
        editor.delivered = self.on_delivered
        editor.saved = self.on_saved
        log.appended.listen(self.on_event)

    def breaks(self, law: str) -> None:
        self.broken.append(law)
        self.tell(f"BROKEN: {law}")

    def tell(self, what: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():9.4f} {what}")

    def on_event(self, event: LogEvent) -> None:
        self.tell(f"log: {event.data}")
        match event.data:
            case ReviewOpened(proposal=proposal):
                for item in self.opening(proposal):
                    self.items[item.hunk.id] = item
                    self.wished[item.hunk.id] = item.hunk.new
                    state = self.editor.mirrored.get(item.file.path.as_uri())
                    span = item.hunk.span
                    if item.undoes is not None:
                        self.accepted[item.hunk.id] = state.typed if state is not None else -1
                    if state is not None and state.text[span.start : span.end] == item.hunk.old:
                        self.proposed[item.hunk.id] = state.cells[span.start : span.end]
            case EditLanded(hunk=hunk):
                self.on_landed(event.data, hunk)
            case ReviewDecided(hunks=hunks):
                for one in hunks:
                    self.on_decided(one.id, one.outcome)
            case _:
                pass

    def on_landed(self, event: EditLanded, hunk: str) -> None:
        self.landed[hunk] += 1
        if self.landed[hunk] > 1:
            self.breaks(f"1: {hunk} is logged as landed again")
        if event.proposal != self.items[hunk].file.proposal:
            self.breaks(f"1: {hunk} is logged as landed for another proposal")
        if event.version is None:
            if event.after not in self.items[hunk].file.path.read_bytes().decode():
                self.breaks(f"1: {hunk} is logged as landed, and the file does not hold it")
        elif hunk not in self.seen and not self.is_seen(hunk) and self.can_be_told(hunk):
            self.breaks(f"1: {hunk} is logged as landed, and the editor did not tell of it")

    def on_decided(self, hunk: str, outcome: str) -> None:
        if hunk in self.decided:
            self.breaks(f"7: {hunk} is decided again: {self.decided[hunk]}, {outcome}")
        self.decided[hunk] = outcome
        if outcome == "landed" and not self.landed[hunk]:
            self.breaks(f"1: {hunk} landed, and that was not logged")
        if outcome != "landed" and (self.landed[hunk] or self.is_seen(hunk)) and self.can_be_told(hunk):
            self.breaks(f"6: {hunk} is reported as {outcome}, and it is in the text")

    def can_be_told(self, hunk: str) -> bool:
        """Whether its text alone shows where a hunk is.

        Left out: lines that were taken away, or that occur twice, while the user typed into the same document, the
        editor told of a part, or it dropped an edit and another came; and edits that were proposed twice. Nobody can
        tell such a hunk from the rest.
        """
        item = self.items[hunk]
        uri = item.file.path.as_uri()
        buffer = self.editor.buffers.get(uri)
        quiet = buffer is not None and uri not in self.reopened and buffer.state.typed == self.accepted.get(hunk)
        quiet = quiet and not self.editor.manners.edit_by_edit and not self.editor.manners.lies
        mine = {line for line in split_lines(item.hunk.new) if "⟦" in line}
        others = [one for one in self.items.values() if one is not item and one.file.key == item.file.key]
        same = {item.hunk.new, self.wished[hunk]}
        twin = any(
            same & {one.hunk.new, self.wished[one.hunk.id]} or mine.intersection(split_lines(one.hunk.new))
            for one in others
        )
        return (quiet or bool(mine)) and not twin and uri not in self.garbled

    def is_seen(self, hunk: str) -> bool:
        """Whether the server was told of a text with the hunk in it."""
        return any(
            (state := self.editor.mirrored.get(one.uri)) is not None and one.stands(state, lines)
            for one, lines in self.applied.get(hunk, ())
        )

    def on_applied(self, one: Application) -> None:
        self.tell(f"editor applies {one.start}-{one.end} {one.text!r}")
        if one.overtaken:
            self.garbled.add(one.uri)  # nobody can keep such an editor from that; what is told must still be true
            return
        sent = [
            item
            for item in self.items.values()
            if item.hunk.id in self.accepted and item.file.path.as_uri() == one.uri and self.is_made_by(item, one)
        ]
        sent.sort(key=lambda item: (item.state != "sent", item.hunk.id in self.applied))
        if not sent:
            self.breaks("5: an edit is none of an accepted hunk")
            return
        hunk, where = sent[0].hunk, sent[0].hunk.span
        if one.base.text[where.start : where.end] != hunk.old:
            self.breaks(f"5: {hunk.id} takes out something else")
        was = self.proposed.get(hunk.id)
        taken = one.base.cells[where.start : where.end]
        rewritten = self.editor.rewritten
        retyped = any(out.intersection(was or ()) and put.intersection(taken) for out, put in rewritten)
        # Left out: a whole text does not tell which of two equal lines came in, nor does a file that is opened again.
        exact = one.uri not in self.reopened and not self.editor.manners.whole_text
        if was and exact and not set(was).intersection(taken) and not retyped:
            self.breaks(f"5: {hunk.id} takes out other lines with the same text")
        if exact and sent[0].undoes is not None:
            end_before = where.start - (self.editor.manners.last_end_apart and where.start > 0)  # may be its own
            self.look_at_what_it_takes_back(sent[0].undoes, set(one.base.cells[end_before : where.end]))
        earlier = self.applied.setdefault(hunk.id, [])
        if any(before.in_part(one.before) for before, _ in earlier) and self.can_be_told(hunk.id):
            self.breaks(f"2: {hunk.id} is in the buffer twice")
        where = Span(min(one.start, where.start), where.end)  # it may begin behind the line before, with its end
        earlier.append((one, where))

    def is_made_by(self, item: Item, one: Application) -> bool:
        """Whether a hunk can have become this edit of a buffer."""
        change, made = minimal(item.hunk), Change(Span(one.start, one.end), one.text)
        if not self.editor.manners.last_end_apart:
            return change == made
        sent = without_own_end(change, Rope.of(one.base.text))
        return sent.span == made.span and without_last_end(sent.text) == without_last_end(made.text)

    def on_saved(self, before: State, after: State) -> None:
        """The server had a buffer saved."""
        came, went = set(after.cells).difference(before.cells), set(before.cells).difference(after.cells)
        edits = [one for all_of_it in self.applied.values() for one, _ in all_of_it]
        ours = {cell for one in edits for cell in one.took + one.put}  # the user may take back the same edit
        if any(out & went - ours or put & came - ours for out, put in self.editor.rewritten):
            self.breaks("8: what the user did is saved for them")

    def look_at_what_it_takes_back(self, undone: str, taken: set[int]) -> None:
        """An edit that is taken back takes out what it had put in, not lines with the same text."""
        put = {cell for one, _ in self.applied.get(undone, ()) for cell in one.put}
        undoing = (key for key, item in self.items.items() if item.undoes is not None)
        again = {cell for key in undoing for one, _ in self.applied.get(key, ()) for cell in one.put}  # given back
        copied = any(out.intersection(put) and new.intersection(taken) for out, new in self.editor.rewritten)
        if put and not (put | again).intersection(taken) and not copied:
            self.breaks(f"5: {undone} is taken back in another place")

    def on_delivered(self, uri: str) -> None:
        document, state = self.documents.get(uri), self.editor.mirrored.get(uri)
        self.tell(f"server holds {document.text if document else None!r} of {uri[-6:]}")
        if (document.text if document else None) != (state.text if state else None):
            self.breaks(f"3: the server's text is not the editor's: {uri}")
        self.look_at_what_waits()
        self.seen.update(filter(self.is_seen, self.applied))

    def look_at_what_waits(self) -> None:
        for item in self.items.values():
            document, span = self.documents.at(item.file.path), item.hunk.span
            text = document.rope if document is not None else item.file.text
            if item.state in ("pending", "accepted") and text[span.start : span.end] != item.hunk.old:
                self.breaks(f"7: {item.hunk.id} ({item.state}) waits over another text")

    def is_undone_twice(self, item: Item) -> bool:
        """Whether somebody has asked more than once for a hunk to be taken back."""
        return sum(one.undoes == item.undoes for one in self.items.values()) > 1

    def at_the_end(self, outcomes: list[list[HunkOutcome]]) -> None:
        told = {outcome.hunk.id: outcome.outcome for proposal in outcomes for outcome in proposal}
        undoing = {item.hunk.id: item for item in self.items.values() if item.undoes is not None}
        for hunk, item in undoing.items():
            reason = self.taken_back.get(item.undoes or "", "nothing was said")
            if (reason is None) > (self.decided.get(hunk) == "landed") and not self.is_undone_twice(item):
                self.breaks(f"6: {item.undoes} is said to be taken back, and {hunk} is {self.decided.get(hunk)}")
        told |= {hunk: self.decided.get(hunk, "never") for hunk in undoing}
        if told != self.decided or set(told) != set(self.items):
            self.breaks(f"6: the report is not what was decided: {told} {self.decided}")
        for hunk, all_of_it in self.applied.items():
            for one, lines in all_of_it:
                buffer = self.editor.buffers.get(one.uri)
                states = [] if buffer is None else list(buffer.history.values())
                since = next((i for i, state in enumerate(states) if one.stands(state, lines)), len(states))
                untouched = since < len(states) and all(one.stands(state, lines) for state in states[since:])
                if untouched and not self.landed[hunk] and self.can_be_told(hunk):
                    self.breaks(f"1: {hunk} is in the buffer and not logged as landed: {told.get(hunk)}")


class Trouble(logging.Handler):
    """Keeps what the package logs as an error: listeners that failed."""

    def __init__(self, broken: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.broken = broken

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.broken.append(f"{record.getMessage()}: {error!r}")


# -- the machine ---------------------------------------------------------------------------------------------


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
            signal.abort(Cause(kind="user"))
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
                self.signals[number % len(self.signals)].abort(Cause(kind="user"))
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
    max_examples=max(150, settings.default.max_examples),
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
