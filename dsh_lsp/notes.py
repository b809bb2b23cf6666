"""Notes: the events that are written down for people: what a session is called, and what there is to do in it.

Rules: frozen values; the last one of a kind counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dsh_lsp.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTitle(Wire):
    """The session's name from here on."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoItem(Wire):
    """One thing that there is to do."""

    text: str
    status: Literal["pending", "in_progress", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoWritten(Wire):
    """What there is to do from here on: the whole list."""

    items: tuple[TodoItem, ...]
