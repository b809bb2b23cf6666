"""Simulated manners: what real editors do differently, as values of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Manners:
    """How an editor behaves.

    `tells` is when it tells of an edit that it was sent: before its reply, `delay` after it, or with everything
    else when nothing has changed for `delay`. `stale` is what it answers to an edit of another version, and
    `answers` to one that it applied (`later` never comes). `lies` is how many edits it drops, saying yes.
    """

    name: str = "an honest one"
    tells: Literal["before", "after", "debounced"] = "before"
    delay: float = 0.0
    stale: Literal["no", "yes", "error", "null"] = "no"
    answers: Literal["yes", "no", "null", "error", "silence"] = "yes"
    lies: int = 0
    refuses: bool = False  # says no to everything
    first_version: int = 1
    next_version: int = 0  # the least one after a change; Neovim counts on from where the buffer is
    newer_only: bool = False  # refuses what its text is newer than, and not what is newer than its text
    unchecked_zero: bool = False  # an edit of version 0 is applied to whatever there is
    edit_by_edit: bool = False  # each text edit is a change and a didChange of its own
    whole_text: bool = False  # a didChange holds the whole text
    operations: Literal["does", "ignores"] = "does"  # renames and deletions; some say yes to them and do nothing
    saves: bool = False  # offers `dsh/save`
    reviews: bool = False  # is a client of ours, which makes edits of files that are not open, too
    opens: Literal["and tells", "silently"] = "and tells"  # what it does with those
    encoding: Literal["utf-8", "utf-16", "utf-32"] = "utf-16"
    client: str = "simulated"  # the name by which the server knows it
    splits_at_return: bool = True  # a `\r` ends a line; else it is a character of one
    last_end_apart: bool = False  # how the last line ends is the buffer's, as in Neovim
    link: float = 0.002  # how long a message is on its way
