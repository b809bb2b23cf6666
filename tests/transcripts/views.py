"""The views that the reference comes to on its way through a transcript."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dsh_lsp.session.view import SessionView
from dsh_lsp.wire import encode


def shown(view: SessionView) -> dict[str, Any]:
    """A view with what is derived from it, as a client must have it; what is not there is left out."""
    waiting = {} if view.waiting_for is None else {"waitingFor": view.waiting_for}
    return {"state": view.state, **waiting, "view": encode(view)}


def checkpoints(values: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A view wherever a screen changes most: the state, text that streams; and the last one."""
    view, before, number, last = SessionView(), None, 0, None
    for number, value in enumerate(values, 1):
        view.add_value(value)
        now = (view.state, view.waiting_for, bool(view.live))
        if now != before:
            last, before = number, now
            yield {"after": number, **shown(view)}
    if last != number:
        yield {"after": number, **shown(view)}
