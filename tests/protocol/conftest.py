"""Rules for every test against the real server: its key is a canary that nothing may repeat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

CANARY = b"sk-test-secret"  # what the fake editor and the raw client put into the server's environment
MAX_BYTES = 8 << 20


@pytest.fixture(autouse=True)
def no_file_holds_the_key(tmp_path: Path) -> Iterator[None]:
    """Look, after each test, into all that was written: session logs, outputs, log files, the project itself."""
    yield
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < MAX_BYTES:
            assert CANARY not in path.read_bytes(), f"the key stands in {path}"
