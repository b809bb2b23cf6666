"""Emacs with lsp-mode: what its user sees, types and decides, and what the model reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.emacs import END, KEYS, LSP_MODE, START, TO_HUNK, EmacsDesk
from tests.e2e.story import ACCEPT, CALC, DONE, MENDED, OTHER, REJECT, edits, held_after, uneven
from tests.support.model_server import answer

LENSES = """
(vconcat (mapcar (lambda (overlay) (substring-no-properties (or (overlay-get overlay 'after-string) "")))
                 (overlays-in (point-min) (point-max))))
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[EmacsDesk]:
    with EmacsDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}, client=LSP_MODE) as desk:
        yield desk


def test_a_question_is_asked_in_the_minibuffer_and_its_answer_comes_beside_the_text(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    reply, gate = held_after("It subtracts where it should add.")
    desk.model.script(reply)
    emacs.keys(f"{START}\x0e\x00\x0e")  # the second line is the region
    emacs.run_command("dsh-ask", "What is wrong here?")
    wait_for(lambda: gate.reached, "the model answers")
    emacs.keys(END)
    typed = emacs.type(KEYS, pause_s=uneven)
    gate.release()  # the answer comes under the typing fingers
    typed += emacs.type(KEYS, pause_s=uneven)
    shown = '(if (get-buffer-window "*DSH*") (probe-text "*DSH*") "")'
    wait_for(lambda: "subtracts where it should add." in emacs.value(shown), "the answer is shown")
    wait_for(lambda: emacs.text() == CALC + typed, "every key is in the buffer")
    asked = desk.sent_messages(1)[-1]["content"]
    assert asked.endswith("What is wrong here?\n\nFrom calc.py:\n```\n    return a - b\n\n```")


def test_a_code_action_explains_the_region_and_no_count_of_actions_follows_the_cursor(desk: EmacsDesk) -> None:
    desk.model.script(answer("It subtracts."))
    desk.go_to_hunk()
    desk.emacs.value("(lsp-modeline--check-code-actions)")
    desk.run("dsh.status")  # what was asked before is answered by now
    assert not desk.emacs.value("lsp-modeline--code-actions-string")
    desk.emacs.keys(f"{START}\x0e\x00\x0e")  # the second line is the region
    desk.act("DSH: Explain this")
    assert "From calc.py, lines 2-2:\n```\n    return a - b\n" in desk.sent_messages(1)[-1]["content"]
    wait_for(lambda: "DSH: It subtracts." in desk.emacs.messages(), "the answer is told")


def test_what_waits_is_shown_and_a_code_action_lands_it_beside_unsaved_text(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    emacs.keys(f"{END}# not saved yet")
    desk.open_review()
    shown = "(vconcat (mapcar #'flymake-diagnostic-text (flymake-diagnostics)))"
    wait_for(lambda: "+     return a + b" in str(emacs.value(shown)), "the hunk is a diagnostic")
    wait_for(lambda: "DSH: Accept" in str(emacs.value(LENSES)), "the hunk has lenses")
    assert emacs.prompts() == []
    desk.go_to_hunk()
    desk.act(ACCEPT)
    result = desk.tool_result(2)
    assert "calc.py: the edit was accepted and is in the document, line 2" in result
    assert "not saved: the document and its file differed before the edit" in result
    assert emacs.text() == MENDED + "# not saved yet"
    assert desk.on_disk("calc.py") == CALC
    wait_for(lambda: emacs.value(shown) == [], "nothing is shown any more")


def test_a_rejected_edit_leaves_the_buffer_as_it_was(desk: EmacsDesk) -> None:
    desk.open_review()
    desk.go_to_hunk()
    desk.act(REJECT)
    assert "calc.py: the user rejected the edit; the document is unchanged." in desk.tool_result(2)
    assert desk.emacs.text() == CALC
    assert not desk.emacs.modified


@pytest.mark.parametrize(("where", "place"), [(START, 0), (f"{TO_HUNK}\x0e\x0f", CALC.index("\n\n") + 1)])
def test_an_edit_accepted_between_keys_lands_exactly_once_and_no_key_is_lost(
    desk: EmacsDesk, where: str, place: int
) -> None:
    emacs, model = desk.emacs, desk.model
    emacs.keys(where)
    opened = "" if place == 0 else "\n"
    typed = ""
    for number in range(1, 5):
        old, new = ("a - b", "a + b") if number % 2 else ("a + b", "a - b")
        model.script(edits(("calc.py", old, new)), DONE)
        desk.run("dsh.followup", text=f"Round {number}.")
        desk.wait_for_review()
        typed += emacs.type(f"# {number} yn", pause_s=lambda _: 0.03)
        accepted = desk.send("dsh.review.accept", hunks="all")
        while len(model.requests) < 2 * number and len(typed) < 2000:
            typed += emacs.type("yn zq x ", pause_s=uneven)
        assert "calc.py: the edit was accepted and is in the document" in desk.tool_result(2 * number)
        assert desk.answer(accepted)["result"] == {"left": 0}
        edited = CALC.replace("a - b", new)
        wait_for(lambda: emacs.text() == f"{edited[:place]}{typed}{opened}{edited[place:]}", "all is in the buffer")  # noqa: B023
        wait_for(lambda: desk.run("dsh.status")["state"] == "idle", "the turn is over")
    assert emacs.prompts() == []
    assert desk.on_disk("calc.py") == CALC


def test_a_file_that_is_not_open_is_written_and_a_new_one_made_after_acceptance(desk: EmacsDesk) -> None:
    files = desk.emacs.files()
    write = ("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"})
    edit = ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"})
    desk.open_review(answer("", calls=[write, edit]), 2)
    assert not (desk.root / "pkg").exists()
    assert desk.on_disk("other.py") == OTHER
    desk.emacs.run_command("dsh-accept-all")
    results = [message["content"] for message in desk.sent_messages(2) if message["role"] == "tool"]
    assert ["the edit was accepted" in result for result in results] == [True, True]
    assert desk.on_disk("pkg/new.py") == "NEW = True\n"
    assert desk.on_disk("other.py") == "x = 1\ny = 3\n"
    assert desk.emacs.files() == files


def test_cancelling_takes_a_waiting_review_away(desk: EmacsDesk) -> None:
    desk.open_review()
    desk.emacs.run_command("dsh-cancel")
    wait_for(lambda: desk.run("dsh.status")["state"] == "idle", "the turn is over")
    assert desk.pending() == []
    assert desk.emacs.text() == CALC


def test_what_the_agent_asks_is_answered_in_words(desk: EmacsDesk) -> None:
    desk.model.script(answer("", calls=[("ask", {"question": "Why?"})]), DONE)
    desk.run("dsh.followup", text="Go.")
    wait_for(lambda: desk.run("dsh.status").get("waitingFor") == "question", "the agent asks")
    desk.emacs.run_command("dsh-answer", "Because it is slow.")
    assert "The user answered: Because it is slow." in desk.tool_result(2)
    wait_for(lambda: desk.run("dsh.status")["state"] == "idle", "the turn is over")
