"""Catalogue: the sessions of a folder: listed from a small file beside each log, found, and thrown away.

Rules: the log is the truth; a side file that is missing, damaged or older than its log is made anew from it; one bad
log hides no other; deleting moves to a trash folder.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from dsh_lsp.errors import SessionError
from dsh_lsp.session.summary import Summary
from dsh_lsp.wire import decode, dump_bytes, encode, loads

log = logging.getLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

Summarize = Callable[[Path], Summary]  # reads a whole log; raises SessionError


class Catalog:
    """The sessions of one folder."""

    def __init__(self, folder: Path, summarize: Summarize) -> None:
        self.folder = folder
        self._summarize = summarize

    def path_of(self, session: str) -> Path:
        """The log of a session.

        Raises:
            SessionError: `UNKNOWN_SESSION`.
        """
        path = self.folder / f"{session}.jsonl"
        if not _ID.fullmatch(session) or session.startswith(".") or not path.is_file():
            raise SessionError(f"there is no session {session}", code="UNKNOWN_SESSION")
        return path

    def list(self, *, root: str | None = None, limit: int | None = None) -> list[Summary]:
        """The sessions, newest first; those of one workspace if `root` is given."""
        found = [summary for path in self._logs() if (summary := self._summary(path)) is not None]
        if root is not None:
            real = os.path.realpath(root)
            found = [summary for summary in found if os.path.realpath(summary.root) == real]
        found.sort(key=lambda summary: (summary.updated_at, summary.session), reverse=True)
        return found[:limit]

    def find(self, prefix: str) -> str:
        """The session whose id begins like this; `last` is the newest.

        Raises:
            SessionError: `UNKNOWN_SESSION`, none or several do.
        """
        if prefix == "last":
            newest = self.list(limit=1)
            if newest:
                return newest[0].session
        ids = [path.stem for path in self._logs() if path.stem.startswith(prefix)]
        if prefix in ids or len(ids) == 1:
            return prefix if prefix in ids else ids[0]
        why = f"{len(ids)} sessions begin with {prefix}" if ids else f"there is no session {prefix}"
        raise SessionError(why, code="UNKNOWN_SESSION")

    def keep(self, summary: Summary) -> None:
        """Write a session's side file; it can always be made anew, so a failure is only logged."""
        try:
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".summary-")
            with os.fdopen(handle, "wb") as file:
                file.write(dump_bytes(encode(summary)))
            Path(temporary).replace(self._side(summary.session))
        except OSError as error:
            log.warning("the summary of session %s was not written: %s", summary.session, error)

    def delete(self, session: str) -> None:
        """Move a session with all that belongs to it to the trash folder.

        Raises:
            SessionError: `UNKNOWN_SESSION`, `LOG_NOT_WRITABLE`.
        """
        path = self.path_of(session)
        trash = self.folder / "trash"
        try:
            trash.mkdir(mode=0o700, exist_ok=True)
            beside = (self.folder / f"{session}.{name}" for name in ("outputs", "copies"))
            for part in (path, self._side(session), *beside):
                if part.exists():
                    target = trash / part.name
                    if target.exists():
                        target = trash / f"{part.stem}-{os.getpid()}-{part.stat().st_mtime_ns}{part.suffix}"
                    shutil.move(part, target)
        except OSError as error:
            raise SessionError(f"session {session} cannot be deleted: {error}", code="LOG_NOT_WRITABLE") from error

    def _logs(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from sorted(self.folder.glob("*.jsonl"))

    def _side(self, session: str) -> Path:
        return self.folder / f"{session}.summary.json"

    def _summary(self, path: Path) -> Summary | None:
        """A session's summary, from its side file while that is as new as the log; None for a bad log."""
        side = self._side(path.stem)
        try:
            if side.stat().st_mtime_ns >= path.stat().st_mtime_ns:
                summary = decode(Summary, loads(side.read_bytes()))
                if summary.session == path.stem:
                    return summary
        except (OSError, ValueError, ValidationError):
            pass  # made anew below
        try:
            summary = self._summarize(path)
        except SessionError as error:
            log.warning("session %s is left out: %s", path.stem, error)
            return None
        self.keep(summary)
        return summary
