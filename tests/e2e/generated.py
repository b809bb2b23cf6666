"""Generated reviews: a model that proposes, a user who types and decides in any order, a real editor, and the laws.

Rules: every word that is typed and every edit that is proposed is one of a kind, so that the text alone shows what
became of each; the seeds are fixed, so that a failure comes again as far as the clock allows.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.e2e.desk import WAIT_S, wait_for
from tests.e2e.story import DONE
from tests.support.model_server import FakeModelServer, answer

FILES = ("a.py", "b.py")  # the first is shown at the beginning
LINES, TURNS, DEEDS = 12, 4, 9
OUTCOMES = {"landed", "rejected", "conflict", "unconfirmed"}

Calls = list[tuple[str, dict[str, Any] | str]]


def line_of(name: str, number: int) -> str:
    return f"{name[0]}{number:02} = {number}"


def text_of(name: str) -> str:
    return "".join(f"{line_of(name, number)}\n" for number in range(LINES))


def names_in(text: str) -> list[str]:
    """The names of lines (`a07`, `b11`), of edits (`k003`), and of typed words (`w012`)."""
    return re.findall(r"\b[abkw]\d+\b", text)


class Desk(Protocol):
    """What is done through an editor's client."""

    model: FakeModelServer

    def run(self, command: str, **argument: Any) -> Any:
        """Run a command that must not fail."""

    def send(self, command: str, **argument: Any) -> int:
        """Send a command, and go on."""

    def pending(self) -> list[dict[str, Any]]:
        """The hunks that wait for a decision."""

    def on_disk(self, name: str) -> str:
        """A file as it is saved."""


class Hands(Protocol):
    """What a user's hands do in an editor."""

    def begin(self, line: int, *, below: bool) -> None:
        """Go to a line of the file that is shown, and begin to write: behind its words, or on a new line below it."""

    def write(self, text: str) -> None:
        """Type, with pauses."""

    def leave(self) -> None:
        """Write no longer."""

    def show(self, name: str) -> None:
        """Show a file."""

    def save(self) -> None:
        """Save all files."""

    def press(self) -> None:
        """Decide the next hunk by a key, where there is one."""

    def text(self, name: str) -> str | None:
        """What the editor holds of a file."""

    def check(self) -> None:
        """What must hold in this editor besides."""


@dataclass
class Play:
    """One user, one editor, one seed; `untouched` are the lines that no edit has been proposed for, by file."""

    desk: Desk
    hands: Hands
    chance: random.Random
    home: Path
    words: list[str] = field(default_factory=list)
    edits: int = 0
    turns: int = 0
    proposals: list[int] = field(default_factory=list)  # the turns that propose
    untouched: dict[str, set[int]] = field(default_factory=lambda: {name: set(range(LINES)) for name in FILES})
    story: list[str] = field(default_factory=list)

    # -- the model -------------------------------------------------------------------------------------------

    def propose(self) -> None:
        """The model proposes some edits."""
        calls: Calls = []
        for _ in range(self.chance.randint(1, 4)):
            name = self.chance.choice(FILES)
            number = self.chance.choice(sorted(self.untouched[name]))
            self.untouched[name].discard(number)
            self.edits += 1
            old, new = line_of(name, number), f"k{self.edits:03} = {number}"
            kind = self.chance.choice(["replace", "replace", "insert", "delete"])
            old, new = {"replace": (old, new), "insert": (old, f"{old}\n{new}"), "delete": (old + "\n", "")}[kind]
            calls.append(("edit_file", {"path": name, "old_text": old, "new_text": new}))
        self.ask("Edit.", calls)
        self.proposals.append(self.turns)

    def read(self) -> None:
        """The model reads both files, until all that was typed is in them and told: editors do that in a moment."""
        deadline = time.monotonic() + WAIT_S
        while True:
            self.ask("Read.", [("read_file", {"path": name}) for name in FILES])
            wait_for(self.has_ended, "the files are read")
            if time.monotonic() > deadline or not (self.lost() or any(self.unread(name) for name in FILES)):
                return  # if it is not so in time, the laws say what is wrong

    def ask(self, words: str, calls: Calls) -> None:
        self.turns += 1
        self.story.append(f"{words} {calls}")
        self.desk.model.script(answer("So be it.", calls=calls), DONE)
        self.desk.run("dsh.followup", text=words)

    # -- the user --------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """A turn in which the user does this and that, and decides what is left in the end; then one that reads."""
        self.propose()
        hands = self.hands
        deeds = [self.insert, self.insert, self.append, self.decide, self.decide, hands.press, self.go, hands.save]
        for deed in self.chance.choices(deeds, k=DEEDS):
            self.story.append(deed.__name__)
            deed()
        wait_for(self.has_ended, f"turn {self.turns} ends")
        self.read()

    def has_ended(self) -> bool:
        ended = sum(event["type"] == "turn/end" for event in self.events())
        if ended < self.turns and self.desk.pending():
            self.desk.send("dsh.review.accept", hunks="all")
        return ended >= self.turns

    def type(self, *, below: bool) -> None:
        self.words.append(word := f"w{len(self.words):03}")
        cut = self.chance.randint(0, len(word))
        self.hands.begin(self.chance.randint(1, LINES - 4), below=below)
        self.hands.write(" " + word[:cut])
        if self.chance.random() < 0.5:
            self.decide()
        self.hands.write(word[cut:])
        self.hands.leave()

    def insert(self) -> None:
        self.type(below=True)

    def append(self) -> None:
        self.type(below=False)

    def decide(self) -> None:
        """Accept or reject some of what waits, by commands, while whatever is typed goes on."""
        waiting = [hunk["id"] for hunk in self.desk.pending()]
        if waiting:
            hunks = self.chance.sample(waiting, self.chance.randint(1, len(waiting)))
            command = self.chance.choice(["dsh.review.accept", "dsh.review.accept", "dsh.review.reject"])
            self.story.append(f"{command} {hunks}")
            self.desk.send(command, hunks=hunks)

    def go(self) -> None:
        self.hands.show(self.chance.choice(FILES))

    def rewind(self) -> None:
        """Take all turns back, the last first, and type meanwhile."""
        for number in reversed(self.proposals):
            self.story.append(f"rewind {number}")
            wait_for(self.is_idle, "nothing runs")
            self.desk.run("dsh.rewind", turn=number)
            self.insert()
        wait_for(self.is_idle, "all are taken back")
        self.read()

    def is_idle(self) -> bool:
        return bool(self.desk.run("dsh.status")["state"] == "idle")

    # -- what came of it -------------------------------------------------------------------------------------

    def events(self) -> list[dict[str, Any]]:
        (log,) = self.home.rglob("sessions/*.jsonl")
        rows = [row for row in log.read_text().splitlines(keepends=True) if row.endswith("\n")]
        return [row for row in map(json.loads, rows) if "type" in row]

    def text(self, name: str) -> str:
        """What the editor holds, or the file if it holds none."""
        held = self.hands.text(name)
        return self.desk.on_disk(name) if held is None else held

    def check(self) -> None:
        """The laws: nothing typed is lost, the report says what the text shows, the server has the editor's text."""
        assert not (lost := self.lost()), f"typed, and not there once: {lost}"
        self.check_report(self.there())
        for name in FILES:
            assert not (missing := self.unread(name)), f"the model reads another text of {name}, without {missing}"
        self.hands.check()

    def there(self) -> Counter[str]:
        """How often each name is in the texts."""
        return Counter(names_in("".join(map(self.text, FILES))))

    def lost(self) -> list[str]:
        """The words that are not there once."""
        there = self.there()
        return [word for word in self.words if there[word] != 1]

    def unread(self, name: str) -> list[str]:
        """The lines of a file that are not in what the model has read of it last."""
        messages = self.desk.model.requests[-1].body["messages"]
        results = [message["content"] for message in messages if message["role"] == "tool"][-len(FILES) :]
        return [line for line in self.text(name).splitlines() if line not in results[FILES.index(name)]]

    def check_report(self, there: Counter[str]) -> None:
        """An edit is in the text once if it is said to have landed and not to be taken back, and else not at all."""
        outcomes: dict[str, str] = {}
        hunks: list[dict[str, Any]] = []
        for event in self.events():
            if event["type"] == "review/decided":
                outcomes |= {hunk["id"]: hunk["outcome"] for hunk in event["data"]["hunks"]}
            elif event["type"] == "review/opened":
                hunks += [hunk for file in event["data"]["files"] for hunk in file["hunks"]]
        assert {hunk["id"] for hunk in hunks} == set(outcomes)
        assert set(outcomes.values()) <= OUTCOMES
        unconfirmed = {hunk for hunk, outcome in outcomes.items() if outcome == "unconfirmed"}
        undoing = {hunk["undoes"]: {hunk["id"]} for hunk in hunks if "undoes" in hunk}
        undone = {hunk["undoes"] for hunk in hunks if "undoes" in hunk and outcomes[hunk["id"]] == "landed"}
        for hunk in hunks:
            if "undoes" in hunk or {hunk["id"], *undoing.get(hunk["id"], ())} & unconfirmed:  # and told so
                continue
            stands = outcomes[hunk["id"]] == "landed" and hunk["id"] not in undone
            old, new = (set(names_in(hunk[key])) for key in ("oldText", "newText"))
            found = {name: there[name] for name in old ^ new}
            assert found == dict.fromkeys(new - old, int(stands)) | dict.fromkeys(old - new, int(not stands)), (
                f"{outcomes[hunk['id']]}: {hunk}"
            )


def play(desk: Desk, hands: Hands, seed: int, home: Path) -> None:
    """Play some turns, look at what came of each, take all back, and look again."""
    user = Play(desk, hands, random.Random(seed), home)
    try:
        for _ in range(TURNS):
            user.turn()
            user.check()
        user.rewind()
        user.check()
    except BaseException:
        print("\n".join(user.story), *(f"-- {name}\n{user.text(name)}" for name in FILES), sep="\n")
        raise
