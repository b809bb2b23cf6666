"""Finish words: how servers say why an answer ended, where that is neither a good end nor a call.

Rules: one table for all, since gateways pass on the words of others, in capitals too; a word that is not here says
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsh_lsp.errors import LlmFailure

# `model_length` is Mistral's, of a window that was full: https://docs.mistral.ai/api/
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "token_limit"})
REFUSED = frozenset({"content_filter", "refusal", "sensitive"})
FAILED: Mapping[str, str] = {
    # overload at DeepSeek: https://github.com/can1357/oh-my-pi/issues/8563
    "insufficient_system_resource": "SERVER",
    "network_error": "SERVER",
    "error": "SERVER",  # and no word on what it was
    "model_context_window_exceeded": "CONTEXT_WINDOW_EXCEEDED",
}


def word_in(value: Any) -> str:
    """The word that a server gives; empty where it gives none."""
    return value.strip().casefold() if isinstance(value, str) else ""


def failure_in(word: str) -> LlmFailure | None:
    """The failure that a word tells of, if it does."""
    if word not in FAILED:
        return None
    return LlmFailure(message=f"the provider ended the answer: {word}", code=FAILED[word])
