r"""Ignore: the patterns of `.gitignore` and `.ignore` files, for folders that are no git repository.

Rules: as git has it: the last pattern that fits decides, deeper files decide over those above, and nothing inside an
ignored folder comes back; a pattern that is not understood ignores nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from dsh_lsp.workspace.grep import read_plain
from dsh_lsp.workspace.threads import Stop, never

IGNORE_FILES: Final = (".gitignore", ".ignore")
MAX_BYTES: Final = 1 << 20
MAX_PATTERNS: Final = 10_000  # of one file
MAX_PATTERN: Final = 2_000  # characters

# Nobody means these when asking what is in a project, also where nothing says so.
NEVER: Final = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".mypy_cache"})


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file; `negated` brings back what an earlier one ignored."""

    matches: Callable[[str], re.Match[str] | None]
    negated: bool
    folders_only: bool


def read_patterns(text: str) -> tuple[Pattern, ...]:
    """The patterns of an ignore file, the last first: it decides."""
    found = (read_pattern(line) for line in text.split("\n")[:MAX_PATTERNS])
    return tuple(reversed([pattern for pattern in found if pattern is not None]))


def read_pattern(line: str) -> Pattern | None:
    """One line; None where it is empty, a comment, or not understood."""
    line = _as_bytes(re.sub(r"(?<!\\) +$", "", line.removesuffix("\r")))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[negated:].removeprefix("\\") if line[negated:].startswith(("\\#", "\\!")) else line[negated:]
    folders_only = line.endswith("/")
    line = line.rstrip("/") if folders_only else line
    expression = translate(line)
    if expression is None:
        return None
    try:
        return Pattern(re.compile(expression, re.DOTALL).fullmatch, negated, folders_only)
    except re.error:
        return None


def translate(pattern: str) -> str | None:
    """A pattern as a regular expression on the path below its ignore file; None where it is not understood.

    The expression takes at most as many steps as path and pattern have characters, multiplied: between two stars, the
    first place that fits is as good as any, so none but that is tried. What says so are atomic groups.
    """
    folders = _folders(pattern)
    if folders is None:
        return None
    runs: list[list[str]] = [[]]  # of folders and the name, between two `**`
    for folder in folders:
        if folder is None:
            runs.append([])
        else:
            runs[-1].append(folder)
    first, *others = ["/".join(run) for run in runs]
    if not others:
        return first
    head = f"{first}/" if runs[0] else ""
    middle = "".join(f"(?>{_ANY_FOLDERS}{run}/)" for run in others[:-1] if run)
    return f"{head}{middle}{_ANY_FOLDERS}{others[-1]}"


_ANY_FOLDERS: Final = "(?:[^/]*/)*?"


def _folders(pattern: str) -> list[str | None] | None:
    """The folders of a pattern and its name as expressions, None for any folders; None where it is not understood."""
    found: list[str | None] = [] if "/" in pattern else [None]
    pattern = pattern.removeprefix("/")
    if not pattern or len(pattern) > MAX_PATTERN:
        return None
    chunks, at = [""], 0  # of a name, between two stars
    while at < len(pattern):
        starts_name = chunks == [""]
        after = at  # where no star stands any more
        while pattern[after : after + 1] == "*":
            after += 1
        if starts_name and after - at > 1 and pattern[after : after + 1] == "/":  # two or more mean the same
            found.append(None)
            at = after + 1
            continue
        if starts_name and at and after - at > 1 and after == len(pattern):
            return [*found, ".+"]
        match pattern[at]:
            case "*":
                chunks.append("")
                at = after
            case "/":
                found.append(_name(chunks))
                chunks = [""]
                at += 1
            case _:
                token = _token(pattern, at)
                if token is None:
                    return None
                chunks[-1] += token[0]
                at = token[1]
    return [*found, _name(chunks)]


def _name(chunks: Sequence[str]) -> str:
    """The expression of a name, which `/` or the end follows, from what stands between its stars."""
    if len(chunks) == 1:
        return chunks[0]
    return chunks[0] + "".join(f"(?>[^/]*?{chunk})" for chunk in chunks[1:-1]) + f"[^/]*{chunks[-1]}"


def _token(pattern: str, at: int) -> tuple[str, int] | None:
    """The expression of one character that is no star, and where the next one stands."""
    match pattern[at]:
        case "?":
            return "[^/]", at + 1
        case "[":
            return _character_class(pattern, at)
        case "\\":
            return (re.escape(pattern[at + 1]), at + 2) if at + 1 < len(pattern) else None
        case character:
            return re.escape(character), at + 1


_CLASSES: Final = {  # as git has them: of ASCII alone
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "blank": " \t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": " \t\n\r",
    "upper": "A-Z",
    "xdigit": "A-Fa-f0-9",
}
_CLASS: Final = re.compile(r"\[:([^\]]*):\]")


def _character_class(pattern: str, start: int) -> tuple[str, int] | None:
    """The expression of a set of characters as git reads it; None where it has no end or an unknown class."""
    at = start + 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    first, sets, before = at, "", ""  # `before` may begin a range
    while pattern[at : at + 1] != "]" or at == first:
        found = _CLASS.match(pattern, at)
        if found is not None:
            if found[1] not in _CLASSES:
                return None
            sets, before, at = sets + _CLASSES[found[1]], "", found.end()
            continue
        if before and pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("]", ""):
            end, at = _plain_character(pattern, at + 1)
            sets += f"{re.escape(before)}-{re.escape(end)}" if before <= end else ""
            before = ""
        else:
            before, at = _plain_character(pattern, at)
            end = before
            sets += re.escape(before)
        if not end:
            return None
    if negated:
        return f"[^/{sets}]", at + 1
    return (f"(?!/)[{sets}]" if sets else "(?!)"), at + 1


def _plain_character(pattern: str, at: int) -> tuple[str, int]:
    """A character of a set, perhaps after a backslash, and where the next one stands; empty at the end."""
    at += pattern[at : at + 1] == "\\"
    return pattern[at : at + 1], at + 1


def _as_bytes(text: str) -> str:
    """The text with a character for each of its bytes: to git, `?` is one byte."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


Level = tuple[int, tuple[Pattern, ...]]  # the length of the folder's path, with its slash, and its patterns


def is_ignored(path: str, levels: Sequence[Level], *, folder: bool) -> bool:
    """Whether the patterns of the folders around, the nearest first, ignore a path, its folders apart."""
    for length, patterns in levels:
        below = _as_bytes(path[length:])
        for pattern in patterns:
            if (folder or not pattern.folders_only) and pattern.matches(below):
                return not pattern.negated
    return False


def walk(root: Path, below: str = "", *, stop: Stop = never) -> Iterator[tuple[str, bool]]:
    """What lies in a folder: `below` is its path in `root`, whose ignore files count too. Blocks.

    Yields the path from `root` of each file, and True; of each file or folder that is ignored, and False. Folders
    have `/` at their ends; one that comes with True is a repository of its own, and is not entered. In order; links
    are not followed; it ends early when `stop` says so.
    """
    levels: tuple[Level, ...] = ()
    prefix = ""
    for part in PurePosixPath(below).parts:
        levels = _with_patterns(root, prefix, levels)
        if part in NEVER or is_ignored(prefix + part, levels, folder=True):
            yield f"{prefix}{part}/", False
            return
        prefix += f"{part}/"
    levels = _with_patterns(root, prefix, levels)
    inside = [(prefix, levels, _entries(root / prefix))]  # a folder in a folder in a folder
    while inside and not stop():
        prefix, levels, entries = inside[-1]
        entry = next(entries, None)
        if entry is None:
            inside.pop()
            continue
        path, is_folder = prefix + entry.name, entry.is_dir(follow_symlinks=False)
        if entry.name in NEVER or is_ignored(path, levels, folder=is_folder):
            yield f"{path}/" if is_folder else path, False
        elif is_folder and os.path.lexists(f"{entry.path}/.git"):
            yield f"{path}/", True
        elif is_folder:
            path += "/"
            inside.append((path, _with_patterns(root, path, levels), _entries(entry)))
        else:
            yield path, True


def _entries(folder: os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return iter(sorted(entries, key=lambda entry: entry.name))
    except OSError:
        return iter(())


def ignores(root: Path, path: str) -> bool:
    """Whether a path below a folder, with `/`, is ignored or lies in a folder that is. Blocks."""
    parts = PurePosixPath(path).parts
    levels: tuple[Level, ...] = ()
    prefix = ""
    for number, part in enumerate(parts):
        levels = _with_patterns(root, prefix, levels)
        if part in NEVER or is_ignored(prefix + part, levels, folder=number < len(parts) - 1):
            return True
        prefix += f"{part}/"
    return False


def _with_patterns(root: Path, prefix: str, levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """The levels, and before them that of a folder, if it has patterns."""
    own = tuple(pattern for name in reversed(IGNORE_FILES) for pattern in _patterns_of(f"{root}/{prefix}{name}"))
    return ((len(prefix), own), *levels) if own else levels


def _patterns_of(path: str) -> tuple[Pattern, ...]:
    """The patterns of an ignore file; none where it is a link, which leads elsewhere, or no file."""
    data = read_plain(path, MAX_BYTES)
    return () if data is None else read_patterns(data.decode("utf-8", "replace"))
