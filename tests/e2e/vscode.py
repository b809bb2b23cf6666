"""VS Code: the real workbench in a real browser, with extensions installed from their packages.

Owns: `Workbench`, one code-server process with its browser, in which windows are opened.
Rules: the tested package is installed as it is shipped; each window has a folder and a browser profile of its own, so
that nothing of one test is met by another; what was started is ended by its id.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Error, sync_playwright

from tests.e2e.vscode_install import CLIENT, Installation, install, install_client_tools, run
from tests.e2e.vscode_window import WAIT_S, Window, wait_for

EXTENSIONS = Path(__file__).parent / "vscode_extensions"
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
        context.set_default_timeout(WAIT_S * 1000)
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


# -- what a test begins with ---------------------------------------------------------------------------------


def tools() -> Installation:
    """All that the suites need, installed."""
    installation = install()
    install_client_tools(installation.env)
    return installation
