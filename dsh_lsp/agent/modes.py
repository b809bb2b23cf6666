"""Modes: what the agent may do without asking, as the session's log says."""

from __future__ import annotations

from typing import Final

from dsh_lsp.decisions import Mode, PermissionPreset
from dsh_lsp.errors import UsageError
from dsh_lsp.events import LogEvent
from dsh_lsp.session.log import SessionLog

HARMLESS: Final[frozenset[Mode]] = frozenset({"read-only", "plan"})


class Modes:
    """The mode of one session: the last one logged, else the one that the settings give a new session.

    In a workspace that is not `trusted` nothing but reading is in force, whatever was chosen.
    """

    def __init__(self, log: SessionLog, default: Mode, *, trusted: bool = True) -> None:
        self.trusted = trusted
        self._log = log
        self._chosen: Mode = default
        for event in log.facts():
            self._note(event)
        log.appended.listen(self._note)

    @property
    def current(self) -> Mode:
        """The mode in force."""
        return self._chosen if self.trusted or self._chosen in HARMLESS else "read-only"

    def set(self, mode: Mode) -> None:
        """Switch; the same mode again leaves no trace.

        Raises:
            UsageError: `UNTRUSTED`, the workspace allows nothing but reading.
        """
        if not self.trusted and mode not in HARMLESS:
            raise UsageError(f"the workspace is not trusted, so the mode cannot be {mode}", code="UNTRUSTED")
        if mode != self._chosen:
            self._log.append(PermissionPreset(preset=mode))

    def _note(self, event: LogEvent) -> None:
        if isinstance(event.data, PermissionPreset):
            self._chosen = event.data.preset
