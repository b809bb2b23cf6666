"""Catalog: the limits of models by their names, for providers that do not tell them.

Rules: a name that is not here has no known limits; a setting wins; the first row that fits wins.
Source: the providers' model pages, November 2026.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a model can take and give, in tokens; `images`: whether it reads them, None where that is not known."""

    context_window: int | None = None
    max_output: int | None = None
    images: bool | None = None


UNKNOWN = Limits()

_ROWS: tuple[tuple[str, Limits], ...] = (
    (r"deepseek-v4-flash-vision|deepseek-flash", Limits(context_window=1_000_000, max_output=393_216, images=True)),
    (r"deepseek", Limits(context_window=1_000_000, max_output=393_216, images=False)),
    (r"claude-(?:3-haiku)", Limits(context_window=200_000, max_output=4_096, images=True)),
    (r"claude-3-5", Limits(context_window=200_000, max_output=8_192, images=True)),
    (r"claude-(?:opus-4-[01]|opus-4-2|opus-4$)", Limits(context_window=200_000, max_output=32_000, images=True)),
    (r"claude", Limits(context_window=200_000, max_output=64_000, images=True)),
    (r"gpt-5", Limits(context_window=400_000, max_output=128_000, images=True)),
    (r"gpt-4\.1", Limits(context_window=1_047_576, max_output=32_768, images=True)),
    (r"gpt-4o", Limits(context_window=128_000, max_output=16_384, images=True)),
    (r"o[34](?:-mini)?$", Limits(context_window=200_000, max_output=100_000, images=True)),
)
_TABLE = tuple((re.compile(pattern), limits) for pattern, limits in _ROWS)


def limits_of(model: str) -> Limits:
    """The limits of a model, its maker's prefix (`openai/`) left aside."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((limits for pattern, limits in _TABLE if pattern.match(name)), UNKNOWN)
