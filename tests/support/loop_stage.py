"""Loop stage: plays a scenario on a real agent, with tools and listeners that do what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import anyio

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.agent.driver import Agent, AgentParts
from dsh_lsp.agent.hooks import Enter, PreStep, Reject, Retry
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.agent.request import AgentOptions
from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.events import AssistantMessageLogged
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.llm.scripted import ScriptedAdapter
from dsh_lsp.messages import CallConfig
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.pipeline import Denied
from dsh_lsp.tools.registry import ToolRegistry
from tests.support.loop_laws import HEADER, Queue, Watch
from tests.support.loop_players import Plays, replies
from tests.support.loop_scenarios import Action, Meddling, Scenario, Verdict, tick

TICKS_TO_REST = 20_000  # far more than any scenario needs; a driver that is still at work then has lost its way
TICKS_TO_FORCE = 100  # a forced turn waits for nobody, whatever its tools and plugins do


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
            self.agent.cancel(USER)
            self.agent.cancel(USER)
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
        done = self.agent.cancel(USER, keep_inbox=action.flag)
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
    llm.register(ScriptedAdapter(replies(scenario, watch, gate)))
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
