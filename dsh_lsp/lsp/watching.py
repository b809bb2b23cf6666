"""Watching: has the client tell of changes on disk to files that wait for review and that no editor holds.

Rules: only those files, and only while they wait; a client that cannot is not asked, for nothing is written unchecked
in any case.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from anyio.abc import TaskGroup

from dsh_lsp.abort import Disposer
from dsh_lsp.lsp.documents import uri_of
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.proposal import FileUnderReview, Proposal

SPECIAL = frozenset("*?{}[]")  # a pattern has no way to say that they are meant as they are


class FileWatches:
    """The watches of one session."""

    def __init__(self, editor: Editor, tasks: TaskGroup) -> None:
        self._editor = editor
        self._tasks = tasks

    def follow(self, proposal: Proposal, files: Iterable[FileUnderReview]) -> None:
        """Watch files of a proposal until it is decided, each once."""
        paths = {file.path for file in files if file.changes_text and file.path.is_absolute()} - proposal.watched
        proposal.watched |= paths
        proposal.disposers.append(self.watch(paths))

    def watch(self, paths: Iterable[Path]) -> Disposer:
        """Be told when one of the files is made, changed or deleted."""
        watchers = [
            {"globPattern": {"baseUri": uri_of(path.parent), "pattern": path.name}}
            for path in paths
            if not SPECIAL.intersection(path.name)
        ]
        if not watchers or not self._editor.profile.watches_files:
            return lambda: None
        name = f"dsh-watch-{uuid.uuid4().hex}"  # other sessions watch through the same client
        self._tasks.start_soon(self._editor.register, name, "workspace/didChangeWatchedFiles", {"watchers": watchers})
        return lambda: self._tasks.start_soon(self._editor.unregister, name, "workspace/didChangeWatchedFiles")
