"""Stock Neovim: what its user sees, types and decides, and what the model reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim import CLIENT, TO_HUNK, Desk
from tests.e2e.story import ACCEPT, CALC, DONE, MEND, MENDED, OTHER, REJECT, held_after, uneven
from tests.support.model_server import Reply, answer


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk


def go_to_hunk(desk: Desk) -> None:
    desk.neovim.keys(TO_HUNK)
    wait_for(lambda: "return" in desk.neovim.lua("return vim.api.nvim_get_current_line()"), "the cursor is there")


# Unsaved text, and typing that goes on


def test_the_model_reads_unsaved_text_and_an_accepted_edit_joins_it(desk: Desk) -> None:
    neovim, model = desk.neovim, desk.model
    model.script(answer("I read.", calls=[("read_file", {"path": "calc.py"})]), MEND, DONE)
    neovim.keys("Go# not saved yet<Esc>")
    wait_for(lambda: neovim.text() == CALC + "# not saved yet\n", "the keys are in the buffer")
    desk.run("dsh.followup", text="Mend add.")
    assert "7\t# not saved yet" in desk.tool_result(2)
    assert "the editor holds unsaved changes" in desk.tool_result(2)

    desk.wait_for_review()
    go_to_hunk(desk)
    neovim.keys("gra")  # Neovim's own key for code actions; its own menu asks for a number
    wait_for(lambda: "inputlist" in neovim.prompts(), "the menu asks")
    wait_for(lambda: f"1: {ACCEPT}" in str(neovim.screen), "the menu is on the screen")
    neovim.keys("1<CR>")
    result = desk.tool_result(3)
    assert "calc.py: the edit was accepted and is in the document, line 2" in result
    assert "not saved: the document and its file differed before the edit" in result
    assert neovim.text() == MENDED + "# not saved yet\n"
    assert neovim.modified
    assert desk.on_disk("calc.py") == CALC
    assert desk.wait_for_turns(1) == "done"


def test_a_waiting_review_takes_no_key_from_a_user_who_types_and_no_key_decides_it(desk: Desk) -> None:
    neovim, model = desk.neovim, desk.model
    reply, gate = held_after("I look at it first.")
    model.script(Reply(packets=reply.packets[:-2] + MEND.packets), DONE)
    desk.run("dsh.followup", text="Mend add.")
    wait_for(lambda: gate.reached, "the model answers")
    neovim.keys("ggO")
    wait_for(lambda: neovim.mode()["mode"] == "i", "insert mode")

    text = "# yes, all of these: 1 2 3 y n <go on> j k g d u f b - "
    neovim.type(text[:9], pause_s=uneven)
    gate.release()  # the review opens under the typing fingers
    neovim.type(text[9:], pause_s=uneven)
    pending = desk.wait_for_review()
    neovim.type("and more: 2, y, space and all", pause_s=uneven)
    typed = text + "and more: 2, y, space and all\n"
    assert neovim.text() == typed + CALC
    assert neovim.prompts() == []

    [hunk] = desk.pending()
    assert hunk["id"] == pending[0]["id"]
    assert hunk["range"]["start"]["line"] == 2  # it moved with the text
    assert len(model.requests) == 1
    go_to_hunk(desk)
    desk.act(ACCEPT)
    assert "accepted and is in the document, line 3" in desk.tool_result(2)
    assert neovim.text() == typed + MENDED
    assert desk.on_disk("calc.py") == CALC


def test_a_review_that_opens_in_normal_mode_raises_no_prompt(desk: Desk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.run("dsh.followup", text="Mend add.")
    desk.wait_for_review()
    desk.run("dsh.status")  # what was said of the review has been shown before this answer
    assert neovim.mode() == {"mode": "n", "blocking": False}, f"\n{neovim.screen}"
    neovim.keys("<Space>x")  # a prompt would swallow the first
    wait_for(lambda: neovim.text() == "df" + CALC[3:], "the key has moved the cursor")
    desk.run("dsh.review.accept", hunks="all")
    desk.wait_for_turns(1)
    assert neovim.text() == "df" + MENDED[3:]
    neovim.keys("u")
    wait_for(lambda: neovim.text() == "df" + CALC[3:], "the edit is one step of undo")


DEEP = "packages/application/components/arithmetic/calc.py"


def test_an_edit_in_a_deep_folder_raises_no_prompt_when_it_lands(tmp_path: Path) -> None:
    with Desk.set_up(tmp_path, {DEEP: CALC}) as desk:
        desk.model.script(
            answer("", calls=[("edit_file", {"path": DEEP, "old_text": "a - b", "new_text": "a"})]), DONE
        )
        desk.run("dsh.followup", text="Mend add.")
        desk.wait_for_review()
        desk.run("dsh.review.accept", hunks="all")
        desk.model.wait_for_requests(2)
        desk.run("dsh.status")
        assert desk.neovim.mode() == {"mode": "n", "blocking": False}, f"\n{desk.neovim.screen}"
        assert "a - b" not in desk.neovim.text()
        desk.wait_for_turns(1)


def test_an_edit_of_a_saved_buffer_leaves_it_unsaved_and_the_model_reads_why(desk: Desk) -> None:
    desk.model.script(MEND, DONE)
    desk.run("dsh.followup", text="Mend add.")
    desk.wait_for_review()
    go_to_hunk(desk)
    desk.act(ACCEPT)
    result = desk.tool_result(2)
    assert "calc.py: the edit was accepted and is in the document, line 2" in result
    assert "not saved: the user's editor does not let the agent save" in result
    assert desk.neovim.text() == MENDED
    assert desk.neovim.modified
    assert desk.on_disk("calc.py") == CALC
    desk.wait_for_turns(1)


ROUNDS = 5
KEYS_BEFORE, KEYS_AFTER = 7, 12


@pytest.mark.parametrize(("where", "place"), [("ggO", 0), ("gg/return<CR>o", CALC.index("\n\n") + 1)])
def test_an_edit_accepted_between_keys_lands_exactly_once_and_no_key_is_lost(
    desk: Desk, where: str, place: int
) -> None:
    neovim, model = desk.neovim, desk.model
    neovim.keys(where)
    wait_for(lambda: neovim.mode()["mode"] == "i", "insert mode")
    typed, request = "", 0
    for number in range(1, ROUNDS + 1):
        old, new = ("a - b", "a + b") if number % 2 else ("a + b", "a - b")
        call = ("edit_file", {"path": "calc.py", "old_text": old, "new_text": new})
        model.script(answer("Once more.", calls=[call]), DONE)
        desk.run("dsh.followup", text=f"Round {number}.")
        request += 1
        desk.wait_for_review()
        typed += type_steadily(desk, f"# {number} ".ljust(KEYS_BEFORE, "x"))
        accepted = desk.send("dsh.review.accept", hunks="all")
        typed += type_steadily(desk, "y" * KEYS_AFTER)
        while len(model.requests) <= request and len(typed) < 1000:
            typed += type_steadily(desk, "z")
        request += 1
        assert "calc.py: the edit was accepted and is in the document" in desk.tool_result(request)
        assert desk.answer(accepted)["result"] == {"left": 0}
        edited = CALC.replace("a - b", new)
        assert neovim.text() == f"{edited[:place]}{typed}\n{edited[place:]}"
        assert desk.wait_for_turns(number) == "done"
    assert neovim.prompts() == []


def type_steadily(desk: Desk, text: str) -> str:
    desk.neovim.type(text, pause_s=lambda _: 0.05)
    return text


# Other ends of a review


def test_lines_that_the_user_changed_meanwhile_are_a_conflict_and_stay_theirs(desk: Desk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.run("dsh.followup", text="Mend add.")
    desk.wait_for_review()
    go_to_hunk(desk)
    neovim.keys("A  # mine<Esc>")
    result = desk.tool_result(2)
    theirs = CALC.replace("a - b", "a - b  # mine")
    assert "calc.py: these lines were changed meanwhile; the edit was not applied." in result
    assert f"calc.py now reads:\n{theirs.split('# mine')[0]}" in result
    assert desk.wait_for_turns(1) == "done"
    assert neovim.text() == theirs
    assert desk.pending() == []
    assert desk.on_disk("calc.py") == CALC


def test_a_rejected_edit_leaves_the_buffer_as_it_was(desk: Desk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.run("dsh.followup", text="Mend add.")
    desk.wait_for_review()
    go_to_hunk(desk)
    desk.act(REJECT)
    assert "calc.py: the user rejected the edit; the document is unchanged." in desk.tool_result(2)
    assert desk.wait_for_turns(1) == "done"
    assert neovim.text() == CALC
    assert not neovim.modified


def test_what_waits_is_a_diagnostic_until_it_is_decided(desk: Desk) -> None:
    neovim = desk.neovim
    desk.model.script(MEND, DONE)
    desk.run("dsh.followup", text="Mend add.")
    desk.wait_for_review()
    [shown] = wait_for(desk.diagnostics, "the hunk is shown")
    assert shown["lnum"] == 1
    assert "-     return a - b\n+     return a + b" in shown["message"]
    neovim.keys("ggO# above<Esc>")
    wait_for(lambda: [item["lnum"] for item in desk.diagnostics()] == [2], "the diagnostic has moved")
    desk.run("dsh.review.reject", hunks="all")
    wait_for(lambda: not desk.diagnostics(), "nothing is shown")
    desk.wait_for_turns(1)
    kinds = [value["kind"] for value in desk.progress()]
    assert kinds == ["begin", "end"]
    assert neovim.lua("return vim.lsp.status()") is not None


# Steering and cancelling


def test_a_message_steered_into_a_waiting_review_is_in_the_next_request(desk: Desk) -> None:
    desk.model.script(MEND, DONE)
    desk.run("dsh.followup", text="Mend add.")
    desk.wait_for_review()
    desk.run("dsh.steer", text="And leave double alone.")
    assert len(desk.model.requests) == 1
    desk.run("dsh.review.accept", hunks="all")
    *_, result, steered = desk.sent_messages(2)
    assert result["role"] == "tool"
    assert steered["role"] == "user"
    assert "And leave double alone." in steered["content"]
    assert desk.wait_for_turns(1) == "done"


@pytest.mark.parametrize("how", ["by the command", "by its progress"])
def test_a_cancelled_turn_ends_at_once_and_the_next_one_works(desk: Desk, how: str) -> None:
    neovim, model = desk.neovim, desk.model
    reply, gate = held_after("A long answer that nobody wants to read to its end.")
    model.script(reply, MEND, DONE)
    desk.run("dsh.followup", text="Talk.")
    wait_for(lambda: gate.reached, "the answer streams")
    if how == "by the command":
        assert desk.run("dsh.cancel") == {"wasRunning": True}
    else:
        wait_for(lambda: neovim.lua(CANCEL_PROGRESS), "the client knows of the progress")
    assert desk.wait_for_turns(1) == "cancelled"
    wait_for(lambda: model.requests[0].torn, "the model's answer is dropped")
    assert desk.run("dsh.status")["state"] == "idle"
    assert isinstance(neovim.lua("return vim.lsp.status()"), str)

    desk.run("dsh.followup", text="Mend add.")
    desk.wait_for_review()
    desk.run("dsh.review.accept", hunks="all")
    assert desk.wait_for_turns(2) == "done"
    assert neovim.text() == MENDED
    assert [value["kind"] for value in desk.progress()] == ["begin", "end"] * 2


CANCEL_PROGRESS = f"""{CLIENT}
local token = next(client.progress.pending)
return token and client:notify('window/workDoneProgress/cancel', {{ token = token }}) or false
"""


def test_cancelling_takes_a_waiting_review_away(desk: Desk) -> None:
    desk.model.script(MEND, DONE)
    desk.run("dsh.followup", text="Mend add.")
    [hunk] = desk.wait_for_review()
    desk.run("dsh.cancel")
    assert desk.wait_for_turns(1) == "cancelled"
    assert desk.pending() == []
    wait_for(lambda: not desk.diagnostics(), "nothing is shown")
    late = desk.answer(desk.send("dsh.review.accept", hunks=[hunk["id"]]))
    assert late["failure"]["data"]["code"] == "NOT_PENDING"
    assert desk.neovim.text() == CALC


# Without a key


def test_without_a_key_a_followup_names_the_variable_and_the_server_lives_on(tmp_path: Path) -> None:
    with Desk.set_up(tmp_path, {"calc.py": CALC}, key=None) as desk:
        failure: dict[str, Any] = desk.answer(desk.send("dsh.followup", text="Mend add."))["failure"]
        assert failure["code"] == -32803
        assert failure["data"]["code"] == "NO_KEY"
        assert "DEEPSEEK_API_KEY" in failure["message"]
        assert desk.run("dsh.status")["state"] == "idle"
        assert desk.model.requests == []
        assert desk.neovim.lua(f"{CLIENT} return client ~= nil and not client:is_stopped()")


# Approvals


def test_keys_that_fall_while_an_approval_waits_reach_the_buffer_and_decide_nothing(desk: Desk) -> None:
    neovim, model = desk.neovim, desk.model
    outside = desk.root.parent / f"{desk.root.name}-outside.txt"
    outside.write_text("far away\n")
    model.script(answer("", calls=[("read_file", {"path": str(outside)})]), DONE)
    try:
        desk.run("dsh.followup", text="Read it.")
        wait_for(lambda: desk.run("dsh.status").get("waitingFor") == "approval", "the approval waits")
        neovim.keys("ggO")
        text = "# y n 1 2 3 <yes> ok "
        neovim.type(text, pause_s=uneven)
        neovim.keys("<CR><CR><Esc>")
        wait_for(lambda: neovim.text().startswith(text), "every key is in the buffer")
        assert not neovim.mode()["blocking"]
        assert desk.run("dsh.status")["waitingFor"] == "approval"
        assert len(model.requests) == 1
        desk.act(f"DSH: Allow once: read_file, read {outside}")
        assert "far away" in desk.tool_result(2)
        assert desk.wait_for_turns(1) == "done"
    finally:
        outside.unlink()
