"""Configuration: the settings of one connection, and where each of them may come from.

Rules: `initializationOptions` win over `workspace/configuration`; what could raise rights counts from there only if
the client vouches, by announcing `experimental.dsh`, that no workspace can set it; the event token is the
handshake's alone.
"""

from __future__ import annotations

from typing import Any, Final

from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import accepted, clean_settings, rights_of, value_at
from dsh_lsp.validation import Problem
from dsh_lsp.wire import JsonObject

SECTION: Final = "dsh"
HANDSHAKE_ALONE: Final = ("eventToken",)
OF_CLIENTS: Final = ("client", "trace")  # sections that a client keeps for itself


class Configuration:
    """What the client has told so far, and the settings that it gives."""

    def __init__(self, options: Any, *, vouches: bool) -> None:
        self._options, self.problems = clean_settings(Settings, options)
        self.settings = accepted(Settings, self._options)
        self._vouches = vouches
        self._told = self.problems

    def update(self, section: Any) -> list[Problem]:
        """Take the client's `dsh` section as it is now; what is wrong with it that was not wrong before."""
        if section is None or section == []:  # nothing, and how Lua writes that
            section = {}
        if isinstance(section, dict):
            wrong = self._take(section)
        else:
            wrong = [Problem(path=SECTION, message="the section must be an object")]
        told, self._told = self._told, wrong
        return [problem for problem in wrong if problem not in told]

    def _take(self, section: JsonObject) -> list[Problem]:
        given = _without(section, [(name,) for name in (*HANDSHAKE_ALONE, *OF_CLIENTS)])
        wrong = []
        if not self._vouches:
            raising = [path for path in rights_of(Settings) if value_at(given, path.split(".")) is not None]
            given = _without(given, [tuple(path.split(".")) for path in raising])
            if raising:
                message = "a workspace could have set it: it counts from initializationOptions alone"
                wrong.append(Problem(path=", ".join(raising), message=message))
        given, found = clean_settings(Settings, given, last=self.settings)
        both, more = clean_settings(Settings, _merged(given, self._options), last=self.settings)
        self.settings = accepted(Settings, both)
        return wrong + found + more


def _merged(under: JsonObject, over: JsonObject) -> JsonObject:
    """Both, key by key; `over` wins."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _without(data: JsonObject, paths: list[tuple[str, ...]]) -> JsonObject:
    """The data without what stands at some paths."""
    kept = {}
    for key, value in data.items():
        deeper = [path[1:] for path in paths if path[0] == key]
        if () in deeper:
            continue
        kept[key] = _without(value, deeper) if deeper and isinstance(value, dict) else value
    return kept
