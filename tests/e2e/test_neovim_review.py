"""The Neovim client's review: hunks in their buffers, the keys that decide them, and typing that stays safe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import BOTH, CALC, DONE, MEND, MEND_BOTH, MEND_OTHER, MENDED, OTHER, edits
from tests.support.model_server import answer

NEW = answer("A new one.", calls=[("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"})])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk


def test_hunks_show_in_the_buffer_and_are_decided_one_by_one(desk: ClientDesk) -> None:
    neovim = desk.neovim
    assert desk.open_review(MEND_BOTH) == ["    return a + b", "    return 2 * a"]
    assert neovim.text() == CALC, "nothing is written into the buffer"
    assert not neovim.modified
    old = [mark["row"] for mark in desk.marks("calc.py") if mark["group"] == "DshReviewOld"]
    assert old == [1, 5]
    [waiting] = wait_for(lambda: desk.announced("DshWaiting"), "it is announced")
    assert waiting["waitingFor"] == "review"
    neovim.keys("]h")
    desk.wait_for_line(2)
    desk.wait_for_screen("gha accept · ghr reject · ghe edit")
    neovim.keys("]h")
    desk.wait_for_line(6)
    neovim.keys("[h")
    desk.wait_for_line(2)
    neovim.keys("gha")
    wait_for(lambda: neovim.text() == MENDED, "the first has landed")
    wait_for(lambda: desk.on_disk("calc.py") == MENDED, "it is saved")
    wait_for(lambda: desk.proposed("calc.py") == ["    return 2 * a"], "the other one still shows")
    neovim.keys("]hghcleave double alone<CR>")
    result = desk.tool_result(2)
    assert "calc.py, lines 2-2: the edit was accepted" in result or "line 2" in result
    assert "leave double alone" in result
    assert desk.wait_for_turns(1) == "completed"
    assert neovim.text() == MENDED
    wait_for(lambda: desk.marks("calc.py") == [], "nothing is drawn any more")
    neovim.keys("u")
    wait_for(lambda: neovim.text() == CALC, "the edit is one step of undo")


def test_the_keys_are_there_only_while_something_waits(desk: ClientDesk) -> None:
    neovim = desk.neovim
    neovim.command("nnoremap <buffer> ]h <Cmd>let g:mine = 1<CR>")
    mapped = "return vim.fn.maparg(..., 'n', false, true).desc or ''"
    desk.open_review()
    assert neovim.lua(mapped, "]h") == "dsh: next proposed hunk"
    assert neovim.lua(mapped, "gha") == "dsh: accept this hunk"
    neovim.keys("ghA")
    desk.wait_for_turns(1)
    wait_for(lambda: neovim.lua(mapped, "gha") == "", "the keys are gone")
    neovim.keys("]h")
    wait_for(lambda: neovim.lua("return vim.g.mine") == 1, "the user's own key is back")


def test_a_key_pressed_once_more_than_there_is_to_decide_changes_no_character(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    neovim.keys("]hgha")
    wait_for(lambda: desk.marks("calc.py") == [], "it is decided")
    neovim.keys("ghaghrghA]hghc")
    desk.wait_for_turns(1)
    wait_for(lambda: "nothing waits for a review" in neovim.messages(), "that is said")
    assert neovim.mode()["mode"] == "n"
    wait_for(lambda: neovim.text() == MENDED, "the edit has landed")


def test_a_hunk_is_changed_before_it_lands_and_the_model_reads_that(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.open_review()
    neovim.keys("]hghe")
    wait_for(lambda: neovim.text() == "    return a + b\n", "the new text can be changed")
    neovim.keys("A  # mended<Esc>:w<CR>")
    mended = CALC.replace("a - b", "a + b  # mended")
    wait_for(lambda: desk.on_disk("calc.py") == mended, "it landed with the other text")
    assert "a + b  # mended" in desk.tool_result(2)
    assert desk.wait_for_turns(1) == "completed"
    assert "dsh://hunk" not in " ".join(desk.neovim.buffers())


def test_a_hunk_that_is_being_changed_is_gone_to_and_not_opened_twice(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.open_review()
    neovim.keys("]hghe")
    wait_for(lambda: neovim.text() == "    return a + b\n", "the new text can be changed")
    neovim.keys("A  # mended<Esc>")
    desk.go_to_file("calc.py")
    neovim.keys("ghe")
    wait_for(lambda: neovim.text() == "    return a + b  # mended\n", "the window that is open is gone to")
    neovim.command("quit!")
    desk.go_to_file("calc.py")
    neovim.keys("ghe")
    wait_for(lambda: neovim.text() == "    return a + b\n", "the proposed text can be changed anew")
    neovim.command("quit!")


def test_a_correction_that_is_refused_is_not_lost(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.open_review()
    neovim.keys("]hghe")
    wait_for(lambda: neovim.text() == "    return a + b\n", "the new text can be changed")
    desk.run("dsh.review.reject", hunks="all")
    neovim.keys("A  # my correction<Esc>:wq<CR>")
    wait_for(lambda: "dsh: " in neovim.messages(), "the refusal is told")
    desk.wait_for_screen("return a + b  # my correction")
    assert neovim.text() == CALC, "the cursor is where the user left it"
    neovim.command("wincmd j")
    assert neovim.text() == "    return a + b  # my correction\n"
    assert neovim.modified
    neovim.command("quit!")


def test_a_whole_file_is_accepted_and_all_is_rejected_by_commands(desk: ClientDesk) -> None:
    desk.model.script(MEND_BOTH, DONE, MEND_OTHER, DONE)
    desk.dsh("ask Mend both.")
    desk.wait_for_proposal("calc.py")
    desk.dsh("accept file")
    desk.wait_for_turns(1)
    assert desk.neovim.text() == BOTH
    desk.dsh("ask The other.")
    wait_for(desk.pending, "it waits")
    desk.dsh("reject all not that one")
    assert "not that one" in desk.tool_result(4)
    assert desk.wait_for_turns(2) == "completed"
    assert desk.on_disk("other.py") == OTHER


def test_a_review_of_several_files_goes_from_one_to_the_next(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(edits(("calc.py", "a - b", "a + b"), ("other.py", "y = 2", "y = 3")), DONE)
    desk.dsh("ask Mend them.")
    wait_for(lambda: len(desk.pending()) == 2, "both wait")
    desk.dsh("review")
    desk.wait_for_line(2)
    names = neovim.lua("return vim.tbl_map(function(i) return vim.fn.bufname(i.bufnr) end, vim.fn.getqflist())")
    assert [Path(name).name for name in names] == ["calc.py", "other.py"]
    neovim.keys("gha")
    wait_for(lambda: neovim.text() == MENDED, "the first has landed")
    neovim.keys("<C-\\><C-n>:Dsh next<CR>")
    wait_for(lambda: neovim.text() == OTHER, "the other file is open")
    desk.wait_for_line(2)
    neovim.keys("gha")
    wait_for(lambda: desk.on_disk("other.py") == "x = 1\ny = 3\n", "it landed there too")
    assert desk.wait_for_turns(1) == "completed"


def lines_within(desk: ClientDesk, columns: int) -> list[str]:
    """The proposed lines, if all of them fit into so many columns."""
    lines = desk.proposed("calc.py")
    return lines if all(len(line) <= columns for line in lines) else []


def test_the_end_of_a_long_line_can_be_read_in_any_window(desk: ClientDesk) -> None:
    neovim = desk.neovim
    long = "    return " + " + ".join(f"term_{number}" for number in range(40)) + "  # END"
    call = ("edit_file", {"path": "calc.py", "old_text": "    return a - b", "new_text": long})
    desk.open_review(answer("Long.", calls=[call]))
    for command, columns in (("chat", 120), ("vsplit", 60)):
        neovim.command(f"{'Dsh chat' if command == 'chat' else command}")
        wait_for(lambda columns=columns: neovim.lua("return vim.api.nvim_win_get_width(0)") <= columns, "the room")  # type: ignore[misc]
        lines = wait_for(lambda columns=columns: lines_within(desk, columns), "they fit into the window")  # type: ignore[misc]
        assert len(lines) > 3
        assert "".join(line.removeprefix("↪ ") for line in lines).replace(" ", "") == long.replace(" ", "")
        desk.wait_for_screen("END")
    desk.dsh("reject all")
    desk.wait_for_turns(1)


def test_a_save_that_fails_is_told(desk: ClientDesk) -> None:
    neovim = desk.neovim
    neovim.lua("vim.api.nvim_create_autocmd('BufWritePre', { callback = function() error('no formatter', 0) end })")
    desk.open_review()
    neovim.keys("]hgha")
    wait_for(lambda: "dsh: calc.py is not saved: " in neovim.messages(), "it is told")
    desk.wait_for_turns(1)
    assert neovim.text() == MENDED
    assert desk.on_disk("calc.py") == CALC
    neovim.lua("vim.v.errmsg = ''; vim.cmd('messages clear')")  # the formatter's own words


def test_a_hunk_in_a_closed_fold_comes_into_sight(desk: ClientDesk) -> None:
    neovim = desk.neovim
    neovim.keys(":set foldmethod=manual<CR>:1,3fold<CR>G")
    desk.open_review()
    for command in ("]h", ":Dsh next<CR>", ":Dsh review<CR>"):
        neovim.keys("ggzcG")
        desk.wait_for_line(6)
        neovim.keys(command)
        desk.wait_for_line(2)
        wait_for(lambda: neovim.lua("return vim.fn.foldclosed('.')") == -1, "the fold is open")
    neovim.keys("gha")
    desk.wait_for_turns(1)


def test_all_hunks_of_a_buffer_are_rejected_by_a_key_and_those_of_others_wait_on(desk: ClientDesk) -> None:
    neovim = desk.neovim
    other = ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"})
    both = ("write_file", {"path": "calc.py", "content": BOTH})
    desk.model.script(answer("Two files.", calls=[both, other]), DONE)
    desk.dsh("ask Mend them.")
    files = "return #require('dsh.review').files()"
    wait_for(lambda: neovim.lua(files) == 2, "the client knows of both")
    neovim.keys("gg[h")  # back from the first one, to the last file
    wait_for(lambda: neovim.text() == OTHER, "the other file is open")
    desk.wait_for_line(2)
    neovim.keys("[h")
    wait_for(lambda: neovim.text() == CALC, "the file before it")
    desk.wait_for_line(6)
    neovim.keys("ghR")
    wait_for(lambda: len(desk.pending()) == 1, "both are rejected")
    neovim.keys(":Dsh next<CR>")
    wait_for(lambda: neovim.text() == OTHER, "the other one waits")
    desk.dsh("accept hunk")
    assert desk.wait_for_turns(1) == "completed"
    assert desk.on_disk("calc.py") == CALC
    assert desk.on_disk("other.py") == "x = 1\ny = 3\n"


@pytest.mark.parametrize(("name", "accepted"), [("accept", True), ("reject", False)])
def test_plug_maps_do_what_they_say(desk: ClientDesk, name: str, accepted: bool) -> None:
    neovim = desk.neovim
    plugs = ("ask", "review", "next-hunk", "previous-hunk", "edit", name, "chat")
    for number, plug in enumerate(plugs, 1):
        neovim.lua("vim.keymap.set({ 'n', 'x' }, ...)", f"<F{number}>", f"<Plug>(dsh-{plug})")
    desk.model.script(MEND_BOTH, DONE)
    neovim.keys("1GVj<F1>")
    wait_for(lambda: neovim.mode()["mode"] == "i", "one can write")
    desk.wait_for_screen("↳ calc.py:1-2")
    neovim.keys("Mend this.<CR>")
    assert "From calc.py, lines 1-2" in desk.sent_messages(1)[-1]["content"]
    desk.wait_for_proposal("calc.py")
    neovim.keys("<Esc><F7>")
    wait_for(lambda: not desk.window("dsh"), "the conversation is closed")
    neovim.keys("4G")
    desk.wait_for_line(4)
    for key, line in (("<F2>", 2), ("<F3>", 6), ("<F4>", 2)):
        neovim.keys(key)
        desk.wait_for_line(line)
    neovim.keys("<F5>")
    wait_for(lambda: neovim.text() == "    return a + b\n", "the new text can be changed")
    neovim.command("quit!")
    neovim.keys("<F6>")
    wait_for(lambda: len(desk.pending()) == 1, "it is decided")
    desk.dsh("reject all")
    desk.wait_for_turns(1)
    assert neovim.text() == (MENDED if accepted else CALC)


def test_a_new_file_is_looked_at_before_it_exists(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(NEW, DONE, NEW, DONE)
    desk.dsh("ask Write it.")
    wait_for(desk.pending, "it waits")
    desk.dsh("review")
    wait_for(lambda: neovim.text() == "NEW = True\n", "its text shows")
    assert not (desk.root / "pkg").exists()
    assert neovim.lua("return vim.bo.filetype") == "python"
    neovim.keys("ghr")
    desk.wait_for_turns(1)
    wait_for(lambda: neovim.text() == CALC, "the file that was there before is back")
    assert neovim.lua("return #vim.fn.getbufinfo({ buflisted = 1 })") == 1, "no empty buffer is left"
    assert not (desk.root / "pkg").exists()
    desk.dsh("ask Once more.")
    wait_for(desk.pending, "it waits")
    desk.dsh("review")
    wait_for(lambda: neovim.text() == "NEW = True\n", "its text shows")
    neovim.command("let g:seen = [] | autocmd BufWinEnter * call add(g:seen, expand('<afile>:t'))")
    neovim.keys("gha")
    desk.wait_for_turns(2)
    assert desk.on_disk("pkg/new.py") == "NEW = True\n"
    wait_for(
        lambda: neovim.lua("return vim.api.nvim_buf_get_name(0)").endswith("pkg/new.py"), "the file took its place"
    )
    assert neovim.lua("return vim.g.seen") == ["new.py"], "nothing else shows until it is made"


def test_lines_above_the_first_one_are_seen(desk: ClientDesk) -> None:
    neovim = desk.neovim
    call = ("write_file", {"path": "calc.py", "content": '"""Sums."""\n\n' + CALC})
    assert desk.open_review(answer("A docstring.", calls=[call])) == ['"""Sums."""', ""]
    neovim.keys("G]h")
    desk.wait_for_line(1)
    desk.wait_for_screen('"""Sums."""')
    neovim.keys("gha")
    desk.wait_for_turns(1)
    assert neovim.text() == '"""Sums."""\n\n' + CALC


@pytest.mark.parametrize("pause", [0, 0.1, 0.3, 1])
def test_a_file_that_is_closed_and_opened_again_has_its_hunks_and_their_keys(desk: ClientDesk, pause: int) -> None:
    neovim = desk.neovim
    desk.open_review()
    neovim.command("bdelete calc.py")
    time.sleep(pause)  # the server may have been asked what waits, or not
    neovim.command("edit calc.py")
    assert neovim.lua("return vim.fn.maparg('gha', 'n', false, true).desc or ''") == "dsh: accept this hunk"
    desk.wait_for_proposal("calc.py")
    neovim.keys("]hgha")
    assert desk.wait_for_turns(1) == "completed"
    assert neovim.text() == MENDED


def test_hunks_show_where_lines_end_in_two_ways(desk: ClientDesk) -> None:
    (desk.root / "mixed.py").write_bytes(b"a = 1\r\nb = 2\r\nc = 3\n")
    desk.neovim.command("edit mixed.py")
    desk.model.script(edits(("mixed.py", "b = 2", "b = 3")), DONE)
    desk.dsh("ask Mend it.")
    assert desk.wait_for_proposal("mixed.py") == ["b = 3"]
    desk.neovim.keys("]h")
    desk.wait_for_line(2)
    desk.neovim.keys("gha")
    desk.wait_for_turns(1)
    assert (desk.root / "mixed.py").read_bytes() == b"a = 1\r\nb = 3\r\nc = 3\n"


def test_a_new_file_is_looked_at_beside_unsaved_text_that_may_not_be_hidden(desk: ClientDesk) -> None:
    neovim = desk.neovim
    neovim.command("set nohidden")
    neovim.keys("Go# mine<Esc>")
    desk.model.script(NEW, DONE)
    desk.dsh("ask Write it.")
    wait_for(desk.pending, "it waits")
    desk.dsh("review")
    wait_for(lambda: neovim.text() == "NEW = True\n", "its text shows")
    assert neovim.lua("return vim.fn.bufwinid('calc.py')") != -1
    neovim.keys("ghr")
    assert desk.wait_for_turns(1) == "completed"


def test_wide_characters_and_those_that_are_none_are_all_shown_in_a_narrow_window(desk: ClientDesk) -> None:
    wide = "\u65e5\u672c\u8a9e\u30c6\u30ad\u30b9\u30c8"
    line = f"n\u00fcll = '{wide}' # \x01 cafe\u0301 \U0001f469\u200d\U0001f467 \U0010ffff"
    desk.neovim.command("vertical 14split")
    call = ("write_file", {"path": "calc.py", "content": CALC.replace("    return a - b", line)})
    shown = desk.open_review(answer("Odd.", calls=[call]))
    words = "".join(row.removeprefix("\u21aa ") for row in shown)
    assert words.replace(" ", "") == line.replace("\x01", "^A").replace(" ", "")
    width = desk.neovim.lua("return vim.fn.getwininfo(vim.api.nvim_get_current_win())[1]")
    room = width["width"] - width["textoff"]
    assert all(desk.neovim.lua("return vim.fn.strdisplaywidth(...)", row) <= room for row in shown)
    desk.dsh("reject all")
    desk.wait_for_turns(1)


def test_a_correction_that_is_written_into_a_file_decides_nothing(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.open_review()
    neovim.keys("]hghe")
    wait_for(lambda: neovim.text() == "    return a + b\n", "the new text can be changed")
    neovim.keys(f":write {desk.root}/kept.txt<CR>:write {desk.root}/other.py<CR>")
    wait_for(lambda: "E13: File exists" in neovim.messages(), "nothing is overwritten")
    assert desk.on_disk("kept.txt") == "    return a + b\n"
    assert desk.on_disk("other.py") == OTHER
    assert len(desk.pending()) == 1
    neovim.keys(f":write! {desk.root}/other.py<CR>:quit!<CR>")
    assert wait_for(lambda: desk.on_disk("other.py") == "    return a + b\n", "it is overwritten")
    desk.expects = "E13"
