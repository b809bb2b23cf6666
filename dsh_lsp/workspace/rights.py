"""Rights: which files decide what other programs run, by their names, and by what else they are called.

A model that could write one unseen would have more rights than it was given: an editor, a shell, a language server or
another agent would do it for it, as soon as the user opens the folder or commits. What runs only when the user asks
for it (a Makefile, a package's scripts) is no such file.

Rules: a name is compared as the most generous file system does; a file with several names (hard links) may be any;
what a link with such a name leads to is what others run, as is the folder that git is told to take hooks from; a
folder is version control's by what lies in it, too.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from dsh_lsp.workspace.grep import read_plain

_EDITORS: Final = frozenset(
    {
        *(".vscode", ".vs", ".theia", ".idea", ".fleet", ".nova", ".zed", ".helix", ".kak", ".devcontainer"),
        *(".vim", ".nvim", ".nlsp-settings", ".emacs.d"),
    }
)
_AGENTS: Final = frozenset(
    {
        *(".dsh", ".cursor", ".windsurf", ".claude", ".codex", ".gemini", ".continue", ".roo", ".opencode", ".kiro"),
        *(".amazonq", ".qwen", ".kilocode", ".junie", ".trae", ".factory"),
    }
)
_HOOKS: Final = frozenset({".husky", ".githooks", ".cargo", ".mise", ".direnv", ".ssh"})
RIGHTS_FOLDERS: Final = _EDITORS | _AGENTS | _HOOKS

RIGHTS_FILES: Final = frozenset(
    {
        *(".nvim.lua", ".nvimrc", "_nvimrc", ".exrc", "_exrc", ".vimrc", "_vimrc", ".gvimrc", "_gvimrc"),
        *(".lvimrc", "_lvimrc", ".local.vimrc", ".vimrc.local", ".neoconf.json", ".nlsp.json"),
        *(".dir-locals.el", ".dir-locals-2.el", ".dir-locals.eld", ".dir-locals-2.eld", ".kateproject"),
        *(".devcontainer.json", ".mcp.json", ".luarc.json", ".luarc.jsonc", ".rust-analyzer.toml"),
        *("rust-analyzer.toml", "rust-toolchain", "rust-toolchain.toml", ".envrc", ".rtx.toml", ".tool-versions"),
        *(".yarnrc", ".yarnrc.yml", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".gitconfig"),
        *(".lazy.lua", ".lite_project.lua", "opencode.json", "opencode.jsonc", "crush.json", ".crush.json"),
        *(".aider.conf.yml", ".autoenv.zsh", ".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
    }
)
_RIGHTS_NAMES: Final = re.compile(r"\.?lefthook(-local)?\.(ya?ml|toml|jsonc?)|\.?mise(\.[\w-]+)*\.toml")
_RIGHTS_IN_CONFIG: Final = frozenset(  # of `.config`
    {"nvim", "emacs", "helix", "kak", "zed", "fish", "zsh", "git", "mise", "direnv", "systemd", "autostart"}
)
_RIGHTS_SUFFIXES: Final = (".code-workspace", ".sublime-project", ".sublime-workspace")
VERSION_CONTROL: Final = frozenset({".git", ".hg", ".svn", ".jj", ".bzr"})
_LINKED: Final = RIGHTS_FOLDERS | RIGHTS_FILES | {".git"}
MAX_CONFIG: Final = 1 << 16  # bytes of a repository's configuration
_HOOKS_PATH: Final = re.compile(r"^\s*hookspath\s*=\s*(\S.*?)\s*(?:[#;].*)?$", re.IGNORECASE | re.MULTILINE)
MANY: Final = 1_000  # entries of a folder: looking for each name is faster than reading more
# What makes a folder the inside of a repository, wherever it is kept: `.bare`, `name.git`, a submodule, a work tree.
_INSIDE_GIT: Final = (("HEAD", "objects", "refs"), ("HEAD", "commondir"))

# Some file systems pass over these in a name.
_PASSED_OVER = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_SHORT: Final = re.compile(r"(.{1,6})~\d+")


def gives_rights(real: Path) -> bool:
    """Whether a located file decides what other programs may run, by its name or a folder's."""
    parts = [_plain(part) for part in real.parts]
    name = parts[-1] if parts else ""
    if any(_is_one_of(part, RIGHTS_FOLDERS) for part in parts) or _is_one_of(name, RIGHTS_FILES):
        return True
    if any(above == ".config" and part in _RIGHTS_IN_CONFIG for above, part in pairwise(parts)):
        return True
    return _is_rights_name(name)


def _is_rights_name(name: str) -> bool:
    return name.endswith(_RIGHTS_SUFFIXES) or _RIGHTS_NAMES.fullmatch(name) is not None


def belongs_to_version_control(real: Path) -> bool:
    """Whether a located file lies among those of a version control system, or would make a folder one. Blocks."""
    if any(_is_one_of(_plain(part), VERSION_CONTROL) for part in real.parts):
        return True
    within = real
    for folder in real.parents:
        part = within.name.casefold()
        for names in _INSIDE_GIT:
            if all(name.casefold() == part or os.path.lexists(folder / name) for name in names):
                return True
        within = folder
    return False


def is_led_to(real: Path, folders: Iterable[Path]) -> bool:
    """Whether a link that gives rights by its name, in one of some folders, leads to a file or around it. Blocks."""
    around = {real, *real.parents}
    return any(target in around for folder in folders for target in _targets(folder))


def _targets(folder: Path) -> Iterable[Path]:
    """Where the links lead to that give rights in a folder by their names, or by those of the folders they are in."""
    for name in _linked(folder):
        if name.casefold() == ".git":
            yield from _hooks_of(folder)
        place = f"{folder}/{name}/hooks" if name.casefold() == ".git" else f"{folder}/{name}"
        with suppress(OSError):
            kind = os.lstat(place).st_mode
            if stat.S_ISLNK(kind):
                yield Path(os.path.realpath(place))
            elif stat.S_ISDIR(kind):
                yield from _links_in(place, depth=2)


def _hooks_of(folder: Path) -> Iterable[Path]:
    """The folder that a repository's configuration names for its hooks, as git finds it from the work tree's top."""
    text = (read_plain(f"{folder}/.git/config", MAX_CONFIG) or b"").decode(errors="replace")
    for found in _HOOKS_PATH.finditer(text):
        with suppress(OSError, ValueError):  # the latter for a NUL
            place = os.path.expanduser(found[1].strip('"'))  # noqa: PTH111 - that of a path raises for unknown users
            hooks = Path(os.path.realpath(folder / place))
            if hooks != folder and hooks not in folder.parents:  # else all that there is would be one
                yield hooks


def _linked(folder: Path) -> Iterable[str]:
    """The names in a folder that may give rights."""
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, MANY)]
        if len(names) == MANY:
            return _LINKED
        return [name for name in names if _may_be_linked(name.casefold())]
    return ()


def _may_be_linked(name: str) -> bool:
    return name in _LINKED or _is_rights_name(name)


def _links_in(folder: str, *, depth: int) -> Iterable[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield Path(os.path.realpath(entry.path))
            elif depth > 1 and entry.is_dir(follow_symlinks=False):
                yield from _links_in(entry.path, depth=depth - 1)


def has_other_names(real: Path) -> bool:
    """Whether a file has hard links: what is written to it is written to a file of another name. Blocks."""
    try:
        found = real.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def is_also_in(real: Path, folders: Iterable[Path]) -> bool:
    """Whether a file is, under another name, one that lies in a folder, or in one right below it. Blocks."""
    try:
        found = real.lstat()
    except OSError:  # it went away meanwhile
        return False
    return any((found.st_dev, found.st_ino) == one for folder in folders for one in _files(folder, depth=2))


def _files(folder: Path, *, depth: int) -> Iterable[tuple[int, int]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(Path(entry.path), depth=depth - 1) if depth > 1 else ()
                else:
                    found = entry.stat(follow_symlinks=False)
                    yield found.st_dev, found.st_ino


def _plain(part: str) -> str:
    """A name as the most generous file system compares it; what follows a colon is a stream of the same file."""
    name = unicodedata.normalize("NFC", part.translate(_PASSED_OVER)).casefold()
    return name.partition(":")[0].rstrip(". ")


def _is_one_of(part: str, names: frozenset[str]) -> bool:
    """Whether a name is one of some, also as an old file system shortens them: `GIT~1`."""
    if part in names:
        return True
    short = _SHORT.fullmatch(part)
    return short is not None and any(name.replace(".", "")[:6] == short[1] for name in names)
