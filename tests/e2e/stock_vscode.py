"""Stock VS Code: a user at work with a plain LSP client: a window, a folder with files, and the fake model server.

Rules: nothing of ours runs in the editor but the language server; what a test reads is what the user sees (buffers,
the page), what is on disk, and what the model was told.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator

from tests.e2e.desk import ModelReader
from tests.e2e.vscode import Workbench, clean_environment
from tests.e2e.vscode_window import WAIT_S, Window, wait_for
from tests.support.model_server import FakeModelServer


class RefactorPreview:
    """The panel in which VS Code shows an edit that needs confirmation."""

    def __init__(self, window: Window) -> None:
        self._page = window.page
        self.panel = window.page.locator(".bulk-edit-panel")

    def wait(self) -> None:
        """Wait until it is open with its rows: those of its edits come after those of their files."""
        self._button("Apply").wait_for(timeout=WAIT_S * 1000)
        self.panel.locator(".monaco-list-row .edit-checkbox").nth(1).wait_for(timeout=WAIT_S * 1000)

    @property
    def is_open(self) -> bool:
        """Whether it shows an edit."""
        return self._button("Apply").is_visible()

    def rows(self) -> list[str]:
        """The texts of its rows."""
        return self.panel.locator(".monaco-list-row").all_inner_texts()

    def tick(self, row_text: str) -> None:
        """Tick the edit whose row shows this text: what goes and what comes, in one line."""
        box = self.panel.locator(".monaco-list-row", has_text=row_text).locator(".edit-checkbox").first
        box.check()

    def apply(self) -> None:
        """Press *Apply*."""
        self._button("Apply").click()

    def discard(self) -> None:
        """Press *Discard*."""
        self._button("Discard").click()

    def _button(self, name: str) -> Locator:
        return self._page.get_by_role("button", name=name, exact=True)


class StockDesk(ModelReader):
    """A user at work with a plain LSP client."""

    wait_s = WAIT_S

    def __init__(self, window: Window, model: FakeModelServer) -> None:
        self.window = window
        self.model = model
        self.preview = RefactorPreview(window)

    @classmethod
    @contextmanager
    def set_up(cls, workbench: Workbench, folder: Path, files: Mapping[str, str]) -> Iterator[StockDesk]:
        """Open a folder with files, the first of them shown, and wait for the server."""
        project = folder / "project"
        project.mkdir()
        for name, text in files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_bytes(text.encode())
        with FakeModelServer() as model:
            env = clean_environment(folder) | {"DEEPSEEK_API_KEY": "sk-test"}
            launch = {
                "command": sys.executable,
                "args": ["-m", "dsh_lsp", "serve"],
                "env": env,
                "initializationOptions": {"model": {"baseUrl": model.url}},
            }
            (folder / "stock.json").write_text(json.dumps(launch))
            with workbench.open(project) as window:
                window.open(next(iter(files)))
                desk = cls(window, model)
                wait_for(desk._serves, "the server is attached")
                yield desk

    def _serves(self) -> bool:
        code = "return (await vscode.commands.getCommands(true)).includes('dsh.status')"
        return self.window.vscode(code) is True

    def run(self, command: str, **argument: Any) -> Any:
        """Run a command of the server through the client."""
        return self.window.command(command, argument)

    def pending(self) -> list[dict[str, Any]]:
        """The hunks that wait for a decision."""
        return [hunk for file in self.run("dsh.review.list")["files"] for hunk in file["hunks"]]

    def wait_for_pending(self, count: int) -> list[dict[str, Any]]:
        """Wait until just so many hunks wait for a decision."""
        return wait_for(lambda: (found := self.pending()) and len(found) == count and found, f"{count} hunks wait")

    def ask_for_preview(self, *replies: Any) -> None:
        """Let the model propose, and wait for the editor's preview."""
        self.model.script(*replies)
        self.run("dsh.followup", text="Mend it.")
        self.preview.wait()

    def wait_until_idle(self) -> None:
        """Wait until no turn runs."""
        wait_for(lambda: self.run("dsh.status")["state"] == "idle", "the turn has ended")
