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

from tests.e2e.vscode import WAIT_S, RefactorPreview, Window, Workbench, clean_environment, wait_for
from tests.support.model_server import FakeModelServer


class StockDesk:
    """A user at work with a plain LSP client."""

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

    def sent_messages(self, request: int) -> list[dict[str, Any]]:
        """Wait for the model's request of this number, from 1, and return its messages without the system prompt."""
        self.model.wait_for_requests(request, WAIT_S)
        messages = self.model.requests[request - 1].body["messages"]
        return [message for message in messages if message["role"] != "system"]

    def tool_results(self, request: int) -> list[str]:
        """The tool results in the model's request of this number, in order."""
        return [str(m["content"]) for m in self.sent_messages(request) if m["role"] == "tool"]

    def wait_until_idle(self) -> None:
        """Wait until no turn runs."""
        wait_for(lambda: self.run("dsh.status")["state"] == "idle", "the turn has ended")
