"""Protocol tests: what they share, and a rule for each: the server's key is a canary that nothing may repeat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.model_server import FakeModelServer
from tests.support.raw_client import RawClient

CANARY = b"sk-test-secret"  # what the fake editor and the raw client put into the server's environment
MAX_BYTES = 8 << 20


@pytest.fixture(autouse=True)
def no_file_holds_the_key(tmp_path: Path) -> Iterator[None]:
    """Look, after each test, into all that was written: session logs, outputs, log files, the project itself."""
    yield
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < MAX_BYTES:
            assert CANARY not in path.read_bytes(), f"the key stands in {path}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder that an editor has open."""
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def model() -> Iterator[FakeModelServer]:
    """The model's server, without a script."""
    with FakeModelServer() as server:
        yield server


@pytest.fixture
def fresh() -> Iterator[RawClient]:
    """A host of the test's own."""
    with RawClient.start_host() as client:
        client.initialize()
        yield client
        assert client.garbage is None
