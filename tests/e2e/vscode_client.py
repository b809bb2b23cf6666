"""VS Code with our extension: a user at work with the package as it is shipped, and the fake model server.

Rules: the package is installed unchanged; what a test does is done by keys and clicks, what it reads is the page, the
buffers, the files and what the model was told. The channel into the extension host only opens files and reads.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import FrameLocator, Locator

from tests.e2e.desk import ModelReader
from tests.e2e.vscode import Workbench, package_test_extension, tools
from tests.e2e.vscode_install import CLIENT, Installation, run
from tests.e2e.vscode_window import WAIT_S, Window, wait_for
from tests.support.model_server import FakeModelServer

CHAT = 'iframe.webview[src*="extensionId=dsh-lsp.dsh-lsp"]'
CALC = 'def add(a, b):\n    return a - b\n\n\ndef double(a):\n    """Twice a."""\n    return a + a + a\n'
MENDED_ADD = CALC.replace("a - b", "a + b")
MENDED = MENDED_ADD.replace("a + a + a", "a + a")
OTHER = "x = 1\ny = 2\n"
PRESS_AGAIN_S = 10.0
SERVER = [sys.executable, "-m", "dsh_lsp", "serve"]


def package_client(installation: Installation, folder: Path, *, wheel: bool = False) -> Path:
    """Make the .vsix by the same script that a release is made with."""
    target = folder / "dsh-lsp.vsix"
    arguments = ["node", "package.mjs", str(target), *([] if wheel else ["--no-wheel"])]
    run(arguments, cwd=CLIENT, env=installation.env | {"PYTHON": sys.executable})
    return target


@contextmanager
def start_workbench(
    folder: Path, *, wheel: bool = False, env: Mapping[str, str] | None = None
) -> Iterator[Workbench]:
    """Serve a VS Code with our extension installed."""
    installation = tools()
    packages = [package_test_extension("control", installation, folder)]
    packages.append(package_client(installation, folder, wheel=wheel))
    with Workbench.start(folder, packages, env=env or {}) as workbench:
        yield workbench


class Desk(ModelReader):
    """A user at work with our extension."""

    wait_s = WAIT_S

    def __init__(self, window: Window, model: FakeModelServer) -> None:
        self.window = window
        self.page = window.page
        self.model = model

    @classmethod
    @contextmanager
    def set_up(
        cls,
        workbench: Workbench,
        folder: Path,
        files: Mapping[str, str],
        *,
        settings: Mapping[str, Any] | None = None,
        size: tuple[int, int] = (1400, 900),
        chat: bool = True,
    ) -> Iterator[Desk]:
        """Open a folder with files, the first of them shown, and the chat beside it."""
        project = folder / "project"
        project.mkdir(exist_ok=True)
        for name, text in files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_bytes(text.encode())
        with FakeModelServer() as model:
            configured = {
                "dsh.client.server": SERVER,
                "dsh.model.baseUrl": model.url,
                "dsh.sessions.directory": str(folder / "sessions"),
                **(settings or {}),
            }
            with workbench.open(project, settings=configured, size=size) as window:
                desk = cls(window, model)
                try:
                    if files:
                        window.open(next(iter(files)))
                    if chat:
                        desk.open_chat()
                    yield desk
                finally:
                    desk.print_log()

    def print_log(self) -> None:
        """Show what went wrong on the page, when a test fails."""
        for line in self.window.console[-20:]:
            print("-- console:", line[:300])

    # -- the chat --------------------------------------------------------------------------------------------

    @property
    def chat(self) -> FrameLocator:
        """The chat's page."""
        return self.page.frame_locator(CHAT).frame_locator("#active-frame")

    @property
    def input(self) -> Locator:
        """The chat's input."""
        return self.chat.get_by_label("Message", exact=True)

    def open_chat(self) -> None:
        """Open the chat by its key, and wait until the server is there."""
        wait_for(lambda: self.window.is_active("dsh-lsp.dsh-lsp"), "the extension is active")
        self._press_until("Control+Alt+d", self._has_cursor, "the input has the focus")
        self.wait_until_connected()

    def _has_cursor(self) -> bool:
        return self.chat.locator("#input:focus").count() == 1

    def wait_for_cursor(self) -> None:
        """Wait until the cursor is in the chat's input, where a command has put it."""
        wait_for(self._has_cursor, "the input has the focus")

    def _press_until(self, key: str, is_done: Callable[[], bool], what: str) -> None:
        """Press a key until it has had its effect: one that falls too early, or elsewhere, has none."""

        def done() -> bool:
            if not is_done():
                self.window.press(key)
                with suppress(TimeoutError):
                    wait_for(is_done, what, timeout_s=PRESS_AGAIN_S)
            return is_done()

        wait_for(done, what)

    def wait_until_connected(self) -> None:
        """Wait until the status item says that the server is there."""
        # The folders of a workspace may come some time after its window.
        early = ("", "DSH is starting", "DSH needs a folder")
        wait_for(lambda: self.status_label() not in early, "the server has started")

    def status_label(self) -> str:
        """What a screen reader hears of the status item."""
        item = self.page.locator('[id="dsh-lsp.dsh-lsp.dsh.status"] a')
        label: str = item.evaluate_all("all => all[0]?.getAttribute('aria-label') ?? ''")
        return label

    def ask(self, text: str) -> None:
        """Type into the chat's input and press Enter, once the words that were sent before have left it."""
        self.wait_until_accepted()
        self.input.click()
        self.window.type(text, pause_ms=5)
        self.window.press("Enter")

    def wait_until_accepted(self) -> None:
        """Wait until the chat's input is empty: what was sent is accepted."""
        wait_for(lambda: self.input.input_value() == "", "the words are accepted")

    def log_text(self) -> str:
        """All that the conversation shows."""
        return self.chat.locator("#log").inner_text()

    def wait_for_text(self, text: str) -> None:
        """Wait until the conversation shows a text."""
        self.chat.locator("#log").get_by_text(text).first.wait_for(timeout=WAIT_S * 1000)

    def wait_until_running(self) -> None:
        """Wait until the chat knows that a turn runs: what is said then steers it."""
        self.chat.get_by_placeholder("Steer the running turn").wait_for()

    def wait_until_idle(self) -> None:
        """Wait until the status item and the chat say that no turn runs: each may be behind the other."""
        stop = self.chat.locator("#composer button.stop")
        wait_for(lambda: self.status_label() == "DSH is idle" and stop.count() == 0, "the turn has ended")

    def server(self) -> int | None:
        """The process of the server that has this window's folder, if one runs."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                folder = (entry / "cwd").readlink()
            except OSError:
                continue
            if b"dsh_lsp" in command and b"serve" in command and folder == self.window.folder:
                return int(entry.name)
        return None

    # -- the review ------------------------------------------------------------------------------------------

    def open_review(self) -> None:
        """Open the review with the key for it, and wait for the words above its edits and for the cursor in it.

        It may open by itself, too, without the cursor: what the key does to it would come at any time after that.
        """
        self.wait_for_review()
        has_focus = self.page.locator(".editor.modified .monaco-editor.focused")
        self.show_review(lambda: self.lens("Reject").count() > 0 and has_focus.count() > 0)

    def show_review(self, is_shown: Callable[[], bool]) -> None:
        """Open the review with the key for it: the key does nothing before the editor knows that edits wait."""
        self._press_until("Control+Alt+r", is_shown, "the review is shown")

    def wait_for_review(self) -> None:
        """Wait until the status item says that edits wait."""
        wait_for(lambda: self.status_label() == "DSH waits for your review", "edits wait for a review")

    def lens(self, text: str | re.Pattern[str]) -> Locator:
        """The words above an edit."""
        return self.page.locator(".codelens-decoration a", has_text=text)

    def proposal_text(self, name: str) -> str | None:
        """The text of the proposal for a file, as it is shown."""
        code = """
        const found = vscode.workspace.textDocuments.find((one) => one.uri.scheme === 'dsh-proposal'
          && one.uri.path.endsWith('/' + args[0]) && !one.isClosed);
        return found ? found.getText() : null;
        """
        text: str | None = self.window.vscode(code, name)
        return text


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """A workspace's own settings."""
    (folder / ".vscode").mkdir(exist_ok=True)
    (folder / ".vscode" / "settings.json").write_text(json.dumps(settings))
