"""Folders: those of the user's window, which come and go, and the root of the sessions that begin in it.

Rules: the first folder is where a session begins; with the last one gone, it stays where they began before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsh_lsp.lsp.documents import path_of
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.paths import is_inside


class WindowFolders:
    """The folders of one client's window, as real paths."""

    def __init__(self, initialize: JsonObject) -> None:
        self._folders = folders_of(initialize.get("workspaceFolders"))
        self.root = self._folders[0] if self._folders else _root_alone(initialize)

    def __call__(self) -> Sequence[Path]:
        """The folders as they are now."""
        return self._folders

    def change(self, added: Any, removed: Any) -> None:
        """Take what came and what left, as LSP lists it."""
        left = folders_of(removed)
        kept = [folder for folder in self._folders if folder not in left]
        self._folders = list(dict.fromkeys([*kept, *folders_of(added)]))
        if self._folders and self.root not in self._folders:
            self.root = self._folders[0]

    def beside(self, root: Path) -> str | None:
        """What a model should know of the folders beside the root of its session."""
        others = [str(folder) for folder in self._folders if not is_inside(root, folder)]
        return f"Further folders of the workspace, whose paths are absolute: {', '.join(others)}" if others else None


def folders_of(listed: Any) -> list[Path]:
    """The folders of a list of LSP's workspace folders; those that are no files on this machine are left out."""
    found = (path_of(folder["uri"]) for folder in listed or () if isinstance(folder.get("uri"), str))
    return [path for path in found if path is not None]


def _root_alone(initialize: JsonObject) -> Path:
    """The root of a client without workspace folders, else where we stand."""
    uri = initialize.get("rootUri")
    if uri and (path := path_of(uri)) is not None:
        return path
    return Path(os.path.realpath(initialize.get("rootPath") or Path.cwd()))
