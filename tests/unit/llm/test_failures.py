from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.error_reports import ErrorReport, report_in_stream, report_of_body
from dsh_lsp.llm.failures import (
    MAX_MESSAGE_CHARS,
    Faults,
    Rule,
    classify,
    failure_from,
    request_id,
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
        (
            429,
            {
                "error": {
                    "message": "Rate limit reached for gpt-x in organization org on requests per min (RPM): Limit 3, "
                    "Used 3. Please try again in 20s. Visit https://platform.openai.com/account/billing to add more.",
                    "type": "requests",
                    "code": "rate_limit_exceeded",
                }
            },
            "RATE_LIMIT",
        ),
        (
            429,
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota, please check your plan and billing details. "
                    "Please retry in 20.5s.",
                    "status": "RESOURCE_EXHAUSTED",
                }
            },
            "RATE_LIMIT",
        ),
        (
            429,
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota, please check your plan and billing details.",
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}],
                }
            },
            "RATE_LIMIT",
        ),
        (
            429,
            {
                "error": {
                    "message": "You exceeded your current quota. Please retry in 20s.",
                    "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}],
                }
            },
            "QUOTA",
        ),
        (
            429,
            {"error": {"code": "insufficient_quota", "message": "You exceeded your quota, try again in 20s"}},
            "QUOTA",
        ),
        (429, {"error": {"message": "Add a card under billing to go on"}}, "QUOTA"),
        (400, {"error": True, "message": "no such tool"}, "INVALID_REQUEST"),
        (
            400,
            {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": "prompt is too long"}}},
            "CONTEXT_WINDOW_EXCEEDED",
        ),
    ],
)
def test_a_refusal_is_sorted_by_wording_and_status(status: int, body: Any, code: str) -> None:
    assert classify(report_of_body(status, body)) == code


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
        ("error", {"type": "error", "error": {"type": "api_error", "message": "Oops"}}, "SERVER"),
        ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "Try later"}}, "SERVER"),
        ("error", {"type": "error", "error": {"type": "timeout_error", "message": "Took too long"}}, "TIMEOUT"),
        ("error", {"type": "error", "error": {"type": "permission_error", "message": "Not you"}}, "AUTH"),
        ("error", {"type": "error", "error": {"type": "billing_error", "message": "Pay"}}, "QUOTA"),
        ("", {"error": {"code": "timeout", "message": "The upstream is slow"}}, "TIMEOUT"),
        ("", {"error": True, "message": "Overloaded"}, "SERVER"),
    ],
)
def test_an_error_inside_a_stream_is_sorted_like_a_refusal(name: str, data: dict[str, Any], code: str) -> None:
    report = report_in_stream(name, data)
    assert report is not None
    assert classify(report) == code


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"error": {"code": 429, "message": "slow"}}, "h sent an error (429): slow"),
        ({"error": True, "message": "no"}, "h sent an error: no"),
        ({"error": "Bad", "message": "no"}, "h sent an error: Bad: no"),
    ],
)
def test_an_error_inside_a_stream_is_told_as_such(data: dict[str, Any], words: str) -> None:
    report = report_in_stream("", data)
    assert report is not None
    assert failure_from(report, host="h").message.startswith(words)


def test_a_missing_permission_is_told_with_what_to_check() -> None:
    report = report_in_stream("error", {"error": {"type": "permission_error", "message": "Not you"}})
    assert report is not None
    assert "check the API key" in failure_from(report, host="h").message


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
        ({"retry-after": "Sun, 29 Nov 99999999999999 20:00:07 GMT"}, None),
        ({"retry-after": "Sun, 29 Nov 2026 20:00:07 GMT", "date": "yesterday"}, 7000),
        ({"retry-after": "Sun, 29 Nov 2026 20:00:07 GMT", "date": "Sun, 29 Nov 99999999999 20:00:05 GMT"}, 7000),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_the_wish_to_wait_is_read(headers: dict[str, str], wait_ms: int | None) -> None:
    assert retry_after_ms(headers, now=NOW) == wait_ms


@pytest.mark.parametrize(
    ("message", "wait_ms"),
    [
        ("Please try again in 20s. Visit", 20_000),
        ("Please retry in 20.5s.", 20_500),
        ("try again in 6m0s", 360_000),
        ("try again in 1h2m3s", 3_723_000),
        ("try again in 340ms", 340),
        ("please try again", None),
        ("try again in a while", None),
    ],
)
def test_a_wait_that_stands_in_the_words_is_read(message: str, wait_ms: int | None) -> None:
    failure = failure_from(report_of_body(429, {"error": {"message": message}}), host="h")
    assert failure.provider_retry_after_ms == wait_ms


def test_a_wait_that_stands_in_the_details_is_read() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]
    report = report_of_body(429, {"error": {"message": "Please retry later.", "details": details}})
    assert failure_from(report, host="h").provider_retry_after_ms == 7_000


@pytest.mark.parametrize("name", ["x-request-id", "request-id", "x-deepseek-request-id"])
def test_the_providers_name_for_a_request_is_found(name: str) -> None:
    assert request_id({name: "r"}) == "r"


def test_the_key_is_removed_before_the_text_is_cut() -> None:
    key = "sk-0123456789"
    text = "x" * (MAX_MESSAGE_CHARS - 4) + key
    clean = without_key(LlmFailure(message=text, code="AUTH", request_id=key), key)
    assert "sk-0" not in clean.message
    assert clean.request_id == "[key]"
    assert len(clean.message) <= MAX_MESSAGE_CHARS + 1


def test_a_status_of_the_report_wins_over_its_wording() -> None:
    assert classify(ErrorReport(status=401, message="rate limit")) == "AUTH"
