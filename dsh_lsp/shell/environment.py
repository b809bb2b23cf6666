"""Environment: what a child process gets to know: all that the user has set, but no key of ours.

Rules: a variable is left out by its name or because it holds the key; what would make a shell run something else than
its command line is left out too.
"""

from __future__ import annotations

from typing import Final

from dsh_lsp.secrets import Keys

MARKER: Final = "DSH_RUN"  # names the run that a process belongs to

# bash takes code or options from these; `-p` ignores most of them already.
_STEERING: Final = frozenset(
    {"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE", "PS4", "PROMPT_COMMAND"}
)
_FUNCTION: Final = "BASH_FUNC_"


class ChildEnvironment:
    """The environment of children."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def of_run(self, run: str) -> dict[str, str]:
        """The environment of a run and of all that it starts."""
        known = self.keys.known()
        kept = {
            name: value
            for name, value in self.keys.environ.items()
            if name not in self.keys.variables
            and name not in _STEERING
            and not name.startswith(_FUNCTION)
            and not any(key in value for key in known)
        }
        return {**kept, "TERM": "dumb", MARKER: run}
