"""Landed: the agent's edits that stand in the user's files, where they are now, and how each is taken back.

Owns: the places of landed hunks while their documents stay open, of the last turn and some before it.
Rules: rebuilt from the log; an edit is taken back only where its own lines stand as they landed, so that what the
user has made of them since is never touched; what cannot be taken back is told with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from dsh_lsp.abort import Disposer
from dsh_lsp.decisions import EditLanded, Position, ReviewOpened
from dsh_lsp.errors import ToolError
from dsh_lsp.events import LogEvent, TurnStart
from dsh_lsp.lsp.documents import Document, DocumentChanged, Documents, identity, spelled_path_of, uri_of
from dsh_lsp.session.log import SessionLog
from dsh_lsp.workspace.changes import Prepared, shown_text
from dsh_lsp.workspace.copies import Copies, is_like
from dsh_lsp.workspace.disk import read_bytes, read_file
from dsh_lsp.workspace.edits import (
    FileChange,
    FileDelete,
    FileEdit,
    FileRename,
    FileRestore,
    Hunk,
    Snapshot,
)
from dsh_lsp.workspace.passage import Passage
from dsh_lsp.workspace.paths import NOTHING, Guarded, check_writable, rights_key, shown
from dsh_lsp.workspace.places import copies_at, find_again, sides_kept
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Span, same_lines

MAX_MARKS = 200  # of earlier turns, each moved with every key in its document; older edits are found by their lines


@dataclass(slots=True, eq=False)
class Mark:
    """Where a landed hunk stands in an open document; `rope` is the version that the place counts in."""

    edit: EditLanded
    key: str
    hunk: Hunk
    rope: Rope


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """How an edit is taken back: a change of its file, and the hunk of it in the text as it is now."""

    edit: EditLanded
    uri: str
    prepared: Prepared
    text: Rope
    span: Span


class LandedEdits:
    """The landed edits of one session."""

    def __init__(
        self, log: SessionLog, documents: Documents, root: Path, copies: Copies, guarded: Guarded | None = None
    ) -> None:
        self._documents = documents
        self._root = root
        self._copies = copies
        self._guarded = guarded
        self._paths: dict[str, Path] = {}  # the real ones of the edits of this life
        self._moved: dict[str, Path] = {}  # where an edit's file is, if a later edit renamed it
        self._turn: int | None = None
        self._turns: dict[str, int | None] = {}  # of each proposal; None for one that took others back
        self._undoes: dict[str, str] = {}
        self._edits: dict[str, EditLanded] = {}
        self._marks: dict[str, Mark] = {}
        self._lost: set[str] = set()  # their lines were changed in an open document
        self._watched: dict[str, Disposer] = {}
        self._fresh: dict[str, EditLanded] = {}  # of the last turn, in order
        self._kept: set[str] = set()
        self._unasked: set[str] = set()
        for event in log.facts():
            self._note(event)
        log.appended.listen(self._on_event)
        self._disposers = [
            documents.changed.listen(self._on_change),
            documents.opened.listen(self._on_open),
            documents.closed.listen(self._on_close),
        ]

    def close(self) -> None:
        """Follow the documents no longer."""
        for dispose in (*self._disposers, *self._watched.values()):
            dispose()
        self._watched.clear()

    # -- what there is ---------------------------------------------------------------------------------------

    def of_turn(self, turn: int) -> list[EditLanded]:
        """What a turn changed and nobody took back, the last first."""
        return [edit for edit in reversed(self._edits.values()) if self._turns.get(edit.proposal) == turn]

    def get(self, hunk: str) -> EditLanded | None:
        """A hunk that landed since the last turn began, and that was neither kept nor taken back."""
        return self._fresh.get(hunk) if hunk not in self._kept else None

    def unasked(self, key: str | None = None) -> list[EditLanded]:
        """All that was applied at once and can still be kept or taken back, of one file or of all, the last first."""
        edits = [edit for edit in self._offered() if self.was_unasked(edit.hunk)]
        return [edit for edit in reversed(edits) if key is None or key == str(self._path(edit))]

    def last_first(self, hunks: Container[str]) -> list[EditLanded]:
        """Those of the hunks that can still be kept or taken back."""
        return [edit for edit in reversed(self._offered()) if edit.hunk in hunks]

    def _offered(self) -> list[EditLanded]:
        return [edit for hunk, edit in self._fresh.items() if hunk not in self._kept]

    def elsewhere(self, key: str) -> list[list[EditLanded]]:
        """What can still be kept or taken back and does not stand in a document: file by file, the last first."""
        groups: dict[tuple[str, str], list[EditLanded]] = {}
        for edit in reversed(self._offered()):
            is_text = edit.kind in ("edit", "create")
            if not (is_text and self._path(edit) == Path(key)):
                alone = "" if edit.kind == "edit" else edit.hunk
                groups.setdefault((edit.uri, alone), []).append(edit)
        return list(groups.values())

    def _path(self, edit: EditLanded) -> Path:
        """Where the file is now that an edit changed, made or renamed, or was when it was deleted."""
        if (moved := self._moved.get(edit.hunk)) is not None:
            return moved
        if edit.new_uri is not None:
            return Path(identity(edit.new_uri))
        return self._paths.get(edit.hunk) or Path(identity(edit.uri))

    def keep(self, hunk: str) -> None:
        """Take a landed hunk as it is: it is not offered to be taken back any more, but for a rewind."""
        self._kept.add(hunk)

    def note_unasked(self, hunks: Iterable[str]) -> None:
        """These will be applied at once."""
        self._unasked.update(hunks)

    def was_unasked(self, hunk: str) -> bool:
        """Whether a hunk of the last turn was applied at once, so that nobody has looked at it yet."""
        return hunk in self._unasked

    def at(self, key: str) -> list[Mark]:
        """The hunks of a document that can still be kept or taken back, in order."""
        marks = (mark for hunk, mark in self._marks.items() if self.get(hunk) is not None)
        here = [mark for mark in marks if mark.key == key]
        return sorted(here, key=lambda mark: mark.hunk.span.start)

    # -- taking back -----------------------------------------------------------------------------------------

    def plan(self, edit: EditLanded) -> TakeBack:
        """How an edit is taken back, by what is there now; reads files.

        Raises:
            ToolError: it cannot be, and why.
        """
        if edit.hunk not in self._edits:
            raise ToolError("it was taken back already", code="CANNOT_UNDO")
        path = spelled_path_of(edit.uri)
        if path is None:
            return self._plan_untitled(edit)
        return self._plan_edit(edit, path) if edit.kind == "edit" else self._plan_whole(edit, path)

    def _uri(self, edit: EditLanded) -> str:
        """The client's own spelling, as long as the file has not been renamed since."""
        moved = self._moved.get(edit.hunk)
        return uri_of(moved) if moved is not None else edit.new_uri or edit.uri

    def _plan_untitled(self, edit: EditLanded) -> TakeBack:
        document = self._documents.get(edit.uri)
        if document is None:
            raise ToolError("its document, which had no file, was closed", code="CANNOT_UNDO")
        base = Snapshot(uri=edit.uri, path=edit.uri, rope=document.rope)
        change = FileEdit(path=edit.uri, base=base, new=document.rope)
        prepared = Prepared(change=change, path=Path(document.key))
        span = self._place(edit, document.rope)
        return TakeBack(edit=edit, uri=edit.uri, prepared=prepared, text=document.rope, span=span)

    def _plan_edit(self, edit: EditLanded, spelled: Path) -> TakeBack:
        path = self._path(edit)
        is_known = edit.hunk in self._paths or edit.hunk in self._moved
        known = is_known or path == spelled  # else what led to the file may lead elsewhere now
        name = shown(self._root, path)
        rope = self._text(path, name)
        uri = self._uri(edit)
        change = FileEdit(path=name, base=Snapshot(uri=uri, path=name, rope=rope), new=rope)
        prepared = self._prepared(change, path, allowed=known)
        return TakeBack(edit=edit, uri=uri, prepared=prepared, text=rope, span=self._place(edit, rope))

    def _plan_whole(self, edit: EditLanded, spelled: Path) -> TakeBack:
        name = shown(self._root, spelled)
        left = Path(identity(edit.new_uri or edit.uri))
        made = (edit.made or 0) if self._moved.get(edit.hunk, left) == left else 0  # it may have been moved back
        match edit.kind:
            case "rename":
                path = self._moved.get(edit.hunk) or spelled_path_of(edit.new_uri or "")
                if path is None or not os.path.isfile(path):  # noqa: PTH113 - that of a path raises where nobody may look
                    raise ToolError("the renamed file is not there any more", code="CANNOT_UNDO")
                if not self._is_what_was_renamed(edit, path):
                    raise ToolError("another file has that name now, or nothing is left of it", code="CANNOT_UNDO")
                change = FileRename(path=shown(self._root, path), new_path=name)
                return self._whole(edit, self._prepared(change, path, spelled, made=made))
            case "delete":
                copy = edit.copy or ""
                back = FileRestore(path=name, data=self._copies.read(copy), mode=self._copies.mode_of(copy))
                return self._whole(edit, self._prepared(back, spelled))
            case _:
                path = self._moved.get(edit.hunk) or spelled
                name = shown(self._root, path)
                text, made_of = str(self._text(path, name)), edit.after.encode()
                if not same_lines(text, shown_text(made_of)):
                    raise ToolError("the new file was changed since", code="CANNOT_UNDO")
                change_back = FileDelete(path=name, data=made_of, text=text)
                return self._whole(edit, self._prepared(change_back, path, made=made))

    def _is_what_was_renamed(self, edit: EditLanded, path: Path) -> bool:
        """Whether a file is the one that a rename has left there; one too large to be kept is known by its name."""
        return edit.copy is None or is_like(self._copies.read(edit.copy), read_bytes(path, shown(self._root, path)))

    def _whole(self, edit: EditLanded, prepared: Prepared) -> TakeBack:
        return TakeBack(edit=edit, uri=self._uri(edit), prepared=prepared, text=Rope.of(""), span=Span(0, 0))

    def _prepared(
        self, change: FileChange, path: Path, new_path: Path | None = None, *, allowed: bool = True, made: int = 0
    ) -> Prepared:
        """A change that takes an edit back; what was allowed to be done to a file is `allowed` to be taken back.

        Raises:
            ToolError: `MOVED`, `RIGHTS`.
        """
        names = [shown(self._root, one) for one in (path, new_path) if one is not None]
        approved = frozenset(map(rights_key, names)) if allowed else NOTHING
        may_write = partial(check_writable, self._root, approved=approved, guarded=self._guarded)
        prepared = Prepared(change=change, path=path, new_path=new_path, may_write=may_write, made=made)
        prepared.check()
        return prepared

    def _text(self, path: Path, name: str) -> Rope:
        document = self._documents.at(path)
        return document.rope if document is not None else Rope.of(read_file(path, name).text)

    def _place(self, edit: EditLanded, rope: Rope) -> Span:
        mark = self._marks.get(edit.hunk)
        if mark is not None and mark.rope is rope and rope[mark.hunk.span.start : mark.hunk.span.end] == edit.after:
            return mark.hunk.span
        above, below = edit.above or "", edit.below or ""
        found = find_again(rope, edit.after, above, below)
        if isinstance(found, str):
            raise ToolError(found, code="CANNOT_UNDO")
        places = islice(rope.occurrences(edit.after or above + below), 2)
        if edit.hunk in self._lost and len(list(places)) > 1:
            # What reads like them between equal lines may be others: the user may have undone the edit already.
            raise ToolError("its lines were changed, and cannot be told from others", code="CANNOT_UNDO")
        return found

    # -- following -------------------------------------------------------------------------------------------

    def _note(self, event: LogEvent) -> None:
        match event.data:
            case TurnStart(turn=turn):
                self._turn = turn
                for of_last_turn in (self._fresh, self._kept, self._unasked):
                    of_last_turn.clear()
                self._marks = dict(list(self._marks.items())[-MAX_MARKS:])
            case ReviewOpened(proposal=proposal, files=files):
                undoes = {hunk.id: hunk.undoes for file in files for hunk in file.hunks if hunk.undoes is not None}
                self._undoes |= undoes
                self._turns[proposal] = None if undoes else self._turn
            case EditLanded() as edit if edit.hunk in self._undoes:
                self._forget(self._undoes[edit.hunk])
                self._follow(edit)
            case EditLanded() as edit:
                self._follow(edit)
                self._edits[edit.hunk] = edit
                self._fresh[edit.hunk] = edit
            case _:
                pass

    def _follow(self, rename: EditLanded) -> None:
        """What landed in a file that has another name now stands there."""
        new = spelled_path_of(rename.new_uri) if rename.new_uri is not None else None
        if new is None:
            return
        old = Path(identity(rename.uri))
        seen: dict[str, Path] = {}  # by URI, for a log may have many edits of few files
        for edit in self._edits.values():
            uri = edit.new_uri or edit.uri
            where = self._moved.get(edit.hunk) or seen.get(uri)
            if where is None:
                where = seen[uri] = self._path(edit)
            if edit.kind != "delete" and where == old:
                self._moved[edit.hunk] = new

    def _on_event(self, event: LogEvent) -> None:
        self._note(event)
        if not isinstance(event.data, EditLanded):
            return
        if event.data.hunk in self._edits:
            document = self._documents.get(event.data.uri)
            if (path := Path(document.key) if document else spelled_path_of(event.data.uri)) is not None:
                self._paths[event.data.hunk] = path
            self._mark(event.data)
        if event.data.new_uri is not None and (document := self._documents.get(event.data.new_uri)) is not None:
            self._on_open(document)

    def _forget(self, hunk: str) -> None:
        self._moved.pop(hunk, None)
        self._edits.pop(hunk, None)
        self._fresh.pop(hunk, None)
        self._marks.pop(hunk, None)
        self._paths.pop(hunk, None)
        self._lost.discard(hunk)

    def _mark(self, edit: EditLanded) -> None:
        document = self._documents.get(edit.uri)
        if document is None or edit.kind not in ("edit", "create"):
            return
        span = Span(*(document.offset_at(Position(line=p.line, character=p.character)) for p in edges(edit)))
        if document.rope[span.start : span.end] == edit.after:
            self._mark_at(edit, document, span)
        else:
            self._lost.add(edit.hunk)

    def _mark_at(self, edit: EditLanded, document: Document, span: Span) -> None:
        hunk = Hunk(id=edit.hunk, span=span, old=edit.after, new=edit.before)
        self._marks[edit.hunk] = Mark(edit, document.key, hunk, document.rope)
        if document.key not in self._watched:
            self._watched[document.key] = self._documents.watch(document.key)

    def _on_open(self, document: Document) -> None:
        """Find what landed in a file again, now that its text is seen; what has no certain place is not offered."""
        for edit in self._offered():
            if edit.kind in ("edit", "create") and self._path(edit) == Path(document.key):
                with suppress(ToolError):
                    self._mark_at(edit, document, self._place(edit, document.rope))

    def _on_change(self, event: DocumentChanged) -> None:
        key = event.document.key
        if key not in self._watched:
            return
        for mark in [mark for mark in self._marks.values() if mark.key == key]:
            if mark.rope is event.after:
                continue  # it was seen in this very change
            hunk = _followed(mark, event.passage)
            if hunk is None or mark.rope is not event.before or _is_given_back(mark, event.before, event.after, hunk):
                del self._marks[mark.edit.hunk]
                self._lost.add(mark.edit.hunk)
            else:
                mark.hunk, mark.rope = hunk, event.after

    def _on_close(self, document: Document) -> None:
        if (dispose := self._watched.pop(document.key, None)) is not None:
            dispose()
            self._marks = {hunk: mark for hunk, mark in self._marks.items() if mark.key != document.key}


def _followed(mark: Mark, passage: Passage) -> Hunk | None:
    """Where a landed hunk stands after a passage; lines that come in where its own were taken out go on one side."""
    if mark.hunk.old:
        return passage.follow(mark.hunk)
    hunk: Hunk | None = mark.hunk
    sides = mark.edit.above or "", mark.edit.below or ""
    for step in passage.steps:
        if hunk is None:
            break
        before, hunk = hunk, step.follow(hunk)
        if hunk is not None and step.changes and step.changes[0].span == before.span:  # lines came in just there
            at, behind = (sides_kept(step.after, place.span, *sides) for place in (before, hunk))
            hunk = before if at > behind else hunk
    return hunk


def _is_given_back(mark: Mark, before: Rope, after: Rope, now: Hunk) -> bool:
    """Whether lines that an edit had taken out came in again where they had stood, as the editor's undo does it."""
    lines = mark.hunk.new
    if mark.hunk.old or not lines:
        return False
    return copies_at(now.span.start, lines, after) > copies_at(mark.hunk.span.start, lines, before)


def edges(edit: EditLanded) -> tuple[Position, Position]:
    """Where an edit began and ended."""
    return edit.range.start, edit.range.end
