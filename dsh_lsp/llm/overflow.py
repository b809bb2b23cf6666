"""Overflow: how providers say that a conversation is too long, the limit that they name, and what they counted.

Rules: pure; a number that is not clearly one of these is none; what is skipped between two words is bounded, since
some servers answer with the whole prompt, and the time must not grow with its square.
Source: the wordings that https://github.com/badlogic/pi-mono and the providers' own pages collect.
"""

from __future__ import annotations

import re

from dsh_lsp.errors import LlmFailure
from dsh_lsp.messages import TokenUsage

ALMOST_FULL = 0.99  # of the window

_N = r"(\d[\d,_]*\d|\d)"


def any_of(*wordings: str) -> re.Pattern[str]:
    """One pattern for all."""
    return re.compile("|".join(wordings), re.IGNORECASE)


WORDS = any_of(
    r"maximum context length",
    r"context_length_exceeded",
    r"context.?window",
    r"context size has been exceeded",
    r"exceed_context_size",
    r"exceeds? (?:the )?context limit",  # Anthropic, of prompt and output together
    r"prompt is too long",
    r"request_too_large",
    r"max_tokens must be at least 1, got -",
    r"tokens to keep from the initial prompt",
    r"context length of only",
    r"maximum allowed input length",
    r"input length \(\d+ tokens\) exceeds the maximum allowed length",  # SGLang
    r"`inputs` tokens \+ `max_new_tokens` must be",  # Hugging Face's
    r"prompt exceeds max(?:imum)? length",  # Z.ai, code 1261
    r"reduce the length of the messages",
    r"maximum prompt length is",
    r"longer than the (?:model's context|maximum model) length",
    r"too large for model with",
    r"input token count.{0,80}exceeds the maximum",
    r"input is too long for requested model",
    r"exceeded model token limit",
    r"range of input length should be",
    r"(?:token|prompt)\D{0,80}(?:\d[\d,]{0,20})? exceeds the limit of \d",
    r"no user query found in messages",  # Ollama cut the prompt from the front until nothing was left
)

_LIMIT = any_of(
    rf"context (?:length|window)(?: of this model)? (?:is|of)(?: only)?\s*{_N}",
    rf"context length \({_N} tokens\)",
    rf"maximum allowed length \({_N}",
    rf"`max_new_tokens` must be <= {_N}",
    rf"tokens? > {_N}|\+ \d+ > {_N}",
    rf"prompt length is {_N}",
    rf"should be \[1,\s*{_N}",
    rf"model with {_N}",
    rf"maximum model length of {_N}",
    rf"tokens allowed \({_N}\)",
    rf"maximum allowed input length of {_N}",
    rf"token limit\s*:\s*{_N}",
    rf"token\D{{0,80}}(?:\d[\d,]{{0,20}})? exceeds the limit of {_N}",
)
_PROMPT = any_of(
    rf"{_N}(?: tokens)? (?:in the messages|of text input)",
    rf"(?:request|prompt) has {_N} (?:input )?tokens",
    rf"messages resulted in {_N} tokens",
    rf"too long: {_N} tokens",
    rf"context limit: {_N} \+",
    rf"prompt contains {_N} tokens",
    rf"request contains {_N}",
    rf"token count \(?(?:of )?{_N}",
    rf"prompt \(length {_N}\)",
    rf"input (?:length )?\({_N} tokens\)",
    rf"{_N} tokens from the input",
    rf"given: {_N} `inputs`",
)
_TOOLS = any_of(rf"{_N} (?:of tool input|in the functions)")
_TOTAL = any_of(rf"requested (?:about |a total of )?{_N} tokens")


def silent_overflow(usage: TokenUsage | None, window: int | None, *, cut: bool) -> LlmFailure | None:
    """Notice a prompt that did not fit although the server answered as if it had; `cut`: at its output limit."""
    if window is None or usage is None:
        return None
    prompt = usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    nothing = cut and not usage.output_tokens and prompt >= ALMOST_FULL * window
    if prompt <= window and not nothing:
        return None
    message = f"the prompt has {prompt} tokens and the model reads {window}"
    return LlmFailure(
        message=message, code="CONTEXT_WINDOW_EXCEEDED", context_window=window, prompt_tokens=max(prompt, 1)
    )


def stated_limit(message: str) -> int | None:
    """Read the context window from the words of a refusal."""
    return _number(_LIMIT, message)


def stated_prompt(message: str) -> int | None:
    """Read from them how many tokens the prompt had."""
    prompt = _number(_PROMPT, message)
    return prompt + (_number(_TOOLS, message) or 0) if prompt is not None else None


def stated_total(message: str) -> int | None:
    """Read from them how many tokens the prompt and the output that was asked for have together."""
    return _number(_TOTAL, message)


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    digits = next(filter(None, found.groups()), None) if found is not None else None
    return int(digits.replace(",", "").replace("_", "")) if digits is not None else None
