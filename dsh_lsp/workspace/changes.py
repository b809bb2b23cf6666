"""Changes: checks a proposed change before anybody reviews it, and carries out what is done to whole files.

Rules: never over an existing file; a link is never moved or deleted, for what it names is another file; what is
deleted is what was proposed to be, to the byte, and a copy of it is kept first; what was checked before a review is
checked again before it is done, since the workspace lives on meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dsh_lsp.decisions import GrantKey
from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.disk import (
    check_not_read_only,
    create_file,
    decode_bytes,
    is_respelled,
    move_file,
    read_bytes,
    remove_file,
)
from dsh_lsp.workspace.edits import FileChange, FileDelete, FileEdit, FileRename, FileRestore, text_before
from dsh_lsp.workspace.paths import Guarded, check_writable, from_home, resolve

MARK = "\ufeff"  # which is no part of a text when it stands at the start of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A change that may be proposed, and the real paths that it is about.

    `may_write` says of each whether it may be written still; a document without a file has none. `made` is how many
    folders above the path were made for it, to go with it if nothing else is in them. `may_keep` says whether a copy
    may be kept of what a file holds.
    """

    change: FileChange
    path: Path
    new_path: Path | None = None
    made: int = 0
    may_write: Callable[[Path], None] | None = None
    may_keep: Callable[[bytes], None] | None = None

    @property
    def lands_at(self) -> Path:
        """Where the file is afterwards."""
        return self.new_path or self.path

    def check(self) -> None:
        """Refuse what would now be done elsewhere, or to what became something else. Blocks.

        Raises:
            ToolError: `MOVED`, `RIGHTS`.
        """
        if self.may_write is None:
            return
        for path in filter(None, (self.path, self.new_path)):
            if Path(os.path.realpath(path)) != path:
                message = f"{path.name} leads elsewhere by now: a link took its place or a folder's"
                raise ToolError(message, code="MOVED")
            self.may_write(path)


def prepare(
    root: Path,
    change: FileChange,
    approved: frozenset[GrantKey],
    *,
    is_open: Callable[[Path], bool],
    guarded: Guarded | None = None,
) -> Prepared:
    """Check a change; `is_open` tells whether an editor holds a document, on disk or not.

    Raises:
        ToolError: `OUTSIDE`, `RIGHTS`, `EXISTS`, `NOT_FOUND`, `NOT_A_FILE`, `NOT_TEXT`, `NO_CHANGE`, `TOO_LARGE`,
            `NOT_READABLE`, `NOT_WRITABLE`.
    """
    real = resolve(root, change.path, approved, guarded, kind="edit")
    check_writable(root, real, approved, guarded, called=change.path)
    keys = guarded or Guarded()  # none of which may come into a review, a log, a copy, or a file that is not for it
    if isinstance(change, FileEdit):
        _check_text(change)
        keys.check_content(text_before(change), change.path)
    may_write = partial(check_writable, root, approved=approved, guarded=guarded)
    match change:
        case FileEdit(base=None) | FileRestore():
            _check_free(root, real, change.path, is_open)
        case FileRename(new_path=new_path):
            _check_plain(root, change.path, real)
            keys.check_content(_data_of(real, change.path) or b"", change.path)
            target = resolve(root, new_path, approved, guarded, kind="edit")
            check_writable(root, target, approved, guarded, called=new_path)
            if target == real:
                raise ToolError(f"{change.path} has that name already", code="NO_CHANGE")
            if not is_respelled(real, target):
                _check_free(root, target, new_path, is_open)
            may_keep = partial(keys.check_content, name=change.path)
            return Prepared(change=change, path=real, new_path=target, may_write=may_write, may_keep=may_keep)
        case FileDelete():
            _check_plain(root, change.path, real)
            data = read_bytes(real, change.path)
            keys.check_content(data, change.path)
            gone = replace(change, data=data, text=shown_text(data), mode=real.stat().st_mode)
            return Prepared(change=gone, path=real, may_write=may_write)
        case FileEdit() if not is_open(real):  # else its editor says what it thinks of it
            check_not_read_only(real, change.path)
        case _:
            pass
    return Prepared(change=change, path=real, may_write=may_write)


def _check_text(change: FileEdit) -> None:
    """Refuse to put in what would make a file unreadable as the text that was reviewed."""
    before = text_before(change)
    if change.new.has("\0") and not before.has("\0"):
        message = f"the new text of {change.path} holds a NUL character, which makes a file a binary one"
        raise ToolError(message, code="NOT_TEXT")
    if change.base is not None and change.new[0] == MARK != before[0]:
        message = f"the new text of {change.path} begins with a byte-order mark; that of a file is kept as it is"
        raise ToolError(message, code="NOT_TEXT")


def _data_of(real: Path, name: str) -> bytes | None:
    """What a file holds, if it is one and not too large."""
    try:
        return read_bytes(real, name)
    except ToolError as error:
        if error.code == "NOT_READABLE":
            raise
        return None


def _check_free(root: Path, real: Path, name: str, is_open: Callable[[Path], bool]) -> None:
    if os.path.lexists(real) or _is_link(root, name) or is_open(real):
        raise ToolError(f"{name} exists already", code="EXISTS")
    folder = next(parent for parent in real.parents if os.path.lexists(parent))
    if not folder.is_dir():
        raise ToolError(f"{name} cannot be made: {folder.name} is a file, not a folder", code="NOT_A_FILE")


def _check_plain(root: Path, name: str, real: Path) -> None:
    """Refuse what is no file of its own."""
    try:
        is_file = stat.S_ISREG(real.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise ToolError(f"{name} does not exist", code="NOT_FOUND") from None
    except OSError as error:
        raise ToolError(f"{name} cannot be read: {error.strerror}", code="NOT_READABLE") from None
    if _is_link(root, name):
        raise ToolError(f"{name} is a symbolic link; the agent moves and deletes files alone", code="NOT_A_FILE")
    if not is_file:
        raise ToolError(f"{name} is not a file", code="NOT_A_FILE")


def _is_link(root: Path, name: str) -> bool:
    """Whether a path as it was given is a link, at its end."""
    given = Path(os.path.realpath(root)) / from_home(name)
    return os.path.islink(given)  # noqa: PTH114 - that of a path raises where nobody may look


def shown_text(data: bytes) -> str:
    """A file as a person decides on it; empty if it is not text."""
    try:
        return decode_bytes(data, "").text
    except ToolError:
        return ""


def carry_out(prepared: Prepared) -> None:
    """Move, delete or restore a file.

    Raises:
        ToolError: `MOVED`, `RIGHTS`, `CHANGED` or what the disk says; nothing was done.
    """
    prepared.check()
    match prepared:
        case Prepared(change=FileRename(new_path=name), path=path, new_path=Path() as target):
            move_file(path, target, name)
        case Prepared(change=FileDelete(path=name), path=path):
            check_as_proposed(prepared)
            remove_file(path, name)
        case Prepared(change=FileRestore(data=data, path=name, mode=mode), path=path):
            create_file(path, data, name, mode)
        case _:
            raise AssertionError(f"hunks decide on {prepared.change}")


def check_as_proposed(prepared: Prepared) -> None:
    """Refuse to delete what holds something else by now, and to give a file a name that is not free any more.

    Raises:
        ToolError: `CHANGED`, `EXISTS`.
    """
    match prepared:
        case Prepared(change=FileDelete(data=data, path=name), path=path):
            if read_bytes(path, name) != data:
                raise ToolError(f"{name} was changed meanwhile", code="CHANGED")
        case Prepared(change=FileRename(new_path=name), path=path, new_path=Path() as target):
            if os.path.lexists(target) and not is_respelled(path, target):
                raise ToolError(f"{name} exists already", code="EXISTS")
        case _:
            pass


def is_done(prepared: Prepared) -> bool:
    """Whether the disk shows it."""
    match prepared.change:
        case FileRename():
            return _is_gone(prepared.path) and os.path.isfile(prepared.lands_at)  # noqa: PTH113 - as above
        case FileDelete():
            return _is_gone(prepared.path)
        case _:
            return os.path.exists(prepared.path)  # noqa: PTH110 - as above


def _is_gone(path: Path) -> bool:
    """Whether a file is not there, and not only out of sight."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def copy_of(prepared: Prepared, hunk: str, copies: Copies) -> str | None:
    """Keep what a change takes away, and what is known again by it under another name; the copy's name.

    Raises:
        ToolError: `NOT_WRITABLE`, `RIGHTS`.
    """
    match prepared.change:
        case FileDelete(data=data, mode=mode):
            return copies.keep(hunk, data, mode)
        case FileRename(path=name):  # as it is now: edits of the same review have landed in it
            if (held := _data_of(prepared.path, name)) is None:
                return None
            if prepared.may_keep is not None:
                prepared.may_keep(held)
            return copies.keep(hunk, held)
        case _:
            return None
