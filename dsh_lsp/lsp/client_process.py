"""Client process: whether the program that started the server still runs."""

from __future__ import annotations

import os
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether a process runs; always False on Windows, where this way to ask would end it."""
    if os.name == "nt" or pid <= 0:  # 0 and less name whole process groups
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether a dead process only waits for its parent, which in a container may never look; Linux alone tells."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return False
