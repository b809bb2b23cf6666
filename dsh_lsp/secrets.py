"""Secrets: which texts are keys, and other texts without them.

Rules: a key is known once somebody has read it from its source (`learn`), or by the name of its variable (`Keys`);
once known it stays known, since what was written with it may still come by. A value that reads as a word is no key,
whatever variable holds it: it would be found in every text. Known keys are hidden everywhere; what only looks like
one is hidden in logs and error texts alone, where a false alarm harms nobody.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

MIN_CHARS: Final = 8
LEFT_OUT: Final = "[key left out]"

_LIKE_A_KEY: Final = re.compile(rf"(?=\S*\d)(?=\S*[A-Za-z])\S{{{MIN_CHARS},}}")  # a local server's may be a word
_SECRET_NAME: Final = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SECRET_LOOK: Final = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\w.+=-]{20,}")  # a key under any other name
_SECRET_TEXT: Final = re.compile(
    r"""(\bbearer\s+|\bsk-|\bapi[-_]?key["']?\s*[:=]\s*["']?)[\w.~+/=-]{6,}""", re.IGNORECASE
)

_learnt: set[str] = set()  # by the process, as its log is


def learn(key: str) -> None:
    """Know a key from now on."""
    if is_key(key):
        _learnt.add(key)


def is_key(text: str) -> bool:
    """Whether a text can be a key."""
    return _LIKE_A_KEY.fullmatch(text) is not None


def redact(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """A text for a log or an error, without keys, what looks like one, and variables that may hold one."""
    text = _SECRET_TEXT.sub(r"\1[hidden]", without(text, _learnt))
    for name, value in environ.items():
        if len(value) >= MIN_CHARS and value in text and (_SECRET_NAME.search(name) or _SECRET_LOOK.fullmatch(value)):
            text = text.replace(value, "[hidden]")
    return text


class Keys:
    """The keys of one session: those in the variables that its settings name, and all that were learnt."""

    def __init__(self, variables: Iterable[str] = (), environ: Mapping[str, str] = os.environ) -> None:
        self.environ = environ
        self._variables = frozenset(variables)

    @property
    def variables(self) -> frozenset[str]:
        """The names of the variables that hold keys."""
        return self._variables

    def also_in(self, variables: Iterable[str]) -> None:
        """Take the variables of settings that changed; what the earlier ones hold stays a key."""
        self._variables |= frozenset(variables)

    def known(self) -> frozenset[str]:
        """The keys themselves."""
        held = (self.environ.get(name, "").strip() for name in self._variables)
        return frozenset(key for key in held if is_key(key)) | _learnt

    def hide(self, text: str) -> str:
        """A text without keys."""
        return without(text, self.known())

    def hide_in(self, value: Any) -> Any:
        """A JSON value without keys."""
        match value:
            case str():
                return self.hide(value)
            case dict():
                return {self.hide(name): self.hide_in(part) for name, part in value.items()}
            case list():
                return [self.hide_in(part) for part in value]
        return value


def without(text: str, keys: Iterable[str]) -> str:
    """A text without keys, nor the larger part of one that was cut."""
    longest_first = sorted(keys, key=len, reverse=True)
    for key in longest_first:  # whole ones before parts, which another key may share
        text = text.replace(key, LEFT_OUT)
    for key in longest_first:
        half = max(MIN_CHARS, (len(key) + 1) // 2)
        if key[:half] in text:
            text = _without_begin(text, key, half)
        if key[-half:] in text:
            text = _without_begin(text[::-1], key[::-1], half, LEFT_OUT[::-1])[::-1]
    return text


def _without_begin(text: str, key: str, half: int, instead: str = LEFT_OUT) -> str:
    """A text without a key and without whatever of it, from its begin on, is at least a half."""
    pieces, done = [], 0
    while (at := text.find(key[:half], done)) >= 0:
        end, same = at + half, half
        while same < len(key) and end < len(text) and text[end] == key[same]:
            end, same = end + 1, same + 1
        pieces += [text[done:at], instead]
        done = end
    return "".join([*pieces, text[done:]])
