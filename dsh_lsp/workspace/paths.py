"""Paths: what lies inside the workspace, and what a tool may touch only with the user's permission, or never.

Rules: a path is judged by where it really leads, symbolic links followed, and by what it is called on the way where
that gives rights. The workspace is the root, from which paths count, and the other folders of the user's window,
whose paths are absolute.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from dsh_lsp.decisions import Effect, GrantKey
from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.rights import (
    belongs_to_version_control,
    gives_rights,
    has_other_names,
    is_also_in,
    is_led_to,
)
from dsh_lsp.workspace.rope import Rope

MAX_LINKS: Final = 40  # in one path, as the system has it

Touch = Literal["read", "edit"]

NOTHING: frozenset[GrantKey] = frozenset()


def locate(root: Path, path: str) -> Path:
    """Where what a model calls `path` really is, inside the workspace or not.

    Raises:
        ToolError: `INVALID_PATH`.
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ToolError("a path cannot hold half of a character", code="INVALID_PATH") from error
    if "\0" in path:
        raise ToolError("a path cannot hold a NUL character", code="INVALID_PATH")
    real = Path(os.path.realpath(Path(os.path.realpath(root)) / from_home(path)))
    try:
        real.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # which repeats all of it
            raise ToolError("a path or a name in it is longer than the system allows", code="INVALID_PATH") from None
    return real


def from_home(path: str) -> Path:
    """A path as it was given, `~` for the user's home; `~name` is a file as any other."""
    return Path(path).expanduser() if path == "~" or path.startswith("~/") else Path(path)


def is_inside(root: Path, real: Path) -> bool:
    """Whether a located path lies in a folder."""
    real_root = Path(os.path.realpath(root))
    return real == real_root or real_root in real.parents


def in_workspace(root: Path, real: Path, guarded: Guarded | None) -> bool:
    """Whether a located path lies in the root or in another folder of the window."""
    return is_inside(root, real) or (guarded is not None and any(is_inside(one, real) for one in guarded.folders()))


def may_touch(
    root: Path, real: Path, kind: Touch, approved: frozenset[GrantKey] = NOTHING, guarded: Guarded | None = None
) -> bool:
    """Whether a located path lies in the workspace, or the user has allowed this very one; to edit is to read too."""
    kinds: tuple[Touch, ...] = ("read", "edit") if kind == "read" else ("edit",)
    name = shown(root, real)
    return in_workspace(root, real, guarded) or not approved.isdisjoint(_outside_key(one, name) for one in kinds)


def resolve(
    root: Path,
    path: str,
    approved: frozenset[GrantKey] = NOTHING,
    guarded: Guarded | None = None,
    *,
    kind: Touch = "read",
) -> Path:
    """Locate a path that a tool may touch.

    Raises:
        ToolError: `OUTSIDE`, it does not lie in the workspace and the user has not allowed it.
    """
    real = locate(root, path)
    if not may_touch(root, real, kind, approved, guarded):
        raise ToolError(f"{path} lies outside the workspace {os.path.realpath(root)}", code="OUTSIDE")
    return real


def shown(root: Path, real: Path) -> str:
    """A located path as the model and people read it: relative to the root where it lies inside, with `/`."""
    return real.relative_to(os.path.realpath(root)).as_posix() if is_inside(root, real) else real.as_posix()


def legible(name: str) -> str:
    """A name as a part of a row that a model reads: what would end the row, or hide or reorder it, is spelled out."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in name)


@dataclass(slots=True, kw_only=True)
class Guarded:
    """What counts beside a root: `never` are written by no tool, `rights` only with a permission.

    `folders` are those of the user's window, as they are now; they belong to the workspace, as the root does. A file
    that holds one of `keys` is written by no tool either.
    """

    folders: Callable[[], Iterable[Path]] = field(default=tuple)
    keys: Callable[[], Iterable[str]] = field(default=tuple)
    never: list[Path] = field(default_factory=list)
    rights: Callable[[], Iterable[Path]] = field(default=tuple)

    def holds(self, real: Path) -> bool:
        """Whether a path is one that no tool writes, or lies in one."""
        return any(lies_below(real, place) for place in self.never)

    def check_content(self, data: Rope | bytes, name: str) -> None:
        """Refuse a file by what it holds: it would be copied into reviews, logs and beside them.

        Raises:
            ToolError: `RIGHTS`.
        """
        for key in self.keys():
            if (key.encode() in data) if isinstance(data, bytes) else data.has(key):
                raise ToolError(f"{name} holds an API key that is in use; the agent never writes it", code="RIGHTS")

    def gives_rights(self, real: Path) -> bool:
        """Whether writing a path gives rights."""
        return any(lies_below(real, place) for place in self.rights())


def lies_below(real: Path, place: Path) -> bool:
    """Whether a located path is a place or lies in it, links followed."""
    there = Path(os.path.realpath(place))
    return real == there or there in real.parents


def check_writable(
    root: Path,
    real: Path,
    approved: frozenset[GrantKey] = NOTHING,
    guarded: Guarded | None = None,
    *,
    called: str | None = None,
) -> None:
    """Refuse files that no tool writes, and those that need a permission that was not given.

    `called` is the path as it was given, if it was. Blocks.

    Raises:
        ToolError: `RIGHTS`.
    """
    guarded = guarded or Guarded()
    name = shown(root, real)
    linked = has_other_names(real)
    if belongs_to_version_control(real) or (linked and is_also_in(real, _git_folders(root, guarded))):
        raise ToolError(f"{name} belongs to version control; the agent never writes it", code="RIGHTS")
    if guarded.holds(real) or (linked and is_also_in(real, guarded.never)):
        raise ToolError(f"{name} holds sessions or keys; the agent never writes it", code="RIGHTS")
    if rights_key(name) in approved or not (why := _why_rights(root, real, guarded, called)):
        return
    raise ToolError(f"{name} {why}; the user has not allowed writing it", code="RIGHTS")


def _git_folders(root: Path, guarded: Guarded) -> list[Path]:
    return [folder / ".git" for folder in (root, *guarded.folders())]


def _why_rights(root: Path, real: Path, guarded: Guarded | None, called: str | None) -> str:
    """Why writing a path needs a permission of its own; empty if it does not. Blocks."""
    if gives_rights(real) or (guarded is not None and guarded.gives_rights(real)):
        return _DECIDES
    tops = {Path(os.path.realpath(top)) for top in (root, *(guarded.folders() if guarded is not None else ()))}
    above = list(real.parents)
    inside = max((number for number, folder in enumerate(above, 1) if folder in tops), default=0)
    if is_led_to(real, above[:inside]) or (called is not None and any(map(gives_rights, _names_of(root, called)))):
        return f"{_DECIDES}, under another name (a link)"
    return "has other names (hard links), and may be any file under another one" if has_other_names(real) else ""


_DECIDES: Final = "decides what other programs may run"


def _names_of(root: Path, path: str) -> Iterator[Path]:
    """What a path is called before each link on its way. Blocks."""
    at, ahead, links = Path("/"), deque((Path(os.path.realpath(root)) / from_home(path)).parts), 0
    while ahead and links < MAX_LINKS:
        part = ahead.popleft()
        place = at.parent if part == ".." else at / part
        if part == ".." or not os.path.islink(place):  # noqa: PTH114 - that of a path raises where nobody may look
            at = place
            continue
        yield place.joinpath(*ahead)
        links += 1
        with suppress(OSError):  # it was taken away meanwhile
            ahead.extendleft(reversed(place.readlink().parts))


def _outside_key(kind: Touch, name: str) -> GrantKey:
    return f"outside:{kind}:{name}"


def rights_key(name: str) -> GrantKey:
    """What a permission to write a file that gives rights covers; `name` as the file is shown."""
    return f"rights:{name}"


def effects_of(root: Path, path: str, kind: Touch, guarded: Guarded | None = None) -> list[Effect]:
    """What touching a path means, for whoever judges it.

    Raises:
        ToolError: `INVALID_PATH`; nobody could allow it, and whoever would judge it refuses the call so.
    """
    real = locate(root, path)
    name = shown(root, real)
    effects = [Effect(kind=kind, detail=name, grant_key=f"{kind}:{name}")]
    if not in_workspace(root, real, guarded):
        effects.append(Effect(kind="outside", detail=f"{kind} {name}", grant_key=_outside_key(kind, name)))
    if kind == "edit" and (why := _why_rights(root, real, guarded, path)):
        detail = name if gives_rights(real) else f"{name}, which {why}"
        effects.append(Effect(kind="rights", detail=detail, grant_key=rights_key(name)))
    return effects
