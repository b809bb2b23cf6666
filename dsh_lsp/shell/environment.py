"""Environment: what a child process gets to know: all that the user has set, but no key of ours.

Rules: a variable is left out by its name or because it holds the key; what would make a shell run something else than
its command line is left out too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

MARKER: Final = "DSH_RUN"  # names the run that a process belongs to

_MIN_KEY_CHARS: Final = 8  # shorter values are no keys, and would fit too much

# bash takes code or options from these; `-p` ignores most of them already.
_STEERING: Final = frozenset(
    {"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE", "PS4", "PROMPT_COMMAND"}
)
_FUNCTION: Final = "BASH_FUNC_"


class ChildEnvironment:
    """The environment of children; `key_variables` are the names of those that hold our keys."""

    def __init__(self, key_variables: Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._names = frozenset(key_variables)

    def keys(self) -> frozenset[str]:
        """The keys themselves, so that nobody shows them."""
        held = (self._environ.get(name, "").strip() for name in self._names)
        return frozenset(key for key in held if len(key) >= _MIN_KEY_CHARS)

    def of_run(self, run: str) -> dict[str, str]:
        """The environment of a run and of all that it starts."""
        keys = self.keys()
        kept = {
            name: value
            for name, value in self._environ.items()
            if name not in self._names
            and name not in _STEERING
            and not name.startswith(_FUNCTION)
            and not any(key in value for key in keys)
        }
        return {**kept, "TERM": "dumb", MARKER: run}
