"""Editors in turn: a session that is begun in VS Code is gone on with in Neovim, and again in VS Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import CALC, DONE, MENDED, edits
from tests.e2e.vscode_client import Desk
from tests.e2e.vscode_window import wait_for
from tests.support.fake_editor import rows_of
from tests.support.model_server import answer

pytestmark = pytest.mark.timeout(300)

BOTH = MENDED.replace("a + a", "2 * a")


def test_a_session_goes_from_vs_code_to_neovim_and_back_with_an_edit_reviewed_in_each(
    client_workbench: Any, tmp_path: Path
) -> None:
    sessions = tmp_path / "sessions"
    with Desk.set_up(client_workbench, tmp_path, {"calc.py": CALC}) as vscode:
        root, model = vscode.window.folder, vscode.model
        model.script(edits(("calc.py", "a - b", "a + b")), answer("Add is mended."))
        vscode.ask("Mend add.")
        vscode.open_review()
        vscode.window.press("Control+Alt+Shift+y")
        vscode.wait_for_text("Add is mended.")
        vscode.wait_until_idle()
        assert vscode.window.on_disk("calc.py") == MENDED
        vscode.window.leave()
        wait_for(lambda: vscode.server() is None, "the server ends with its window")

        same_user = {
            "XDG_STATE_HOME": str(client_workbench.user_data.parent / "state"),
            "TEST_SESSIONS": str(sessions),
        }
        with ClientDesk.at(root, model, tmp_path / "home", "calc.py", more=same_user) as neovim:
            model.script(edits(("calc.py", "a + a", "2 * a")), DONE)
            neovim.dsh("sessions")
            neovim.wait_for_screen("Mend add.  (1 turn")
            neovim.neovim.keys("1<CR>")
            neovim.wait_for_chat("Add is mended.")
            neovim.dsh("ask And now double.")
            assert neovim.wait_for_proposal("calc.py") == ["    return 2 * a"]
            neovim.go_to_file("calc.py")
            neovim.neovim.keys("gg]hgha")
            told = [str(message["content"]) for message in neovim.sent_messages(4)]
            assert told.index("Mend add.") < told.index("Add is mended.") < told.index("And now double.")
            assert "calc.py: the edit was accepted and is in the document, line 2 (saved)" in told[2]
            assert "calc.py: the edit was accepted and is in the document, line 6 (saved)" in told[-1]
            assert neovim.wait_for_turns(1) == "completed"
            assert neovim.neovim.text() == neovim.on_disk("calc.py") == BOTH

        model.script(answer("They are both right."))
        vscode.window.load()
        vscode.window.open("calc.py")
        vscode.open_chat()
        vscode.wait_for_text("And now double.")
        vscode.ask("What do you think of them?")
        vscode.wait_for_text("They are both right.")
        vscode.wait_until_idle()
        said = [message["content"] for message in vscode.sent_messages(5) if message["role"] == "user"]
        assert said == ["Mend add.", "And now double.", "What do you think of them?"]
        vscode.window.palette("DSH: Rewind Turn")
        vscode.page.locator(".quick-input-list .monaco-list-row").filter(has_text="Turn 2").click()
        vscode.page.locator(".monaco-dialog-box").get_by_role("button", name="Rewind").click()
        wait_for(lambda: vscode.window.on_disk("calc.py") == MENDED, "what landed in Neovim is taken back in VS Code")
    [log] = sessions.glob("*.jsonl")
    edits_of_both = ["    return a + b\n", "    return 2 * a\n", "    return a + a\n"]
    wait_for(lambda: landed_in(log) == edits_of_both, "what landed is on the disk")


def landed_in(log: Path) -> list[str]:
    return [row["data"]["after"] for row in rows_of(log) if row["type"] == "edit/landed"]
