"""Walk: what of a folder is listed and searched, and what is left out: one answer for whoever asks.

Rules: git says what is ignored where there is a repository, exactly, so a file that it tracks is there whatever the
patterns say; repositories inside have their own say; elsewhere the ignore files decide, from the root on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Final

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.git import git
from dsh_lsp.workspace.ignore import ignores, walk
from dsh_lsp.workspace.paths import is_inside, shown
from dsh_lsp.workspace.port import Entry, Listing
from dsh_lsp.workspace.threads import Stop, never

MAX_REPOSITORIES: Final = 500  # in one folder, that git is asked about

_GITLINK: Final = "160000 "  # the mode of a repository inside another in `git ls-files -s`


def list_folder(root: Path, folder: Path, *, limit: int, stop: Stop = never) -> Listing:
    """List the files below a folder, until `stop` says that nobody waits. Blocks.

    Raises:
        ToolError: `NOT_FOUND`, `NOT_READABLE`.
    """
    check_folder(folder, os.path.relpath(folder, os.path.realpath(root)))
    names = sorted(islice(files(root, folder, stop=stop), limit + 1))
    entries = tuple(Entry(path=shown(root, folder / name)) for name in names[:limit])
    return Listing(entries=entries, truncated=len(names) > limit)


def check_folder(folder: Path, name: str) -> None:
    """Refuse what is no folder; `name` is what errors call it. Blocks.

    Raises:
        ToolError: `NOT_FOUND`, `NOT_READABLE`.
    """
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_folder = False
    except OSError as error:
        raise ToolError(f"{name} cannot be read: {error.strerror}", code="NOT_READABLE") from error
    if not is_folder:
        raise ToolError(f"{name} is not a folder of the workspace", code="NOT_FOUND")


def files(root: Path, folder: Path, *, stop: Stop = never) -> Iterator[str]:
    """The files below a folder that are not left out, by their paths from there, with `/`. Blocks."""
    return (path for path, kept in _found(root, folder, stop, _listed_by_git) if kept)


def left_out(root: Path, folder: Path, *, stop: Stop = never) -> Iterator[str]:
    """What lies below a folder and is not listed, folders with `/` at their ends; `./` is all of it. Blocks."""
    return (path for path, kept in _found(root, folder, stop, _left_out_by_git) if not kept)


def ignored(root: Path, folder: Path, paths: Sequence[str], *, stop: Stop = never) -> frozenset[str]:
    """Those of some paths below a folder, there or not, that the project ignores. Blocks."""
    if not paths:
        return frozenset()
    said = git(folder, "check-ignore", "-z", "--stdin", given="\0".join(paths), stop=stop)
    if said is not None and said[0] in (0, 1):
        own = (path for path in paths if ".git" in path.split("/"))  # git does not speak of itself
        return frozenset([*own, *_names(said[1])])
    base, prefix = _from_root(root, folder)
    return frozenset(path for path in paths if ignores(base, prefix + path))


Found = Iterable[tuple[str, bool]]  # paths, and whether they are listed; a listed folder is a repository of its own


def _found(
    root: Path, folder: Path, stop: Stop, ask: Callable[[Path, Stop], Found | None]
) -> Iterator[tuple[str, bool]]:
    """What lies below a folder, repositories inside it one after the other."""
    waiting, asked = [""], 0
    while waiting and not stop():
        place = waiting.pop()
        found = ask(folder / place, stop) if asked < MAX_REPOSITORIES else None
        asked += 1
        for path, kept in _walked(root, folder / place, stop) if found is None else found:
            if kept and path.endswith("/"):
                waiting.append(place + path)
            else:
                yield place + path if path != "./" else place or path, kept


def _listed_by_git(folder: Path, stop: Stop) -> Found | None:
    """What git tracks or would track below a folder; None where there is no repository or no git."""
    names = _ask(folder, "-co", stop=stop)
    if names is None:
        return None
    return [(path, True) for name in sorted(set(names)) if (path := _as_listed(folder, name)) is not None]


def _left_out_by_git(folder: Path, stop: Stop) -> Found | None:
    """What git ignores below a folder, and the repositories there; None as above."""
    questions = (("-o",), ("-s",), ("-oi", "--directory"))
    with ThreadPoolExecutor(len(questions)) as pool:  # each takes as long as the folder is large
        new, tracked, left = pool.map(lambda options: _ask(folder, *options, stop=stop), questions)
    if new is None or tracked is None:
        return None
    inner = [name for name in new if name.endswith("/")]
    inner += [entry.partition("\t")[2] for entry in tracked if entry.startswith(_GITLINK)]
    repositories = {path for name in inner if (path := _as_listed(folder, name)) is not None}
    if left is None:  # as it is inside an ignored folder
        left = ["./"]
    return [*((path, True) for path in repositories), *((name, False) for name in left)]


def _ask(folder: Path, *options: str, stop: Stop) -> list[str] | None:
    """Paths as git lists them; None where it has nothing to say."""
    said = git(folder, "ls-files", "-z", "--exclude-standard", *options, stop=stop)
    return _names(said[1]) if said is not None and said[0] == 0 else None


def _as_listed(folder: Path, name: str) -> str | None:
    """A name as git has it, with `/` for a repository of its own; None where nothing is there."""
    place = f"{folder}/{name}"
    try:
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            return name
    except (OSError, ValueError):
        return None
    return f"{name.rstrip('/')}/" if os.path.lexists(f"{place}/.git") else None


def _walked(root: Path, folder: Path, stop: Stop) -> Iterator[tuple[str, bool]]:
    """What lies below a folder by the ignore files alone."""
    base, prefix = _from_root(root, folder)
    for path, kept in walk(base, prefix, stop=stop):
        yield ("./" if prefix.startswith(path) else path.removeprefix(prefix)), kept


def _from_root(root: Path, folder: Path) -> tuple[Path, str]:
    """The folder whose ignore files are the first to count, and the other one's path in it, with `/`."""
    if not is_inside(root, folder):
        return folder, ""
    name = shown(root, folder)
    return Path(os.path.realpath(root)), "" if name == "." else f"{name}/"


def _names(said: bytes) -> list[str]:
    return [name for name in os.fsdecode(said).split("\0") if name]
