"""VS Code's client at its first run, and where it may do less: no server yet, no trust, several folders."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.vscode_client import CALC, MENDED_ADD, OTHER, SERVER, Desk, write_settings
from tests.e2e.vscode_window import wait_for
from tests.support.model_server import answer

pytestmark = pytest.mark.timeout(400)

FILES = {"calc.py": CALC, "other.py": OTHER}
DONE = answer("Done.")
MEND_ADD = answer("One.", calls=[("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"})])


def test_without_a_server_the_view_offers_to_install_one_and_does_it_with_consent(
    client_workbench: Any, tmp_path: Path
) -> None:
    with Desk.set_up(client_workbench, tmp_path, FILES, settings={"dsh.client.server": []}) as desk:
        banner = desk.chat.locator("#banner")
        banner.get_by_text("No server was found.").wait_for()
        wait_for(lambda: desk.status_label() == "DSH has no server", "the status item says so")
        banner.get_by_role("button", name="Install").click()
        dialog = desk.page.locator(".monaco-dialog-box")
        dialog.get_by_text("Install the DSH server?").wait_for()
        dialog.get_by_role("button", name="Cancel").click()
        assert banner.get_by_text("No server was found.").is_visible()
        banner.get_by_role("button", name="Install").click()
        dialog.get_by_role("button", name="Install", exact=True).click()
        wait_for(lambda: desk.status_label() == "DSH is idle", "the server is installed and runs", timeout_s=300)
        desk.model.script(answer("From the extension's own server."))
        desk.ask("Who are you?")
        desk.wait_for_text("From the extension's own server.")


def test_what_is_no_server_is_said_to_be_none_and_holds_up_no_better_one(
    client_workbench: Any, tmp_path: Path
) -> None:
    silent = [sys.executable, "-c", "import time; time.sleep(600)  # never answers"]
    settings = {"dsh.client.server": "dsh-lsp serve"}
    with Desk.set_up(client_workbench, tmp_path, FILES, settings=settings) as desk:
        banner = desk.chat.locator("#banner")
        banner.get_by_text("the setting dsh.client.server must be a list").wait_for()
        configure(client_workbench, server=[sys.executable, "-c", "exit(1)"])
        banner.get_by_text("the server does not start").wait_for()
        configure(client_workbench, server=silent)
        wait_for(lambda: processes("# never answers"), "it was started")
        wait_for(lambda: desk.status_label() == "DSH is starting", "it is waited for")
        configure(client_workbench, server=SERVER)
        wait_for(lambda: desk.status_label() == "DSH is idle", "another one runs")
        wait_for(lambda: not processes("# never answers"), "the silent one has ended")


def configure(workbench: Any, *, server: list[str]) -> None:
    """Write another server into the machine's settings, as somebody with another window does."""
    file = workbench.user_data / "Machine" / "settings.json"
    settings = json.loads(file.read_text()) | {"dsh.client.server": server}
    part = file.with_suffix(".part")
    part.write_text(json.dumps(settings))
    part.replace(file)


def processes(words: str) -> list[int]:
    """The processes whose command line has these words."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and words.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def test_the_package_has_the_licences_of_what_it_holds(client_workbench: Any) -> None:
    (found,) = client_workbench.user_data.parent.glob("extensions/dsh-lsp.dsh-lsp-*/dist/LICENSES.txt")
    texts = found.read_text()
    for name in ("vscode-languageclient", "markdown-it", "highlight.js", "@vscode/codicons"):
        assert f"\n{name} " in f"\n{texts}", name
    assert texts.count("Permission is hereby granted") > 5


def test_the_walkthrough_leads_from_the_server_to_the_first_question(desk: Desk) -> None:
    # With motion, the page takes the focus for a clicked step 250 ms later: from the chat, if the button came before.
    desk.page.emulate_media(reduced_motion="reduce")
    desk.window.command("workbench.action.openWalkthrough", "dsh-lsp.dsh-lsp#start")
    steps = desk.page.locator(".getting-started-step")
    steps.first.wait_for()
    titles = ["The server", "A key", "Or an endpoint of your own", "Or the demo", "Ask"]
    wait_for(lambda: [text.split("\n")[0] for text in steps.all_inner_texts()] == titles, "the steps are shown")
    assert "`" not in "".join(steps.all_inner_texts())
    for done in ("The server", "A key", "Or an endpoint of your own"):  # all there before the walkthrough was
        steps.get_by_role("checkbox", name=f"{done}: Completed").wait_for()
    steps.filter(has_text="Or the demo").click()
    before = desk.server()
    desk.page.get_by_role("button", name="Use the Demo").click()
    wait_for(
        lambda: desk.window.vscode("return vscode.workspace.getConfiguration('dsh').get('model.provider')") == "demo",
        "the demo is set",
    )
    wait_for(lambda: desk.server() not in (before, None), "another server runs")
    desk.wait_until_idle()
    desk.wait_for_cursor()
    desk.ask("Hello?")
    desk.wait_for_text("I am the script that plays DSH's demo")
    steps.get_by_role("checkbox", name="Or the demo: Completed").wait_for()


def test_a_workspace_that_is_not_trusted_is_only_read(client_workbench: Any, tmp_path: Path) -> None:
    settings = {
        "security.workspace.trust.enabled": True,
        "security.workspace.trust.startupPrompt": "never",
        "security.workspace.trust.banner": "never",
        "security.workspace.trust.untrustedFiles": "open",
    }
    with Desk.set_up(client_workbench, tmp_path, FILES, settings=settings) as desk:
        desk.chat.locator("#banner").get_by_text("Restricted").wait_for()
        desk.model.script(MEND_ADD, DONE)
        desk.ask("Mend it.")
        desk.wait_for_text("Done.")
        assert "read-only" in desk.tool_result(2)
        assert desk.window.text("calc.py") == CALC


def test_a_workspace_cannot_raise_its_own_rights(client_workbench: Any, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    write_settings(tmp_path / "project", {"dsh.mode": "auto-edit", "dsh.model.baseUrl": "http://127.0.0.1:1"})
    with Desk.set_up(client_workbench, tmp_path, FILES) as desk:
        desk.model.script(MEND_ADD, DONE)
        desk.ask("Mend it.")
        desk.wait_for_review()
        assert desk.window.text("calc.py") == CALC
        desk.window.press("Control+Alt+Shift+n")
        assert "rejected" in desk.tool_result(2)


def test_in_a_workspace_of_two_folders_a_session_is_about_that_of_the_open_file(
    client_workbench: Any, tmp_path: Path
) -> None:
    with Desk.set_up(client_workbench, tmp_path, FILES, chat=False) as desk:
        second = tmp_path / "second"
        second.mkdir()
        (second / "there.py").write_text("z = 1\n")
        file = tmp_path / "two.code-workspace"
        file.write_text(json.dumps({"folders": [{"path": "project"}, {"path": "second"}]}))
        desk.window.go_to_workspace(file)
        desk.window.vscode(
            "await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(args[0]))",
            str(second / "there.py"),
        )
        desk.open_chat()
        call = ("edit_file", {"path": "there.py", "old_text": "z = 1", "new_text": "z = 2"})
        desk.model.script(answer("", calls=[call]), DONE)
        desk.ask("Mend it.")
        desk.wait_for_review()
        desk.window.press("Control+Alt+Shift+y")
        assert "accepted and is in the document" in desk.tool_result(2)
        desk.wait_until_idle()
        assert (second / "there.py").read_text() == "z = 2\n"


def test_without_a_folder_there_is_no_session_and_the_page_says_what_is_missing(
    client_workbench: Any, tmp_path: Path
) -> None:
    with Desk.set_up(client_workbench, tmp_path, FILES, chat=False) as desk:
        desk.window.go_to_no_folder()
        wait_for(lambda: desk.status_label() == "DSH needs a folder", "the extension is active")
        desk.window.press("Control+Alt+d")
        banner = desk.chat.locator("#banner")
        banner.get_by_text("Open a folder").wait_for()
        banner.get_by_role("button", name="Open Folder").wait_for()
        desk.ask("Read what is there.")
        desk.chat.get_by_role("alert").get_by_text("open a folder first").wait_for()
        assert desk.input.input_value() == "Read what is there."
        assert desk.model.requests == []
        assert not (tmp_path / "sessions").exists()


# Looks


THEMES = {"light": "Default Light Modern", "dark": "Default Dark Modern", "contrast": "Default High Contrast"}


@pytest.mark.parametrize("theme", THEMES)
def test_the_chat_is_accessible_in_every_theme(client_workbench: Any, tmp_path: Path, theme: str) -> None:
    from tests.e2e.vscode_install import CLIENT

    outside = tmp_path / "outside.txt"
    outside.write_text("far away\n")
    settings = {"workbench.colorTheme": THEMES[theme]}
    with Desk.set_up(client_workbench, tmp_path, FILES, settings=settings) as desk:
        frame = desk.chat.locator("body").element_handle().owner_frame()
        frame.evaluate((CLIENT / "node_modules" / "axe-core" / "axe.min.js").read_text())
        assert violations(frame) == []
        text = "# Title\n\nSome `code`, a [link](https://example.com).\n\n```python\ndef f():\n    return 'x'\n```\n"
        calls = [("read_file", {"path": "calc.py"}), ("read_file", {"path": str(outside)})]
        desk.model.script(answer(text, reasoning="A thought.", calls=calls), MEND_ADD, DONE)
        desk.ask("Mend it.")
        group = desk.chat.get_by_role("group", name="May read_file run?")
        group.wait_for()
        assert violations(frame) == []
        group.get_by_role("button", name="Reject").click()
        desk.wait_for_review()
        desk.chat.locator(".review-waits").wait_for()
        assert violations(frame) == []
        desk.window.press("Control+Alt+Shift+y")
        desk.wait_until_idle()
        assert violations(frame) == []
        assert desk.window.text("calc.py") == MENDED_ADD


def violations(frame: Any) -> list[str]:
    """What the page's rules of accessibility find."""
    found = frame.evaluate("() => axe.run(document)")
    return [f"{one['id']}: {node['html'][:160]}" for one in found["violations"] for node in one["nodes"]]
