"""The loop under fire: whatever people, plugins, tools and the model do, in whatever order, its laws hold.

A generated scenario is a script for the model, the verdicts of a pre-step listener, and a list of actions, each
followed by some ticks of the loop. No clock and no thread takes part, so a scenario runs the same way each time and
hypothesis can shrink it. The laws are checked while it runs and when it rests; each is named in `Watch`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_lsp.abort import AbortSignal, Cause
from dsh_lsp.agent.driver import Agent, AgentParts
from dsh_lsp.agent.hooks import Enter, PreStep, Reject, Retry
from dsh_lsp.agent.inbox import Inbox, InboxChange
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.agent.request import AgentOptions
from dsh_lsp.errors import SessionError, ToolError, UsageError
from dsh_lsp.events import (
    AssistantMessageLogged,
    InboxSpliced,
    InboxTarget,
    LogEvent,
    RequestHeaderLogged,
    StepEnd,
    ToolResult,
    TurnEnd,
)
from dsh_lsp.llm.adapter import Llm, ModelRequest
from dsh_lsp.llm.scripted import Reply, ScriptedAdapter, call, call_text, fail, finish_as, hold, say, think
from dsh_lsp.messages import CallConfig, PluginSource, TextBlock, UserMessage
from dsh_lsp.session.legality import LogState, advance, check
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.surface import Surface, derive_messages
from dsh_lsp.tools.pipeline import Denied
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Effect, Execution, Mode, Tool, ToolArgs, ToolOutput

TICKS_TO_REST = 20_000  # far more than any scenario needs; a driver that is still at work then has lost its way
TICKS_TO_FORCE = 100  # a forced turn waits for nobody, whatever its tools and plugins do
HEADER = SessionHeader(id="s1", created_at=0, cwd="/w")

# -- scenarios -----------------------------------------------------------------------------------------------

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


# -- the laws ------------------------------------------------------------------------------------------------


class Facts(list[LogEvent]):
    """Events in the place of a log."""

    def facts(self) -> Iterator[LogEvent]:
        return iter(self)


class Watch:
    """Looks at each event as it comes, and at the whole log in the end; `broken` are the laws found broken."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.broken: list[str] = []
        self.verdicts: set[str] = set()  # messages that pre-step took out
        self.requests: list[tuple[int, ModelRequest]] = []  # with the length of the log when each was sent
        self.state, self.surface = LogState(), Surface()
        self.running: dict[str, Mode] = {}
        self.answered: set[str] = set()  # in any step: a body that was given up may run on
        log.appended.listen(self.see)

    def hold(self, law: bool, words: str) -> None:
        if not law:
            self.broken.append(f"{words} (event {len(self.log)})")

    def see(self, event: LogEvent) -> None:
        """The log is legal after every event, and no call is unanswered after its step."""
        try:
            check(self.state, event)
            self.surface.check(event)
        except UsageError as error:
            self.broken.append(f"the log is illegal: {error}")
        if isinstance(event.data, ToolResult):
            blocks = event.data.message.content
            self.answered |= {block.tool_call_id for block in blocks if block.type == "tool-result"}
        if isinstance(event.data, StepEnd):
            self.hold(not self.state.unanswered, f"calls {self.state.unanswered} are unanswered after their step")
        if isinstance(event.data, TurnEnd):
            self.hold(not self.state.step_open, "a turn ended in its step")
        advance(self.state, event)
        self.surface.add(event)

    def see_request(self, request: ModelRequest) -> None:
        """Every request is rebuilt from the log before its first chunk."""
        prefix = list(self.log)
        self.requests.append((len(prefix), request))
        self.hold(derive_messages(prefix) == request.messages, "a request has other messages than its log")
        headers = [event.data.header for event in prefix if isinstance(event.data, RequestHeaderLogged)]
        told = (headers[-1].config, headers[-1].system, headers[-1].tools)
        self.hold(told == (request.config, request.system, request.tools), "a request has another header")

    def body_begins(self, call_id: str, mode: Mode, cap: int) -> None:
        """At most `cap` bodies of a step run at once, an exclusive one alone; abandoned ones do not count."""
        others = [other for key, other in self.running.items() if key not in self.answered]
        self.hold(len(others) < cap, f"{len(others) + 1} bodies run at once")
        self.hold(not others or (mode == "parallel" and "exclusive" not in others), "an exclusive body overlaps")
        self.running[call_id] = mode

    def check_inbox(self, inbox: Inbox) -> None:
        """The inbox rebuilt from the log is the live one."""
        splices = [event for event in self.log if isinstance(event.data, InboxSpliced)]
        rebuilt = Inbox(Facts(splices))  # type: ignore[arg-type] - it only reads the facts
        self.hold(
            (rebuilt.next_turn, rebuilt.next_step) == (inbox.next_turn, inbox.next_step),
            "the inbox is not that of the log",
        )

    def check_replay(self) -> None:
        """A new log takes all events of this one and comes to the same state."""
        replayed = SessionLog(HEADER, events=list(self.log))
        self.hold(replayed.state == self.log.state == self.state, "a replay comes to another state")
        self.hold(replayed.derive_messages() == self.log.derive_messages(), "a replay has other messages")

    def check_order(self) -> None:
        """The results of a message's calls come in the model's order."""
        results: list[str] = []
        asked: list[str] = []
        for event in self.log:
            if isinstance(event.data, AssistantMessageLogged):
                asked = [block.id for block in event.data.message.tool_calls]
                results = []
            elif isinstance(event.data, ToolResult):
                results.append(event.data.message.content[0].tool_call_id)
                self.hold(results == asked[: len(results)], "results are out of the model's order")

    def check_fates(self, pending: set[str]) -> None:
        """Each accepted message ends in exactly one way."""
        fates = self._fates()
        for message_id, fate in fates.items():
            if fate == "claimed":
                self.hold(message_id in self.verdicts, f"message {message_id} was claimed and vanished")
            self.hold((fate == "pending") == (message_id in pending), f"message {message_id} is {fate}")
        self.hold(pending <= fates.keys(), "a message waits that nobody sent")

    def _fates(self) -> dict[str, str]:
        fates: dict[str, str] = {}
        lists: dict[InboxTarget, list[str]] = {"next-step": [], "next-turn": []}
        for event in self.log:
            if isinstance(event.data, UserMessage) and event.data.id in fates:
                self.hold(fates[event.data.id] == "claimed", f"{fates[event.data.id]} message became history")
                fates[event.data.id] = "history"
            if not isinstance(event.data, InboxSpliced):
                continue
            splice, waiting = event.data, lists[event.data.target]
            end = splice.start + (splice.removed_count or 0)
            for message_id in waiting[splice.start : end]:
                fates[message_id] = "canceled" if splice.outcome == "canceled" else "claimed"
            inserted = [message.id for message in splice.inserted]
            for message_id in inserted:
                before = fates.get(message_id)
                again = splice.outcome == "restored"
                self.hold(before == ("claimed" if again else None), f"a {before} message was inserted")
                fates[message_id] = "pending"
            waiting[splice.start : end] = inserted
        return fates

    def check_history(self) -> None:
        """What became history reached a request, or its turn ended before one."""
        sent = [(length, {message.id for message in request.messages}) for length, request in self.requests]
        ends = [event.seq for event in self.log if isinstance(event.data, TurnEnd)]
        for event in self.log:
            if isinstance(event.data, UserMessage):
                request = next((ids for length, ids in sent if length > event.seq), None)
                until = next((seq for seq in ends if seq > event.seq), len(self.log))
                asked_in_turn = any(event.seq < length <= until for length, _ in sent)
                reached = request is not None and event.data.id in request
                self.hold(reached or not asked_in_turn, f"message {event.data.id} reached no request")


class Queue:
    """The plain model of the inbox: two lists, changed by what is told of the real one."""

    def __init__(self, agent: Agent) -> None:
        self.lists: dict[str, list[str]] = {"next-step": [], "next-turn": []}
        self.place: tuple[str, int | None] = ("next-step", None)  # where the next insertion goes; a context's place
        self._origin: dict[str, str] = {}
        self._restored: Counter[str] = Counter()
        agent.hooks.inbox.listen(self._hear)

    @property
    def ids(self) -> list[str]:
        return [*self.lists["next-step"], *self.lists["next-turn"]]

    def _hear(self, change: InboxChange) -> None:
        message_id = change.message.id
        if change.kind != "restored":
            self._restored.clear()
        if change.kind == "inserted":
            name, index = self.place
            self.lists[name].insert(len(self.lists[name]) if index is None else index, message_id)
            self._origin[message_id] = name
        elif change.kind == "restored":
            name = self._origin[message_id]
            self.lists[name].insert(self._restored[name], message_id)
            self._restored[name] += 1
        else:
            self.lists[self._origin[message_id]].remove(message_id)


# -- the players ---------------------------------------------------------------------------------------------


class Uses(ToolArgs):
    ticks: int = 0
    hears: Deafness = "obeys"
    ends: str = "answers"


class Plays(Tool[Uses]):
    """Runs for so many ticks and ends as it is told."""

    description = "Plays."
    Args = Uses

    def __init__(self, name: str, mode: Mode, watch: Watch, cap: int, ids: Iterator[int]) -> None:
        self.name, self.mode = name, mode  # type: ignore[misc]
        self._watch, self._cap, self._ids = watch, cap, ids

    async def execute(self, args: Uses, execution: Execution) -> ToolOutput:
        self._watch.body_begins(execution.call_id, self.mode, self._cap)
        try:
            await self._run(args, execution)
        finally:
            self._watch.running.pop(execution.call_id, None)
        match args.ends:
            case "raises":
                raise RuntimeError("kaputt")
            case "errs":
                raise ToolError("no", code="NO")
            case "adds context":
                text = (TextBlock(text="by the way"),)
                source = PluginSource(plugin="plays")
                execution.defer_context(UserMessage(id=f"context{next(self._ids)}", content=text, source=source))
            case "concludes":
                execution.conclude_turn()
        return ToolOutput(text="played")

    async def _run(self, args: Uses, execution: Execution) -> None:
        match args.hears:
            case "obeys":
                with execution.signal.guard():
                    await tick(args.ticks)
            case "ignores":
                await tick(args.ticks)
            case "deaf":
                with anyio.CancelScope(shield=True):
                    await tick(args.ticks)

    def effects(self, args: Uses) -> list[Effect]:
        return []


@dataclass
class Stage:
    """One agent and all that plays with it."""

    scenario: Scenario
    agent: Agent
    watch: Watch
    queue: Queue
    tasks: Any
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    disposed: bool = False
    facts: int = 0
    latched_at: int | None = None  # the turn in which input came that could not start another one at once

    async def play(self) -> None:
        for action in self.scenario.actions:
            self.act(action)
            self.compare(action.kind)
            for _ in range(action.ticks):
                await tick()
                self.compare(f"after {action.kind}")
        await (self.force() if self.scenario.force else self.wait())
        self.compare("at rest")

    async def wait(self) -> None:
        """With every gate open the driver comes to rest by itself."""
        self.gate.set()
        await self._until_idle(TICKS_TO_REST, "by itself")

    async def force(self) -> None:
        """A cancel that is repeated brings the driver to rest, whatever holds it."""
        for _ in range(50):  # each cancel stops one run; input that came after an earlier one may start another
            if self.agent.phase == "idle":
                return
            if self.agent.phase == "maintenance":
                self.gate.set()  # a job is its caller's, who is waited for
            self.agent.cancel(Cause(kind="user"))
            self.agent.cancel(Cause(kind="user"))
            turn = self.agent.turn
            for _ in range(TICKS_TO_FORCE):
                if self.agent.phase == "idle" or self.agent.turn != turn:
                    break
                await tick()
            else:
                self.watch.broken.append("a forced turn does not end")
                break
        self.gate.set()
        await self._until_idle(TICKS_TO_REST, "by force")

    async def _until_idle(self, ticks: int, how: str) -> None:
        for _ in range(ticks):
            if self.agent.phase == "idle":
                return
            await tick()
        self.watch.broken.append(f"the driver does not come to rest {how}")

    def compare(self, when: str) -> None:
        inbox = self.agent.inbox
        self.watch.check_inbox(inbox)
        live = {
            "next-step": [message.id for message in inbox.next_step],
            "next-turn": [message.id for message in inbox.next_turn],
        }
        self.watch.hold(live == self.queue.lists, f"{when}: the inbox is {live}, not {self.queue.lists}")
        if self.agent.phase == "idle" and not self.disposed and self.queue.ids:
            self.watch.hold(self.latched_at != self.agent.turn, f"{when}: a latched wake was not replayed")

    # -- actions ---------------------------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        getattr(self, "do_" + action.kind.replace(" ", "_"))(action)
        self.queue.place = ("next-step", None)

    def do_followup(self, action: Action) -> None:
        self._send("next-turn", action, lambda message: self.agent.followup(message, first=action.flag))

    def do_steer(self, action: Action) -> None:
        late = self._late()
        self._send("next-turn" if late else "next-step", Action("steer"), self.agent.steer)

    def do_inject(self, action: Action) -> None:
        self._send("next-step", Action("inject"), self.agent.inject)

    def _late(self) -> bool:
        return self.agent.phase != "idle" and self.agent._signal.aborted

    def _latch(self) -> None:
        if not self.disposed and (self.agent.phase == "maintenance" or self._late()):
            self.latched_at = self.agent.turn

    def _send(self, name: str, action: Action, send: Any) -> None:
        idle, turn = self.agent.phase == "idle", self.agent.turn
        if action.kind != "inject":
            self._latch()
        message = self.agent.message("words")
        self.queue.place = (name, 0 if action.flag else None)
        send(message)
        starts = idle and not self.disposed and action.kind != "inject"
        self.watch.hold(self.agent.turn == turn + starts, f"{action.kind} began no turn, or one too many")
        if not starts:
            self.watch.hold(message.id in self.queue.lists[name], f"a sent message is not in {name}")

    def do_replace(self, action: Action) -> None:
        message, (message_id, place) = self.agent.message("other words"), self._chosen(action)
        self.queue.place = place
        done = self.agent.inbox.replace(message_id, message)
        self.watch.hold(done == (place[1] is not None), "replace does not say what it did")

    def do_remove(self, action: Action) -> None:
        message_id, place = self._chosen(action)
        self.watch.hold(
            self.agent.inbox.remove(message_id) == (place[1] is not None), "remove does not say what it did"
        )

    def _chosen(self, action: Action) -> tuple[str, tuple[str, int | None]]:
        """A waiting message and its place, or one that does not wait."""
        places = [(name, index) for name, ids in self.queue.lists.items() for index in range(len(ids))]
        if action.number >= len(places):
            return "nobody", ("next-step", None)
        name, index = places[action.number]
        return self.queue.lists[name][index], (name, index)

    def do_tell_a_fact(self, action: Action) -> None:
        self.facts += 1

    def do_open_the_gates(self, action: Action) -> None:
        self.gate.set()
        self.gate.clear()

    def do_cancel(self, action: Action) -> None:
        was = self.agent.phase
        self.latched_at = self.latched_at if action.flag else None
        done = self.agent.cancel(Cause(kind="user"), keep_inbox=action.flag)
        self.watch.hold(done.was_running == (was != "idle"), "cancel does not say what it met")
        self.watch.hold(action.flag or not self.agent.inbox.pending, "a cancel left input waiting")

    def do_maintenance(self, action: Action) -> None:
        busy = self.agent.phase != "idle" or self.disposed

        async def job(signal: AbortSignal) -> None:
            if action.flag:
                with signal.guard():
                    await self.gate.wait()
            await tick(action.number)

        try:
            work = self.agent.run_maintenance(job)
        except UsageError:
            self.watch.hold(busy, "maintenance was refused to an idle agent")
            return
        self.watch.hold(not busy, "maintenance began beside other work")
        self.tasks.start_soon(self._swallow, work)

    @staticmethod
    async def _swallow(work: Any) -> None:
        with suppress(Exception):
            await work

    def do_retry(self, action: Action) -> None:
        nodes = self.agent.log.surface.nodes()
        last = nodes[-1].data if nodes else None
        whole = isinstance(last, AssistantMessageLogged) and not last.interrupted
        owes = not whole if nodes else bool(self.queue.ids)
        owed = owes and self.agent.phase == "idle" and not self.disposed
        try:
            self.agent.retry()
        except UsageError:
            self.watch.hold(not owed, "retry refused an answer that is owed")
        else:
            self.watch.hold(owed, "retry opened a turn that owes nothing")

    def do_resume(self, action: Action) -> None:
        may = bool(self.queue.ids) and not self.disposed and self.agent.phase != "running"
        if may and self.agent.phase == "maintenance":
            self._latch()
        self.watch.hold(self.agent.resume() == may, "resume does not say what it did")

    def do_dispose(self, action: Action) -> None:
        self.tasks.start_soon(self._dispose, 0 if action.flag else None)

    async def _dispose(self, grace_s: float | None) -> None:
        self.disposed = True
        await self.agent.dispose(grace_s=grace_s)


def _replies(scenario: Scenario, watch: Watch, gate: asyncio.Event) -> Iterator[Any]:
    """The model's script; each reply looks at its request first."""

    def reply_to(answer: Answer) -> Any:
        def reply(request: ModelRequest) -> Reply:
            watch.see_request(request)
            if answer.finish == "dies":
                raise RuntimeError("the adapter has a bug")
            return _reply(answer, gate)

        return reply

    yield from map(reply_to, scenario.answers)
    while True:
        yield reply_to(Answer())


def _reply(answer: Answer, gate: asyncio.Event) -> Reply:
    reply = Reply()
    if answer.holds == "first":
        reply += hold(gate)
    if answer.thinks:
        reply += think("hm")
    if answer.says:
        reply += say("some words")
    for use in answer.calls:
        if use.broken:
            reply += call_text(use.tool, '{"ticks": ')
        else:
            reply += call(use.tool, ticks=use.ticks, hears=use.hears, ends=use.ends)
    if answer.holds == "last":
        reply += hold(gate)
    if answer.finish == "fails":
        reply += fail("SERVER")
    elif answer.finish in ("max-tokens", "refusal"):
        reply += finish_as(answer.finish)  # type: ignore[arg-type]
    return reply


def _listen(stage: Stage) -> None:
    """Mount the listener that judges messages, those that meddle, and the fact that changes."""
    agent = stage.agent
    verdicts = iter(stage.scenario.verdicts)

    async def judge(payload: PreStep, call_next: Any) -> Enter | Reject:
        verdict = next(verdicts, Verdict())
        await tick(verdict.ticks)
        decision = await call_next(payload)
        assert isinstance(decision, Enter)
        messages = decision.messages
        match verdict.kind:
            case "reject":
                stage.watch.verdicts |= {message.id for message in messages}
                return Reject()
            case "drop all":
                stage.watch.verdicts |= {message.id for message in messages}
                return Enter(messages=())
            case "drop first":
                stage.watch.verdicts |= {message.id for message in messages[:1]}
                return Enter(messages=messages[1:])
            case "add":
                return Enter(messages=(*messages, agent.message("and this")))
            case "raise":
                raise RuntimeError("plugin bug")
            case "hang":
                await stage.gate.wait()
        return decision

    agent.hooks.pre_step.listen(judge)
    agent.context.register("facts", 0, lambda: f"fact {stage.facts}" if stage.facts else None)
    _meddle(stage, stage.scenario)


def _meddle(stage: Stage, scenario: Scenario) -> None:
    """Mount the listeners that delay, refuse and break what has nothing to do with messages."""
    drafts, admissions = iter(scenario.drafts), iter(scenario.admissions)
    stops, retries = iter(scenario.stops), iter(scenario.retries)

    async def again(payload: Any, call_next: Any) -> Retry | None:
        return Retry() if next(retries, False) else None

    async def meddle(meddlings: Iterator[Meddling]) -> bool:
        """Do what comes next; whether it is a refusal."""
        meddling = next(meddlings, Meddling())
        await tick(meddling.ticks)
        if meddling.kind == "raise":
            raise RuntimeError("plugin bug")
        if meddling.kind == "hang":
            await stage.gate.wait()
        return meddling.kind == "refuse"

    async def draft(payload: Any, call_next: Any) -> CallConfig:
        config: CallConfig = await call_next(payload)
        return replace(config, model="") if await meddle(drafts) else config

    async def admit(payload: Any, call_next: Any) -> Any:
        return Denied("no") if await meddle(admissions) else await call_next(payload)

    async def prolong(payload: Any) -> None:
        if next(stops, False):
            stage.act(Action("steer"))

    hooks = stage.agent.hooks
    hooks.request.listen(draft)
    hooks.tools.pre_execute.listen(admit)
    hooks.turn_stopping.listen(prolong)
    hooks.request_error.listen(again)


async def run(scenario: Scenario) -> list[str]:
    """Play a scenario and give the laws that it broke."""
    ids, clock, flushes = count(1), count(1_000), count()
    log = SessionLog(HEADER, clock=lambda: next(clock))
    watch, gate = Watch(log), asyncio.Event()
    llm, registry, prompt = Llm(), ToolRegistry(), SystemPrompt()
    llm.register(ScriptedAdapter(_replies(scenario, watch, gate)))
    for name, mode in (("parallel", "parallel"), ("parallel2", "parallel"), ("exclusive", "exclusive")):
        registry.register(Plays(name, mode, watch, scenario.cap, ids))  # type: ignore[arg-type]
    prompt.register(Section(name="identity", order=0, text="You are a test."))

    async def barrier() -> None:
        await tick(scenario.barrier_ticks)
        if next(flushes) in scenario.broken_barriers:
            raise SessionError("disk full", code="LOG_NOT_WRITABLE")

    async with anyio.create_task_group() as tasks:
        agent = Agent(
            AgentParts(
                log=log,
                llm=llm,
                tools=registry,
                prompt=prompt,
                options=AgentOptions(provider="scripted", model="script", max_parallel_tool_calls=scenario.cap),
                tasks=tasks,
                new_id=lambda: f"id{next(ids)}",
                barrier=barrier,
                force_s=1e6,
            )
        )
        stage = Stage(scenario, agent, watch, Queue(agent), tasks, gate)
        _listen(stage)
        await stage.play()
        if watch.broken:
            tasks.cancel_scope.cancel()  # a driver that has lost its way is not waited for
    watch.check_replay()
    watch.check_order()
    watch.check_fates({message.id for message in (*agent.inbox.next_turn, *agent.inbox.next_step)})
    watch.check_history()
    return watch.broken


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Planned failures of tools and plugins need no tracebacks."""
    import logging

    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@settings(
    max_examples=max(150, 2 * settings.default.max_examples),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(scenarios)
def test_whatever_happens_in_whatever_order_the_laws_of_the_loop_hold(scenario: Scenario) -> None:
    assert asyncio.run(run(scenario)) == []
