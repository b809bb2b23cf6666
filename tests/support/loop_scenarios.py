"""Loop scenarios: what people, plugins, tools and the model may do to the loop, as values and how to draw them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

Deafness = Literal["obeys", "ignores", "deaf"]  # stops at the signal; at a torn scope; at nothing


@dataclass(frozen=True)
class ToolUse:
    """One call that the model will make."""

    tool: str
    ticks: int = 0
    hears: Deafness = "obeys"
    ends: Literal["answers", "raises", "errs", "adds context", "concludes"] = "answers"
    broken: bool = False  # arguments that are no JSON


@dataclass(frozen=True)
class Answer:
    """One reply of the model."""

    thinks: bool = False
    says: bool = True
    calls: tuple[ToolUse, ...] = ()
    holds: Literal["never", "first", "last"] = "never"
    finish: Literal["well", "max-tokens", "refusal", "fails", "dies"] = "well"


@dataclass(frozen=True)
class Verdict:
    """What the pre-step listener does with one proposal."""

    kind: Literal["enter", "reject", "drop all", "drop first", "add", "raise", "hang"] = "enter"
    ticks: int = 0


@dataclass(frozen=True)
class Meddling:
    """What a listener does that has no say in messages: when a call is configured, or a tool admitted."""

    kind: Literal["nothing", "refuse", "raise", "hang"] = "nothing"
    ticks: int = 0


@dataclass(frozen=True)
class Action:
    """One thing that somebody does, and how long nothing else is done afterwards."""

    kind: str
    ticks: int = 0
    number: int = 0  # which message to edit
    flag: bool = False


@dataclass(frozen=True)
class Scenario:
    """A whole run; `broken_barriers` are the flushes that fail, by their number; `stops` says which stops steer."""

    actions: tuple[Action, ...] = ()
    answers: tuple[Answer, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    drafts: tuple[Meddling, ...] = ()
    admissions: tuple[Meddling, ...] = ()
    stops: tuple[bool, ...] = ()
    retries: tuple[bool, ...] = ()
    cap: int = 2
    barrier_ticks: int = 0
    broken_barriers: frozenset[int] = frozenset()
    force: bool = False


def _often(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """One value most of the time, and the first to shrink to."""
    return st.sampled_from([usual] * max(4, 2 * len(others)) + list(others))


def _seldom(strategy: st.SearchStrategy[Any], usual: Any) -> st.SearchStrategy[Any]:
    """A fixed value three times in four."""
    return st.sampled_from([False, False, False, True]).flatmap(lambda now: strategy if now else st.just(usual))


def _tuples(strategy: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Tuples whose length is as likely to be large as small."""
    return st.integers(least, most).flatmap(lambda size: st.tuples(*[strategy] * size))


tool_uses = st.builds(
    ToolUse,
    tool=_often("parallel", "parallel2", "exclusive", "unknown"),
    ticks=st.sampled_from((0, 1, 2, 3, 5, 8, 12, 300)),
    hears=_often("obeys", "ignores", "deaf"),
    ends=_often("answers", "raises", "errs", "adds context", "concludes"),
    broken=_often(False, True),
)
answers = st.builds(
    Answer,
    thinks=st.booleans(),
    says=_often(True, False),
    calls=_tuples(tool_uses, 0, 4),
    holds=_often("never", "first", "last"),
    finish=_often("well", "max-tokens", "refusal", "fails", "dies"),
)
verdicts = st.builds(
    Verdict,
    kind=_often("enter", "reject", "drop all", "drop first", "add", "raise", "hang"),
    ticks=st.integers(0, 3),
)
KINDS = (
    *("followup", "followup", "followup", "steer", "steer", "inject", "replace", "remove", "tell a fact"),
    *("cancel", "cancel", "maintenance", "retry", "resume", "open the gates"),
)
meddlings = st.builds(Meddling, kind=_often("nothing", "refuse", "raise", "hang"), ticks=st.integers(0, 3))
actions = st.builds(
    Action,
    kind=st.sampled_from(KINDS),
    ticks=st.sampled_from((0, 1, 2, 3, 5, 8, 13, 21, 34, 55)),
    number=st.integers(0, 3),
    flag=st.booleans(),
)
disposals = st.builds(Action, kind=st.just("dispose"), ticks=st.integers(0, 6), flag=st.booleans())
scenarios = st.builds(
    Scenario,
    actions=st.tuples(_tuples(actions, 1, 14), _seldom(st.tuples(disposals, actions, actions), ())).map(
        lambda parts: parts[0] + parts[1]
    ),
    answers=_tuples(answers, 0, 6),
    verdicts=_seldom(_tuples(verdicts, 0, 8), ()),
    drafts=_seldom(_tuples(meddlings, 0, 6), ()),
    admissions=_seldom(_tuples(meddlings, 0, 8), ()),
    stops=_seldom(_tuples(st.booleans(), 0, 4), ()),
    retries=_tuples(st.booleans(), 0, 3),
    cap=st.integers(1, 3),
    barrier_ticks=st.integers(0, 2),
    broken_barriers=_seldom(st.frozensets(st.integers(0, 12), max_size=2), frozenset()),
    force=st.booleans(),
)


async def tick(times: int = 1) -> None:
    """Let everybody else run so many times."""
    for _ in range(times):
        await asyncio.sleep(0)
