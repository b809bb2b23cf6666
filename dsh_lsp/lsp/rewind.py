"""Rewind: takes back what a turn changed in the user's files, and tells what came of it.

Rules: that turn's edits alone; files only, never history; what cannot be taken back is left as it is, and told.
"""

from __future__ import annotations

from dsh_lsp.abort import AbortSignal
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.live_session import LiveSession
from dsh_lsp.lsp.undo import Undone
from dsh_lsp.wire import JsonObject

DONE = "rewind/done"


async def rewind(live: LiveSession, turn: int, editor: Editor, signal: AbortSignal) -> None:
    """Take back a turn's edits; the outcome is the live event `rewind/done`, and one line for the user."""
    undone = await live.reviews.take_back(live.reviews.landed.of_turn(turn), signal=signal)
    live.feed.tell(DONE, outcome_of(turn, undone))
    left = [one for one in undone if one.reason is not None]
    words = f"DSH: {len(undone) - len(left)} of {len(undone)} edits of turn {turn} were taken back"
    if left:
        reasons = "; ".join(dict.fromkeys(f"{_name(one)}: {one.reason}" for one in left))
        editor.warn(f"{words}. Left: {reasons}")
    else:
        editor.tell(words if undone else f"DSH: turn {turn} left no edits to take back")


def outcome_of(turn: int, undone: list[Undone]) -> JsonObject:
    """The event's data: hunks that were taken back, and those that were left, with the reason."""
    return {
        "turn": turn,
        "undone": [{"hunk": one.edit.hunk, "uri": one.edit.uri} for one in undone if one.reason is None],
        "left": [
            {"hunk": one.edit.hunk, "uri": one.edit.uri, "reason": one.reason}
            for one in undone
            if one.reason is not None
        ],
    }


def _name(one: Undone) -> str:
    return one.edit.uri.rsplit("/", 1)[-1]
