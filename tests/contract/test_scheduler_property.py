"""Scheduler: what holds for any mix of calls, whatever fails or is refused, and whenever it is cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.abort import USER
from dsh_lsp.decisions import Effect
from dsh_lsp.events import LogEvent, ToolResult
from dsh_lsp.llm.scripted import Reply, call, say
from dsh_lsp.messages import AssistantMessage, ToolResultBlock
from dsh_lsp.tools.pipeline import Denied
from dsh_lsp.tools.tool import Execution, Mode, Tool, ToolArgs
from tests.support.headless import Headless, headless
from tests.support.headless_tools import Does, answered, answers, codes
from tests.support.loop import ends, settled, until

NET = ("TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED")
LONG = 60  # ticks after which a run that still goes on is forced


class Job(ToolArgs):
    """What one call does; all that the tool knows of it comes with its arguments."""

    mode: Literal["parallel", "exclusive"]
    ticks: int  # below 0 it never ends by itself
    fails: bool
    deaf: bool


@dataclass(frozen=True)
class Step:
    """One example."""

    jobs: tuple[Job, ...]
    cap: int
    denied: frozenset[int] = frozenset()
    vetoed: frozenset[int] = frozenset()  # calls whose own results the log refuses
    cancels: tuple[tuple[Literal["tick", "event"], int], ...] = ()  # the second one forces


@dataclass
class Clock:
    """Time that the test moves."""

    now: int = 0
    stopped: bool = False
    _next: anyio.Event = field(default_factory=anyio.Event)

    async def tick(self) -> None:
        await self._next.wait()

    def advance(self) -> None:
        self.now += 1
        passed, self._next = self._next, anyio.Event()
        passed.set()


class Work(Tool[Job]):
    """Does jobs, and watches who runs beside whom."""

    name = "work"
    description = "Work."
    Args = Job

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.running: dict[str, Mode] = {}
        self.most = 0
        self.overlaps: list[tuple[str, ...]] = []
        self.ran: list[str] = []

    def mode_of(self, args: Job) -> Mode:
        return args.mode

    async def execute(self, args: Job, execution: Execution) -> str:
        self.ran.append(execution.call_id)
        self.running[execution.call_id] = args.mode
        self.most = max(self.most, len(self.running))
        if len(self.running) > 1 and "exclusive" in self.running.values():
            self.overlaps.append(tuple(self.running))
        try:
            if args.deaf:
                with anyio.CancelScope(shield=True):
                    await self._work(args)
            else:
                with execution.signal.guard():
                    await self._work(args)
        finally:
            del self.running[execution.call_id]
        if args.fails:
            raise RuntimeError(f"{execution.call_id} failed")
        return execution.call_id

    async def _work(self, args: Job) -> None:
        left = args.ticks
        while left != 0 and not self.clock.stopped:
            await self.clock.tick()
            left -= 1

    def effects(self, args: Job) -> list[Effect]:
        return []


jobs = st.builds(
    Job,
    mode=st.sampled_from(["parallel", "exclusive"]),
    ticks=st.integers(0, 4) | st.just(-1),
    fails=st.booleans(),
    deaf=st.booleans(),
)
moments = st.tuples(st.just("tick"), st.integers(0, 8)) | st.tuples(st.just("event"), st.integers(0, 16))
indices = st.frozensets(st.integers(0, 5), max_size=2)
steps = st.builds(
    Step,
    jobs=st.lists(jobs, min_size=1, max_size=6).map(tuple),
    cap=st.integers(1, 4),
    denied=indices,
    vetoed=indices,
    cancels=st.lists(moments, max_size=2).map(tuple),
)


@settings(max_examples=max(125, settings.default.max_examples))
@given(steps)
def test_every_call_is_answered_once_and_in_order_whatever_happens(step: Step) -> None:
    anyio.run(play, step)


async def play(step: Step) -> None:
    """Run one step, and check all that holds for every step."""
    clock, ids = Clock(), [f"c{index}" for index in range(len(step.jobs))]
    work = Work(clock)
    reply = Reply()
    for call_id, job in zip(ids, step.jobs, strict=True):
        reply += call("work", id=call_id, **job.model_dump())
    refused: list[str] = []
    refuse = veto({f"c{index}" for index in step.vetoed}, refused)
    async with headless(
        [reply, say("ok"), say("ok")], tools=[work], checks=[refuse], max_parallel_tool_calls=step.cap
    ) as h:

        async def deny(execution, call_next):
            if execution.call_id in {f"c{index}" for index in step.denied}:
                return Denied("no")
            return await call_next(execution)

        h.agent.hooks.tools.pre_execute.listen(deny)
        cancelled = cancel_at(h, [number for kind, number in step.cancels if kind == "event"])
        h.agent.followup(h.say("go"))
        await run(h, clock, [tick for kind, tick in step.cancels if kind == "tick"])
        assert h.agent.status == "idle", "the turn ends"
        check_log(h, ids)
        assert work.most <= step.cap
        assert not work.overlaps
        assert work.ran == [call_id for call_id in ids if call_id in work.ran], "started in order"
        aborted = h.of("turn/end")[0].data.reason.kind == "aborted"
        if not aborted:
            assert not cancelled or h.of("turn/end")[0].seq <= cancelled[0]
            assert ends(h.log)[0] == ("error" if refused else "completed")
        if not aborted and not refused:
            assert answers(h) == [expected(step, index) for index in range(len(ids))]
            assert codes(h) == [None] * len(ids)
        count = len(h.log)
        clock.stopped = True
        clock.advance()
        await until(lambda: not work.running)
        await settled()
        assert len(h.log) == count, "what was left behind says nothing any more"
        await h.ask("again")
        assert ends(h.log)[-1] == "completed"


def expected(step: Step, index: int) -> str:
    """What a call that nobody disturbed says."""
    if index in step.denied:
        return "Error: no"
    return f"Error: c{index} failed" if step.jobs[index].fails else f"c{index}"


def veto(ids: set[str], refused: list[str]):
    """A check that refuses the results of some calls, but those that say that nothing else is known."""

    def check(event: LogEvent) -> None:
        data = event.data
        if isinstance(data, ToolResult) and (data.error is None or data.error.code not in NET):
            block = data.message.content[0]
            assert isinstance(block, ToolResultBlock)
            if block.tool_call_id in ids:
                refused.append(block.tool_call_id)
                raise RuntimeError("not this result")

    return check


def cancel_at(h: Headless, numbers: Sequence[int]) -> list[int]:
    """Cancel from inside the append of the n-th event from the model's answer on; gives those that met a turn."""
    met: list[int] = []

    def observe(event: LogEvent) -> None:
        if ends(h.log):
            return
        answer = next(iter(h.of("assistant/message")), None)
        number = event.seq - answer.seq if answer is not None else -1
        cancels = [h.agent.cancel(USER) for _ in range(numbers.count(number))]
        met.extend(event.seq for cancel in cancels if cancel.was_running)

    h.log.appended.listen(observe)
    return met


async def run(h: Headless, clock: Clock, cancels: Sequence[int]) -> None:
    """Let time pass from the model's answer on until the agent rests; force it if it does not."""
    await until(lambda: h.of("assistant/message"))
    while h.agent.status == "running" and clock.now < LONG + 20:
        for _ in range(cancels.count(clock.now) if clock.now < LONG else 2):
            h.agent.cancel(USER)
        await settled(12)
        clock.advance()


def check_log(h: Headless, ids: list[str]) -> None:
    """Each call has one result, before the step ends, in the model's order; and so the model reads them."""
    assert answered(h) == ids
    end = h.of("step/end")[0].seq
    started = {event.data.call_id: event.seq for event in h.of("tool/call")}
    for event, code in zip(h.of("tool/result"), codes(h), strict=True):
        call_id = event.data.message.content[0].tool_call_id
        assert event.seq < end
        assert (code == "TOOL_NOT_STARTED") is (call_id not in started)
        if call_id in started:
            assert event.sources == ((started[call_id], started[call_id]),)
    assert len(h.of("turn/end")) == 1
    history = h.log.derive_messages()
    asked = next(i for i, m in enumerate(history) if isinstance(m, AssistantMessage) and m.tool_calls)
    assert [m.content[0].tool_call_id for m in history[asked + 1 : asked + 1 + len(ids)]] == ids


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["parallel", "exclusive"])), min_size=1, max_size=4))
@settings(max_examples=20)
def test_one_call_that_concludes_ends_the_turn_whatever_its_neighbours_say(plan) -> None:
    async def check() -> None:
        def body(execution: Execution) -> str:
            if plan[int(execution.call_id)][0]:
                execution.conclude_turn()
            return "ok"

        tools = [Does(mode, body, mode=mode) for mode in ("parallel", "exclusive")]
        reply = Reply()
        for index, (_, mode) in enumerate(plan):
            reply += call(mode, id=str(index))
        async with headless([reply, say("ok")], tools=tools) as h:
            await h.ask("go")
            assert answered(h) == [str(index) for index in range(len(plan))]
            assert len(h.model.requests) == (1 if any(concludes for concludes, _ in plan) else 2)

    anyio.run(check)
