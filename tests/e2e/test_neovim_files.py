"""Stock Neovim and files: those that it does not hold, several at once, whole ones, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim import TO_HUNK, Desk
from tests.e2e.story import CALC, DONE, MEND, MENDED, OTHER
from tests.support.model_server import answer

SECOND = {"old_text": "a + a", "new_text": "2 * a"}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk


# Files that Neovim does not hold


def test_an_edit_of_a_file_that_is_not_open_goes_to_the_disk_and_opens_no_buffer(desk: Desk) -> None:
    buffers = desk.neovim.buffers()
    call = ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"})
    desk.model.script(answer("There.", calls=[call]), DONE)
    desk.run("dsh.followup", text="Mend y.")
    desk.wait_for_review()
    assert desk.on_disk("other.py") == OTHER
    assert desk.run("dsh.review.accept", hunks="all") == {"left": 0}
    assert "other.py: the edit was accepted" in desk.tool_result(2)
    assert desk.on_disk("other.py") == "x = 1\ny = 3\n"
    assert desk.wait_for_turns(1) == "done"
    assert desk.neovim.buffers() == buffers
    assert desk.neovim.text() == CALC
    assert not desk.neovim.modified


def test_a_new_file_exists_only_after_its_acceptance(desk: Desk) -> None:
    buffers = desk.neovim.buffers()
    call = ("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"})
    desk.model.script(answer("A new one.", calls=[call]), DONE)
    desk.run("dsh.followup", text="Write it.")
    desk.wait_for_review()
    assert not (desk.root / "pkg").exists()
    desk.run("dsh.review.accept", hunks="all")
    assert "pkg/new.py: the edit was accepted" in desk.tool_result(2)
    assert desk.on_disk("pkg/new.py") == "NEW = True\n"
    assert desk.wait_for_turns(1) == "done"
    assert desk.neovim.buffers() == buffers


# Several hunks, several files, whole files, and the way back


def accept_all(desk: Desk) -> None:
    desk.run("dsh.review.accept", hunks="all")


def test_of_two_hunks_the_accepted_one_lands_and_the_model_reads_of_both(desk: Desk) -> None:
    both = [("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b", "more": [SECOND]})]
    desk.model.script(answer("Both.", calls=both), DONE)
    desk.run("dsh.followup", text="Mend both.")
    first, second = desk.wait_for_review(2)
    desk.run("dsh.review.accept", hunks=[second["id"]])
    desk.run("dsh.review.reject", hunks=[first["id"]], comment="add is right")
    result = desk.tool_result(2)
    assert "calc.py: the user rejected the edit; the document is unchanged. They said: add is right" in result
    assert "calc.py: the edit was accepted and is in the document, line 6" in result
    assert desk.neovim.text() == CALC.replace("a + a", "2 * a")


def test_edits_of_several_files_land_each_where_it_belongs_and_a_rewind_takes_all_back(desk: Desk) -> None:
    neovim = desk.neovim
    more = [SECOND, {"path": "other.py", "old_text": OTHER.splitlines()[0], "new_text": "# changed"}]
    call = ("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b", "more": more})
    desk.model.script(answer("All.", calls=[call]), DONE, DONE)
    desk.run("dsh.followup", text="Mend all.")
    desk.wait_for_review(3)
    accept_all(desk)
    assert desk.tool_result(2).count("was accepted and is in the document") == 3
    assert neovim.text() == MENDED.replace("a + a", "2 * a")
    assert desk.on_disk("other.py").startswith("# changed\n"), "a file that is not open is written"
    neovim.keys("Go# mine<Esc>")
    wait_for(lambda: "# mine" in neovim.text(), "the keys are in the buffer")
    desk.wait_for_turns(1)
    desk.run("dsh.rewind", turn=1)
    wait_for(lambda: neovim.text() == CALC + "# mine\n", "the buffer is as it was, but for what its user typed")
    wait_for(lambda: desk.on_disk("other.py") == OTHER, "the file is as it was")
    desk.run("dsh.followup", text="Go on.")
    told = [m["content"] for m in desk.sent_messages(3) if "taken back" in str(m["content"])]
    assert "calc.py (2 edits)" in told[0]
    assert "other.py (1 edit)" in told[0]


def test_an_open_file_is_renamed_with_its_buffer_and_gets_its_name_back(desk: Desk) -> None:
    neovim = desk.neovim
    call = ("move_file", {"path": "calc.py", "new_path": "lib/sums.py"})
    desk.model.script(answer("Move it.", calls=[call]), DONE)
    desk.run("dsh.followup", text="Move it.")
    desk.wait_for_review()
    accept_all(desk)
    assert "the rename was accepted; the file is lib/sums.py now" in desk.tool_result(2)
    assert desk.on_disk("lib/sums.py") == CALC
    assert not (desk.root / "calc.py").exists()
    name = "return vim.api.nvim_buf_get_name(0)"
    wait_for(lambda: neovim.lua(name).endswith("lib/sums.py"), "the buffer has the new name")
    desk.wait_for_turns(1)
    desk.run("dsh.rewind", turn=1)
    wait_for(lambda: neovim.lua(name).endswith("/calc.py"), "the buffer has its name again")
    assert desk.on_disk("calc.py") == CALC


@pytest.mark.parametrize(
    "call", [("move_file", {"path": "calc.py", "new_path": "sums.py"}), ("delete_file", {"path": "calc.py"})]
)
def test_a_file_whose_buffer_holds_unsaved_text_is_neither_moved_nor_deleted(desk: Desk, call: Any) -> None:
    neovim = desk.neovim
    desk.model.script(answer("I try.", calls=[call]), DONE)
    neovim.keys("Go# mine<Esc>")
    wait_for(lambda: "# mine" in neovim.text(), "the keys are in the buffer")
    desk.run("dsh.followup", text="Try.")
    desk.wait_for_review()
    accept_all(desk)
    assert "text of it that is not saved" in desk.tool_result(2)
    assert desk.on_disk("calc.py") == CALC
    assert neovim.text() == CALC + "# mine\n"


def test_a_deleted_file_comes_back_with_a_rewind(desk: Desk) -> None:
    desk.model.script(answer("Away.", calls=[("delete_file", {"path": "other.py"})]), DONE)
    desk.run("dsh.followup", text="Away with it.")
    desk.wait_for_review()
    accept_all(desk)
    assert "the deletion was accepted; the file is gone" in desk.tool_result(2)
    assert not (desk.root / "other.py").exists()
    desk.wait_for_turns(1)
    desk.run("dsh.rewind", turn=1)
    wait_for(lambda: desk.on_disk("other.py") == OTHER, "the file is there again")


def test_edits_that_land_at_once_are_undone_where_their_user_has_moved_them(desk: Desk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.run("dsh.mode.set", mode="auto-edit")
    desk.run("dsh.followup", text="Mend add.")
    wait_for(lambda: neovim.text() == MENDED, "the edit landed unasked")
    desk.wait_for_turns(1)
    neovim.keys("ggO# above<Esc>")
    wait_for(lambda: neovim.text() == "# above\n" + MENDED, "the keys are in the buffer")
    neovim.keys(TO_HUNK)
    neovim.keys("gra")
    wait_for(lambda: "inputlist" in neovim.prompts(), "the menu asks")
    wait_for(lambda: "Undo this edit" in str(neovim.screen), "the menu is on the screen")
    choice = next(line.split(":")[0].strip() for line in str(neovim.screen).splitlines() if "Undo this edit" in line)
    neovim.keys(f"{choice}<CR>")
    wait_for(lambda: neovim.text() == "# above\n" + CALC, "the edit is taken back")
