"""Scan: a command line as the commands that a POSIX shell would run, or nothing.

Rules: what is not known for certain is refused, so that a person is asked; what is accepted runs exactly the listed
commands with exactly the listed words (a test holds that against a real bash); the time is linear in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_CHARS: Final = 8_192

# Words are ASCII without any character that a shell could expand, join or split at; in quotes all but what stays
# special there. No backslash at all: its meaning depends on what surrounds it.
_TOKEN: Final = re.compile(
    r"""
      (?P<blank>[ \t]+)
    | (?P<end>&&|\|\||;|\||\n)
    | (?P<null>2>&1|[12]?>[ ]?/dev/null)(?=[ \t\n;|&]|\Z)
    | (?P<word>(?:[A-Za-z0-9_./:=@%+,^-]|'[^'\0]*'|"[^"\\$`!\0]*")+)
    """,
    re.VERBOSE,
)
_QUOTED: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")

RESERVED: Final = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in"),
        *("function", "time", "coproc", "{", "}", "!", "[[", "]]"),
    }
)

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The commands of a line, each with its words; `plain` says that the line is one command and nothing else."""

    commands: tuple[Command, ...]
    plain: bool


def scan(text: str) -> Script | None:
    """Read a command line; None where it cannot be said what a shell would make of it."""
    if len(text) > MAX_CHARS:
        return None
    commands: list[Command] = []
    words: list[str] = []
    before, owed, plain, at = "end", False, True, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        kind, found, at = token.lastgroup, token[0], token.end()
        match kind:
            case "word":
                if before in ("word", "null") or (not words and _is_no_command(found)):
                    return None
                words.append(_QUOTED.sub(_unquoted, found))
                owed = False
            case "null":
                if not words or before != "blank":
                    return None
                plain = False
            case "end":
                plain = False
                if words:
                    commands.append(tuple(words))
                    words, owed = [], found in ("&&", "||", "|")
                elif found != "\n":
                    return None  # an empty command is an error, and after an operator a newline is none
            case _:
                pass
        before = kind or ""
    if words:
        commands.append(tuple(words))
    elif owed:
        return None
    return Script(commands=tuple(commands), plain=plain) if commands else None


def _is_no_command(word: str) -> bool:
    return word in RESERVED or _ASSIGNMENT.match(word) is not None


def _unquoted(quoted: re.Match[str]) -> str:
    single, double = quoted.groups()
    return single if single is not None else double


def visible(text: str) -> str:
    """A line as a person may read it before allowing it: what would hide or reorder text is spelled out."""
    return "".join(
        character if character in "\n\t" or character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
