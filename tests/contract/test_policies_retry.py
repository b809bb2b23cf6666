"""Policies: when a failed model call is tried again, how long that waits, and what the log then says."""

from __future__ import annotations

import time
from dataclasses import replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.abort import USER
from dsh_lsp.agent.hooks import Retry
from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.scripted import ScriptedAdapter, call, fail, say
from dsh_lsp.plugins import retry
from dsh_lsp.plugins.retry import GiveUp, RetryWait, Settings, Spent, is_transient, plan
from tests.support.headless import Add
from tests.support.headless_tools import with_plugins
from tests.support.loop import ends, settled, texts, until

QUICK = (retry, Settings(first_seconds=0.001, max_seconds=0.001))
SLOW = (retry, Settings(first_seconds=60.0, max_seconds=60.0, budget_seconds=1000.0))
RATE = LlmFailure(message="slow down", code="RATE_LIMIT", status=429)


def failure(code: str, status: int | None = None, **more) -> LlmFailure:
    return LlmFailure(message="m", code=code, status=status, **more)


# -- what is tried again ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "again"),
    [
        ("TRANSPORT", None, True),
        ("TIMEOUT", None, True),
        ("TIMEOUT", 408, True),
        ("STREAM_CLOSED", None, True),
        ("EMPTY_RESPONSE", None, True),
        ("RATE_LIMIT", 429, True),
        ("RATE_LIMIT", None, True),
        ("SERVER", None, True),
        *(("SERVER", status, True) for status in (500, 502, 503, 504, 520, 521, 522, 523, 524, 529)),
        ("SERVER", 501, False),
        ("SERVER", 505, False),
        ("HTTP_425", 425, True),
        ("HTTP_404", 404, False),
        ("INVALID_REQUEST", 400, False),
        ("INVALID_REQUEST", 413, False),
        ("INVALID_REQUEST", 422, False),
        ("AUTH", 401, False),
        ("AUTH", 403, False),
        ("QUOTA", 402, False),
        ("QUOTA", 429, False),
        ("CONTEXT_WINDOW_EXCEEDED", 500, False),
        ("MALFORMED_RESPONSE", None, False),
        ("MISSING_CREDENTIAL", None, False),
        ("UNKNOWN", None, False),
        ("NO_ADAPTER", None, False),
    ],
)
def test_what_waiting_can_mend_is_tried_again_and_nothing_else(code, status, again) -> None:
    assert is_transient(failure(code, status)) is again


def test_the_providers_own_word_wins_but_not_over_an_empty_account() -> None:
    assert is_transient(failure("INVALID_REQUEST", 409, should_retry=True))
    assert not is_transient(failure("SERVER", 503, should_retry=False))
    assert not is_transient(failure("QUOTA", 429, should_retry=True))


# -- how long it waits -----------------------------------------------------------------------------------------

spent = st.builds(Spent, retries=st.integers(0, 9), empty=st.integers(0, 3), seconds=st.floats(0, 150))


@given(spent, st.floats(-1, 1), st.none() | st.integers(1, 200_000))
def test_a_wait_grows_within_its_bounds_and_its_budget(spent, noise, hint_ms) -> None:
    limits = Settings()
    verdict = plan(replace(RATE, provider_retry_after_ms=hint_ms), spent, limits, noise=noise)
    if isinstance(verdict, GiveUp):
        assert spent.retries >= 5 or (hint_ms or 0) > 60_000 or spent.seconds + (hint_ms or 10_000) / 1000 > 120
        return
    assert spent.retries < 5
    assert spent.seconds + verdict <= 120
    if hint_ms is not None:
        assert verdict == hint_ms / 1000 <= 60
    else:
        middle = min(10, 0.5 * 2**spent.retries)
        assert 0.75 * middle <= verdict <= min(10, 1.25 * middle)


def test_a_wish_beyond_the_limit_is_told_and_not_waited_out() -> None:
    verdict = plan(replace(RATE, provider_retry_after_ms=90_000), Spent(), Settings(), noise=0)
    assert verdict == GiveUp("the provider asks to wait 90 s; try again then")


# -- what the log says -----------------------------------------------------------------------------------------


async def test_a_retry_is_logged_before_its_wait_and_stays_in_its_step() -> None:
    async with with_plugins([say("lost") + fail(RATE), say("kept")], QUICK) as w:
        await w.h.ask("a")
        step = w.h.types[w.h.types.index("step/start") : w.h.types.index("step/end") + 1]
        assert step == [
            "step/start",
            "user/message",
            "request/header",
            "request/context",
            "assistant/attempt",
            "llm/retry",
            "llm/retry-started",
            "assistant/message",
            "step/end",
        ]
        planned, started = w.h.of("llm/retry")[0].data, w.h.of("llm/retry-started")[0].data
        assert (planned.retry, planned.max_retries, planned.failure) == (1, 5, RATE)
        assert started.retry_id == planned.retry_id
        assert texts(w.h.log.derive_messages()) == ["a", "kept"]


async def test_after_the_last_retry_the_failure_is_the_turns_and_says_how_often() -> None:
    async with with_plugins([fail(RATE)] * 9, (retry, Settings(first_seconds=0.001, max_retries=2))) as w:
        await w.h.ask("a")
        assert len(w.h.model.requests) == 3
        assert [e.data.retry for e in w.h.of("llm/retry")] == [1, 2]
        assert len(w.h.of("assistant/attempt")) == 3
        error = w.h.of("turn/end")[0].data.reason.error
        assert (error.code, error.status) == ("RATE_LIMIT", 429)
        assert error.message == "slow down; gave up after 2 retries"


async def test_one_retry_is_told_as_one() -> None:
    async with with_plugins([fail(RATE)] * 9, (retry, Settings(first_seconds=0.001, max_retries=1))) as w:
        await w.h.ask("a")
        assert w.h.of("turn/end")[0].data.reason.error.message == "slow down; gave up after one retry"


async def test_a_new_step_has_a_new_budget() -> None:
    limits = Settings(first_seconds=0.001, max_retries=1)
    script = [fail(RATE), call("add", a=1, b=2), fail(RATE), say("done")]
    async with with_plugins(script, (retry, limits), tools=[Add()]) as w:
        await w.h.ask("a")
        assert ends(w.h.log) == ["completed"]
        assert [(e.data.step, e.data.retry) for e in w.h.of("llm/retry")] == [(1, 1), (2, 1)]


async def test_empty_answers_have_fewer_retries() -> None:
    async with with_plugins([fail("EMPTY_RESPONSE")] * 9, QUICK) as w:
        await w.h.ask("a")
        assert len(w.h.model.requests) == 3


@pytest.mark.parametrize("code", ["QUOTA", "AUTH", "INVALID_REQUEST", "CONTEXT_WINDOW_EXCEEDED"])
async def test_what_waiting_cannot_mend_ends_the_turn_at_once(code) -> None:
    async with with_plugins([fail(code)], QUICK) as w:
        await w.h.ask("a")
        assert not w.h.of("llm/retry")
        assert w.h.of("turn/end")[0].data.reason.error.message == "scripted failure"


async def test_what_is_given_up_may_still_be_recovered_by_others() -> None:
    async with with_plugins([fail("QUOTA"), say("ok")], QUICK) as w:

        async def other(failed, call_next):
            return Retry()

        w.h.agent.hooks.request_error.listen(other)
        await w.h.ask("a")
        assert ends(w.h.log) == ["completed"]
        assert not w.h.of("llm/retry")


# -- what ends a wait ------------------------------------------------------------------------------------------


async def test_a_cancel_during_the_wait_takes_effect_at_once() -> None:
    async with with_plugins([fail(RATE), say("never")], SLOW) as w:
        w.h.agent.followup(w.h.say("a"))
        await until(lambda: w.h.of("llm/retry"))
        await settled()
        began = time.monotonic()
        w.h.agent.cancel(USER)
        await w.h.idle()
        assert time.monotonic() - began < 1
        assert ends(w.h.log) == ["aborted"]
        assert not w.h.of("llm/retry-started")
        assert len(w.h.model.requests) == 1


async def test_somebody_who_does_not_want_to_wait_ends_the_wait() -> None:
    async with with_plugins([fail(RATE), say("ok")], SLOW) as w:
        wait = w.context.get(RetryWait)
        assert not wait.end()
        w.h.agent.followup(w.h.say("a"))
        await until(lambda: w.h.of("llm/retry"))
        await settled()
        assert wait.end()
        await w.h.idle()
        assert ends(w.h.log) == ["completed"]
        assert not wait.end()


async def test_the_wait_of_one_session_is_not_that_of_another() -> None:
    async with with_plugins([fail(RATE), say("ok")], SLOW) as one, with_plugins([fail(RATE), say("ok")], SLOW) as two:
        for w in (one, two):
            w.h.agent.followup(w.h.say("a"))
            await until(lambda w=w: w.h.of("llm/retry"))
        await settled()
        assert one.context.get(RetryWait).end()
        await one.h.idle()
        assert two.h.agent.status == "running"
        assert two.context.get(RetryWait).end()
        with anyio.fail_after(5):
            await two.h.idle()


class FakeKeyAdapter(ScriptedAdapter):
    """Its key is mended after the first call."""

    def prepare(self, config):
        first = not self.requests
        return replace(super().prepare(config), key_changed=lambda: first)


async def test_a_wrong_key_is_tried_again_once_if_it_was_mended_meanwhile() -> None:
    model = FakeKeyAdapter([fail("AUTH"), fail("AUTH"), say("never")], provider="keyed")
    async with with_plugins([], QUICK, adapters=[model], provider="keyed", model="m") as w:
        await w.h.ask("a")
        assert len(model.requests) == 2
        assert ends(w.h.log) == ["error"]
