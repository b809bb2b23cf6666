"""Contract tests: what they share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dsh_lsp.llm.http_adapter import HttpAdapter
from tests.support.adapters import ADAPTERS
from tests.support.model_server import FakeModelServer
from tests.support.shell_bench import Here


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    """The model's server, without a script."""
    with FakeModelServer() as running:
        yield running


@pytest.fixture
async def adapter(server: FakeModelServer) -> AsyncIterator[HttpAdapter]:
    """One that asks `server`."""
    opened = ADAPTERS["deepseek"](server.url)
    yield opened
    await opened.aclose()


@pytest.fixture
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A project's folder, with the `FILES` of the test's module."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in getattr(request.module, "FILES", {}).items():
        (folder / name).write_bytes(text.encode())
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A folder with a shell."""
    root = tmp_path / "w"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    return Here(root)
