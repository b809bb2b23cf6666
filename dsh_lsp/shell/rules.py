"""Rules: which command lines may run unasked, as the user has written them down.

A rule is a command with its words: `git status` allows exactly that; ` *` at its end allows any more words.

Rules: every command of a line must be allowed; a builtin that runs its own words, or changes what later ones mean, is
allowed only with the words that a rule names; a line that is not understood never is; a program that would be found
inside the workspace, or through a relative entry of PATH, is not the one that the user meant.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from dsh_lsp.settings import SettingsModel, raises_rights
from dsh_lsp.shell.scan import Command, scan

ANY_MORE: Final = " *"

# bash runs the words of these, or some of them: as commands, as code, or from a file.
RUNS_A_PROGRAM: Final = frozenset({"command", "builtin", "exec"})
RUNS_ITS_WORDS: Final = RUNS_A_PROGRAM | {
    *("eval", "source", ".", "trap", "enable", "hash", "alias", "bind", "complete", "compgen", "fc", "jobs"),
    *("mapfile", "readarray"),
}
# These set variables or options: PATH, and with it what the next command is.
CHANGES_THE_SHELL: Final = frozenset(
    {
        *("declare", "typeset", "local", "export", "readonly", "unset", "let", "read", "getopts", "wait"),
        *("set", "shopt"),
    }
)
MOVES: Final = frozenset({"cd", "pushd", "popd"})
_NOTHING_MORE: Final = RUNS_ITS_WORDS | CHANGES_THE_SHELL
# It evaluates the subscript of a variable that these are told of, and what that substitutes.
READS_SUBSCRIPTS: Final = frozenset({"test", "[", "printf"})
_SUBSTITUTES: Final = re.compile(r"[$`]")
_PREFIX: Final = "command:"


class ShellSettings(SettingsModel):
    """Commands: which run unasked, and how long one may take."""

    allow: tuple[str, ...] = Field(
        default=(),
        strict=False,
        json_schema_extra=raises_rights([]),
        description="Commands that run unasked: `git status` allows exactly that, `pytest *` any more words too. "
        "Every command of a line must be allowed; whatever is more than plain words, `&&`, `||`, `;`, `|`, `2>&1` "
        "and `>/dev/null` is asked for. A builtin that runs its words or sets variables, as `eval`, "
        "`command` and `export`, runs unasked only with those that a rule names.",
    )
    timeout_seconds: float = Field(default=120.0, gt=0, description="The longest that one command runs.")

    @field_validator("allow")
    @classmethod
    def _are_commands(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        for rule in rules:
            read_rule(rule)
        return rules


def read_rule(rule: str) -> tuple[Command, bool]:
    """The words of a rule, and whether more may follow.

    Raises:
        ValueError: it is not one plain command.
    """
    more = rule.endswith(ANY_MORE)
    script = scan(rule.removesuffix(ANY_MORE).strip())
    if script is None or not script.plain:
        raise ValueError(f"{rule!r} is not one plain command with its words, and no ` *` but at its end")
    return script.commands[0], more


def grant_key(command: str) -> str:
    """What a person's permission for a line covers: that line."""
    return _PREFIX + command


class CommandRules:
    """The rules in force; a later setting holds from the next line on. `folders` are the other ones of the window."""

    def __init__(
        self,
        root: Path,
        settings: ShellSettings,
        environ: Mapping[str, str] = os.environ,
        *,
        folders: Callable[[], Iterable[Path]] = tuple,
    ) -> None:
        self.settings = settings
        self._root = root
        self._environ = environ
        self._folders = folders

    def covered(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of some grant keys whose lines may run unasked. Blocks: programs are looked for."""
        return frozenset(key for key in keys if key.startswith(_PREFIX) and self.allow(key.removeprefix(_PREFIX)))

    def allow(self, command: str) -> bool:
        """Whether a line may run unasked."""
        if not self.settings.allow or (script := scan(command)) is None:
            return False
        rules = [read_rule(rule) for rule in self.settings.allow]
        return all(
            any(_matches(words, rule, more=more) for rule, more in rules)
            and not self._is_impostor(
                _program(words), moved=any(_program(one) in MOVES for one in script.commands[:at])
            )
            for at, words in enumerate(script.commands)
        )

    def _is_impostor(self, program: str, *, moved: bool) -> bool:
        """Whether a program's name would lead into the workspace; a path was written out by the user.

        `moved`: from a folder that is not known, so that a relative entry of PATH may hold anything.
        """
        if "/" in program:
            return False
        root = Path(os.path.realpath(self._root))
        workspace = {root, *(Path(os.path.realpath(folder)) for folder in self._folders())}
        for entry in self._environ.get("PATH", os.defpath).split(os.pathsep):
            if not Path(entry).is_absolute():  # also the empty one, which means the current directory
                if moved or shutil.which(program, path=str(root / entry)) is not None:
                    return True
                continue
            found = shutil.which(program, path=entry)
            if found is not None:
                places = (Path(found), Path(os.path.realpath(found)))
                return any(not workspace.isdisjoint((place, *place.parents)) for place in places)
        return False


def _program(words: Command) -> str:
    """The program that a command runs in the end."""
    return words[1] if words[0] in RUNS_A_PROGRAM and len(words) > 1 else words[0]


def _matches(words: Command, rule: Command, *, more: bool) -> bool:
    if words == rule:
        return True
    return more and words[: len(rule)] == rule and _may_have_more(words, rule)


def _may_have_more(words: Command, rule: Command) -> bool:
    """Whether more words than the rule's change nothing of what is run."""
    if words[0] in RUNS_A_PROGRAM and len(rule) > 1 and not rule[1].startswith("-"):
        return _may_have_more(words[1:], rule[1:])
    if words[0] in _NOTHING_MORE:
        return False
    if words[0] == "printf" and words[1].startswith("-v") and len(rule) <= 2:  # which variable is in no rule
        return False
    return words[0] not in READS_SUBSCRIPTS or not any(map(_SUBSTITUTES.search, words))
