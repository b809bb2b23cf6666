"""Landing: brings hunks into an open document, and finds out whether they stand there.

Rules: the document's text decides, never the editor's reply; edits name the version that they are for and go out
in the tick after a change or when the typing has paused; a hunk is never sent again while it may still arrive.
Source: what real editors were seen to do: some answer `applied: true` for an edit that they refused, some answer
before they tell of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import anyio

from dsh_lsp.lsp.documents import Document, DocumentChanged, Documents
from dsh_lsp.lsp.editor import APPLY_TIMEOUT_S, ApplyReply, Editor
from dsh_lsp.lsp.manners import Manners
from dsh_lsp.wire import JsonObject, encode
from dsh_lsp.workspace.edits import Hunk, applied, minimal
from dsh_lsp.workspace.passage import Absent, Landed, Touched, Verdict, judge
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span, is_empty_line, line_end_of, without_last_end

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
    says that it did answer, and in time, `denied` that its answer was a no.
    """

    before: Rope
    hunks: tuple[Hunk, ...]
    verdicts: dict[str, Verdict]
    final: Final
    reason: str  # the editor's own, for a no
    answered: bool
    denied: bool


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
        if manners.last_end_apart:
            change = without_own_end(change, document.rope)
        edit: JsonObject = {"range": encode(document.range_of(change.span)), "newText": change.text}
        if annotation is not None:
            edit["annotationId"] = annotation
        edits.append(edit)
    version = None if document.version is None else max(document.version, manners.compares_from)
    return {"textDocument": {"uri": document.uri, "version": version}, "edits": edits}


def without_own_end(change: Change, text: Rope) -> Change:
    """The same change, said for a buffer whose last line ends as the buffer wants it, and not as an edit says."""
    added = line_end_of(change.text)
    if change.span.end < len(text) or not (added or not _last_end(text)):
        return change
    end = _last_end(text)
    if end and change.span.start == len(text):  # what comes behind that end is put before it
        at = len(text) - len(end)
        return Change(Span(at, at), end + change.text.removesuffix(added))
    if not end and not change.text:  # the lines that go at the end take the end before them along
        there = line_end_of(text[max(0, change.span.start - 2) : change.span.start])
        return Change(Span(change.span.start - len(there), change.span.end), "")
    return change if end else Change(change.span, change.text.removesuffix(added))


def _last_end(text: Rope) -> str:
    return line_end_of(text[max(0, len(text) - 2) : len(text)])


def why_not(hunk: Hunk, text: Rope, manners: Manners) -> str | None:
    r"""Why an edit of a text cannot be sent to an editor; None if it can."""
    if not manners.splits_at_return and text.has_lone_returns:
        return "its lines end in \\r alone in places, which this editor does not take for the end of a line"
    changes_end = hunk.old != hunk.new and without_last_end(hunk.old) == without_last_end(hunk.new)
    if manners.last_end_apart and changes_end and hunk.old and hunk.new and hunk.span.end == len(text):
        return "how the last line ends is up to this editor, which puts a line end there when it saves"
    return None


def judge_shown(before: Rope, hunks: Sequence[Hunk], after: Rope, manners: Manners) -> dict[str, Verdict]:
    """What became of hunks in a text that an editor shows, whose last line may end otherwise than it was told."""
    verdicts = judge(before, hunks, after)
    if not manners.last_end_apart or all(isinstance(verdict, Landed) for verdict in verdicts.values()):
        return verdicts
    if _lacks_end(before):
        shown = _with_end(after, before.line_ending)
    else:
        shown = Rope.of("") if len(after) <= 2 and is_empty_line(str(after)) else after
    alike = judge(_ended(before), [_ended_with(hunk, before) for hunk in hunks] if len(shown) else hunks, shown)
    for key, verdict in alike.items():
        if isinstance(verdict, Landed) and not isinstance(verdicts[key], Landed):
            reaches_end = verdict.span.end >= min(len(after), len(shown))
            verdicts[key] = Landed(Span(verdict.span.start, len(after))) if reaches_end else verdict
    return verdicts


def _lacks_end(text: Rope) -> bool:
    """Whether a buffer is told without the end of its last line, and will be whatever is put there."""
    return bool(len(text)) and not _last_end(text)


def _with_end(text: Rope, end: str) -> Rope:
    return text.changed(Change(Span(len(text), len(text)), end))


def _ended(text: Rope) -> Rope:
    """A text whose last line has an end."""
    return _with_end(text, text.line_ending) if _lacks_end(text) else text


def _ended_with(hunk: Hunk, text: Rope) -> Hunk:
    """The hunk of a text as one of that text with an end of its last line."""
    if hunk.span.end < len(text):
        return hunk
    end = _last_end(text)
    own = "" if end or not len(text) else text.line_ending
    new = hunk.new + (end or text.line_ending) if hunk.new and not line_end_of(hunk.new) else hunk.new
    return replace(hunk, span=Span(hunk.span.start, hunk.span.end + len(own)), old=hunk.old + own, new=new)


def shows_only(before: Rope, hunks: Sequence[Hunk], after: Rope, manners: Manners) -> bool:
    """Whether a text is the one before with some hunks of it, in order, and nothing else."""
    expected = applied(before, hunks)
    if expected == after or expected.plain == after.plain:
        return True
    if not manners.last_end_apart:
        return False
    lines = str(after.plain) if _lacks_end(before) else without_last_end(str(after.plain))
    return lines == without_last_end(str(expected.plain))


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
    left_out: dict[str, Hunk] = {hunk.id: hunk for hunk in hunks}  # where each would go, if it was not made
    edit = {"documentChanges": [to_lsp_edits(document, hunks, editor.profile.manners)]}
    seen = _Observation()
    verdicts: dict[str, Verdict] = {hunk.id: Absent(hunk) for hunk in hunks}

    def on_change(event: DocumentChanged) -> None:
        if event.document is document:
            for key, there in list(left_out.items()):
                if (place := event.passage.leaves_out(there)) is None:
                    del left_out[key]
                else:
                    left_out[key] = place
            judged = judge_shown(before, hunks, event.after, editor.profile.manners)
            for hunk in hunks:
                was, now = verdicts[hunk.id], judged[hunk.id]
                if isinstance(was, Landed):
                    continue
                if isinstance(now, Landed):
                    landed(hunk, now.span)
                elif isinstance(now, Absent):  # step by step: another line with the same text is not its place
                    step = was.hunk if isinstance(was, Absent) else None
                    place = step and event.passage.follow(step)
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
    denied = seen.reply is not None and seen.reply.kind != "applied"
    if denied:  # what changed around them was not the editor's doing
        verdicts |= {key: Absent(there) for key, there in left_out.items() if isinstance(verdicts[key], Touched)}
    return Attempt(
        before=before,
        hunks=tuple(hunks),
        verdicts=verdicts,
        final=final,
        reason=seen.reply.reason if seen.reply is not None else "",
        answered=seen.answered,
        denied=denied,
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
            if moved_on():
                return "retry"
            if not await seen.news(SETTLE_S):  # some tell of the change, or of a key before it, later
                return "refused"
            continue
        overtaken = reply == "applied" and moved_on()
        patience_s = SETTLE_S if overtaken else TYPING_S if stale else sent_at + CONFIRM_S - anyio.current_time()
        if not await seen.news(patience_s):
            return "retry" if overtaken else "refused" if stale else "silent"
