"""VS Code's folders: one that is added is worked in as those before it, one that is removed is outside again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.vscode_client import CALC, Desk
from tests.support.model_server import answer

pytestmark = pytest.mark.timeout(300)

DONE = answer("Done.")
# The list of folders has what was asked for before it has happened; what listens to it hears of what has happened.
CHANGE = """
const [{ add, remove }] = args;
const folders = vscode.workspace.workspaceFolders;
const at = add ? folders.length : folders.findIndex((one) => one.uri.fsPath === remove);
const heard = new Promise((resolve) => {
  const listening = vscode.workspace.onDidChangeWorkspaceFolders(() => resolve(listening.dispose()));
});
const more = add ? [{ uri: vscode.Uri.file(add) }] : [];
const changed = vscode.workspace.updateWorkspaceFolders(at, add ? 0 : 1, ...more);
await heard;
return changed;
"""


def test_a_folder_is_worked_in_while_it_is_there_and_asked_for_before_and_after(
    client_workbench: Any, tmp_path: Path
) -> None:
    other, added = tmp_path / "other", tmp_path / "added"
    for folder in (other, added):
        folder.mkdir()
    there = added / "there.py"
    there.write_text("y = 1\n")
    look = answer("", calls=[("read_file", {"path": str(there)})])
    edit = answer("", calls=[("edit_file", {"path": str(there), "old_text": "y = 1", "new_text": "y = 2"})])
    with Desk.set_up(client_workbench, tmp_path, {"calc.py": CALC}, chat=False) as desk:
        file = tmp_path / "some.code-workspace"
        file.write_text(json.dumps({"folders": [{"path": "project"}, {"path": "other"}]}))
        desk.window.go_to_workspace(file)
        desk.window.open("calc.py")
        desk.open_chat()
        desk.model.script(look, DONE, look, edit, DONE, look, DONE)
        refuse(desk, "Look there.", there)
        assert "rejected" in desk.tool_result(2)
        desk.wait_until_idle()
        server = desk.server()

        assert desk.window.vscode(CHANGE, {"add": str(added)}) is True
        desk.ask("And now?")
        desk.wait_for_review()
        assert "1\ty = 1" in desk.tool_result(4)
        assert f"absolute: {other}, {added}" in told(desk, 4)
        desk.window.press("Control+Alt+Shift+y")
        assert "the edit was accepted and is in the document, line 1 (saved)" in desk.tool_result(5)
        desk.wait_until_idle()
        assert there.read_text() == "y = 2\n"

        assert desk.window.vscode(CHANGE, {"remove": str(added)}) is True
        refuse(desk, "Once more.", there)
        assert "rejected" in desk.tool_result(7)
        assert str(added) not in told(desk, 7).rpartition("Further folders")[2].partition("\n")[0]
        desk.wait_until_idle()
        assert desk.server() == server, "one server served all of it"


def refuse(desk: Desk, words: str, path: Path) -> None:
    """Ask, and refuse what is asked for then."""
    desk.ask(words)
    group = desk.chat.get_by_role("group", name="May read_file run?")
    group.get_by_text(str(path)).first.wait_for()
    group.get_by_role("button", name="Reject").click()


def told(desk: Desk, request: int) -> str:
    """All that the model was told by the user and for them."""
    return "\n".join(str(message["content"]) for message in desk.sent_messages(request) if message["role"] == "user")
