"""Steps, L046 to L060: the request of a step, its header, and the route that it takes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from dsh_lsp.agent.hooks import RequestDraft, Retry
from dsh_lsp.agent.prompt import Section, SystemPrompt
from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.events import EndedByError
from dsh_lsp.llm.scripted import ScriptedAdapter, call, fail, say, think
from dsh_lsp.messages import CallConfig, Finish
from dsh_lsp.session.surface import derive_messages
from tests.support.headless import Add, headless
from tests.support.loop import RAW, Acts, RawAdapter, ends, outcomes, spoken, texts


async def another(failed, call_next):
    return Retry()


def headers(h):
    return [event.data for event in h.of("request/header")]


def route_of(box):
    """A listener that sends each call where `box` says."""

    async def choose(draft: RequestDraft, call_next):
        return replace(await call_next(draft), **box)

    return choose


class KeepsItsSpec(Acts):
    """A tool that gives the same specification each time, as one from elsewhere may."""

    kept = None

    def spec(self):
        self.kept = self.kept or super().spec()
        return self.kept


async def past_life(**options):
    """The log of a session that asked once."""
    async with headless([say("ok")], **options) as h:
        await h.ask("before")
        return list(h.log)


async def test_l046_the_second_request_is_the_first_with_its_answer_and_result() -> None:
    async with headless([call("add", a=1, b=2), say("3")], tools=[Add()]) as h:
        await h.ask("a")
        first, second = (request.messages for request in h.model.requests)
        answer, result = h.of("assistant/message")[0].data.message, h.of("tool/result")[0].data.message
        assert second == (*first, answer, result)
        request = h.model.requests[0]
        for frozen, name in ((request, "system"), (request.config, "model"), (first[0].content[0], "text")):
            with pytest.raises(FrozenInstanceError):
                setattr(frozen, name, "other")


async def test_l047_the_next_turn_extends_the_messages_of_the_one_before() -> None:
    async with headless([call("add", a=1, b=2), say("3"), say("ok")], tools=[Add()]) as h:
        await h.ask("a")
        await h.ask("b")
        before, after = h.model.requests[1].messages, h.model.requests[2].messages
        assert after[: len(before)] == before
        assert texts(after[len(before) :]) == ["3", "b"]


async def test_l048_every_request_can_be_rebuilt_from_the_log_before_its_first_chunk() -> None:
    script = [
        think("hm") + call("add", a=1, b=2),
        say("lost") + fail("SERVER"),
        say("three"),
        call("nope"),
        say("bye"),
    ]
    async with headless(script, tools=[Add()]) as h:
        h.agent.hooks.request_error.listen(another)
        await h.ask("one")
        h.registry.register(Acts(lambda execution: None))
        h.agent.inject(h.say("context"))
        await h.ask("two")
        log = list(h.log)
        firsts = [
            event.seq
            for event in log
            if event.type == "assistant/chunk" and log[event.seq - 1].type != "assistant/chunk"
        ]
        assert len(firsts) == len(h.model.requests) == 5
        for first, request in zip(firsts, h.model.requests, strict=True):
            header = [event.data.header for event in log[:first] if event.type == "request/header"][-1]
            assert derive_messages(log[:first]) == request.messages
            assert (header.config, header.system, header.tools) == (request.config, request.system, request.tools)


async def test_l049_the_first_header_is_initial_and_a_stable_one_is_not_repeated() -> None:
    async with headless([call("add", a=1, b=2), say("3"), say("ok")], tools=[Add()]) as h:
        await h.ask("a")
        await h.ask("b")
        assert [header.reason for header in headers(h)] == ["initial"]


async def test_l050_a_resumed_session_logs_its_header_again_though_nothing_changed() -> None:
    async with headless([say("ok"), say("ok")], events=await past_life()) as h:
        await h.ask("a")
        await h.ask("b")
        first, second = headers(h)
        assert (first.reason, second.reason) == ("initial", "resume")
        assert first.header == second.header


@pytest.mark.parametrize("what", ["system", "tools", "a schema in place", "tool order", "config"])
async def test_l051_a_change_of_the_request_is_one_whole_header(what) -> None:
    prompt = SystemPrompt()
    tools = [Add(), KeepsItsSpec(lambda execution: None)]
    async with headless([say("1"), say("2"), say("3")], prompt=prompt, tools=tools) as h:
        await h.ask("a")
        if what == "system":
            prompt.register(Section(name="s", order=0, text="More."))
        elif what == "tools":
            h.registry.register(Acts(lambda execution: None, "third"))
        elif what == "a schema in place":
            tools[1].spec().parameters["description"] = "changed"
        elif what == "config":
            h.agent.hooks.request.listen(route_of({"max_tokens": 7}))
        else:

            async def reverse(assembly, call_next):
                assembly = await call_next(assembly)
                return replace(assembly, tools=assembly.tools[::-1])

            h.agent.hooks.assemble.listen(reverse)
        await h.ask("b")
        await h.ask("c")
        assert [header.reason for header in headers(h)] == ["initial", "change"]
        request, header = h.model.requests[-1], headers(h)[-1].header
        assert (header.config, header.system, header.tools) == (request.config, request.system, request.tools)
        assert header != headers(h)[0].header


async def test_l052_a_listener_of_the_request_redirects_it_and_what_follows() -> None:
    async with headless([say("1"), say("2")]) as h:
        await h.ask("a")
        seeds: list[CallConfig] = []

        async def note(draft: RequestDraft, call_next):
            seeds.append(draft.config)
            return replace(draft.config, model="other") if len(seeds) == 1 else draft.config

        h.agent.hooks.request.listen(note)
        await h.ask("b")
        await h.ask("c")
        assert [request.config.model for request in h.model.requests] == ["script", "other", "other"]
        assert [seed.model for seed in seeds] == ["script", "other"]
        assert [header.reason for header in headers(h)] == ["initial", "change"]


async def test_l053_a_listener_cannot_change_the_seed_in_place() -> None:
    async with headless([say("ok")]) as h:

        async def mutate(draft: RequestDraft, call_next):
            draft.config.model = "other"  # type: ignore[misc]
            return draft.config

        dispose = h.agent.hooks.request.listen(mutate)
        await h.ask("a")
        dispose()
        assert ends(h.log) == ["error"]
        assert "assign" in h.of("turn/end")[0].data.reason.error.message
        assert not headers(h)
        await h.ask("b")
        assert headers(h)[0].header.config.model == "script"


async def test_l054_an_inject_while_the_request_is_made_joins_the_next_one() -> None:
    async with headless([say("1"), say("2")]) as h:
        injected: list[int] = []

        async def inject(draft: RequestDraft, call_next):
            if not injected:
                injected.append(1)
                h.agent.inject(h.say("late"))
            return await call_next(draft)

        h.agent.hooks.request.listen(inject)
        await h.ask("a")
        assert [texts(request.messages) for request in h.model.requests] == [["a"], ["a", "1", "late"]]


async def test_l055_adapter_defaults_are_flagged_and_found_anew_on_another_route() -> None:
    one = RawAdapter(defaults={"reasoning_effort": "high", "max_tokens": 10})
    two = RawAdapter(provider="two", defaults={"reasoning_effort": "low", "max_tokens": 20})
    route = dict(RAW)
    async with headless([], adapters=[one, two], max_tokens=5, **RAW) as h:
        h.agent.hooks.request.listen(route_of(route))
        await h.ask("a")
        route["provider"] = "two"
        await h.ask("b")
        first, second = (header.header for header in headers(h))
        assert (first.config.reasoning_effort, first.config.max_tokens) == ("high", 5)
        assert (second.config.reasoning_effort, second.config.max_tokens) == ("low", 5)
        assert first.adapter_defaults == second.adapter_defaults == ("reasoningEffort",)
    async with headless([], adapters=[one, two], **RAW) as h:
        h.agent.hooks.request.listen(route_of(route))
        await h.ask("a")
        assert headers(h)[0].header.adapter_defaults == ("maxTokens", "reasoningEffort")


@pytest.mark.parametrize(
    ("effort", "defaults", "route", "restored"),
    [
        ("high", {}, {}, "high"),
        ("high", {}, {"model": "other"}, None),
        (None, {"reasoning_effort": "high"}, {}, None),
    ],
    ids=["chosen, same route", "another model", "only a default"],
)
async def test_l056_a_resumed_session_restores_the_effort_that_was_chosen(effort, defaults, route, restored) -> None:
    seed = await past_life(adapters=[RawAdapter(defaults=defaults)], reasoning_effort=effort, **RAW)
    async with headless([], events=seed, adapters=[RawAdapter()], **{**RAW, **route}) as h:
        await h.ask("a")
        assert headers(h)[-1].header.config.reasoning_effort == restored


async def test_l057_a_prepared_call_is_served_by_the_adapter_that_prepared_it() -> None:
    old, new = RawAdapter(spoken("old")), RawAdapter(spoken("new"))
    async with headless([], **RAW) as h:
        dispose = h.llm.register(old)

        async def swap(request, call_next):
            dispose()
            h.llm.register(new)
            return await call_next(request)

        h.agent.hooks.llm_stream.listen(swap)
        await h.ask("a")
        assert h.of("assistant/message")[0].data.message.text == "old"
        assert not new.requests


async def test_l058_a_route_without_an_adapter_may_be_served_by_a_stream_listener() -> None:
    async with headless([], provider="nobody", model="m") as h:
        failures = []

        async def note(failed, call_next):
            failures.append(failed.failure.code)

        async def serve(request, call_next):
            return ScriptedAdapter([say("served")]).prepare(request.config).stream(request)

        h.agent.hooks.request_error.listen(note)
        await h.ask("a")
        h.agent.hooks.llm_stream.listen(serve)
        await h.ask("b")
        assert failures == ["NO_ADAPTER"]
        assert ends(h.log) == ["error", "completed"]
        assert h.of("assistant/message")[0].data.message.text == "served"


async def test_l058_any_other_failure_to_prepare_is_an_error_turn_that_gives_back() -> None:
    failure = LlmFailure(message="no key", code="MISSING_CREDENTIAL")

    class Keyless(RawAdapter):
        def prepare(self, config):
            raise LlmError(failure)

    async with headless([], adapters=[Keyless()], **RAW) as h:
        await h.ask("a")
        assert h.of("turn/end")[0].data.reason == EndedByError(error=failure)
        assert outcomes(h.log) == ["restored"]
        assert not h.of("user/message", "request/header")


async def test_l059_the_route_is_logged_when_it_changes() -> None:
    one, two = RawAdapter(window=1000), RawAdapter(provider="two", window=2000)
    route = dict(RAW)
    async with headless([], adapters=[one, two], **RAW) as h:
        h.agent.hooks.request.listen(route_of(route))
        await h.ask("a")
        await h.ask("b")
        route["provider"] = "two"
        await h.ask("c")
        two.window = None
        await h.ask("d")
        contexts = [(event.data.provider, event.data.context_window) for event in h.of("request/context")]
        assert contexts == [("raw", 1000), ("two", 2000), ("two", None)]


async def test_l060_what_an_adapter_wants_to_see_again_is_kept_with_its_message() -> None:
    state = {"signature": "abc"}
    adapter = RawAdapter(spoken("hi", finish=Finish(reason="stop", replay_state=state)))
    async with headless([], adapters=[adapter], **RAW) as h:
        await h.ask("a")
        assert h.log.derive_messages()[-1].source.replay_state == {"signature": "abc"}
        await h.ask("b")
        assert adapter.requests[1].messages[1].source.replay_state == {"signature": "abc"}
