r"""Ignore: the patterns of `.gitignore` and `.ignore` files, for folders that are no git repository.

Rules: as git has it: the last pattern that fits decides, deeper files decide over those above, and nothing inside an
ignored folder comes back; a pattern that is not understood ignores nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

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
        if starts_name and pattern.startswith("**/", at):
            found.append(None)
            at += 3
            continue
        if starts_name and at and pattern[at:] == "**":
            return [*found, ".+"]
        match pattern[at]:
            case "*":
                chunks.append("")
                at += len(pattern) - at - len(pattern[at:].lstrip("*"))
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


def _character_class(pattern: str, start: int) -> tuple[str, int] | None:
    end = start + 1
    if pattern[end : end + 1] in ("!", "^"):
        end += 1
    if pattern[end : end + 1] == "]":
        end += 1
    end = pattern.find("]", end)
    if end < 0:
        return None
    body = pattern[start + 1 : end]
    body = "^" + body[1:] if body[0] in "!^" else body
    escaped = body.replace("\\", "\\\\").replace("--", "-\\-")  # doubled signs may come to mean sets in Python
    for sign in "[&~|":
        escaped = escaped.replace(sign, f"\\{sign}")
    return f"(?!/)[{escaped}]", end + 1


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


def walk(root: Path) -> Iterator[str]:
    """The files below a folder that nothing ignores, in order, with `/`; links are not followed. Blocks."""
    yield from _walk(root, "", ())


def _walk(folder: Path, prefix: str, levels: tuple[Level, ...]) -> Iterator[str]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    own = tuple(pattern for name in reversed(IGNORE_FILES) for pattern in _patterns_of(folder / name))
    if own:
        levels = ((len(prefix), own), *levels)
    for entry in entries:
        path = prefix + entry.name
        is_folder = entry.is_dir() and not entry.is_symlink()
        if entry.name in NEVER or is_ignored(path, levels, folder=is_folder):
            continue
        if is_folder:
            yield from _walk(entry, f"{path}/", levels)
        else:
            yield path


def ignores(root: Path, path: str) -> bool:
    """Whether a path below a folder, with `/`, is ignored or lies in a folder that is. Blocks."""
    parts = PurePosixPath(path).parts
    levels: tuple[Level, ...] = ()
    prefix = ""
    for number, part in enumerate(parts):
        own = tuple(p for name in reversed(IGNORE_FILES) for p in _patterns_of(root / prefix / name))
        if own:
            levels = ((len(prefix), own), *levels)
        if part in NEVER or is_ignored(prefix + part, levels, folder=number < len(parts) - 1):
            return True
        prefix += f"{part}/"
    return False


def _patterns_of(path: Path) -> tuple[Pattern, ...]:
    try:
        with path.open("rb") as file:
            return read_patterns(file.read(MAX_BYTES).decode("utf-8", "replace"))
    except OSError:
        return ()
