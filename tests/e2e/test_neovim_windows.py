"""The Neovim client's own buffers and windows under a user's hands: deleted, read again, restored, closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import CALC, OTHER
from tests.support.model_server import answer

SHOWN = """
return vim.tbl_map(function(win)
  return vim.fs.basename(vim.api.nvim_buf_get_name(vim.api.nvim_win_get_buf(win)))
end, vim.api.nvim_tabpage_list_wins(0))
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk


def shown(desk: ClientDesk) -> list[str]:
    found: list[str] = desk.neovim.lua(SHOWN)
    return found


def wait_for_windows(desk: ClientDesk, *names: str) -> None:
    wait_for(lambda: shown(desk) == list(names), f"the windows are {names}")


def leave_insert(desk: ClientDesk) -> None:
    desk.neovim.keys("<Esc>")
    wait_for(lambda: desk.neovim.mode()["mode"] == "n", "normal mode")


def open_conversation(desk: ClientDesk) -> None:
    desk.dsh("chat")
    wait_for(lambda: desk.window("dsh-input"), "the conversation is open")
    leave_insert(desk)


def test_a_conversation_whose_buffer_was_deleted_comes_back_whole(desk: ClientDesk) -> None:
    desk.model.script(answer("The first answer."), answer("The second answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    for filetype in ("dsh", "dsh-input"):
        desk.go_to(filetype)
        desk.neovim.command("bdelete")
        wait_for(lambda: not desk.window("dsh") and not desk.window("dsh-input"), "it is closed")
        desk.dsh("chat")
        wait_for_windows(desk, "calc.py", "chat", "input")
    assert desk.neovim.mode()["mode"] == "i"
    desk.neovim.keys("Two.<CR>")
    chat = desk.wait_for_chat("The second answer.")
    assert chat.splitlines() == ["One.", "", "The first answer.", "", "Two.", "", "The second answer."]
    desk.wait_for_screen("The second answer.")
    desk.go_to("dsh")
    desk.neovim.keys("gg]]")
    assert desk.neovim.lua("return vim.fn.line('.')") == 5


def test_a_deleted_conversation_that_is_shown_as_a_buffer_is_whole_too(desk: ClientDesk) -> None:
    desk.model.script(answer("The first answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    number = desk.neovim.lua("return require('dsh.chat').buffer()")
    desk.neovim.command(f"bdelete {number}")
    desk.neovim.command(f"buffer {number}")
    # What the screen shows may still be the window that was closed.
    options = "return { vim.bo.filetype, vim.bo.modifiable, vim.bo.buftype }"
    wait_for(lambda: desk.neovim.lua(options) == ["dsh", False, "nofile"], "it is whole again")
    desk.wait_for_screen("The first answer.")


def test_a_conversation_that_is_read_again_is_drawn_again_and_what_was_written_stays(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(answer("The first answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    desk.go_to("dsh")
    neovim.command("edit")
    wait_for(lambda: desk.chat() == "One.\n\nThe first answer.", "it is drawn again")
    desk.go_to("dsh-input")
    neovim.keys("iNot yet sent.")
    wait_for(lambda: neovim.text() == "Not yet sent.\n", "it is written")
    leave_insert(desk)
    for command in ("edit", "edit!", "bdelete"):
        neovim.command(command)
        desk.dsh("ask")
        wait_for(lambda: neovim.mode()["mode"] == "i", "one can write")
        wait_for(lambda: neovim.text() == "Not yet sent.\n", f"the words are there after {command}")
        leave_insert(desk)
    assert neovim.messages().count("dsh") == 0, "no server was asked for a text"


def test_a_restored_session_of_neovim_does_not_stand_in_the_way(desk: ClientDesk, tmp_path: Path) -> None:
    neovim = desk.neovim
    desk.model.script(answer("The first answer."), answer("The second answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    session = tmp_path / "Session.vim"
    neovim.command(f"mksession {session}")
    neovim.command("silent! %bwipeout!")
    neovim.command(f"source {session}")
    assert "input" in shown(desk), "the session restores the windows"
    desk.dsh("ask Two.")
    desk.wait_for_screen("The second answer.")
    assert sorted(shown(desk)) == ["calc.py", "chat", "input"]
    desk.go_to("dsh-input")
    assert neovim.lua("return { vim.bo.buftype, vim.wo.winfixbuf, vim.wo.number }") == ["nofile", True, False]


@pytest.mark.parametrize("filetype", ["dsh", "dsh-input"])
def test_the_two_windows_of_the_conversation_close_together(desk: ClientDesk, filetype: str) -> None:
    open_conversation(desk)
    desk.go_to(filetype)
    desk.neovim.command("quit")
    wait_for_windows(desk, "calc.py")
    open_conversation(desk)
    wait_for_windows(desk, "calc.py", "chat", "input")


def test_a_conversation_that_was_the_last_window_gives_way_to_the_last_document(desk: ClientDesk) -> None:
    neovim = desk.neovim
    neovim.command("edit other.py")
    open_conversation(desk)
    desk.go_to_file("other.py")
    neovim.command("quit")
    wait_for_windows(desk, "chat", "input")
    desk.go_to("dsh")
    neovim.command("quit")
    wait_for_windows(desk, "other.py")
    assert neovim.lua("return { vim.wo.winfixbuf, vim.wo.winbar, vim.wo.statuscolumn }") == [False, "", ""]
    open_conversation(desk)
    wait_for_windows(desk, "other.py", "chat", "input")


def test_a_conversation_that_the_user_wants_alone_stays(desk: ClientDesk) -> None:
    open_conversation(desk)
    desk.go_to("dsh")
    desk.neovim.command("only")
    desk.neovim.lua("vim.wait(50)")
    assert shown(desk) == ["chat"]
    desk.neovim.keys("i")
    wait_for_windows(desk, "chat", "input")


def test_an_input_area_that_lost_its_conversation_is_no_window_of_its_own(desk: ClientDesk) -> None:
    open_conversation(desk)
    desk.go_to_file("calc.py")
    desk.neovim.lua("vim.api.nvim_win_close(..., true)", desk.window("dsh"))
    wait_for_windows(desk, "calc.py", "input")
    desk.dsh("ask")
    wait_for_windows(desk, "calc.py", "chat", "input")


def test_keys_that_are_changed_later_hold_from_the_next_command_on(desk: ClientDesk) -> None:
    desk.model.script(answer("The first answer."))
    open_conversation(desk)
    desk.neovim.lua("local options = vim.g.dsh; options.keys = { send = '<C-x>' }; vim.g.dsh = options")
    desk.dsh("ask")
    wait_for(lambda: desk.neovim.mode()["mode"] == "i", "one can write")
    desk.neovim.keys("One.<CR>and<C-x>")
    desk.wait_for_chat("One.\nand")
    desk.wait_for_turns(1)


def test_a_key_that_cancels_starts_no_server(desk: ClientDesk) -> None:
    open_conversation(desk)
    desk.neovim.keys("<C-q>")
    desk.neovim.lua("vim.wait(50)")
    assert desk.neovim.lua("return #vim.lsp.get_clients()") == 0


@pytest.mark.parametrize(
    ("position", "layout"),
    [
        ("left", ["row", "dsh://chat", "calc.py"]),
        ("right", ["row", "calc.py", "dsh://chat"]),
        ("top", ["col", "dsh://chat", "dsh://input", "calc.py"]),
        ("bottom", ["col", "calc.py", "dsh://chat", "dsh://input"]),
    ],
)
def test_the_conversation_opens_where_the_user_wants_it(desk: ClientDesk, position: str, layout: list[str]) -> None:
    desk.neovim.lua("local options = vim.g.dsh; options.chat = { position = ... }; vim.g.dsh = options", position)
    open_conversation(desk)
    found = desk.neovim.lua("""
      local layout = vim.fn.winlayout()
      local function first(node) return node[1] == 'leaf' and node[2] or first(node[2][1]) end
      local names = { layout[1] }
      for _, node in ipairs(layout[2]) do
        table.insert(names, vim.fn.bufname(vim.api.nvim_win_get_buf(first(node))))
      end
      return names
    """)
    assert found == layout


def test_a_conversation_that_stands_alone_beside_a_floating_window_closes_too(desk: ClientDesk) -> None:
    open_conversation(desk)
    desk.go_to_file("calc.py")
    desk.neovim.command("close")
    desk.neovim.lua("""
      local place = { relative = 'editor', row = 1, col = 1, width = 5, height = 1, focusable = false }
      vim.api.nvim_open_win(vim.api.nvim_create_buf(false, true), false, place)
    """)
    desk.go_to("dsh")
    desk.neovim.keys("q")
    wait_for(lambda: not desk.window("dsh"), "it is closed")
    assert desk.neovim.text() == CALC


def test_a_document_of_the_server_can_be_read_again(desk: ClientDesk) -> None:
    desk.model.script(answer("The first answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    session = desk.neovim.lua("return require('dsh.feed').state.session")
    desk.neovim.command("filetype plugin off")
    for _ in range(2):
        desk.neovim.command(f"edit dsh:/session/{session}/transcript.md")
        wait_for(lambda: desk.neovim.text().endswith("The first answer.\n"), "it is read")


def test_a_model_is_named_before_anything_was_asked(desk: ClientDesk) -> None:
    desk.model.script(answer("It is me."))
    desk.dsh("model deepseek-other")
    wait_for(lambda: desk.status().get("model") == "deepseek-other", "it is set")
    desk.dsh("ask Who are you?")
    desk.wait_for_turns(1)
    assert desk.model.requests[-1].body["model"] == "deepseek-other"
