"""Dialect: how chat-completions servers differ, as data.

Rules: the defaults are the shape that most servers accept; a host gets more only where it is known to take it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dsh_lsp.wire import JsonObject

Thinking = Literal["none", "deepseek", "openai", "openrouter", "toggle", "qwen", "template"]

# How much to think, in our word, and what a body then says. A word that is not there is refused, not bent.
THINKING: Mapping[Thinking, Mapping[str, JsonObject]] = {
    "none": {},
    "deepseek": {
        "off": {"thinking": {"type": "disabled"}},
        **{
            effort: {"thinking": {"type": "enabled"}, "reasoning_effort": effort} for effort in ("low", "high", "max")
        },
    },
    "openai": {effort: {"reasoning_effort": effort} for effort in ("low", "high")},
    "openrouter": {
        "off": {"reasoning": {"enabled": False}},
        **{effort: {"reasoning": {"effort": effort}} for effort in ("low", "high")},
    },
    "toggle": {"off": {"thinking": {"type": "disabled"}}, "high": {"thinking": {"type": "enabled"}}},
    "qwen": {"off": {"enable_thinking": False}, "high": {"enable_thinking": True}},
    "template": {
        "off": {"chat_template_kwargs": {"enable_thinking": False}},
        "high": {"chat_template_kwargs": {"enable_thinking": True}},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What the bytes of a message depend on.

    `reasoning`: whether a model's reasoning goes back: in its own field to the `provider` and `host` that sent it,
    with every message of an assistant whether it has any or not, or never. `short_ids`: ids of calls have nine
    letters. `takes_turns`: what a user says in several messages is one, since many chat templates refuse a role that
    comes twice; else each stays as it was sent, which is better for a provider's cache.
    """

    reasoning: Literal["as received", "every message", "never"] = "as received"
    provider: str = ""
    host: str = ""
    short_ids: bool = False
    takes_turns: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One server's ways.

    `think_tags`: reasoning may stand at the start of the text, in tags. `text_calls`: calls written as text are read.
    """

    thinking: Thinking = "none"
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    think_tags: bool = True
    text_calls: bool = False
    wording: Wording = field(default_factory=Wording)

    @property
    def efforts(self) -> Mapping[str, JsonObject]:
        """The words for how much to think that this server knows."""
        return THINKING[self.thinking]
