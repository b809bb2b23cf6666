"""The Neovim client while a command has begun: its lines keep their numbers, and no map of the user breaks off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import CALC, DONE, MEND, MENDED, held_after
from tests.support.model_server import answer

READS_A_KEY = """
vim.keymap.set('n', '<F9>', function()
  return vim.fn.getcharstr() == 'x' and 'G' or 'gg'
end, { expr = true })
"""
HEAD = '"""Sums."""\n\n'
HEADED = answer("A docstring.", calls=[("write_file", {"path": "calc.py", "content": HEAD + CALC})])
LINES = CALC.splitlines(keepends=True)
LAND_S = 1.0  # an accepted edit has come to the editor by then


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        yield desk


def test_what_streams_while_a_map_reads_a_key_is_shown_afterwards_and_the_map_goes_on(desk: ClientDesk) -> None:
    neovim = desk.neovim
    reply, gate = held_after("I look around, and say some words.")
    desk.model.script(reply)
    neovim.lua(READS_A_KEY)
    desk.dsh("ask One.")
    wait_for(lambda: gate.reached, "it streams")
    neovim.keys("<F9>")
    gate.release()
    desk.wait_for_turns(1)
    neovim.keys("x")
    desk.wait_for_line(len(LINES))
    assert desk.wait_for_chat("some words.").splitlines() == ["One.", "", "I look around, and say some words."]
    assert neovim.lua("return vim.bo[require('dsh.chat').buffer()].modifiable") is False


def test_a_review_and_its_edit_wait_for_a_map_that_reads_a_key(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    neovim.lua(READS_A_KEY)
    desk.dsh("ask One.")
    neovim.keys("<F9>")
    desk.model.wait_for_requests(1)
    time.sleep(LAND_S)
    neovim.keys("x")
    desk.wait_for_proposal("calc.py")
    accepted = desk.send("dsh.review.accept", hunks="all")
    neovim.keys("<F9>")
    time.sleep(LAND_S)
    neovim.keys("x")
    desk.answer(accepted)
    assert desk.wait_for_turns(1) == "completed"
    assert neovim.text() == MENDED
    wait_for(lambda: desk.on_disk("calc.py") == MENDED, "it is saved")


@pytest.mark.parametrize(
    ("begun", "ended", "left"),
    [
        ("2Gd", "d", [LINES[0], *LINES[2:]]),
        ("2Gd", "j", [LINES[0], *LINES[3:]]),
        ("2Gd", "<Esc>", LINES),
        ("5GVj", "d", LINES[:4]),
        ("5GV", "<Esc>", LINES),
        ("5G<C-v>jI# ", "x<Esc>", [*LINES[:4], f"# x{LINES[4]}", f"# x{LINES[5]}"]),
        ("gg:%s/a/A/c<CR>", "nnny", [*LINES[:5], "    return A + a\n"]),
    ],
)
def test_an_edit_waits_for_the_end_of_a_command_that_has_begun_in_its_buffer(
    desk: ClientDesk, begun: str, ended: str, left: list[str]
) -> None:
    neovim = desk.neovim
    desk.open_review(HEADED)
    neovim.keys(f"<C-\\><C-n>{begun}")
    desk.send("dsh.review.accept", hunks="all")
    time.sleep(LAND_S)
    neovim.keys(ended)
    wait_for(lambda: neovim.text() == HEAD + "".join(left), "both are in the buffer")
    assert desk.wait_for_turns(1) == "completed"
    assert "accepted and is in the document" in desk.tool_result(2)


def test_a_selection_that_stays_keeps_its_lines_and_the_edit_waits_for_another_decision(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.open_review(HEADED)
    neovim.keys("<C-\\><C-n>5GVj")
    desk.send("dsh.review.accept", hunks="all")
    wait_for(lambda: "a command or a selection has begun" in neovim.messages(), "it is told")
    assert (neovim.text(), neovim.mode()["mode"]) == (CALC, "V")
    neovim.keys("<Esc>gggha")
    assert desk.wait_for_turns(1) == "completed"
    assert neovim.text() == HEAD + CALC
