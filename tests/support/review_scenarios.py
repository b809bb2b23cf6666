"""Review scenarios: what a user, an editor and a model may do while edits wait, as values and how to draw them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from hypothesis import strategies as st

from tests.support.simulated_manners import Manners

PASTE = "".join(f"pasted {n}\x0c\u2028\r\n" for n in range(40)) + "a\rb\n😀"


NAMES = ("one.py", "two.py")


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
        name="Neovim at version 0",
        tells="debounced",
        delay=0.15,
        stale="yes",
        first_version=0,
        next_version=3,
        newer_only=True,
        unchecked_zero=True,
        **NEOVIM,
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
    kind: Literal["replace", "insert", "delete", "repeat", "bare"]


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
cuts = st.builds(Cut, files, st.integers(0, 9), st.sampled_from(["replace", "insert", "delete", "repeat", "bare"]))
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
