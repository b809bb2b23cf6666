"""Log: a plugin appends events of a kind that it registered, and no others."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from dsh_lsp.errors import UsageError
from dsh_lsp.events import PluginEvent
from dsh_lsp.session.log import PluginEventKind, SessionHeader, SessionLog


class Note(BaseModel):
    text: str


@pytest.fixture
def log() -> SessionLog:
    return SessionLog(SessionHeader(id="s", created_at=0, cwd="/w"), clock=lambda: 0)


def test_a_registered_event_is_committed_with_the_rules_of_its_kind(log: SessionLog) -> None:
    log.register(PluginEventKind(tag="notes/added", model=Note, ignorable=True))
    event = log.append_plugin_event("notes/added", {"text": "x"})
    assert list(log) == [event]
    assert event.data == PluginEvent(tag="notes/added", data={"text": "x"}, needs_turn=False, ignorable=True)


def test_what_does_not_fit_or_is_not_registered_is_refused_and_leaves_nothing(log: SessionLog) -> None:
    dispose = log.register(PluginEventKind(tag="notes/added", model=Note))
    with pytest.raises(ValidationError):
        log.append_plugin_event("notes/added", {"text": 3})
    for taken in ("notes/added", "turn/start"):
        with pytest.raises(UsageError, match="already"):
            log.register(PluginEventKind(tag=taken))
    dispose()
    with pytest.raises(UsageError, match="no plugin has registered"):
        log.append_plugin_event("notes/added", {"text": "x"})
    assert not list(log)
