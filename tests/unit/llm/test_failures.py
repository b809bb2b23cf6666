from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.failures import (
    MAX_MESSAGE_CHARS,
    ErrorReport,
    classify,
    report_in_stream,
    report_of_body,
    retry_after_ms,
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
