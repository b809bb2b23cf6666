"""Landing: brings hunks into an open document, and finds out whether they stand there.

Rules: the document's text decides, never the editor's reply; edits name the version that they are for and go out
in the tick after a change or when the typing has paused; a hunk is never sent again while it may still arrive.
Source: what real editors were seen to do: some answer `applied: true` for an edit that they refused, some answer
before they tell of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import anyio

from dsh_lsp.lsp.documents import Document, DocumentChanged, Documents
from dsh_lsp.lsp.editor import APPLY_TIMEOUT_S, ApplyReply, Editor
from dsh_lsp.lsp.manners import Manners
from dsh_lsp.wire import JsonObject, encode
from dsh_lsp.workspace.edits import Absent, Hunk, Landed, Touched, Verdict, applied, followed, judge, minimal
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span, is_empty_line, line_end_of

TICK_S = 0.02  # a change that has just come: its editor tells of changes in pauses, and the next key may end this one
QUIET_S = 0.2  # typing has paused: an edit sent now is not refused for being stale
SETTLE_S = 1.0  # an edit answered for, but overtaken by typing, has arrived by then or never will
CONFIRM_S = 10.0  # after that an edit that was answered for and never seen is unconfirmed
TYPING_S = 60.0  # how long an editor that says it has newer text may take to tell of it


Final = Literal["landed", "retry", "stale", "refused", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What one request did: `before` and `hunks` as they were sent, and what became of each hunk.

    `final` is `retry` when the document moved on, `stale` when it did and the editor said so, `refused` when the
    editor said no for no visible reason, and `silent` when it said yes and the document never showed it. `answered`
    says that it did answer, and in time.
    """

    before: Rope
    hunks: tuple[Hunk, ...]
    verdicts: dict[str, Verdict]
    final: Final
    reason: str  # the editor's own, for a no
    answered: bool


async def wait_for_quiet(documents: Documents, document: Document) -> None:
    """Return in the tick after a change, this one or the next, or when none has come for a moment."""
    if 0 <= anyio.current_time() - document.changed_at < TICK_S:
        return
    changed = anyio.Event()
    dispose_listener = documents.changed.listen(lambda event: _note(event, document, changed))
    dispose_watch = documents.watch(document.key)
    try:
        with anyio.move_on_after(max(0.0, document.changed_at + QUIET_S - anyio.current_time())):
            await changed.wait()
    finally:
        dispose_watch()
        dispose_listener()


def _note(event: DocumentChanged, document: Document, changed: anyio.Event) -> None:
    if event.document is document:
        changed.set()


def to_lsp_edits(
    document: Document, hunks: Sequence[Hunk], manners: Manners, annotation: str | None = None
) -> JsonObject:
    """One versioned TextDocumentEdit with the smallest ranges."""
    edits = []
    for hunk in hunks:
        change = minimal(hunk)
        if manners.adds_line_at_end:
            change = behind_last_line(change, document.rope)
        edit: JsonObject = {"range": encode(document.range_of(change.span)), "newText": change.text}
        if annotation is not None:
            edit["annotationId"] = annotation
        edits.append(edit)
    return {"textDocument": {"uri": document.uri, "version": document.version}, "edits": edits}


def behind_last_line(change: Change, text: Rope) -> Change:
    """The same change, said as one at the end of the last line if it is one behind that line's end."""
    added = line_end_of(change.text)
    if change.span.start < len(text) or not added:
        return change
    last = line_end_of(text[max(0, len(text) - 2) : len(text)])
    if not len(text):
        return Change(change.span, change.text.removesuffix(added))
    at = len(text) - len(last)
    return Change(Span(at, at), last + change.text.removesuffix(added)) if last else change


def why_not(text: Rope, manners: Manners) -> str | None:
    r"""Why no edit of a text can be sent to an editor; None if it can."""
    if not manners.splits_at_return and text.line_ends["\r"]:
        return "its lines end in \\r alone in places, which this editor does not take for the end of a line"
    return None


def judge_shown(before: Rope, hunks: Sequence[Hunk], after: Rope, manners: Manners) -> dict[str, Verdict]:
    """What became of hunks in a text that an editor shows, which may be its way to show that there is none."""
    verdicts = judge(before, hunks, after)
    if manners.empty_is_line and len(after) <= 2 and is_empty_line(str(after)):
        for key, verdict in judge(before, hunks, Rope.of("")).items():
            if isinstance(verdict, Landed) and not isinstance(verdicts[key], Landed):
                verdicts[key] = Landed(Span(0, len(after)))
    return verdicts


def shows_only(before: Rope, hunks: Sequence[Hunk], after: Rope, manners: Manners) -> bool:
    """Whether a text is the one before with some hunks of it, in order, and nothing else."""
    expected = applied(before, hunks)
    return (
        expected == after
        or expected.plain == after.plain
        or (manners.empty_is_line and not len(expected) and is_empty_line(str(after)))
    )


class _Observation:
    """What is seen of one request: changes of the document and the editor's reply, whichever comes when."""

    def __init__(self) -> None:
        self.reply: ApplyReply | None = None
        self.answered = False
        self.changed_after_reply = False
        self.closed = False
        self._news = anyio.Event()

    def replied(self, reply: ApplyReply) -> None:
        self.reply = reply
        self._news.set()

    def changed(self) -> None:
        self.changed_after_reply = self.reply is not None
        self._news.set()

    def gone(self) -> None:
        self.closed = True
        self._news.set()

    async def news(self, timeout_s: float) -> bool:
        """Wait for something new; False when nothing came in time."""
        with anyio.move_on_after(max(0.0, timeout_s)) as scope:
            await self._news.wait()
        self._news = anyio.Event()
        return not scope.cancelled_caught


async def attempt(
    documents: Documents,
    editor: Editor,
    document: Document,
    hunks: Sequence[Hunk],
    *,
    label: str,
    landed: Callable[[Hunk, Span], object],
    refused: Callable[[], object] = lambda: None,
) -> Attempt:
    """Send hunks of the document as it is now, and watch until it is known what became of them.

    `landed` is called as soon as a hunk is seen: what the user does to it afterwards changes nothing about that.
    `refused` is called when the editor has said that what was sent is stale, which ends nothing yet.
    """
    before, version, sent_at = document.rope, document.version, anyio.current_time()
    edit = {"documentChanges": [to_lsp_edits(document, hunks, editor.profile.manners)]}
    seen = _Observation()
    verdicts: dict[str, Verdict] = {hunk.id: Absent(hunk) for hunk in hunks}

    def on_change(event: DocumentChanged) -> None:
        if event.document is document:
            judged = judge_shown(before, hunks, event.after, editor.profile.manners)
            for hunk in hunks:
                was, now = verdicts[hunk.id], judged[hunk.id]
                if isinstance(was, Landed):
                    continue
                if isinstance(now, Landed):
                    landed(hunk, now.span)
                elif isinstance(now, Absent):  # step by step: another line with the same text is not its place
                    step = was.hunk if isinstance(was, Absent) else None
                    place = step and followed(step, event.before, event.after, event.changes)
                    now = Touched() if place is None else Absent(place)
                verdicts[hunk.id] = now
            seen.changed()

    async def ask() -> None:
        reply = await editor.apply_edit(label, edit)
        if reply.kind == "stale":
            refused()
        seen.answered = anyio.current_time() - sent_at < APPLY_TIMEOUT_S  # else that is what silence is taken for
        seen.replied(reply)

    disposers = (
        documents.changed.listen(on_change),
        documents.closed.listen(lambda closed: seen.gone() if closed is document else None),
        documents.watch(document.key),
    )
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            final = await _verdict(seen, verdicts, lambda: document.version != version, sent_at)
            group.cancel_scope.cancel()
    finally:
        for dispose in disposers:
            dispose()
    reason = seen.reply.reason if seen.reply is not None else ""
    return Attempt(
        before=before, hunks=tuple(hunks), verdicts=verdicts, final=final, reason=reason, answered=seen.answered
    )


async def _verdict(
    seen: _Observation,
    verdicts: dict[str, Verdict],
    moved_on: Callable[[], bool],
    sent_at: float,
) -> Final:
    """Wait until the hunks are known to stand in the document or known not to come."""
    while True:
        if all(isinstance(verdict, Landed) for verdict in verdicts.values()):
            return "landed"
        reply = seen.reply.kind if seen.reply is not None else None
        stale = reply == "stale"
        if seen.closed:
            return "retry"
        if seen.changed_after_reply or (stale and moved_on()):
            return "stale" if stale else "retry"
        if reply == "refused":
            return "retry" if moved_on() else "refused"
        overtaken = reply == "applied" and moved_on()
        patience_s = SETTLE_S if overtaken else TYPING_S if stale else sent_at + CONFIRM_S - anyio.current_time()
        if not await seen.news(patience_s):
            return "retry" if overtaken else "refused" if stale else "silent"
