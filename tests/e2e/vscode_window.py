"""VS Code's window: one page of the workbench with a folder, driven by keys and clicks.

Rules: what a user could see elsewhere is read by a loopback channel into the extension host, which a test-only
extension opens; every wait has a time limit.
"""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Locator, Page

from tests.e2e import desk

WAIT_S = 60.0  # a limit, not a delay: a machine under load takes long
START_S = 120.0
LOADS, FOLDERS_S = 4, 5.0  # a page may read its workspace file too early, and find no folders in it for good

wait_for = partial(desk.wait_for, timeout_s=WAIT_S, poll_s=0.05)


class ControlError(Exception):
    """What a test ran in the extension host failed; `code` and `data` are an LSP error's."""

    def __init__(self, text: str, code: Any = None, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


class Window:
    """One page of the workbench with a folder open in it."""

    def __init__(self, page: Page, url: str, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.console: list[str] = []
        self._url = f"{url}/?folder={folder}"
        self._port_file = folder.parent / "control-port"
        self._sent = 0
        page.on("console", lambda message: self.console.append(message.text))

    def load(self) -> None:
        """Load the page, again too, and wait until its extension host answers."""
        self._port_file.unlink(missing_ok=True)
        self.page.goto(self._url)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until the workbench stands and its extension host answers."""
        self.page.locator(".monaco-workbench").wait_for(timeout=START_S * 1000)
        wait_for(self._answers, "the extension host answers", timeout_s=START_S)

    def go_to_workspace(self, file: Path) -> None:
        """Open a multi-root workspace in the place of the folder.

        The editor in a browser sometimes reads none of the folders of a workspace that it opens for the first time,
        and stays so until its page is loaded again.
        """
        self._url = f"{self._url.partition('/?')[0]}/?workspace={file}"
        self._port_file = file.parent / "control-port"
        for _ in range(LOADS):
            self.load()
            with suppress(TimeoutError):
                wait_for(self._folders, "the folders of the workspace are known", timeout_s=FOLDERS_S)
                return
        raise TimeoutError("the editor has not read its workspace file")

    def go_to_no_folder(self) -> None:
        """Open a window with nothing in it; the extension host cannot be reached there."""
        self.page.goto(f"{self._url.partition('/?')[0]}/?ew=true")
        self.page.locator(".monaco-workbench").wait_for(timeout=START_S * 1000)

    def _folders(self) -> bool:
        return bool(self.vscode("return vscode.workspace.workspaceFolders?.length"))

    def leave(self) -> None:
        """Close the window, and keep its browser: `load` opens it again."""
        self.page.goto("about:blank")

    def forget_host(self) -> None:
        """Before a reload by the editor's own means: the next host tells where it is."""
        self._port_file.unlink(missing_ok=True)

    def _answers(self) -> bool:
        with suppress(OSError, ValueError):
            return self.vscode("return true") is True
        return False

    # -- the extension host ----------------------------------------------------------------------------------

    def vscode(self, code: str, *args: Any, timeout_s: float = WAIT_S) -> Any:
        """Run JavaScript in the extension host, with `vscode`, `args` and `kept`; what it returns.

        Raises:
            ControlError: it threw.
        """
        port = int(self._port_file.read_text())
        body = json.dumps({"code": code, "args": args}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=body)
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            reply = json.load(response)
        if "error" in reply:
            raise ControlError(reply["error"], reply["code"], reply["data"])
        return reply["result"]

    def is_active(self, extension: str) -> bool:
        """Whether an extension has been activated."""
        return bool(self.vscode("return vscode.extensions.getExtension(args[0])?.isActive ?? false", extension))

    def command(self, name: str, *args: Any) -> Any:
        """Run a command of the editor to its end."""
        return self.vscode("return await vscode.commands.executeCommand(args[0], ...args[1])", name, args)

    def send(self, name: str, *args: Any) -> int:
        """Start a command and go on; `answer` has what becomes of it."""
        self._sent += 1
        code = """
        const [id, name, rest] = args;
        kept[id] = Promise.resolve(vscode.commands.executeCommand(name, ...rest));
        kept[id].catch(() => {});
        """
        self.vscode(code, self._sent, name, args)
        return self._sent

    def answer(self, sent: int) -> Any:
        """Wait for the answer of a command that was sent."""
        return self.vscode("return await kept[args[0]]", sent)

    def catch_up(self) -> None:
        """Wait until the extension host has heard of all that was typed: the page answers it in order."""
        self.command("noop")

    # -- documents -------------------------------------------------------------------------------------------

    def open(self, name: str) -> None:
        """Show a file, with the cursor in it."""
        code = """
        const document = await vscode.workspace.openTextDocument(args[0]);
        const refusal = (error) => String(error); // what the editor does besides may cancel it, and it says only that
        const told = await vscode.window.showTextDocument(document, { preview: false }).then(() => '', refusal);
        return told || vscode.window.activeTextEditor?.document === document;
        """
        wait_for(lambda: self.vscode(code, str(self.folder / name)) is True, f"{name} is shown")

    def document(self, name: str) -> dict[str, Any] | None:
        """An open document: its `text`, whether it is `dirty`; None if no document holds the file."""
        code = """
        const found = vscode.workspace.textDocuments.find((one) => one.uri.fsPath === args[0] && !one.isClosed
          && one.uri.scheme === 'file');
        return found ? { text: found.getText(), dirty: found.isDirty, version: found.version } : null;
        """
        found: dict[str, Any] | None = self.vscode(code, str(self.folder / name))
        return found

    def text(self, name: str) -> str:
        """The text of an open document."""
        document = self.document(name)
        assert document is not None, f"{name} is not open"
        return str(document["text"])

    def on_disk(self, name: str) -> str:
        """A file as it is saved."""
        return (self.folder / name).read_text()

    def place_cursor(self, line: int, character: int = 0) -> None:
        """Put the cursor of the active editor at a place, from 0, with the focus in the editor."""
        code = """
        const editor = vscode.window.activeTextEditor;
        const at = new vscode.Position(args[0], args[1]);
        editor.selection = new vscode.Selection(at, at);
        editor.revealRange(new vscode.Range(at, at));
        await vscode.commands.executeCommand('workbench.action.focusActiveEditorGroup');
        """

        def is_there() -> bool:
            self.vscode(code, line, character)
            self.page.wait_for_timeout(200)  # a page that loads may take the focus a moment later
            return self.page.locator(".monaco-editor.focused").count() > 0

        wait_for(is_there, "the editor has the focus")

    # -- keys and clicks -------------------------------------------------------------------------------------

    def press(self, keys: str) -> None:
        """Press one key with its modifiers, in Playwright's notation."""
        self.page.keyboard.press(keys)

    def type(self, text: str, *, pause_ms: float = 20) -> None:
        """Type characters one by one where the focus is."""
        self.page.keyboard.type(text, delay=pause_ms)

    def palette(self, title: str) -> None:
        """Run a command by the palette; fails if the palette does not come to offer it.

        A palette that is open does not hear that a command makes sense a moment later: it is opened anew.
        """
        row = self.chosen_row(title)

        def offered() -> bool:
            self._fill_palette(title)
            with suppress(Error):
                row.wait_for(timeout=8_000)
                return True
            self.press("Escape")
            return False

        wait_for(offered, f"the palette offers {title}")
        self.press("Enter")

    def _fill_palette(self, title: str) -> list[str]:
        """Open the palette and type into it, and return the labels before that.

        What takes the focus meanwhile closes it again.
        """
        box = self.page.locator(".quick-input-widget input").first
        before: list[str] = []

        def filled() -> bool:
            self.press("F1")
            with suppress(Error):
                box.wait_for(timeout=5_000)
                self._rows.first.wait_for(timeout=5_000)
                before[:] = self._labels()
                box.fill(f">{title}", timeout=5_000)
                return True
            self.press("Escape")
            return False

        wait_for(filled, "the palette is open")
        return before

    @property
    def _rows(self) -> Locator:
        return self.page.locator(".quick-input-list .monaco-list-row")

    def _labels(self) -> list[str]:
        """The labels of the rows that an open quick pick shows."""
        labels: list[str] = self._rows.evaluate_all("all => all.map((one) => one.getAttribute('aria-label') ?? '')")
        return labels

    def chosen_row(self, label: str) -> Locator:
        """The row of an open quick pick that Enter chooses, if it has just this label."""
        row = ".quick-input-list .monaco-list-row.focused"
        return self.page.locator(f'{row}:is([aria-label="{label}"], [aria-label^="{label}, "])')

    def palette_offers(self, title: str) -> bool:
        """Whether the palette has a command of just this title now."""
        before = self._fill_palette(title)
        seen = [before]

        def filtered() -> list[str]:
            self.page.wait_for_timeout(300)
            seen.append(self._labels())
            return seen[-1] if seen[-1] == seen[-2] != before else []

        labels = wait_for(filtered, "the palette shows what fits, and no more comes")
        self.press("Escape")
        return any(label.split(",")[0] == title for label in labels)

    def notifications(self) -> list[str]:
        """The texts of the toasts that are shown."""
        return self.page.locator(".notification-list-item-message").all_inner_texts()

    def code_action(self, title: str) -> None:
        """Choose a code action at the cursor by its title."""
        row = self.page.locator(".action-widget .monaco-list-row", has_text=title).first

        def chosen() -> bool:
            self.press("Control+.")
            with suppress(Error):
                row.click(timeout=8_000)
                return True
            self.press("Escape")  # the list that came was an older one, or was closed by a change of the document
            return False

        wait_for(chosen, f"the code action {title}")

    def screenshot(self, path: Path) -> None:
        """Take a picture of the window."""
        self.page.screenshot(path=path)
