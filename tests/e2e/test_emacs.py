"""Emacs with either client: what its user sees, types and decides, and what the model reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.emacs import EGLOT, END, KEYS, LSP_MODE, START, TO_HUNK, Client, EmacsDesk
from tests.e2e.story import CALC, DONE, OTHER, REJECT, edits, held_after, uneven
from tests.support.model_server import answer

TELLS_S = 0.5  # the pause after which eglot tells of what was typed
CLIENTS = [EGLOT, LSP_MODE]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.heading)
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EmacsDesk]:
    client: Client = request.param
    with EmacsDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}, client=client) as desk:
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
    typed += emacs.type("and on", pause_s=uneven)
    wait_for(lambda: emacs.text() == CALC + typed, "every key is in the buffer")
    asked = desk.sent_messages(1)[-1]["content"]
    assert asked.endswith("What is wrong here?\n\nFrom calc.py:\n```\n    return a - b\n\n```")


def test_a_rejected_edit_leaves_the_buffer_as_it_was(desk: EmacsDesk) -> None:
    desk.open_review()
    desk.go_to_hunk()
    desk.act(REJECT)
    assert "calc.py: the user rejected the edit; the document is unchanged." in desk.tool_result(2)
    assert desk.emacs.text() == CALC
    assert not desk.emacs.modified


def pauses_of_thought(number: int) -> float:
    """A burst of keys, then about the time after which eglot tells: some keys fall while the edit is on its way."""
    return TELLS_S + (number % 5) * 0.004 if number % 8 == 7 else 0.03


PAUSES = {EGLOT.heading: pauses_of_thought, LSP_MODE.heading: uneven}


@pytest.mark.parametrize(("where", "place"), [(START, 0), (f"{TO_HUNK}\x0e\x0f", CALC.index("\n\n") + 1)])
def test_an_edit_accepted_between_keys_lands_exactly_once_and_no_key_is_lost(
    desk: EmacsDesk, where: str, place: int
) -> None:
    """Four edits are accepted while keys fall at a place that `where` leads to, an offset of `CALC`."""
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
            typed += emacs.type("yn zq x ", pause_s=PAUSES[desk.client.heading])
        assert "calc.py: the edit was accepted and is in the document" in desk.tool_result(2 * number)
        assert desk.answer(accepted)["result"] == {"left": 0}
        edited = CALC.replace("a - b", new)
        wait_for(lambda: emacs.text() == f"{edited[:place]}{typed}{opened}{edited[place:]}", "all is in the buffer")  # noqa: B023
        wait_for(desk.at_rest, "the turn is over")
    assert emacs.prompts() == []
    assert desk.on_disk("calc.py") == CALC


def test_cancelling_takes_a_waiting_review_away(desk: EmacsDesk) -> None:
    desk.open_review()
    [hunk] = desk.pending()
    desk.emacs.run_command("dsh-cancel")
    wait_for(desk.at_rest, "the turn is over")
    assert desk.pending() == []
    late = desk.answer(desk.send("dsh.review.accept", hunks=[hunk["id"]]))
    assert late["failure"]["data"]["code"] == "NOT_PENDING"
    assert desk.emacs.text() == CALC


def test_what_the_agent_asks_is_answered_in_words(desk: EmacsDesk) -> None:
    desk.model.script(answer("", calls=[("ask", {"question": "Why?"})]), DONE)
    desk.run("dsh.followup", text="Go.")
    wait_for(lambda: desk.run("dsh.status").get("waitingFor") == "question", "the agent asks")
    desk.emacs.run_command("dsh-answer", "Because it is slow.")
    assert "The user answered: Because it is slow." in desk.tool_result(2)
    wait_for(desk.at_rest, "the turn is over")
