"""The Neovim client as edits land: amid typing, as conflicts, in files that are not open; and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import BOTH, CALC, DONE, MEND, MEND_BOTH, MEND_OTHER, MENDED, OTHER, edits, held_after, uneven
from tests.support.model_server import Reply, answer


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk


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
    desk.open_review()
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
    desk.open_review()
    neovim.keys("]hA  # mine<Esc>")
    assert "these lines were changed meanwhile" in desk.tool_result(2)
    wait_for(lambda: desk.marks("calc.py") == [], "nothing is drawn")
    desk.wait_for_chat("in conflict with your own change")
    assert neovim.text() == CALC.replace("a - b", "a - b  # mine")
    desk.wait_for_turns(1)


def test_an_accepted_edit_that_the_editor_would_not_take_shows_again_and_can_be_accepted_again(
    desk: ClientDesk,
) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    neovim.command("set nomodifiable")
    neovim.keys("]hgha")
    wait_for(lambda: "which still waits" in neovim.messages(), "it is told")
    assert desk.wait_for_proposal("calc.py") == ["    return a + b"]
    neovim.command("set modifiable")
    neovim.keys("gha")
    assert desk.wait_for_turns(1) == "completed"
    assert desk.on_disk("calc.py") == MENDED


def test_a_file_that_is_opened_during_its_review_shows_its_hunks(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND_OTHER, DONE)
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
    desk.wait_for_line(2)
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
    desk.open_review(MEND_BOTH)
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
    wait_for(lambda: neovim.text() == OTHER, "the file is open")
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
        assert desk.on_disk("renamed.py") == OTHER


def test_an_edit_of_a_file_that_is_not_open_is_saved_and_leaves_no_buffer_behind(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND_OTHER, DONE)
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


def test_turns_that_edit_and_move_a_file_are_rewound_in_its_buffer_in_either_order(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    neovim.keys("]hgha")
    desk.wait_for_turns(1)
    wait_for(lambda: desk.on_disk("calc.py") == MENDED, "it is saved")
    move = answer("I move it.", calls=[("move_file", {"path": "calc.py", "new_path": "lib/sums.py"})])
    desk.model.script(move, DONE)
    desk.dsh("ask Move it.")
    wait_for(desk.pending, "it waits")
    desk.dsh("accept all")
    desk.wait_for_turns(2)
    name = "return vim.api.nvim_buf_get_name(0)"
    wait_for(lambda: neovim.lua(name).endswith("lib/sums.py"), "its buffer has the new name")
    desk.dsh("rewind 1")
    wait_for(lambda: neovim.text() == CALC, "the edit is taken back under the new name")
    wait_for(lambda: desk.on_disk("lib/sums.py") == CALC, "it is saved")
    desk.dsh("rewind 2")
    wait_for(lambda: not (desk.root / "lib").exists(), "the folder that was made is gone")
    assert desk.on_disk("calc.py") == CALC


def test_a_buffer_of_bytes_that_are_no_text_is_nothing_to_the_server_and_nothing_is_asked(desk: ClientDesk) -> None:
    neovim = desk.neovim
    (desk.root / "some.bin").write_bytes(b"abc\xff\xfe\x80\nx = 1\n")
    desk.model.script(DONE, edits(("some.bin", "x = 1", "x = 2")), DONE)
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    desk.go_to_file("calc.py")
    neovim.command("edit ++bin some.bin")
    neovim.keys("Go# mine<Esc>")
    desk.dsh("ask Two.")
    desk.wait_for_turns(2)
    assert "is not UTF-8 text" in desk.tool_result(3)
    assert neovim.mode() == {"mode": "n", "blocking": False}
