"""The Neovim client's review: hunks in their buffers, the keys that decide them, and typing that stays safe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import CALC, DONE, MEND, MENDED, held_after, uneven
from tests.support.model_server import Reply, answer

BOTH = MENDED.replace("a + a", "2 * a")
MEND_BOTH = answer("Both.", calls=[("write_file", {"path": "calc.py", "content": BOTH})])
NEW = answer("A new one.", calls=[("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"})])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": "x = 1\ny = 2\n"}) as desk:
        yield desk


def on_line(desk: ClientDesk, line: int) -> None:
    wait_for(lambda: desk.neovim.lua("return vim.fn.line('.')") == line, f"the cursor is on line {line}")


def test_hunks_show_in_the_buffer_and_are_decided_one_by_one(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND_BOTH, DONE)
    desk.dsh("ask Mend both.")
    assert desk.wait_for_proposal("calc.py") == ["    return a + b", "    return 2 * a"]
    assert neovim.text() == CALC, "nothing is written into the buffer"
    assert not neovim.modified
    old = [mark["row"] for mark in desk.marks("calc.py") if mark["group"] == "DshReviewOld"]
    assert old == [1, 5]
    [waiting] = desk.announced("DshWaiting")
    assert waiting["waitingFor"] == "review"
    neovim.keys("]h")
    on_line(desk, 2)
    desk.wait_for_screen("gha accept · ghr reject · ghe edit")
    neovim.keys("]h")
    on_line(desk, 6)
    neovim.keys("[h")
    on_line(desk, 2)
    neovim.keys("gha")
    wait_for(lambda: neovim.text() == MENDED, "the first has landed")
    wait_for(lambda: desk.on_disk("calc.py") == MENDED, "it is saved")
    assert desk.wait_for_proposal("calc.py") == ["    return 2 * a"]
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
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    assert neovim.lua(mapped, "]h") == "dsh: next proposed hunk"
    assert neovim.lua(mapped, "gha") == "dsh: accept this hunk"
    neovim.keys("ghA")
    desk.wait_for_turns(1)
    wait_for(lambda: neovim.lua(mapped, "gha") == "", "the keys are gone")
    neovim.keys("]h")
    wait_for(lambda: neovim.lua("return vim.g.mine") == 1, "the user's own key is back")


def test_a_hunk_is_changed_before_it_lands_and_the_model_reads_that(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
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
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
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
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
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
    other = ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"})
    desk.model.script(Reply(packets=MEND_BOTH.packets), DONE, answer("Other.", calls=[other]), DONE)
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
    assert desk.on_disk("other.py") == "x = 1\ny = 2\n"


def test_a_review_of_several_files_goes_from_one_to_the_next(desk: ClientDesk) -> None:
    neovim = desk.neovim
    calls = [
        ("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"}),
        ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"}),
    ]
    desk.model.script(answer("Two files.", calls=calls), DONE)
    desk.dsh("ask Mend them.")
    wait_for(lambda: len(desk.pending()) == 2, "both wait")
    desk.dsh("review")
    on_line(desk, 2)
    names = neovim.lua("return vim.tbl_map(function(i) return vim.fn.bufname(i.bufnr) end, vim.fn.getqflist())")
    assert [Path(name).name for name in names] == ["calc.py", "other.py"]
    neovim.keys("gha")
    wait_for(lambda: neovim.text() == MENDED, "the first has landed")
    neovim.keys("<C-\\><C-n>:Dsh next<CR>")
    wait_for(lambda: neovim.text() == "x = 1\ny = 2\n", "the other file is open")
    on_line(desk, 2)
    neovim.keys("gha")
    wait_for(lambda: desk.on_disk("other.py") == "x = 1\ny = 3\n", "it landed there too")
    assert desk.wait_for_turns(1) == "completed"


def test_the_end_of_a_long_line_can_be_read_in_any_window(desk: ClientDesk) -> None:
    neovim = desk.neovim
    long = "    return " + " + ".join(f"term_{number}" for number in range(40)) + "  # END"
    call = ("edit_file", {"path": "calc.py", "old_text": "    return a - b", "new_text": long})
    desk.model.script(answer("Long.", calls=[call]), DONE)
    desk.dsh("ask Lengthen it.")
    desk.wait_for_proposal("calc.py")
    for command, columns in (("chat", 120), ("vsplit", 60)):
        neovim.command(f"{'Dsh chat' if command == 'chat' else command}")
        wait_for(lambda columns=columns: neovim.lua("return vim.api.nvim_win_get_width(0)") <= columns, "the room")  # type: ignore[misc]
        desk.wait_for_screen("END")
        lines = desk.proposed("calc.py")
        assert len(lines) > 3
        assert "".join(line.removeprefix("↪ ") for line in lines).replace(" ", "") == long.replace(" ", "")
        assert all(len(line) <= columns for line in lines)
    desk.dsh("reject all")
    desk.wait_for_turns(1)


def test_a_save_that_fails_is_told(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    neovim.lua("vim.api.nvim_create_autocmd('BufWritePre', { callback = function() error('no formatter', 0) end })")
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    neovim.keys("]hgha")
    wait_for(lambda: "dsh: calc.py is not saved: " in neovim.messages(), "it is told")
    desk.wait_for_turns(1)
    assert neovim.text() == MENDED
    assert desk.on_disk("calc.py") == CALC
    neovim.lua("vim.v.errmsg = ''; vim.cmd('messages clear')")  # the formatter's own words


def test_a_hunk_in_a_closed_fold_comes_into_sight(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    neovim.keys(":set foldmethod=manual<CR>:1,3fold<CR>G")
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    for command in ("]h", ":Dsh next<CR>", ":Dsh review<CR>"):
        neovim.keys(f"ggzcG{command}")
        on_line(desk, 2)
        wait_for(lambda: neovim.lua("return vim.fn.foldclosed('.')") == -1, "the fold is open")
    neovim.keys("gha")
    desk.wait_for_turns(1)


def test_all_hunks_of_a_buffer_are_rejected_by_a_key_and_those_of_others_wait_on(desk: ClientDesk) -> None:
    neovim = desk.neovim
    other = ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"})
    both = ("write_file", {"path": "calc.py", "content": BOTH})
    desk.model.script(answer("Two files.", calls=[both, other]), DONE)
    desk.dsh("ask Mend them.")
    wait_for(lambda: len(desk.pending()) == 3, "all wait")
    desk.wait_for_proposal("calc.py")
    neovim.keys("gg[h")  # back from the first one, to the last file
    wait_for(lambda: neovim.text() == "x = 1\ny = 2\n", "the other file is open")
    on_line(desk, 2)
    neovim.keys("[h")
    wait_for(lambda: neovim.text() == CALC, "the file before it")
    on_line(desk, 6)
    neovim.keys("ghR")
    wait_for(lambda: len(desk.pending()) == 1, "both are rejected")
    neovim.keys(":Dsh next<CR>")
    wait_for(lambda: neovim.text() == "x = 1\ny = 2\n", "the other one waits")
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
    for key, line in (("<F2>", 2), ("<F3>", 6), ("<F4>", 2)):
        neovim.keys(key)
        on_line(desk, line)
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
    neovim.keys("gha")
    desk.wait_for_turns(2)
    assert desk.on_disk("pkg/new.py") == "NEW = True\n"
    wait_for(
        lambda: neovim.lua("return vim.api.nvim_buf_get_name(0)").endswith("pkg/new.py"), "the file took its place"
    )


def test_lines_above_the_first_one_are_seen(desk: ClientDesk) -> None:
    neovim = desk.neovim
    call = ("write_file", {"path": "calc.py", "content": '"""Sums."""\n\n' + CALC})
    desk.model.script(answer("A docstring.", calls=[call]), DONE)
    desk.dsh("ask Document it.")
    assert desk.wait_for_proposal("calc.py") == ['"""Sums."""', ""]
    neovim.keys("G]h")
    on_line(desk, 1)
    desk.wait_for_screen('"""Sums."""')
    neovim.keys("gha")
    desk.wait_for_turns(1)
    assert neovim.text() == '"""Sums."""\n\n' + CALC


def test_typing_during_a_review_is_safe_and_the_hunks_move(desk: ClientDesk) -> None:
    neovim, model = desk.neovim, desk.model
    reply, gate = held_after("I look at it first.")
    model.script(Reply(packets=reply.packets[:-2] + MEND.packets), DONE)
    desk.dsh("ask Mend add.")
    wait_for(lambda: gate.reached, "the model answers")
    neovim.keys("ggO")
    wait_for(lambda: neovim.mode()["mode"] == "i", "insert mode")
    text = "# gha ghr ghy yes 1 2 <go on> j k ]h [h - "
    neovim.type(text[:9], pause_s=uneven)
    gate.release()  # the review opens under the typing fingers
    neovim.type(text[9:], pause_s=uneven)
    desk.wait_for_proposal("calc.py")
    neovim.type("and more: gha", pause_s=uneven)
    typed = text + "and more: gha\n"
    assert neovim.text() == typed + CALC
    assert [mark["row"] for mark in desk.marks("calc.py") if mark["group"] == "DshReviewOld"] == [2]
    assert len(model.requests) == 1
    neovim.keys("<Esc>]hgha")
    assert "accepted and is in the document, line 3" in desk.tool_result(2)
    assert neovim.text() == typed + MENDED
    assert desk.on_disk("calc.py") == CALC, "the user's own unsaved text is not saved for them"
    assert neovim.modified
    desk.wait_for_turns(1)


def test_an_edit_that_lands_amid_typing_is_a_step_of_undo_of_its_own(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    neovim.keys("Gohello ")
    wait_for(lambda: neovim.text() == f"{CALC}hello \n", "the user types")
    desk.run("dsh.review.accept", hunks="all")
    wait_for(lambda: neovim.text() == f"{MENDED}hello \n", "it landed")
    neovim.keys("world<Esc>")
    wait_for(lambda: neovim.text() == f"{MENDED}hello world\n", "the user goes on")
    for text in (f"{MENDED}hello \n", f"{CALC}hello \n", CALC):
        neovim.keys("u")
        wait_for(lambda text=text: neovim.text() == text, "one step is taken back")  # type: ignore[misc]
    desk.wait_for_turns(1)


def test_a_hunk_whose_lines_the_user_changed_goes_away_as_a_conflict(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    neovim.keys("]hA  # mine<Esc>")
    assert "these lines were changed meanwhile" in desk.tool_result(2)
    wait_for(lambda: desk.marks("calc.py") == [], "nothing is drawn")
    desk.wait_for_chat("in conflict with your own change")
    assert neovim.text() == CALC.replace("a - b", "a - b  # mine")
    desk.wait_for_turns(1)


def test_a_file_that_is_opened_during_its_review_shows_its_hunks(desk: ClientDesk) -> None:
    neovim = desk.neovim
    other = ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"})
    desk.model.script(answer("Other.", calls=[other]), DONE)
    desk.dsh("ask The other.")
    wait_for(desk.pending, "it waits")
    desk.go_to_file("calc.py")
    neovim.command("edit other.py")
    assert desk.wait_for_proposal("other.py") == ["y = 3"]
    neovim.command("edit!")  # reading it again takes all marks away
    assert desk.wait_for_proposal("other.py") == ["y = 3"]
    neovim.keys("]hgha")
    wait_for(lambda: desk.on_disk("other.py") == "x = 1\ny = 3\n", "it landed")
    desk.wait_for_turns(1)


def test_what_lands_unasked_is_marked_and_can_be_undone_until_the_next_turn(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND_BOTH, DONE, DONE)
    desk.dsh("mode auto-edit")
    desk.dsh("ask Mend both.")
    wait_for(lambda: neovim.text() == BOTH, "both have landed")
    assert desk.wait_for_turns(1) == "completed"
    wait_for(
        lambda: [m["row"] for m in desk.marks("calc.py") if m["group"] == "DshLanded"] == [1, 5], "both are marked"
    )
    neovim.keys("gg]h")
    on_line(desk, 2)
    desk.wait_for_screen("gha keep · ghr undo")
    neovim.keys("gha")
    wait_for(lambda: [m["row"] for m in desk.marks("calc.py")] == [5], "one is kept")
    neovim.keys("]hghr")
    wait_for(lambda: neovim.text() == MENDED, "the other is undone")
    desk.wait_for_chat("calc.py:6  undone")
    wait_for(lambda: desk.marks("calc.py") == [], "nothing is marked")
    wait_for(lambda: desk.on_disk("calc.py") == MENDED, "it is saved when the editor would have told of a key")


def test_the_edits_of_a_turn_are_undone_and_what_the_user_changed_is_left(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND_BOTH, DONE)
    desk.dsh("ask Mend both.")
    desk.wait_for_proposal("calc.py")
    neovim.keys("ghA")
    desk.wait_for_turns(1)
    wait_for(lambda: neovim.text() == BOTH, "both have landed")
    neovim.keys("GA  # mine<Esc>")
    mine = BOTH.replace("2 * a", "2 * a  # mine")
    wait_for(lambda: neovim.text() == mine, "the user goes on")
    desk.dsh("rewind")
    desk.wait_for_screen("turn 1: calc.py")
    neovim.keys("1<CR>")
    wait_for(lambda: neovim.text() == mine.replace("a + b", "a - b"), "what can be undone is undone")
    wait_for(lambda: "1 of 2 edits of turn 1 were taken back. Left: calc.py: " in neovim.messages(), "it is told")
    assert neovim.messages().count("turn 1") == 1, "once"


@pytest.mark.parametrize("tool", ["delete_file", "move_file"])
def test_files_are_deleted_and_renamed_under_review(desk: ClientDesk, tool: str) -> None:
    neovim = desk.neovim
    arguments = {"path": "other.py"} | ({"new_path": "renamed.py"} if tool == "move_file" else {})
    desk.model.script(answer("", calls=[(tool, arguments)]), DONE)
    desk.dsh("ask Away with it.")
    wait_for(desk.pending, "it waits")
    desk.dsh("review")
    wait_for(lambda: neovim.text() == "x = 1\ny = 2\n", "the file is open")
    desk.wait_for_screen("gha accept · ghr reject")
    assert "ghe edit" not in str(neovim.screen)
    neovim.keys("ghe")
    wait_for(lambda: "this has no text to change: accept or reject it" in neovim.messages(), "it is told")
    if tool == "move_file":
        assert desk.wait_for_proposal("other.py") == ["→ is to be renamed to renamed.py"]
    neovim.keys("gha")
    assert desk.wait_for_turns(1) == "completed"
    assert not (desk.root / "other.py").exists()
    if tool == "move_file":
        assert desk.on_disk("renamed.py") == "x = 1\ny = 2\n"


def test_an_edit_of_a_file_that_is_not_open_is_saved_and_leaves_no_buffer_behind(desk: ClientDesk) -> None:
    neovim = desk.neovim
    other = ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"})
    desk.model.script(answer("Other.", calls=[other]), DONE)
    desk.dsh("ask The other.")
    desk.wait_for_review()
    desk.dsh("accept all")
    assert desk.wait_for_turns(1) == "completed"
    assert "accepted" in desk.tool_result(2)
    assert desk.on_disk("other.py") == "x = 1\ny = 3\n"
    assert neovim.lua("return vim.fn.getbufinfo({ buflisted = 1 })[2] == nil"), "no other buffer is listed"
    loaded = "return vim.fn.bufloaded(...)"
    wait_for(lambda: neovim.lua(loaded, str(desk.root / "other.py")) == 0, "it does not grow old unseen")
    (desk.root / "other.py").write_text("x = 7\n")
    desk.model.script(answer("", calls=[("read_file", {"path": "other.py"})]), DONE)
    desk.dsh("ask And now?")
    assert "x = 7" in desk.tool_result(4)
    desk.wait_for_turns(2)
