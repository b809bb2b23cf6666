from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.failures import (
    MAX_MESSAGE_CHARS,
    ErrorReport,
    Faults,
    Rule,
    classify,
    failure_from,
    report_in_stream,
    report_of_body,
    retry_after_ms,
    should_retry,
    without_key,
)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, {"error": {"message": "Authentication Fails"}}, "AUTH"),
        (403, "", "AUTH"),
        (402, {"error": {"message": "Insufficient Balance"}}, "QUOTA"),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, "QUOTA"),
        (429, {"error": {"message": "Rate limit reached"}}, "RATE_LIMIT"),
        (400, {"error": {"code": "context_length_exceeded"}}, "CONTEXT_WINDOW_EXCEEDED"),
        (400, {"error": {"type": "exceed_context_size_error"}}, "CONTEXT_WINDOW_EXCEEDED"),
        (400, {"message": "max_tokens must be at least 1, got -186"}, "CONTEXT_WINDOW_EXCEEDED"),
        (413, {"error": {"type": "request_too_large"}}, "CONTEXT_WINDOW_EXCEEDED"),
        (500, {"error": {"message": "Context size has been exceeded."}}, "CONTEXT_WINDOW_EXCEEDED"),
        (400, [{"error": {"message": "prompt is too long: 5 tokens > 4 maximum"}}], "CONTEXT_WINDOW_EXCEEDED"),
        (
            400,
            {"error": {"message": "ThrottlingException: Too many tokens in the context window"}},
            "INVALID_REQUEST",
        ),
        (400, {"error": "no"}, "INVALID_REQUEST"),
        (413, None, "INVALID_REQUEST"),
        (422, {"detail": "unknown variant `auto`"}, "INVALID_REQUEST"),
        (408, "", "TIMEOUT"),
        (500, "<html>", "SERVER"),
        (529, "", "SERVER"),
        (404, {"error": {"message": "no such model"}}, "HTTP_404"),
    ],
)
def test_a_refusal_is_sorted_by_wording_and_status(status: int, body: Any, code: str) -> None:
    assert classify(report_of_body(status, body)) == code


# What providers say when a conversation is too long, and the limit that they name.
OVERFLOWS: list[tuple[int | None, Any, int | None]] = [
    (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 131072 tokens. However, you requested 140000 "
                "tokens (8000 in the messages, 132000 in the completion)",
                "type": "invalid_request_error",
                "code": "invalid_request_error",
            }
        },
        131_072,
    ),
    (400, {"error": {"code": "context_length_exceeded", "message": "x"}}, None),
    (400, {"error": {"message": "Your input exceeds the context window of this model"}}, None),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, 200_000),
    (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, None),
    (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 8,192 tokens. However, your request has 9000 tokens",
            "type": "BadRequestError",
            "code": 400,
        },
        8_192,
    ),
    (400, {"message": "max_tokens must be at least 1, got -186"}, None),
    (
        400,
        {
            "error": {
                "code": 400,
                "type": "exceed_context_size_error",
                "message": "the request exceeds the available context size",
                "n_prompt_tokens": 5000,
                "n_ctx": 4096,
            }
        },
        4_096,
    ),
    (500, {"error": {"message": "Context size has been exceeded."}}, None),
    (500, {"error": {"message": "no user query found in messages"}}, None),
    (
        400,
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length"},
        None,
    ),
    (400, {"error": {"message": "This endpoint's maximum context length is 32768 tokens."}}, 32_768),
    (400, {"error": {"message": "input exceeds the maximum allowed input length of 9000"}}, 9_000),
    (400, {"error": {"message": "Please reduce the length of the messages or completion."}}, None),
    (400, {"error": "This model's maximum prompt length is 131072 but the request contains 140000"}, 131_072),
    (400, {"error": {"message": "the prompt is longer than the model's context length"}}, None),
    (400, {"message": "Prompt contains 9000 tokens, too large for model with 8192 maximum context length"}, 8_192),
    (
        400,
        [{"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)"}}],
        None,
    ),
    (400, {"message": "Input is too long for requested model."}, None),
    (400, {"error": {"message": "invalid params, context window exceeds limit (2013)"}}, None),
    (400, {"error": {"message": "Your request exceeded model token limit : 8192"}}, 8_192),
    (400, {"error": {"message": "Range of input length should be [1, 98304]"}}, 98_304),
    (400, {"error": {"message": "prompt token count of 9000 exceeds the limit of 8192"}}, 8_192),
]


@pytest.mark.parametrize(("status", "body", "limit"), OVERFLOWS)
def test_too_long_a_conversation_is_told_from_other_bad_requests(status: int, body: Any, limit: int | None) -> None:
    failure = failure_from(report_of_body(status, body), host="h")
    assert failure.code == "CONTEXT_WINDOW_EXCEEDED"
    assert failure.context_window == limit


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Rate limit reached: too many tokens per minute, maximum context length is 9"),
        (400, "ThrottlingException: Too many tokens, please wait"),
        (400, "temperature must be at most 2"),
    ],
)
def test_too_many_tokens_a_minute_are_not_too_many_in_all(status: int, message: str) -> None:
    failure = failure_from(report_of_body(status, {"error": {"message": message}}), host="h")
    assert failure.code != "CONTEXT_WINDOW_EXCEEDED"


def test_a_provider_adds_its_own_rules_and_advice() -> None:
    faults = Faults.of(Rule(code="QUOTA", statuses=frozenset({418})), QUOTA="drink tea")
    failure = failure_from(report_of_body(418, "teapot"), host="h", faults=faults)
    assert failure.code == "QUOTA"
    assert failure.message.endswith("drink tea")
    assert failure_from(report_of_body(401, ""), host="h", faults=faults).code == "AUTH"


def test_only_a_clear_word_of_the_provider_counts_as_its_advice() -> None:
    assert should_retry({"x-should-retry": "true"}) is True
    assert should_retry({"x-should-retry": "False"}) is False
    assert should_retry({"x-should-retry": "maybe"}) is None
    assert should_retry({}) is None


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("", {"error": {"code": 502}}, "SERVER"),
        ("", {"error": {"code": "429"}}, "RATE_LIMIT"),
        ("", {"error": {"code": None, "message": "Overloaded"}}, "SERVER"),
        ("", {"error": {"code": "invalid_api_key"}}, "AUTH"),
        ("", {"error": {"type": "invalid_request_error"}}, "INVALID_REQUEST"),
        ("error", {"message": "too many requests"}, "RATE_LIMIT"),
        ("", {"choices": [], "error": "what"}, "UNKNOWN"),
    ],
)
def test_an_error_inside_a_stream_is_sorted_like_a_refusal(name: str, data: dict[str, Any], code: str) -> None:
    report = report_in_stream(name, data)
    assert report is not None
    assert classify(report) == code


@pytest.mark.parametrize("data", [{}, {"error": None}, {"error": {}}, {"choices": [{"error": None}]}, {"choices": 3}])
def test_an_absent_error_is_none(data: dict[str, Any]) -> None:
    assert report_in_stream("", data) is None


NOW = datetime(2026, 11, 29, 20, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({"retry-after": "3"}, 3000),
        ({"retry-after": "1.5"}, 1500),
        ({"retry-after": "9", "retry-after-ms": "20.5"}, 21),
        ({"retry-after": "Sun, 29 Nov 2026 20:00:07 GMT"}, 7000),
        ({"retry-after": "Sun, 29 Nov 2026 20:00:07 GMT", "date": "Sun, 29 Nov 2026 20:00:05 GMT"}, 2000),
        ({"retry-after": "Sun, 29 Nov 2026 19:00:00 GMT"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_the_wish_to_wait_is_read(headers: dict[str, str], wait_ms: int | None) -> None:
    assert retry_after_ms(headers, now=NOW) == wait_ms


def test_the_key_is_removed_before_the_text_is_cut() -> None:
    key = "sk-0123456789"
    text = "x" * (MAX_MESSAGE_CHARS - 4) + key
    clean = without_key(LlmFailure(message=text, code="AUTH", request_id=key), key)
    assert "sk-0" not in clean.message
    assert clean.request_id == "[key]"
    assert len(clean.message) <= MAX_MESSAGE_CHARS + 1


def test_a_status_of_the_report_wins_over_its_wording() -> None:
    assert classify(ErrorReport(status=401, message="rate limit")) == "AUTH"
