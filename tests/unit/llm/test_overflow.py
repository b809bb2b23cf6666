"""Overflow: too long a conversation is known in all words, and how long it was, where they say so."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_lsp.llm.error_reports import report_in_stream, report_of_body
from dsh_lsp.llm.failures import failure_from

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
    (400, {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."}, 4_096),
    (400, {"message": "Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens)."}, 4_090),
    (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4031 `inputs` tokens"}, 4_096),
    (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, None),
    (400, {"message": "Prompt contains 9000 tokens, too large for model with 8192 maximum context length"}, 8_192),
    (
        400,
        [{"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)"}}],
        8,
    ),
    (400, {"message": "Input is too long for requested model."}, None),
    (400, {"error": {"message": "invalid params, context window exceeds limit (2013)"}}, None),
    (400, {"error": {"message": "Your request exceeded model token limit : 8192"}}, 8_192),
    (400, {"error": {"message": "Range of input length should be [1, 98304]"}}, 98_304),
    (
        400,
        {
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease "
                "input length or `max_tokens` and try again",
            }
        },
        200_000,
    ),
    (
        400,
        {"error": {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}},
        4_096,
    ),
    (
        400,
        {
            "error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens, which is not enough."
        },
        4_096,
    ),
    (400, {"error": {"message": "prompt token count exceeds the limit of 64000", "code": "x"}}, 64_000),
    (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "provider_name": "Fast",
                    "raw": '{"error": {"message": "maximum context length is 32768 tokens"}}',
                },
            }
        },
        32_768,
    ),
    (400, {"error": {"message": "prompt token count of 9000 exceeds the limit of 8192"}}, 8_192),
]


@pytest.mark.parametrize(("status", "body", "limit"), OVERFLOWS)
def test_too_long_a_conversation_is_told_from_other_bad_requests(status: int, body: Any, limit: int | None) -> None:
    failure = failure_from(report_of_body(status, body), host="h")
    assert failure.code == "CONTEXT_WINDOW_EXCEEDED"
    assert failure.context_window == limit


@pytest.mark.parametrize(
    ("words", "prompt"),
    [
        ("maximum context length is 9 tokens. However, you requested 14 tokens (8 in the messages, 6 in the", 8),
        ("maximum context length is 8,192 tokens. However, your request has 9,000 input tokens", 9_000),
        ("maximum context length is 9 tokens. However, your messages resulted in 12 tokens", 12),
        ("maximum context length is 9. However, you requested about 15 tokens (7 of text input, 2 of tool input", 9),
        ("prompt is too long: 210000 tokens > 200000 maximum", 210_000),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", 188_240),
        ("Prompt contains 9000 tokens, too large for model with 8192 maximum context length", 9_000),
        ("maximum prompt length is 131072 but the request contains 140000 tokens", 140_000),
        ("The input token count (1100) exceeds the maximum number of tokens allowed (1000)", 1_100),
        ("prompt token count of 9000 exceeds the limit of 8192", 9_000),
        ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", 9_000),
        ("Input length (9000 tokens) exceeds the maximum allowed length (8186 tokens). Use a shorter input", 9_000),
        (
            "maximum context length of 9 tokens. You requested a total of 12 tokens: 8 tokens from the input",
            8,
        ),
        (
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 9. Given: 7 `inputs` tokens and 4",
            7,
        ),
        ("maximum context length is 9 tokens. However, you requested 14 tokens", None),
        ("context_length_exceeded: max_tokens 512 > 128 for this tier", None),
    ],
)
def test_a_refusal_says_how_long_the_prompt_was(words: str, prompt: int | None) -> None:
    failure = failure_from(report_of_body(400, {"error": {"message": words}}), host="h")
    assert failure.code == "CONTEXT_WINDOW_EXCEEDED"
    assert failure.prompt_tokens == prompt
    if "tier" in words:
        assert failure.context_window is None, "that is the limit of something else"


def test_a_refusal_may_count_in_fields_of_its_own() -> None:
    body = {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 5_000, "n_ctx": 4_096}}
    failure = failure_from(report_of_body(400, body), host="h")
    assert (failure.prompt_tokens, failure.context_window) == (5_000, 4_096)


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


@pytest.mark.parametrize(
    "word", ["token ", "prompt ", "input token count ", "tokens > ", "1,", "retry in 1", "quota ", "quota per "]
)
def test_an_error_that_repeats_a_long_prompt_is_read_at_once(word: str) -> None:
    body = {"error": {"message": word * 100_000}}
    assert failure_from(report_of_body(400, body), host="h").code == "INVALID_REQUEST"
    inside = report_in_stream("error", body)
    assert inside is not None
    assert failure_from(inside, host="h").code == "UNKNOWN"
