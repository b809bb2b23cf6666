"""Nothing can wedge a session: a cancel that is forced ends the turn whatever a hook or a tool does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.decisions import Effect
from dsh_lsp.errors import UsageError
from dsh_lsp.events import AssistantChunk, InboxSpliced, LogEvent, TurnEnd
from dsh_lsp.llm.scripted import call, fail, hold, say
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.tool import (
    Execution,
    Tool,
    ToolOutput,
)
from tests.support.headless import Add, headless
from tests.support.loop import NoArgs


class Deaf(Tool[NoArgs]):
    """A body that never looks at its signal, and not even at a torn await."""

    name = "deaf"
    description = "Hear nothing."
    Args = NoArgs

    def __init__(self) -> None:
        self.started, self.release, self.ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def execute(self, args: NoArgs, execution: Execution) -> ToolOutput:
        self.started.set()
        with anyio.CancelScope(shield=True):
            await self.release.wait()
        self.ended.set()
        return ToolOutput(text="late")

    def effects(self, args: NoArgs) -> list[Effect]:
        return []


def ends(log: SessionLog) -> list[str]:
    return [event.data.reason.kind for event in log if isinstance(event.data, TurnEnd)]


async def seen(log: SessionLog, wanted: Callable[[LogEvent], bool]) -> None:
    """Wait until such an event is appended."""
    found = anyio.Event()
    dispose = log.appended.listen(lambda event: found.set() if wanted(event) else None)
    await found.wait()
    dispose()


async def test_the_first_cancel_names_the_tool_it_waits_for_and_the_second_leaves_it_behind() -> None:
    tool = Deaf()
    async with headless([call("deaf") + call("add", a=1, b=2), say("ok")], tools=[tool, Add()]) as h:
        h.agent.followup(h.say("go"))
        await tool.started.wait()
        met = h.agent.cancel(USER)
        assert (met.was_running, met.waiting_for_tool) == (True, "deaf")
        await anyio.sleep(0.02)
        assert h.agent.status == "running", "the first cancel waits"
        h.agent.cancel(USER)
        await h.idle()
        assert ends(h.log) == ["aborted"]
        codes = [event.data.error.code for event in h.of("tool/result")]
        assert codes == ["TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"]
        tool.release.set()
        await tool.ended.wait()
        await anyio.lowlevel.checkpoint()
        assert "late" not in str(list(h.log)), "a result that nobody waits for is dropped"
        await h.ask("again")
        assert ends(h.log) == ["aborted", "completed"]


async def test_a_cancel_that_is_not_heard_is_forced_after_a_while() -> None:
    tool = Deaf()
    async with headless([call("deaf")], tools=[tool], force_s=0.05) as h:
        h.agent.followup(h.say("go"))
        await tool.started.wait()
        h.agent.cancel(USER)
        await h.idle()
        assert ends(h.log) == ["aborted"]
        tool.release.set()


@pytest.mark.parametrize("point", ["assemble", "pre_step", "request", "llm_stream", "turn_stopping"])
async def test_a_hook_that_hangs_is_torn_by_force(point: str) -> None:
    async with headless([say("a"), say("b"), say("c")]) as h:
        reached = anyio.Event()

        async def hangs(*_):
            reached.set()
            await anyio.sleep_forever()

        dispose = getattr(h.agent.hooks, point).listen(hangs)
        h.agent.followup(h.say("go"))
        await reached.wait()
        h.agent.cancel(USER)
        h.agent.cancel(USER)
        await h.idle()
        assert ends(h.log) == ["aborted"]
        dispose()
        await h.ask("again")
        assert ends(h.log)[-1] == "completed"
        words = [event.data.text for event in h.of("user/message")]
        assert words == ["go", "again"], "what was claimed and not committed went back and ran"


async def test_a_hanging_hook_of_a_tool_is_torn_by_force_and_its_call_answered() -> None:
    for point in ("pre_execute", "execute", "post_execute"):
        async with headless([call("add", a=1, b=2), say("ok")], tools=[Add()]) as h:
            reached = anyio.Event()

            async def hangs(*_, reached=reached):
                reached.set()
                await anyio.sleep_forever()

            getattr(h.agent.hooks.tools, point).listen(hangs)
            h.agent.followup(h.say("go"))
            await reached.wait()
            h.agent.cancel(USER)
            h.agent.cancel(USER)
            await h.idle()
            assert len(h.of("tool/result")) == 1
            assert ends(h.log) == ["aborted"]


async def test_disposal_waits_as_long_as_it_is_told_and_keeps_the_inbox() -> None:
    tool = Deaf()
    async with headless([call("deaf")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        h.agent.followup(h.say("later"))
        await tool.started.wait()
        with anyio.fail_after(2):
            await h.agent.dispose(grace_s=0.02)
        assert h.of("turn/end")[0].data.reason.reason.kind == "disposed"
        assert [message.text for message in h.agent.inbox.next_turn] == ["later"]
        h.agent.followup(h.say("too late"))
        assert h.agent.status == "idle"
        tool.release.set()


# -- what is owed, and what waits ------------------------------------------------------------------------------


async def test_a_retry_gives_the_owed_answer_without_a_message_of_its_own() -> None:
    async with headless([fail("SERVER"), say("here")]) as h:
        await h.ask("question")
        h.agent.retry()
        await h.idle()
        assert ends(h.log) == ["error", "completed"]
        assert [event.data.text for event in h.of("user/message")] == ["question"]
        assert h.model.requests[1].messages == h.model.requests[0].messages


async def test_a_retry_takes_what_waits_along() -> None:
    async with headless([fail("SERVER"), say("here")]) as h:
        h.agent.followup(h.say("question"))
        h.agent.followup(h.say("waiting"))
        await h.idle()
        h.agent.retry()
        await h.idle()
        assert [message.text for message in h.model.requests[1].messages] == ["question", "waiting"]


async def test_after_a_cancelled_answer_a_retry_goes_on_from_its_prefix() -> None:
    gate = anyio.Event()
    async with headless([say("half") + hold(gate), say("whole")]) as h:
        h.agent.followup(h.say("question"))
        await seen(
            h.log, lambda event: isinstance(event.data, AssistantChunk) and event.data.chunk.type == "text-delta"
        )
        h.agent.cancel(USER)
        await h.idle()
        h.agent.retry()
        await h.idle()
        assert [m.text for m in h.model.requests[1].messages] == ["question", "half"]


async def test_nothing_is_retried_when_nothing_is_owed_or_something_runs() -> None:
    gate = anyio.Event()
    async with headless([say("done"), hold(gate) + say("x")]) as h:
        for prepare in (None, "question"):
            if prepare is not None:
                await h.ask(prepare)
            with pytest.raises(UsageError) as error:
                h.agent.retry()
            assert error.value.code == "NOTHING_OWED"
        h.agent.followup(h.say("another"))
        with pytest.raises(UsageError):
            h.agent.retry()
        gate.set()


async def test_what_waits_is_resumed_only_when_something_waits_and_nothing_runs() -> None:
    async with headless([fail("AUTH"), say("b")]) as h:
        assert not h.agent.resume()
        h.agent.followup(h.say("a"))
        h.agent.followup(h.say("b"))
        await h.idle()
        assert h.agent.resume()
        assert not h.agent.resume()
        await h.idle()
        assert [event.data.text for event in h.of("user/message")] == ["a", "b"]


async def test_a_message_that_was_given_back_may_be_changed_before_it_runs() -> None:
    async with headless([say("ok")]) as h:
        message = h.say("frist")
        h.agent.followup(message)
        h.agent.cancel(USER)
        await h.idle()
        better = h.say("first")
        assert h.agent.inbox.replace(message.id, better)
        h.agent.resume()
        await h.idle()
        assert [event.data.text for event in h.of("user/message")] == ["first"]


# -- maintenance -----------------------------------------------------------------------------------------------


async def test_maintenance_shows_as_idle_and_input_runs_after_it() -> None:
    async with headless([say("ok")]) as h:
        statuses = []
        h.agent.hooks.status.listen(statuses.append)

        async def job(signal: AbortSignal) -> str:
            h.agent.followup(h.say("meanwhile"))
            assert (h.agent.phase, h.agent.status) == ("maintenance", "idle")
            assert "turn/start" not in h.types
            return "result"

        assert await h.agent.run_maintenance(job) == "result"
        await h.idle()
        assert statuses == ["running", "idle"]
        assert ends(h.log) == ["completed"]


async def test_maintenance_needs_rest_and_a_cancel_reaches_its_job() -> None:
    async with headless([say("ok")]) as h:

        async def job(signal: AbortSignal) -> None:
            h.agent.followup(h.say("meanwhile"))
            with pytest.raises(UsageError, match="active work"):
                h.agent.run_maintenance(job)
            h.agent.cancel(USER, keep_inbox=False)
            assert signal.aborted

        await h.agent.run_maintenance(job)
        await h.idle()
        assert "turn/start" not in h.types
        outcomes = [e.data.outcome for e in h.log if isinstance(e.data, InboxSpliced)]
        assert outcomes == [None, "canceled"]


async def test_a_job_that_fails_leaves_the_session_usable() -> None:
    async with headless([say("ok")]) as h:

        async def job(signal: AbortSignal) -> None:
            raise RuntimeError("job")

        with pytest.raises(RuntimeError, match="job"):
            await h.agent.run_maintenance(job)
        await h.ask("a")
        assert ends(h.log) == ["completed"]


@pytest.mark.parametrize("point", ["assemble", "pre_step", "request", "llm_stream", "turn_stopping"])
async def test_a_hook_that_waits_for_what_others_cancelled_ends_its_turn_and_not_the_session(point: str) -> None:
    async with headless([say("a"), say("b"), say("c")]) as h:

        async def waits(*_):
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        dispose = getattr(h.agent.hooks, point).listen(waits)
        await h.ask("go")
        assert h.of("turn/end")[0].data.reason.error.code == "STRAY_CANCEL"
        dispose()
        await h.ask("again")
        assert ends(h.log)[-1] == "completed"
