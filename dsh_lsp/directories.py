"""Directories: where this program keeps its files on each system, outside of any workspace.

Rules: imports nothing of this package, for a server needs its log's folder before it imports anything else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def state_directory() -> Path:
    """The user's local state: the sessions unless a setting says otherwise, the locks, the logs."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "dsh_lsp"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "dsh_lsp"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dsh_lsp"


def sessions_directory() -> Path:
    """Where session logs live unless a setting says otherwise."""
    return state_directory() / "sessions"


def locks_directory() -> Path:
    """Where the locks of sessions live, wherever the sessions do."""
    return state_directory() / "locks"


def logs_directory() -> Path:
    """Where each server has its log file."""
    return state_directory() / "logs"


def cache_directory() -> Path:
    """Where copies lie that may be thrown away."""
    if sys.platform == "win32":
        return state_directory() / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dsh_lsp"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dsh_lsp"
