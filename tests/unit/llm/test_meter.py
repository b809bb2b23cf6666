"""Meter: the provider's count while it can be believed, an estimate since, and the same whenever it is begun."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.errors import LlmFailure
from dsh_lsp.events import (
    AssistantAttempt,
    AssistantMessageLogged,
    EventData,
    RequestHeader,
    RequestHeaderLogged,
    StepStart,
    TurnStart,
)
from dsh_lsp.llm.meter import TokenMeter, price_of, price_of_header, price_of_text
from dsh_lsp.messages import (
    AssistantMessage,
    CallConfig,
    ModelSource,
    TextBlock,
    TokenUsage,
    UserMessage,
    UserSource,
)
from dsh_lsp.session.log import SessionHeader, SessionLog

CONFIG = CallConfig(provider="p", model="m")


def new_log(*data: EventData) -> SessionLog:
    log = SessionLog(SessionHeader(id="s", created_at=0, cwd="/w"), clock=lambda: 0)
    for one in (TurnStart(turn=1), StepStart(turn=1, step=1), *data):
        log.append(one)
    return log


def user(text: str) -> UserMessage:
    return UserMessage(id="u", content=(TextBlock(text=text),), source=UserSource())


def said(text: str, usage: TokenUsage | None = None) -> AssistantMessageLogged:
    message = AssistantMessage(id="a", content=(TextBlock(text=text),), source=ModelSource(provider="p", model="m"))
    return AssistantMessageLogged(turn=1, step=1, message=message, usage=usage)


def header(system: str, model: str = "m") -> RequestHeaderLogged:
    config = CallConfig(provider="p", model=model)
    return RequestHeaderLogged(header=RequestHeader(config=config, system=system), reason="change")


def refused(tokens: int) -> AssistantAttempt:
    failure = LlmFailure(message="too long", code="CONTEXT_WINDOW_EXCEEDED", prompt_tokens=tokens)
    return AssistantAttempt(turn=1, step=1, attempt=1, failure=failure)


def used(tokens: int, **more: int) -> TokenUsage:
    return TokenUsage(input_tokens=tokens, output_tokens=0, **more)


def replace_all(log: SessionLog, text: str) -> None:
    nodes = log.surface.nodes()
    log.append(user(text), sources=((0, len(log) - 1),), replaces=(nodes[0].seq, nodes[-1].seq))


def test_chinese_has_more_tokens_than_its_length_suggests() -> None:
    assert price_of_text("a" * 40) == 10
    assert price_of_text("你" * 16) == 10
    assert price_of_text("a" * 4 + "你" * 8) == 6


def test_without_a_count_everything_is_estimated() -> None:
    log = new_log(header("s" * 40), user("x" * 40))
    meter = TokenMeter(log)
    assert meter.tokens == price_of_header(RequestHeader(config=CONFIG, system="s" * 40)) + price_of(user("x" * 40))
    assert meter.estimated


def test_the_providers_count_stands_and_only_what_came_since_is_estimated() -> None:
    log = new_log(header("s"), user("x" * 400))
    meter = TokenMeter(log)
    log.append(said("y", used(100, cache_read_tokens=30, cache_write_tokens=7)))
    assert meter.tokens == 137
    assert not meter.estimated
    log.append(user("z" * 40))
    assert meter.tokens == 137 + price_of(user("z" * 40))
    replace_all(log, "short")
    assert meter.tokens < 137


def test_a_count_far_below_the_estimate_is_not_believed() -> None:
    log = new_log(user("x" * 4_000), said("y", used(40)))
    assert TokenMeter(log).tokens > 1_000


def test_a_refusal_that_counts_the_prompt_counts_like_an_answer() -> None:
    log = new_log(header("s"), user("x" * 400))
    meter = TokenMeter(log)
    log.append(refused(180))
    assert meter.tokens == TokenMeter(log).tokens == 180
    log.append(user("z" * 40))
    assert meter.tokens == TokenMeter(log).tokens == 180 + price_of(user("z" * 40))


def test_what_the_estimates_are_too_low_by_is_taken_into_account() -> None:
    log = new_log(user("x" * 392))
    meter, asked = TokenMeter(log), (user("y" * 400), user("z" * 40))
    plain, estimate = meter.room(1_000, output=200), meter.tokens
    assert meter.count(asked) == sum(map(price_of, asked))
    log.append(refused(2 * estimate))
    assert meter.count(asked) == 2 * sum(map(price_of, asked))
    assert meter.room(1_000, output=200) == plain // 2
    log.append(refused(100 * estimate))
    assert meter.count(asked) == 3 * sum(map(price_of, asked)), "such a count is of something else"
    log.append(refused(estimate * 2 // 3))
    assert meter.count(asked) == sum(map(price_of, asked)), "to be on the safe side"


def test_a_count_of_nothing_is_none() -> None:
    log = new_log(user("x" * 400), said("y", used(0)))
    meter = TokenMeter(log)
    assert meter.estimated
    assert not meter.doubtful


def test_what_is_taken_away_counts_as_much_as_it_was_counted() -> None:
    log = new_log(user("x" * 3_992))
    meter = TokenMeter(log)
    log.append(refused(2 * meter.tokens))
    replace_all(log, "short")
    assert meter.tokens == 2 * price_of(user("short"))


def test_another_header_ends_the_count() -> None:
    log = new_log(header("s"), user("x" * 40))
    meter = TokenMeter(log)
    log.append(said("y", used(500)))
    assert meter.tokens == 500
    log.append(header("s"))
    assert meter.tokens == 500
    log.append(header("s", model="other"))
    assert meter.estimated


EVENTS = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=50)),
        st.builds(said, st.text(max_size=50), st.none() | st.builds(used, st.integers(1, 90))),
        st.builds(refused, st.integers(1, 90)),
        st.builds(header, st.sampled_from(["", "s" * 30]), st.sampled_from(["m", "n"])),
        st.just("replace"),
    ),
    max_size=25,
)


@given(EVENTS)
def test_a_meter_that_followed_is_one_that_was_begun_now_but_for_counts_before_a_replacement(
    events: list[Any],
) -> None:
    log = new_log()
    followed = TokenMeter(log)
    counted_after_replacement, last_header = True, None
    for event in events:
        if event == "replace":
            if log.surface.nodes():
                replace_all(log, "short")
                counted_after_replacement = False
            continue
        log.append(event)
        if isinstance(event, RequestHeaderLogged):
            counted_after_replacement |= event.header != last_header
            last_header = event.header
        elif isinstance(event, AssistantMessageLogged):
            counted_after_replacement |= event.usage is not None
        elif isinstance(event, AssistantAttempt):
            counted_after_replacement = True
    fresh = TokenMeter(log)
    if counted_after_replacement or followed.estimated:
        assert (fresh.tokens, fresh.count(())) == (followed.tokens, followed.count(()))
