"""Edits: what a tool proposes, cut into hunks of whole lines.

Rules: hunks never overlap; they have the line ends of the text that they go into, and join no line to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsh_lsp.decisions import FileKind, Outcome
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import (
    Change,
    Span,
    count_line_ends,
    difference,
    line_end_of,
    most_used,
    same_lines,
    with_line_ending,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A document as it was read: `version` is the editor's, None for a file that is not open.

    `dirty` says that the editor's text is not the file's, `unconfirmed` that an accepted edit was sent to the editor
    and has not been seen in the text. `outdated` says that the file was written after the editor's text last
    changed, and holds another one. `uri` is spelled as the editor spells it.
    """

    uri: str
    path: str
    rope: Rope
    version: int | None = None
    dirty: bool = False
    unconfirmed: bool = False
    outdated: bool = False

    @property
    def text(self) -> str:
        """The whole text."""
        return str(self.rope)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """One file's part of a proposal: the text that it was based on (None: the file is new) and the new text.

    A new text that was made from the base's own rope is compared with it in a time that depends on the changes.
    """

    path: str
    base: Snapshot | None
    new: Rope

    @property
    def kind(self) -> FileKind:
        """Whether the file exists already."""
        return "create" if self.base is None else "edit"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRestore:
    """A deleted file comes back with its bytes and its mode."""

    path: str
    data: bytes
    mode: int | None = None
    kind: FileKind = "create"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRename:
    """A file gets another name, which must be free."""

    path: str
    new_path: str
    kind: FileKind = "rename"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDelete:
    """A file goes; `data` is what it held when that was proposed, `text` how a person reads it."""

    path: str
    data: bytes = b""
    text: str = ""
    mode: int | None = None
    kind: FileKind = "delete"


FileChange = FileEdit | FileRestore | FileRename | FileDelete


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One change that a person decides on; `span` is where `old` stands in the text as it is now."""

    id: str
    span: Span
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HunkOutcome:
    """What became of a hunk.

    `new_path` is where a renamed file would be or is. `edited` says that a person put other text in the place of what
    was proposed: `hunk.new` is theirs.
    `lines` is where it stands (from 1, inclusive), if it landed; `current` the document's text, if it conflicts;
    `comment` the user's words; `note` what else the model should know: saved or not, and why.
    """

    hunk: Hunk
    path: str
    outcome: Outcome
    kind: FileKind = "edit"
    new_path: str | None = None
    edited: bool = False
    lines: tuple[int, int] | None = None
    current: str | None = None
    comment: str | None = None
    note: str | None = None


def plan_hunks(change: FileChange, new_id: Callable[[], str]) -> list[Hunk]:
    """Cut a change into hunks; what is done to a whole file is one."""
    match change:
        case FileEdit(base=Snapshot(rope=before), new=after):
            return [
                Hunk(id=new_id(), span=step.span, old=before[step.span.start : step.span.end], new=step.text)
                for step in before.line_changes(after)
            ]
        case FileEdit(new=after):
            return [Hunk(id=new_id(), span=Span(0, 0), old="", new=str(after))]
        case FileDelete(text=text):
            return [Hunk(id=new_id(), span=Span(0, len(text)), old=text, new="")]
        case _:
            return [Hunk(id=new_id(), span=Span(0, 0), old="", new="")]


def text_before(change: FileChange) -> Rope:
    """The text that a change's hunks count in."""
    match change:
        case FileEdit(base=Snapshot(rope=rope)):
            return rope
        case FileDelete(text=text):
            return Rope.of(text)
        case _:
            return Rope.of("")


def outcome_of(change: FileChange, hunk: Hunk, outcome: Outcome, **more: Any) -> HunkOutcome:
    """What a hunk of a change would become."""
    target = change.new_path if isinstance(change, FileRename) else None
    return HunkOutcome(hunk=hunk, path=change.path, kind=change.kind, new_path=target, outcome=outcome, **more)


def standing(hunk: Hunk, text: Rope, span: Span) -> Hunk:
    """The hunk over lines of a text that are its own but for their line ends: it takes these over."""
    old = text[span.start : span.end]
    there, ends = text.line_ends, count_line_ends(old)
    fits = old == hunk.old and (old or not there.total() or there[most_used(count_line_ends(hunk.new))])
    if fits:
        return replace(hunk, span=span)
    end = most_used(ends) if ends.total() else most_used(there)
    return replace(hunk, span=span, old=old, new=with_line_ending(hunk.new, end))


def ended(hunk: Hunk, text: Rope) -> Hunk:
    """The hunk in its text, in lines of its own: what follows joins it not, nor does it join what is before."""
    end, size = line_end_of(hunk.old) if hunk.old else text.line_ending, len(text)
    if end and hunk.new and not line_end_of(hunk.new) and hunk.span.end < size:
        return replace(hunk, new=hunk.new + end)
    if hunk.new and 0 < size == hunk.span.start and not line_end_of(text[max(0, size - 2) : size]):
        return replace(hunk, new=text.line_ending + hunk.new)
    return hunk


def with_text(hunk: Hunk, text: str, ending: str = "\n") -> Hunk:
    """The hunk with other text, of whole lines and line ends as its own are; `ending` is used where it has none."""
    own = hunk.new or hunk.old
    ends = count_line_ends(hunk.old) + count_line_ends(hunk.new)
    if text and not line_end_of(text) and line_end_of(own):
        text += line_end_of(own)
    if same_lines(text, hunk.new):
        return hunk  # nobody types a line end of another kind
    if same_lines(text, hunk.old):
        return replace(hunk, new=hunk.old)
    return replace(hunk, new=with_line_ending(text, most_used(ends) if ends.total() else ending))


def applied(text: Rope, hunks: Sequence[Hunk]) -> Rope:
    """The text with the hunks in it; they are in order and do not overlap."""
    for hunk in reversed(hunks):
        text = text.changed(Change(hunk.span, hunk.new))
    return text


def minimal(hunk: Hunk) -> Change:
    """The smallest change inside the hunk, so that an editor touches no more than it must."""
    change = difference(hunk.old, hunk.new)
    old = hunk.old
    if "\r\n" in (old[change.span.start - 1 : change.span.start + 1], old[change.span.end - 1 : change.span.end + 1]):
        return Change(hunk.span, hunk.new)  # never between the two halves of a line end
    return Change(change.span.shifted(hunk.span.start), change.text)
