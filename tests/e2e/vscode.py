"""VS Code: the real workbench in a real browser, with extensions installed from their packages, and a user's keys.

Owns: `Workbench`, one code-server process with its browser, in which windows are opened; `Window`, one page of it
with a folder, driven by keys, clicks and, for what a user could see elsewhere, a loopback channel into the extension
host that a test-only extension opens.
Rules: the tested package is installed as it is shipped; every wait has a time limit; each window has a folder and a
browser profile of its own, so that nothing of one test is met by another; what was started is ended by its id.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import Browser, Error, Locator, Page, sync_playwright

from tests.e2e.vscode_install import CLIENT, Installation, install, install_client_tools, run

T = TypeVar("T")

EXTENSIONS = Path(__file__).parent / "vscode_extensions"
WAIT_S = 60.0  # a limit, not a delay: a machine under load takes long
START_S = 120.0
POLL_S = 0.05
LOADS, FOLDERS_S = 4, 5.0  # a page may read its workspace file too early, and find no folders in it for good
GRACE_S = 15  # how long an extension host outlives its page; 2 s was seen to be too short under load

BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]

# A quiet workbench: nothing asks, suggests or fetches.
QUIET = {
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "workbench.enableExperiments": False,
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "extensions.autoUpdate": False,
    "extensions.autoCheckUpdates": False,
    "extensions.ignoreRecommendations": True,
    "git.enabled": False,
    "files.autoSave": "off",
    "editor.accessibilitySupport": "off",
    "chat.disableAIFeatures": True,
    "chat.commandCenter.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "remote.autoForwardPorts": False,
}
TYPES_AS_GIVEN = {
    "editor.autoClosingBrackets": "never",
    "editor.autoClosingQuotes": "never",
    "editor.autoIndent": "none",
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "editor.suggestOnTriggerCharacters": False,
    "editor.wordBasedSuggestions": "off",
    "editor.acceptSuggestionOnEnter": "off",
}


class ControlError(Exception):
    """What a test ran in the extension host failed; `code` and `data` are an LSP error's."""

    def __init__(self, text: str, code: Any = None, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


def wait_for(probe: Callable[[], T], what: str, timeout_s: float = WAIT_S) -> T:
    """Wait until `probe` returns something true, and return that.

    Raises:
        TimeoutError: it never did.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {what}")
        time.sleep(POLL_S)
    return found


# -- packages ------------------------------------------------------------------------------------------------


def package_test_extension(name: str, installation: Installation, folder: Path) -> Path:
    """Package an extension of `vscode_extensions`; one in TypeScript is bundled with the client's own tools."""
    source, built = EXTENSIONS / name, folder / name
    shutil.copytree(source, built)
    (built / "LICENSE").write_text("MIT\n")
    tools = CLIENT / "node_modules" / ".bin"
    if (built / "main.ts").exists():
        bundle = ["--bundle", "--outfile=dist/main.js", "--external:vscode", "--format=cjs", "--platform=node"]
        env = installation.env | {"NODE_PATH": str(CLIENT / "node_modules")}
        run([str(tools / "esbuild"), "main.ts", *bundle], cwd=built, env=env)
    (built / ".vscodeignore").write_text("main.ts\n")
    target = folder / f"{name}.vsix"
    package = [
        str(tools / "vsce"),
        "package",
        "--no-dependencies",
        "--skip-license",
        "--allow-missing-repository",
        "--out",
        str(target),
    ]
    run(package, cwd=built, env=installation.env)
    return target


# -- the workbench -------------------------------------------------------------------------------------------


class Workbench:
    """One code-server process and one browser."""

    def __init__(self, browser: Browser, url: str, folder: Path) -> None:
        self.browser = browser
        self.url = url
        self.user_data = folder / "user"

    @classmethod
    @contextmanager
    def start(cls, folder: Path, packages: Sequence[Path], *, env: Mapping[str, str]) -> Iterator[Workbench]:
        """Install the packages into a new user's VS Code and serve it."""
        installation = install()
        arguments = [str(installation.node), str(installation.code_server)]
        (folder / "config.yaml").write_text("auth: none\n")
        arguments += ["--config", str(folder / "config.yaml"), "--user-data-dir", str(folder / "user")]
        arguments += ["--extensions-dir", str(folder / "extensions")]
        environ = clean_environment(folder) | {"EXTENSIONS_GALLERY": "{}"} | dict(env)
        for package in packages:
            run([*arguments, "--install-extension", str(package), "--force"], cwd=folder, env=environ)
        arguments += ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check"]
        arguments += ["--disable-getting-started-override", "--ignore-last-opened"]
        arguments += ["--reconnection-grace-time", str(GRACE_S)]
        log = folder / "code-server.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                arguments, cwd=folder, env=environ, stdout=output, stderr=output, start_new_session=True
            )
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=installation.chromium, headless=True, args=BROWSER_FLAGS
                )
                try:
                    yield cls(browser, wait_for(lambda: _served_at(log, process), "code-server serves"), folder)
                finally:
                    browser.close()
        finally:
            end_group(process)

    @contextmanager
    def open(
        self,
        folder: Path,
        *,
        settings: Mapping[str, Any] | None = None,
        size: tuple[int, int] = (1400, 900),
    ) -> Iterator[Window]:
        """Open a folder in a window with a browser profile of its own."""
        # What has the scope of a machine is read from the machine's own settings, where extensions run remotely.
        for place in ("User", "Machine"):
            (self.user_data / place).mkdir(parents=True, exist_ok=True)
            text = json.dumps(QUIET | TYPES_AS_GIVEN | dict(settings or {}), indent=1)
            (self.user_data / place / "settings.json").write_text(text)
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark",
            permissions=["clipboard-read", "clipboard-write"],
        )
        try:
            page = context.new_page()
            window = Window(page, self.url, folder)
            window.load()
            yield window
        finally:
            with suppress(Error):  # the page may be gone
                context.pages[0].screenshot(path=folder.parent / "last.png")
                print(f"-- the window at the end: {folder.parent / 'last.png'}")  # shown when the test fails
            context.close()


def _served_at(log: Path, process: subprocess.Popen[bytes]) -> str | None:
    text = log.read_text(errors="replace")
    assert process.poll() is None, text
    found = re.search(r"HTTP server listening on (http://127\.0\.0\.1:\d+)", text)
    return found[1] if found else None


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started with a group of its own, and all that it started there."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
    # What is left of the group has had its signal; nothing is waited for.


def clean_environment(home: Path) -> dict[str, str]:
    """The environment of a user who has nothing but this editor."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "DSH_LOG_LEVEL": "INFO"}
    return env | {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}


# -- a window ------------------------------------------------------------------------------------------------


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
        wait_for(self._answers, "the extension host answers", START_S)

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
                wait_for(self._folders, "the folders of the workspace are known", FOLDERS_S)
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

    # -- documents -------------------------------------------------------------------------------------------

    def open(self, name: str) -> None:
        """Show a file, with the cursor in it."""
        code = """
        const document = await vscode.workspace.openTextDocument(args[0]);
        await vscode.window.showTextDocument(document, { preview: false });
        """
        self.vscode(code, str(self.folder / name))

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
        """Run a command by the palette; fails if the palette does not offer it."""
        self._fill_palette(title)
        self.palette_row(title).wait_for(timeout=WAIT_S * 1000)
        self.press("Enter")

    def _fill_palette(self, title: str) -> None:
        """Open the palette and type into it; what takes the focus meanwhile closes it again."""
        box = self.page.locator(".quick-input-widget input").first

        def filled() -> bool:
            self.press("F1")
            with suppress(Error):
                box.wait_for(timeout=5_000)
                box.fill(f">{title}", timeout=5_000)
                return True
            self.press("Escape")
            return False

        wait_for(filled, "the palette is open")

    def palette_row(self, title: str) -> Locator:
        """The first row of an open quick pick, if it is this one."""
        return self.page.locator(f'.quick-input-list .monaco-list-row[data-index="0"][aria-label^="{title}"]')

    def palette_offers(self, title: str) -> bool:
        """Whether the palette has a command of just this title now."""
        self._fill_palette(title)
        rows = self.page.locator(".quick-input-list .monaco-list-row")
        rows.first.wait_for(timeout=WAIT_S * 1000)
        self.page.wait_for_timeout(300)  # the list is filtered a moment later
        labels = [row.get_attribute("aria-label") or "" for row in rows.all()]
        self.press("Escape")
        return any(label.split(",")[0] == title for label in labels)

    def notifications(self) -> list[str]:
        """The texts of the toasts that are shown."""
        return [toast.inner_text() for toast in self.page.locator(".notification-list-item-message").all()]

    def code_action(self, title: str) -> None:
        """Choose a code action at the cursor by its title."""
        row = self.page.locator(".action-widget .monaco-list-row", has_text=title).first

        def shown() -> bool:
            self.press("Control+.")
            with suppress(Error):
                row.wait_for(timeout=8_000)
                return True
            self.press("Escape")  # the list that came was an older one, or was closed by a change of the document
            return False

        wait_for(shown, f"the code action {title}")
        row.click()

    def screenshot(self, path: Path) -> None:
        """Take a picture of the window."""
        self.page.screenshot(path=path)


# -- the editor's own preview of an edit ---------------------------------------------------------------------


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
        return [row.inner_text() for row in self.panel.locator(".monaco-list-row").all()]

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


# -- what a test begins with ---------------------------------------------------------------------------------


def tools() -> Installation:
    """All that the suites need, installed."""
    installation = install()
    install_client_tools(installation.env)
    return installation
