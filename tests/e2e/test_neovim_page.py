"""Stock Neovim with the command of its page: asking about lines, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim import Desk
from tests.e2e.story import CALC, DONE, MEND, MENDED, OTHER, held_after
from tests.support.model_server import answer

FLOATING = """
for _, window in ipairs(vim.api.nvim_list_wins()) do
  if vim.api.nvim_win_get_config(window).relative ~= '' then
    return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, true), '\\n')
  end
end
return false
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk


def test_the_command_asks_about_lines_and_shows_the_answer_without_taking_a_key(desk: Desk) -> None:
    desk.model.script(answer("It subtracts."))
    desk.neovim.keys(":2Dsh followup What is wrong?<CR>")
    asked = desk.sent_messages(1)[-1]["content"]
    assert asked.endswith("What is wrong?\n\nFrom calc.py, lines 2-2:\n```\n    return a - b\n\n```")
    assert "It subtracts." in wait_for(lambda: desk.neovim.lua(FLOATING), "the answer is shown")
    assert desk.neovim.mode() == {"mode": "n", "blocking": False}
    desk.neovim.keys("x")
    wait_for(lambda: desk.neovim.text() == CALC[1:], "the key is in the text")


def test_the_command_runs_what_needs_no_words_and_steers(desk: Desk) -> None:
    reply, gate = held_after("Let me look at it for a while.")
    desk.model.script(reply, MEND, DONE)
    desk.neovim.command("Dsh followup Talk.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.neovim.command("Dsh cancel")
    assert desk.wait_for_turns(1) == "cancelled"
    desk.neovim.command("Dsh followup Mend add.")
    desk.wait_for_review()
    desk.neovim.command("Dsh steer And leave double alone.")
    desk.run("dsh.review.accept", hunks="all")
    assert "And leave double alone." in desk.sent_messages(3)[-1]["content"]
    assert desk.wait_for_turns(2) == "done"
    assert desk.neovim.text() == MENDED


def test_the_command_answers_a_question_in_words(desk: Desk) -> None:
    desk.model.script(answer("", calls=[("ask", {"question": "Why?"})]), DONE)
    desk.neovim.command("Dsh followup Go.")
    wait_for(lambda: desk.run("dsh.status").get("waitingFor") == "question", "the agent asks")
    desk.neovim.command("Dsh answer Because it is slow.")
    assert "Because it is slow." in desk.tool_result(2)
    assert desk.wait_for_turns(1) == "done"


def test_the_command_says_so_where_no_server_runs(desk: Desk) -> None:
    desk.neovim.lua("vim.lsp.stop_client(vim.lsp.get_clients())")
    wait_for(lambda: desk.neovim.lua("return #vim.lsp.get_clients() == 0"), "the server ended")
    desk.neovim.command("Dsh followup Go.")
    assert "DSH: open a file first" in desk.neovim.messages()
