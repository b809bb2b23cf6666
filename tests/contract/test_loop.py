"""The loop's contract: what is in the log, in which order, whatever happens."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from dsh_lsp.abort import Cause
from dsh_lsp.agent.hooks import Enter, PreStep, Reject, Retry
from dsh_lsp.decisions import Effect
from dsh_lsp.errors import LlmFailure
from dsh_lsp.events import (
    AssistantAttempt,
    AssistantMessageLogged,
    InboxSpliced,
    ToolResult,
    TurnEnd,
    decode_event,
    encode_event,
)
from dsh_lsp.llm.scripted import call, call_text, fail, finish_as, hold, say, think
from dsh_lsp.session.surface import derive_messages
from dsh_lsp.tools.tool import (
    Execution,
    Tool,
    ToolArgs,
    ToolOutput,
)
from tests.support.headless import Add, headless

USER = Cause(kind="user")


def end_kinds(log):
    return [event.data.reason.kind for event in log if isinstance(event.data, TurnEnd)]


class NoArgs(ToolArgs):
    pass


class Waits(Tool[NoArgs]):
    """A tool that runs until the test lets it end."""

    name = "waits"
    description = "Wait."
    Args = NoArgs

    def __init__(self, name="waits", mode="exclusive", ignores_cancel=False):
        self.name, self.mode = name, mode
        self.started, self.release = anyio.Event(), anyio.Event()
        self.ignores_cancel = ignores_cancel

    async def execute(self, args, execution: Execution):
        self.started.set()
        if self.ignores_cancel:
            await self.release.wait()
        else:
            with execution.signal.guard():
                await self.release.wait()
        return ToolOutput(text=f"{self.name} done")

    def effects(self, args) -> list[Effect]:
        return []


async def test_a_tool_turn_logs_question_call_result_answer_and_its_boundaries() -> None:
    async with headless([call("add", a=1, b=2), say("It is 3.")], tools=[Add()]) as h:
        await h.ask("What is 1 + 2?")
        messages = [t for t in h.types if t in ("user/message", "assistant/message", "tool/result")]
        assert messages == ["user/message", "assistant/message", "tool/result", "assistant/message"]
        boundaries = [t for t in h.types if t.startswith(("turn/", "step/"))]
        assert boundaries == ["turn/start", "step/start", "step/end", "step/start", "step/end", "turn/end"]
        assert h.types == [
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "step/start",
            "user/message",
            "request/header",
            "request/context",
            "assistant/message",
            "tool/call",
            "tool/result",
            "step/end",
            "step/start",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
        result = h.of("tool/result")[0].data
        assert isinstance(result, ToolResult)
        assert result.message.content[0].text == "3"
        assert end_kinds(h.log) == ["completed"]


async def test_when_followup_returns_the_turn_is_open_and_its_input_claimed() -> None:
    async with headless([say("hi")]) as h:
        h.agent.followup(h.say("hello"))
        assert h.types == ["agent/inbox/spliced", "turn/start", "agent/inbox/spliced"]
        assert h.agent.status == "running"
        await h.idle()


async def test_every_request_is_rebuilt_from_the_log_before_its_first_chunk() -> None:
    async with headless([call("add", a=1, b=2), say("3"), say("bye")], tools=[Add()]) as h:
        await h.ask("one")
        await h.ask("two")
        firsts = [
            event.seq
            for before, event in zip([None, *h.log], h.log, strict=False)
            if event.type == "assistant/chunk" and (before is None or before.type != "assistant/chunk")
        ]
        assert len(firsts) == len(h.model.requests) == 3
        for first, request in zip(firsts, h.model.requests, strict=True):
            prefix = list(h.log)[:first]
            assert derive_messages(prefix) == request.messages
            header = [event for event in prefix if event.type == "request/header"][-1].data.header
            assert (header.config, header.system, header.tools) == (request.config, request.system, request.tools)
        for earlier, later in zip(h.model.requests, h.model.requests[1:], strict=False):
            assert later.messages[: len(earlier.messages)] == earlier.messages


async def test_the_whole_log_survives_the_disk() -> None:
    async with headless([think("hm") + call("add", a=1, b=2), say("3")], tools=[Add()]) as h:
        await h.ask("one")
        assert [decode_event(encode_event(event)) for event in h.log] == list(h.log)
        assert h.log.derive_messages() == derive_messages(h.log)


async def test_three_followups_in_one_tick_make_three_turns_and_one_run() -> None:
    async with headless([say("1"), say("2"), say("3")]) as h:
        statuses = []
        h.agent.hooks.status.listen(statuses.append)
        for text in "abc":
            h.agent.followup(h.say(text))
        await h.idle()
        assert end_kinds(h.log) == ["completed"] * 3
        assert statuses == ["running", "idle"]


async def test_a_steer_during_a_tool_is_in_the_next_request_of_the_same_turn() -> None:
    tool = Waits()
    async with headless([call("waits"), say("ok")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await tool.started.wait()
        h.agent.steer(h.say("and also this"))
        tool.release.set()
        await h.idle()
        assert [m.text for m in h.model.requests[1].messages if m.role == "user" and m.source.kind == "user"] == [
            "go",
            "and also this",
        ]
        assert h.types.count("turn/start") == 1


async def test_an_inject_waits_for_the_next_turn_and_comes_before_its_prompt() -> None:
    async with headless([say("ok")]) as h:
        h.agent.inject(h.say("context"))
        assert h.agent.status == "idle"
        await h.ask("prompt")
        assert [m.text for m in h.model.requests[0].messages] == ["context", "prompt"]


async def test_a_cancel_in_mid_stream_keeps_the_visible_prefix_and_the_session_goes_on() -> None:
    gate = anyio.Event()
    async with headless([say("Once upon") + hold(gate) + say(" a time"), say("fine")]) as h:
        h.agent.followup(h.say("tell"))
        while not h.of("assistant/chunk"):
            await anyio.lowlevel.checkpoint()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert h.agent.cancel(USER).was_running
        await h.idle()
        message = h.of("assistant/message")[0].data
        assert isinstance(message, AssistantMessageLogged)
        assert message.interrupted
        assert message.message.text == "Once upon"
        assert end_kinds(h.log) == ["aborted"]
        await h.ask("again")
        assert end_kinds(h.log) == ["aborted", "completed"]


async def test_a_cancel_during_a_tool_gives_every_call_one_result() -> None:
    tool = Waits()
    async with headless([call("waits") + call("add", a=1, b=1)], tools=[tool, Add()]) as h:
        h.agent.followup(h.say("go"))
        await tool.started.wait()
        h.agent.cancel(USER)
        await h.idle()
        codes = [event.data.error.code for event in h.of("tool/result")]
        assert codes == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]
        assert end_kinds(h.log) == ["aborted"]
        assert h.types.count("step/end") == 1


async def test_what_a_tool_had_done_before_a_cancel_is_not_hidden() -> None:
    tool = Waits(ignores_cancel=True)
    async with headless([call("waits")], tools=[tool]) as h:
        h.agent.followup(h.say("go"))
        await tool.started.wait()
        h.agent.cancel(USER)
        tool.release.set()
        await h.idle()
        text = h.of("tool/result")[0].data.message.content[0].text
        assert "aborted" in text
        assert "waits done" in text


async def test_input_that_was_claimed_and_not_committed_goes_back_and_runs_next() -> None:
    async with headless([say("a"), say("b")]) as h:
        h.agent.followup(h.say("first"))
        h.agent.cancel(USER)
        await h.idle()
        assert end_kinds(h.log) == ["aborted"]
        assert [m.text for m in h.agent.inbox.next_turn] == ["first"]
        await h.ask("second")
        assert [e.data.text for e in h.of("user/message")] == ["first", "second"]


async def test_a_cancel_without_the_inbox_drops_claimed_and_waiting_input() -> None:
    async with headless([]) as h:
        h.agent.followup(h.say("first"))
        h.agent.followup(h.say("second"))
        h.agent.cancel(USER, keep_inbox=False)
        await h.idle()
        assert not h.agent.inbox.pending
        outcomes = [e.data.outcome for e in h.log if isinstance(e.data, InboxSpliced) and e.data.outcome]
        assert outcomes == ["canceled", "restored", "canceled"]
        assert h.types[-1] == "turn/end"


async def test_a_followup_after_a_cancel_runs_once_the_turn_has_ended() -> None:
    gate = anyio.Event()
    async with headless([hold(gate), say("ok")]) as h:
        h.agent.followup(h.say("a"))
        await anyio.sleep(0.01)
        h.agent.cancel(USER)
        h.agent.followup(h.say("b"))
        await h.idle()
        assert end_kinds(h.log) == ["aborted", "completed"]


async def test_results_come_in_the_models_order_whatever_finishes_first() -> None:
    slow, fast = Waits("slow", "parallel"), Waits("fast", "parallel")
    async with headless([call("slow") + call("fast"), say("ok")], tools=[slow, fast]) as h:
        h.agent.followup(h.say("go"))
        await slow.started.wait()
        await fast.started.wait()
        fast.release.set()
        await anyio.sleep(0.01)
        assert not h.of("tool/result")
        slow.release.set()
        await h.idle()
        assert [e.data.message.content[0].text for e in h.of("tool/result")] == ["slow done", "fast done"]


async def test_an_exclusive_call_overlaps_nothing() -> None:
    first, alone = Waits("first", "parallel"), Waits("alone", "exclusive")
    async with headless([call("first") + call("alone"), say("ok")], tools=[first, alone]) as h:
        h.agent.followup(h.say("go"))
        await first.started.wait()
        await anyio.sleep(0.01)
        assert not alone.started.is_set()
        first.release.set()
        await alone.started.wait()
        alone.release.set()
        await h.idle()
        assert end_kinds(h.log) == ["completed"]


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (call("nope"), "UNKNOWN_TOOL", "add"),
        (call("add", a="x"), "INVALID_ARGS", "b: Field required"),
        (call_text("add", '{"a": 1,'), "INVALID_ARGS", "not a JSON object"),
        (call_text("add", '{"a": NaN, "b": 1}'), "INVALID_ARGS", "not a JSON object"),
    ],
    ids=["unknown tool", "wrong arguments", "cut arguments", "NaN"],
)
async def test_a_bad_call_is_a_result_that_the_model_reads(reply, code, words) -> None:
    async with headless([reply, say("sorry")], tools=[Add()]) as h:
        await h.ask("go")
        result = h.of("tool/result")[0].data
        assert result.error.code == code
        assert words in result.message.content[0].text
        assert end_kinds(h.log) == ["completed"]


async def test_a_tool_that_raises_is_a_result_and_not_a_crash() -> None:
    class Breaks(Add):
        async def execute(self, args, execution):
            raise RuntimeError("kaputt")

    async with headless([call("add", a=1, b=2), say("sorry")], tools=[Breaks()]) as h:
        await h.ask("go")
        block = h.of("tool/result")[0].data.message.content[0]
        assert block.is_error
        assert "kaputt" in block.text
        assert end_kinds(h.log) == ["completed"]


async def test_a_failed_request_ends_the_turn_with_its_failure_and_leaves_an_attempt() -> None:
    failure = LlmFailure(message="no", code="AUTH", status=401)
    async with headless([fail(failure), say("ok")]) as h:
        await h.ask("go")
        end = h.of("turn/end")[0].data
        assert end.reason.error == failure
        attempt = h.of("assistant/attempt")[0].data
        assert isinstance(attempt, AssistantAttempt)
        assert attempt.failure == failure
        assert not h.of("assistant/message")
        await h.ask("again")
        assert end_kinds(h.log) == ["error", "completed"]


async def test_a_retry_stays_in_its_step_and_cites_only_its_own_chunks() -> None:
    async with headless([say("lost") + fail("SERVER"), say("kept")]) as h:

        async def again(payload, call_next):
            return Retry()

        h.agent.hooks.request_error.listen(again)
        await h.ask("go")
        assert h.types.count("step/start") == 1
        assert h.types.count("user/message") == 1
        answer = h.of("assistant/message")[0]
        assert answer.data.message.text == "kept"
        attempt = h.of("assistant/attempt")[0].data
        assert answer.sources[0][0] > attempt.chunks[1]


async def test_an_answer_cut_at_its_limit_runs_no_tool() -> None:
    async with headless([say("x") + call("add", a=1, b=2) + finish_as("max-tokens")], tools=[Add()]) as h:
        await h.ask("go")
        assert not h.of("tool/call")
        assert end_kinds(h.log) == ["max-tokens"]


async def test_a_pre_step_that_rejects_blocks_the_turn_and_parks_the_rest() -> None:
    async with headless([say("b"), say("c")]) as h:

        async def reject(payload: PreStep, call_next):
            return Reject() if payload.messages[0].text == "a" else await call_next(payload)

        h.agent.hooks.pre_step.listen(reject)
        h.agent.followup(h.say("a"))
        h.agent.followup(h.say("b"))
        await h.idle()
        assert end_kinds(h.log) == ["blocked"]
        assert [m.text for m in h.agent.inbox.next_turn] == ["b"]
        await h.ask("c")
        assert end_kinds(h.log) == ["blocked", "completed", "completed"]


async def test_a_listener_that_raises_ends_its_turn_and_never_the_loop() -> None:
    async with headless([say("ok"), say("ok")]) as h:

        async def breaks(payload, call_next):
            raise RuntimeError("plugin bug")

        dispose = h.agent.hooks.pre_step.listen(breaks)
        await h.ask("a")
        assert end_kinds(h.log) == ["error"]
        assert "plugin bug" in h.of("turn/end")[0].data.reason.error.message
        dispose()
        await h.ask("b")
        assert end_kinds(h.log) == ["error", "completed", "completed"]
        assert [e.data.text for e in h.of("user/message")] == ["a", "b"]


async def test_a_listener_of_turn_stopping_that_steers_prolongs_the_turn() -> None:
    async with headless([say("one"), say("two")]) as h:
        asked = []

        async def once(payload):
            if not asked:
                asked.append(1)
                h.agent.steer(h.say("more"))

        h.agent.hooks.turn_stopping.listen(once)
        await h.ask("a")
        assert h.types.count("turn/start") == 1
        assert h.types.count("step/start") == 2


async def test_rewritten_messages_are_what_the_model_reads() -> None:
    async with headless([say("ok")]) as h:

        async def rewrite(payload: PreStep, call_next):
            decision = await call_next(payload)
            return Enter(messages=(*decision.messages, h.say("and context")))

        h.agent.hooks.pre_step.listen(rewrite)
        await h.ask("a")
        assert [m.text for m in h.model.requests[0].messages] == ["a", "and context"]
