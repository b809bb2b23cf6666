"""Modes: what the agent may do without asking, as the session's log says."""

from __future__ import annotations

from dsh_lsp.decisions import Mode, PermissionPreset
from dsh_lsp.events import LogEvent
from dsh_lsp.session.log import SessionLog


class Modes:
    """The mode of one session: the last one logged, else the one that the settings give a new session."""

    def __init__(self, log: SessionLog, default: Mode) -> None:
        self._log = log
        self._current: Mode = default
        for event in log.facts():
            self._note(event)
        log.appended.listen(self._note)

    @property
    def current(self) -> Mode:
        """The mode in force."""
        return self._current

    def set(self, mode: Mode) -> None:
        """Switch; the same mode again leaves no trace."""
        if mode != self._current:
            self._log.append(PermissionPreset(preset=mode))

    def _note(self, event: LogEvent) -> None:
        if isinstance(event.data, PermissionPreset):
            self._current = event.data.preset
