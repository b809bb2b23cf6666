"""Git: asks git about a repository without running anything that the repository names.

Rules: a repository's configuration and index are a stranger's: no hook, monitor, pager or transport of it is started,
and an object that is missing is not fetched; git gets no more of the environment than it needs; a program is found
only in absolute folders of PATH, never in the folder that happens to be the current one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryFile
from typing import Final

from dsh_lsp.workspace.threads import Stop, never

TIMEOUT_S: Final = 20.0
LOOK_S: Final = 0.1  # between two looks at whether it is still wanted

_NEEDED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "XDG_CONFIG_HOME", "TMPDIR", "SYSTEMROOT", "USERPROFILE")

# An index can name an object that is missing, which git fetches from the repository's own remote, by the program that
# its configuration names. No protocol is allowed, for versions of git (before 2.45) that do not know the first one.
_NO_TRANSPORT: Final = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}

# What `git -c` says counts before all files of a repository.
_HARMLESS: Final = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "safe.bareRepository=explicit",  # a folder that only looks like the inside of a repository is none
    "submodule.recurse=false",
)


def plain_environment() -> dict[str, str]:
    """What a program that only reads needs to run; no key is among it."""
    return {name: os.environ[name] for name in _NEEDED if name in os.environ}


def program(name: str) -> str | None:
    """Where a program is, by the absolute folders of PATH."""
    file = f"{name}.exe" if sys.platform == "win32" else name
    places = (folder / file for folder in map(Path, os.get_exec_path()) if folder.is_absolute())
    return next((found for place in places if (found := shutil.which(str(place)))), None)


def git(folder: Path, *arguments: str, given: str = "", stop: Stop = never) -> tuple[int, bytes] | None:
    """Run git in a folder: its exit code and output; None where there is no git, or no answer in time. Blocks."""
    found = program("git")
    if found is None:
        return None
    settings = [word for setting in _HARMLESS for word in ("-c", setting)]
    command = [found, "--no-pager", *settings, "-C", str(folder), *arguments]
    try:
        with TemporaryFile() as words:  # `communicate` gives no input any more once it has run into its time limit
            words.write(os.fsencode(given))
            words.seek(0)
            process = subprocess.Popen(  # noqa: S603 - fixed words
                command, stdin=words, stdout=PIPE, stderr=DEVNULL, env=plain_environment() | _NO_TRANSPORT
            )
    except OSError:
        return None
    with process:
        return _answer(process, stop)


def _answer(process: subprocess.Popen[bytes], stop: Stop) -> tuple[int, bytes] | None:
    ends = time.monotonic() + TIMEOUT_S
    while not stop() and time.monotonic() < ends:
        try:
            output, _ = process.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            continue  # what it has printed is kept
        return process.returncode, output
    process.kill()
    process.communicate()
    return None
