"""What the suites of the VS Code client begin with: one workbench for all of them, a window for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def client_workbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A VS Code with our extension as it is shipped, the server's wheel in it."""
    from tests.e2e.vscode_client import start_workbench

    folder = tmp_path_factory.mktemp("vscode-client")
    with start_workbench(folder, wheel=True, env={"DEEPSEEK_API_KEY": "sk-test"}) as workbench:
        yield workbench


@pytest.fixture
def desk(client_workbench, tmp_path: Path) -> Iterator[object]:
    """A user with two files and the chat open."""
    from tests.e2e.vscode_client import CALC, OTHER, Desk

    with Desk.set_up(client_workbench, tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk
