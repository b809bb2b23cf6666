"""Listing: the stored sessions as lines, newest first."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from dsh_lsp.compose import summarize
from dsh_lsp.directories import sessions_directory
from dsh_lsp.screen import harmless
from dsh_lsp.session.catalog import Catalog
from dsh_lsp.session.summary import Summary
from dsh_lsp.wire import dumps, encode

ID_CHARS = 12  # of an id; enough for `show`, which takes its beginning


def list_sessions(*, root: Path | None = None, as_json: bool = False, sessions: Path | None = None) -> int:
    """Print the sessions, of one workspace or of all; the exit code."""
    folder = sessions or sessions_directory()
    found = Catalog(folder, summarize).list(root=str(root) if root is not None else None)
    try:
        if as_json:
            lines = [dumps(encode(summary)) for summary in found]
        else:
            lines = as_lines(found) or [f"No sessions in {folder}."]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read along has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def as_lines(found: Sequence[Summary]) -> list[str]:
    """One line a session: when it was used, how long it is, its id, its title, its workspace."""
    home = str(Path.home())
    lines = []
    for summary in found:
        used = datetime.fromtimestamp(summary.updated_at / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
        turns = f"{summary.turns} turn{'s' if summary.turns != 1 else ' '}"
        root = "~" + summary.root.removeprefix(home) if summary.root.startswith(home) else summary.root
        title = harmless(summary.title or "(nothing said yet)")
        lines.append(f"{used}  {turns:>9}  {summary.session[:ID_CHARS]}  {title}  {harmless(root)}")
    return lines
