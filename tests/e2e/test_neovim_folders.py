"""Neovim's workspace folders: one that is added is worked in as the first, one that is removed is outside again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import saved, wait_for
from tests.e2e.neovim import Desk
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import CALC, DONE
from tests.support.model_server import answer

ADD, REMOVE = "vim.lsp.buf.add_workspace_folder(...)", "vim.lsp.buf.remove_workspace_folder(...)"


@pytest.fixture
def second() -> Iterator[Path]:
    """A folder with a file, beside that of the editor; its name is short, so that it is told in one line."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        (Path(folder) / "there.py").write_text("y = 1\n")
        yield Path(folder)


def ask_by_command(desk: Desk, words: str) -> None:
    desk.run("dsh.followup", text=words)


def ask_in_the_client(desk: Desk, words: str) -> None:
    assert isinstance(desk, ClientDesk)
    desk.go_to_file("calc.py")
    desk.dsh(f"ask {words}")


def refuse_with_an_action(desk: Desk, path: Path) -> None:
    wait_for(lambda: desk.run("dsh.status").get("waitingFor") == "approval", "it needs a permission")
    desk.act(f"DSH: Reject: read_file, read {path}")


def refuse_with_a_key(desk: Desk, path: Path) -> None:
    assert isinstance(desk, ClientDesk)
    desk.wait_for_chat(str(path))
    desk.wait_for_permission()
    desk.neovim.keys("ghn")
    wait_for(lambda: desk.neovim.mode()["mode"] == "c", "it asks why")
    desk.neovim.keys("<CR>")


@pytest.mark.parametrize(
    ("kind", "ask", "refuse"),
    [(Desk, ask_by_command, refuse_with_an_action), (ClientDesk, ask_in_the_client, refuse_with_a_key)],
    ids=["stock", "client"],
)
def test_a_folder_is_worked_in_while_it_is_there_and_asked_for_before_and_after(
    tmp_path: Path,
    second: Path,
    kind: type[Desk],
    ask: Callable[[Desk, str], None],
    refuse: Callable[[Desk, Path], None],
) -> None:
    there = second / "there.py"
    look = answer("", calls=[("read_file", {"path": str(there)})])
    edit = answer("", calls=[("edit_file", {"path": str(there), "old_text": "y = 1", "new_text": "y = 2"})])
    with kind.set_up(tmp_path, {"calc.py": CALC}) as desk:
        desk.model.script(look, DONE, look, edit, DONE, look, DONE)
        ask(desk, "Look there.")
        refuse(desk, there)
        assert "rejected" in desk.tool_result(2)
        desk.wait_for_turns(1)

        desk.neovim.lua(ADD, str(second))
        ask(desk, "And now?")
        assert "1\ty = 1" in desk.tool_result(4)
        told = [str(message["content"]) for message in desk.sent_messages(4) if message["role"] == "user"]
        assert any(f"Further folders of the workspace, whose paths are absolute: {second}" in text for text in told)
        desk.wait_for_review()
        desk.run("dsh.review.accept", hunks="all")
        assert "the edit was accepted and is in the document, line 1" in desk.tool_result(5)
        desk.wait_for_turns(2)
        wait_for(lambda: saved(there) == b"y = 2\n", "it is on the disk")

        desk.neovim.lua(REMOVE, str(second))
        ask(desk, "Once more.")
        refuse(desk, there)
        assert "rejected" in desk.tool_result(7)
        assert not any("Further folders" in text for text in last_words(desk, 7))
        desk.wait_for_turns(3)


def last_words(desk: Desk, request: int) -> list[str]:
    """What came after the user's last words."""
    said = [(str(message["role"]), str(message["content"])) for message in desk.sent_messages(request)]
    begins = max(number for number, (_, text) in enumerate(said) if text.startswith("Once more."))
    return [text for role, text in said[begins:] if role == "user"]
