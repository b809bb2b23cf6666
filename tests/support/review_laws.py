"""Review laws: what must hold of every review whatever happens, watched while a scenario runs."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from dsh_lsp.decisions import EditLanded, ReviewDecided, ReviewOpened
from dsh_lsp.events import LogEvent
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.landing import without_own_end
from dsh_lsp.lsp.proposal import Item
from dsh_lsp.session.log import SessionLog
from dsh_lsp.workspace.edits import HunkOutcome, minimal
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span, split_lines, without_last_end
from tests.support.simulated_buffer import Application, State
from tests.support.simulated_editor import SimulatedEditor


class Watch:
    """Sees everything that happens, and keeps what breaks a law.

    1. A hunk is logged as landed once when it is seen where it belongs, and never otherwise.
    2. No hunk is in a buffer twice.
    3. The server's text is what the editor told.
    4. Nothing of the user's is lost, and 5. nothing but accepted hunks changes: an edit takes out exactly the lines
       that the person saw, in the place where they saw them.
    6. The report says what the buffer shows.
    7. Each hunk is decided once, proposals end, and what waits stands over its own old text.
    8. Nothing that the user has typed or taken out is saved for them.
    """

    def __init__(self, documents: Documents, editor: SimulatedEditor, log: SessionLog) -> None:
        self.broken: list[str] = []
        self.documents, self.editor = documents, editor
        self.items: dict[str, Item] = {}
        self.accepted: dict[str, int] = {}  # how much the server knew of the user's typing by then
        self.wished: dict[str, str] = {}  # a hunk's new text as it was proposed
        self.proposed: dict[str, tuple[int, ...]] = {}  # the cells that a hunk's old text was made of
        self.applied: dict[str, list[tuple[Application, Span]]] = {}
        self.landed: Counter[str] = Counter()
        self.decided: dict[str, str] = {}
        self.taken_back: dict[str, str | None] = {}
        self.seen: set[str] = set()  # the server was told of a text with the hunk in it, now or before
        self.reopened: set[str] = set()
        self.garbled: set[str] = set()
        self.opening: Callable[[str], list[Item]] = lambda _: []
        self.story: list[str] = []
        editor.applied = self.on_applied
        editor.delivered = self.on_delivered
        editor.saved = self.on_saved
        log.appended.listen(self.on_event)

    def breaks(self, law: str) -> None:
        self.broken.append(law)
        self.tell(f"BROKEN: {law}")

    def tell(self, what: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():9.4f} {what}")

    def on_event(self, event: LogEvent) -> None:
        self.tell(f"log: {event.data}")
        match event.data:
            case ReviewOpened(proposal=proposal):
                for item in self.opening(proposal):
                    self.items[item.hunk.id] = item
                    self.wished[item.hunk.id] = item.hunk.new
                    state = self.editor.mirrored.get(item.file.path.as_uri())
                    span = item.hunk.span
                    if item.undoes is not None:
                        self.accepted[item.hunk.id] = state.typed if state is not None else -1
                    if state is not None and state.text[span.start : span.end] == item.hunk.old:
                        self.proposed[item.hunk.id] = state.cells[span.start : span.end]
            case EditLanded(hunk=hunk):
                self.on_landed(event.data, hunk)
            case ReviewDecided(hunks=hunks):
                for one in hunks:
                    self.on_decided(one.id, one.outcome)
            case _:
                pass

    def on_landed(self, event: EditLanded, hunk: str) -> None:
        self.landed[hunk] += 1
        if self.landed[hunk] > 1:
            self.breaks(f"1: {hunk} is logged as landed again")
        if event.proposal != self.items[hunk].file.proposal:
            self.breaks(f"1: {hunk} is logged as landed for another proposal")
        if event.version is None:
            if event.after not in self.items[hunk].file.path.read_bytes().decode():
                self.breaks(f"1: {hunk} is logged as landed, and the file does not hold it")
        elif hunk not in self.seen and not self.is_seen(hunk) and self.can_be_told(hunk):
            self.breaks(f"1: {hunk} is logged as landed, and the editor did not tell of it")

    def on_decided(self, hunk: str, outcome: str) -> None:
        if hunk in self.decided:
            self.breaks(f"7: {hunk} is decided again: {self.decided[hunk]}, {outcome}")
        self.decided[hunk] = outcome
        if outcome == "landed" and not self.landed[hunk]:
            self.breaks(f"1: {hunk} landed, and that was not logged")
        if outcome != "landed" and (self.landed[hunk] or self.is_seen(hunk)) and self.can_be_told(hunk):
            self.breaks(f"6: {hunk} is reported as {outcome}, and it is in the text")

    def can_be_told(self, hunk: str) -> bool:
        """Whether its text alone shows where a hunk is.

        Left out: lines that were taken away, or that occur twice, while the user typed into the same document, the
        editor told of a part, or it dropped an edit and another came; and edits that were proposed twice. Nobody can
        tell such a hunk from the rest.
        """
        item = self.items[hunk]
        uri = item.file.path.as_uri()
        buffer = self.editor.buffers.get(uri)
        quiet = buffer is not None and uri not in self.reopened and buffer.state.typed == self.accepted.get(hunk)
        quiet = quiet and not self.editor.manners.edit_by_edit and not self.editor.manners.lies
        mine = {line for line in split_lines(item.hunk.new) if "⟦" in line}
        others = [one for one in self.items.values() if one is not item and one.file.key == item.file.key]
        same = {item.hunk.new, self.wished[hunk]}
        twin = any(
            same & {one.hunk.new, self.wished[one.hunk.id]} or mine.intersection(split_lines(one.hunk.new))
            for one in others
        )
        return (quiet or bool(mine)) and not twin and uri not in self.garbled

    def is_seen(self, hunk: str) -> bool:
        """Whether the server was told of a text with the hunk in it."""
        return any(
            (state := self.editor.mirrored.get(one.uri)) is not None and one.stands(state, lines)
            for one, lines in self.applied.get(hunk, ())
        )

    def on_applied(self, one: Application) -> None:
        self.tell(f"editor applies {one.start}-{one.end} {one.text!r}")
        if one.overtaken:
            self.garbled.add(one.uri)  # nobody can keep such an editor from that; what is told must still be true
            if self.editor.manners.newer_only:
                self.breaks("5: an edit goes into another text than it was made for")
            return
        sent = [
            item
            for item in self.items.values()
            if item.hunk.id in self.accepted and item.file.path.as_uri() == one.uri and self.is_made_by(item, one)
        ]
        sent.sort(key=lambda item: (item.state != "sent", item.hunk.id in self.applied))
        if not sent:
            self.breaks("5: an edit is none of an accepted hunk")
            return
        hunk, where = sent[0].hunk, sent[0].hunk.span
        if one.base.text[where.start : where.end] != hunk.old:
            self.breaks(f"5: {hunk.id} takes out something else")
        was = self.proposed.get(hunk.id)
        taken = one.base.cells[where.start : where.end]
        rewritten = self.editor.rewritten
        retyped = any(out.intersection(was or ()) and put.intersection(taken) for out, put in rewritten)
        # Left out: a whole text does not tell which of two equal lines came in, nor does a file that is opened again.
        exact = one.uri not in self.reopened and not self.editor.manners.whole_text
        if was and exact and not set(was).intersection(taken) and not retyped:
            self.breaks(f"5: {hunk.id} takes out other lines with the same text")
        if exact and sent[0].undoes is not None:
            end_before = where.start - (self.editor.manners.last_end_apart and where.start > 0)  # may be its own
            self.look_at_what_it_takes_back(sent[0].undoes, set(one.base.cells[end_before : where.end]))
        earlier = self.applied.setdefault(hunk.id, [])
        if any(before.in_part(one.before) for before, _ in earlier) and self.can_be_told(hunk.id):
            self.breaks(f"2: {hunk.id} is in the buffer twice")
        where = Span(min(one.start, where.start), where.end)  # it may begin behind the line before, with its end
        earlier.append((one, where))

    def is_made_by(self, item: Item, one: Application) -> bool:
        """Whether a hunk can have become this edit of a buffer."""
        change, made = minimal(item.hunk), Change(Span(one.start, one.end), one.text)
        if not self.editor.manners.last_end_apart:
            return change == made
        sent = without_own_end(change, Rope.of(one.base.text))
        return sent.span == made.span and without_last_end(sent.text) == without_last_end(made.text)

    def on_saved(self, before: State, after: State) -> None:
        """The server had a buffer saved."""
        came, went = set(after.cells).difference(before.cells), set(before.cells).difference(after.cells)
        edits = [one for all_of_it in self.applied.values() for one, _ in all_of_it]
        ours = {cell for one in edits for cell in one.took + one.put}  # the user may take back the same edit
        if any(out & went - ours or put & came - ours for out, put in self.editor.rewritten):
            self.breaks("8: what the user did is saved for them")

    def look_at_what_it_takes_back(self, undone: str, taken: set[int]) -> None:
        """An edit that is taken back takes out what it had put in, not lines with the same text."""
        put = {cell for one, _ in self.applied.get(undone, ()) for cell in one.put}
        undoing = (key for key, item in self.items.items() if item.undoes is not None)
        again = {cell for key in undoing for one, _ in self.applied.get(key, ()) for cell in one.put}  # given back
        copied = any(out.intersection(put) and new.intersection(taken) for out, new in self.editor.rewritten)
        if put and not (put | again).intersection(taken) and not copied:
            self.breaks(f"5: {undone} is taken back in another place")

    def on_delivered(self, uri: str) -> None:
        document, state = self.documents.get(uri), self.editor.mirrored.get(uri)
        self.tell(f"server holds {document.text if document else None!r} of {uri[-6:]}")
        if (document.text if document else None) != (state.text if state else None):
            self.breaks(f"3: the server's text is not the editor's: {uri}")
        self.look_at_what_waits()
        self.seen.update(filter(self.is_seen, self.applied))

    def look_at_what_waits(self) -> None:
        for item in self.items.values():
            document, span = self.documents.at(item.file.path), item.hunk.span
            text = document.rope if document is not None else item.file.text
            if item.state in ("pending", "accepted") and text[span.start : span.end] != item.hunk.old:
                self.breaks(f"7: {item.hunk.id} ({item.state}) waits over another text")

    def is_undone_twice(self, item: Item) -> bool:
        """Whether somebody has asked more than once for a hunk to be taken back."""
        return sum(one.undoes == item.undoes for one in self.items.values()) > 1

    def at_the_end(self, outcomes: list[list[HunkOutcome]]) -> None:
        told = {outcome.hunk.id: outcome.outcome for proposal in outcomes for outcome in proposal}
        undoing = {item.hunk.id: item for item in self.items.values() if item.undoes is not None}
        for hunk, item in undoing.items():
            reason = self.taken_back.get(item.undoes or "", "nothing was said")
            if (reason is None) > (self.decided.get(hunk) == "landed") and not self.is_undone_twice(item):
                self.breaks(f"6: {item.undoes} is said to be taken back, and {hunk} is {self.decided.get(hunk)}")
        told |= {hunk: self.decided.get(hunk, "never") for hunk in undoing}
        if told != self.decided or set(told) != set(self.items):
            self.breaks(f"6: the report is not what was decided: {told} {self.decided}")
        for hunk, all_of_it in self.applied.items():
            for one, lines in all_of_it:
                buffer = self.editor.buffers.get(one.uri)
                states = [] if buffer is None else list(buffer.history.values())
                since = next((i for i, state in enumerate(states) if one.stands(state, lines)), len(states))
                untouched = since < len(states) and all(one.stands(state, lines) for state in states[since:])
                if untouched and not self.landed[hunk] and self.can_be_told(hunk):
                    self.breaks(f"1: {hunk} is in the buffer and not logged as landed: {told.get(hunk)}")


class Trouble(logging.Handler):
    """Keeps what the package logs as an error: listeners that failed."""

    def __init__(self, broken: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.broken = broken

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.broken.append(f"{record.getMessage()}: {error!r}")
