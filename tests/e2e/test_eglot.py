"""Emacs with eglot: what its user sees, types and decides, and what the model reads of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import saved, wait_for
from tests.e2e.emacs import EGLOT, END, KEYS, START, EmacsDesk
from tests.e2e.story import ACCEPT, CALC, DONE, MEND, MENDED, OTHER, edits, held_after, uneven
from tests.support.model_server import Reply, answer

SAVE, UNDO = "\x18\x13", "\x1f"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[EmacsDesk]:
    with EmacsDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}, client=EGLOT) as desk:
        yield desk


def arguments_of_actions(desk: EmacsDesk) -> list[dict[str, Any]]:
    """The arguments of the commands of all code actions at the cursor."""
    form = "(vconcat (mapcar (lambda (a) (aref (plist-get (plist-get a :command) :arguments) 0)) "
    return list(desk.emacs.value(f"{form} (eglot-code-actions (point) (point))))"))


def visit(desk: EmacsDesk, name: str) -> None:
    desk.emacs.keys(f"\x18\x06{name}\r")  # C-x C-f
    wait_for(lambda: desk.emacs.value(f'(and (equal (buffer-name) "{name}") {EGLOT.attached})'), "it is attached")


# Asking


def test_the_model_reads_unsaved_text_and_an_accepted_edit_joins_it(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    desk.model.script(answer("I read.", calls=[("read_file", {"path": "calc.py"})]), MEND, DONE)
    emacs.keys(f"{END}# not saved yet")
    emacs.run_command("dsh-ask", "Mend add.")
    assert "7\t# not saved yet" in desk.tool_result(2)
    assert "the editor holds unsaved changes" in desk.tool_result(2)
    desk.wait_for_review()
    desk.go_to_hunk()
    desk.act(ACCEPT)
    result = desk.tool_result(3)
    assert "calc.py: the edit was accepted and is in the document, line 2" in result
    assert "not saved: the document and its file differed before the edit" in result
    assert emacs.text() == MENDED + "# not saved yet"
    assert emacs.modified
    assert desk.on_disk("calc.py") == CALC


def test_a_code_action_explains_the_line_and_the_echo_area_has_the_answer(desk: EmacsDesk) -> None:
    desk.model.script(answer("It subtracts.\n\nAt length."))
    desk.go_to_hunk()
    desk.emacs.keys("\x01")  # the start of the line
    desk.act("DSH: Explain this")
    assert "From calc.py, lines 2-2:\n```\n    return a - b\n" in desk.sent_messages(1)[-1]["content"]
    wait_for(lambda: "DSH: It subtracts." in desk.emacs.messages(), "the answer is told")


def test_the_conversation_lies_where_the_user_is_told(desk: EmacsDesk) -> None:
    desk.model.script(answer("It subtracts."))
    desk.run("dsh.followup", text="Why?", wait=True)
    desk.act("DSH: Show the conversation")
    told = re.compile(r"it is in (.*\.md)$", re.MULTILINE)
    [path] = wait_for(lambda: told.findall(desk.emacs.messages()), "the user is told")
    assert "It subtracts." in Path(path).read_text()


def test_without_a_key_the_variable_is_named_and_the_server_lives_on(tmp_path: Path) -> None:
    with EmacsDesk.set_up(tmp_path, {"calc.py": CALC}, client=EGLOT, key=None) as desk:
        desk.emacs.run_command("dsh-ask", "Mend add.")
        wait_for(lambda: "DEEPSEEK_API_KEY" in desk.emacs.messages(), "the user is told")
        assert desk.at_rest()
        assert desk.model.requests == []


# Reviewing


def test_what_waits_is_a_diagnostic_of_flymake_until_it_is_decided(desk: EmacsDesk) -> None:
    shown = "(vconcat (mapcar #'flymake-diagnostic-text (flymake-diagnostics)))"
    desk.open_review()
    [text] = wait_for(lambda: desk.emacs.value(shown), "the hunk is shown")
    assert "-     return a - b\n+     return a + b" in text
    desk.run("dsh.review.reject", hunks="all")
    wait_for(lambda: desk.emacs.value(shown) == [], "nothing is shown")
    desk.tool_result(2)


def test_a_review_takes_no_key_from_a_user_who_types_and_no_key_decides_it(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    reply, gate = held_after("I look at it first.")
    desk.model.script(Reply(packets=reply.packets[:-2] + MEND.packets), DONE)
    desk.run("dsh.followup", text="Mend add.")
    wait_for(lambda: gate.reached, "the model answers")
    emacs.keys(START)
    typed = emacs.type(KEYS, pause_s=uneven)
    gate.release()  # the review opens under the typing fingers
    typed += emacs.type(KEYS, pause_s=uneven)
    desk.wait_for_review()
    typed += emacs.type(KEYS, pause_s=uneven)
    wait_for(lambda: emacs.text() == typed + CALC, "every key is in the buffer")
    assert len(desk.model.requests) == 1
    assert emacs.prompts() == []
    desk.go_to_hunk()
    desk.act(ACCEPT)
    assert "accepted and is in the document, line 2" in desk.tool_result(2)
    assert emacs.text() == typed + MENDED
    assert desk.on_disk("calc.py") == CALC


def test_an_edit_of_a_saved_buffer_leaves_it_unsaved_is_told_and_is_one_step_of_undo(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    desk.open_review()
    emacs.run_command("dsh-accept-all")
    assert "not saved: the user's editor does not let the agent save" in desk.tool_result(2)
    assert emacs.text() == MENDED
    assert emacs.modified
    assert desk.on_disk("calc.py") == CALC
    wait_for(lambda: "your editor leaves saving to you" in emacs.messages(), "the user is told")
    emacs.keys(UNDO)
    wait_for(lambda: emacs.text() == CALC, "the edit is one step of undo")


def test_of_two_hunks_the_accepted_one_lands_and_the_model_reads_of_both(desk: EmacsDesk) -> None:
    both = MENDED.replace("a + a", "2 * a")
    desk.open_review(answer("", calls=[("write_file", {"path": "calc.py", "content": both})]), 2)
    first, second = desk.pending()
    desk.go_to_hunk()
    desk.act(ACCEPT)
    wait_for(lambda: desk.emacs.text() == MENDED, "the first one has landed")
    desk.run("dsh.review.reject", hunks=[second["id"]], comment="Leave double alone.")
    result = desk.tool_result(2)
    assert "accepted and is in the document, line 2" in result
    assert "rejected" in result
    assert "Leave double alone." in result
    assert desk.emacs.text() == MENDED
    assert first["id"] != second["id"]


def test_other_text_that_the_user_gives_is_what_lands_and_what_the_model_reads(desk: EmacsDesk) -> None:
    desk.open_review()
    [hunk] = desk.pending()
    desk.run("dsh.review.accept", hunks=[hunk["id"]], edited={hunk["id"]: "    return sum((a, b))"})
    assert "return sum((a, b))" in desk.tool_result(2)
    assert desk.emacs.text() == CALC.replace("a - b", "sum((a, b))")


def test_lines_that_the_user_changed_meanwhile_are_a_conflict_and_stay_theirs(desk: EmacsDesk) -> None:
    desk.open_review()
    desk.go_to_hunk()
    desk.emacs.type("  # mine", pause_s=uneven)
    result = desk.tool_result(2)
    assert "calc.py: these lines were changed meanwhile; the edit was not applied." in result
    theirs = CALC.replace("a - b", "a - b  # mine")
    wait_for(lambda: desk.emacs.text() == theirs, "every key is in the buffer")
    assert desk.pending() == []
    assert desk.on_disk("calc.py") == CALC


# Several files, open and closed


def test_edits_of_several_files_land_each_where_it_belongs(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    (desk.root / "closed.py").write_text("z = 1\n")
    visit(desk, "other.py")
    changes = [("calc.py", "a - b", "a + b"), ("other.py", "y = 2", "y = 3"), ("closed.py", "z = 1", "z = 9")]
    desk.open_review(edits(*changes), 3)
    assert desk.on_disk("closed.py") == "z = 1\n"
    emacs.run_command("dsh-accept-all")
    results = desk.tool_results(2)
    assert ["accepted and is in the document" in result for result in results] == [True] * 3
    assert (emacs.text("calc.py"), emacs.text("other.py")) == (MENDED, "x = 1\ny = 3\n")
    assert (desk.on_disk("calc.py"), desk.on_disk("other.py")) == (CALC, OTHER)
    assert desk.on_disk("closed.py") == "z = 9\n"
    assert not any(name.endswith("closed.py") for name in emacs.files())
    assert emacs.prompts() == ["Find file: ", "M-x "], "no other question was asked"


def test_a_file_with_the_line_ends_of_dos_is_saved_until_its_user_types_and_keeps_them(desk: EmacsDesk) -> None:
    dos = desk.root / "dos.py"
    dos.write_bytes(b"a = 1\r\nb = 2\r\n")
    visit(desk, "dos.py")
    desk.model.script(
        answer("", calls=[("read_file", {"path": "dos.py"})]), edits(("dos.py", "b = 2", "b = 3")), DONE
    )
    desk.run("dsh.followup", text="Mend it.")
    desk.wait_for_review()
    assert "unsaved" not in desk.tool_result(2)
    desk.emacs.run_command("dsh-accept-all")
    assert "not saved: the user's editor does not let the agent save" in desk.tool_result(3)
    desk.emacs.keys(SAVE)
    wait_for(lambda: saved(dos) == b"a = 1\r\nb = 3\r\n", "it is saved with its line ends")


def test_a_buffer_that_is_killed_while_its_edit_waits_leaves_the_edit_to_the_file(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    visit(desk, "other.py")
    desk.open_review()
    emacs.value('(kill-buffer "calc.py")')
    emacs.run_command("dsh-accept-all")
    assert "calc.py: the edit was accepted" in desk.tool_result(2)
    assert desk.on_disk("calc.py") == MENDED
    assert not any(name.endswith("calc.py") for name in emacs.files())


def test_a_new_file_exists_only_after_its_acceptance(desk: EmacsDesk) -> None:
    files = desk.emacs.files()
    desk.open_review(answer("", calls=[("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"})]))
    assert not (desk.root / "pkg").exists()
    desk.emacs.run_command("dsh-accept-all")
    assert "pkg/new.py: the edit was accepted" in desk.tool_result(2)
    assert desk.on_disk("pkg/new.py") == "NEW = True\n"
    assert desk.emacs.files() == files


def test_files_are_renamed_and_deleted_on_disk_and_a_rewind_gives_all_back(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    (desk.root / "closed.py").write_text("z = 1\n")
    calls = [("move_file", {"path": "calc.py", "new_path": "lib/sums.py"}), ("delete_file", {"path": "closed.py"})]
    desk.model.script(answer("", calls=calls[:1]), answer("", calls=calls[1:]), DONE)
    desk.run("dsh.followup", text="Tidy up.")
    for _ in calls:
        [hunk] = desk.wait_for_review()
        emacs.run_command("dsh-accept-all")
        wait_for(lambda: hunk["id"] not in [one["id"] for one in desk.pending()], "it is decided")  # noqa: B023
    assert "the file is lib/sums.py now" in desk.tool_result(2)
    assert "the file is gone" in desk.tool_result(3)
    assert desk.on_disk("lib/sums.py") == CALC
    assert emacs.text("calc.py") == CALC, "Emacs knows no such operation; its buffer is left alone"
    desk.run("dsh.rewind", turn=1)
    wait_for(lambda: (desk.on_disk("calc.py"), desk.on_disk("closed.py")) == (CALC, "z = 1\n"), "all is given back")
    wait_for(lambda: not (desk.root / "lib" / "sums.py").exists(), "the other name is gone")


def test_a_rewind_takes_the_agents_lines_and_leaves_those_of_the_user(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    desk.open_review()
    emacs.run_command("dsh-accept-all")
    wait_for(lambda: emacs.text("calc.py") == MENDED, "the edit is in the buffer")
    assert "was accepted" in desk.tool_result(2)
    emacs.value('(with-current-buffer "calc.py" (goto-char (point-max)) (insert "# mine\\n"))')
    wait_for(lambda: desk.run("dsh.status")["state"] == "idle", "the turn is over")
    desk.run("dsh.rewind", turn=1)
    wait_for(lambda: emacs.text("calc.py") == CALC + "# mine\n", "the edit is taken back, and nothing else")


# Typing that goes on


def test_an_edit_that_emacs_asks_about_and_the_user_declines_waits_again(tmp_path: Path) -> None:
    asks = "(setq eglot-confirm-server-initiated-edits 'confirm)"
    with EmacsDesk.set_up(tmp_path, {"calc.py": CALC}, client=EGLOT, more=asks) as desk:
        emacs = desk.emacs
        desk.open_review()
        desk.run("dsh.review.accept", hunks="all")
        wait_for(lambda: "Proceed?" in (emacs.prompt or ""), "Emacs asks")
        emacs.keys("n")
        [hunk] = desk.wait_for_review()
        wait_for(lambda: "did not apply an accepted edit" in emacs.messages(), "the user is told")
        assert emacs.text() == CALC
        assert len(desk.model.requests) == 1
        desk.run("dsh.review.accept", hunks=[hunk["id"]])
        wait_for(lambda: "Proceed?" in (emacs.prompt or ""), "Emacs asks again")
        emacs.keys("y")
        wait_for(lambda: emacs.text() == MENDED, "the edit is in the buffer")
        emacs.keys("\x06")  # after a question, eglot tells of changes only when the next key has come
        assert "accepted and is in the document" in desk.tool_result(2)
        assert emacs.text() == MENDED


# Cancelling


def test_a_cancelled_turn_ends_at_once_keys_falling_and_the_next_one_works(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    reply, gate = held_after("A long answer that nobody wants to read to its end.")
    desk.model.script(reply, MEND, DONE)
    emacs.run_command("dsh-ask", "Talk.")
    wait_for(lambda: gate.reached, "the answer streams")
    emacs.keys(END)
    typed = emacs.type(KEYS, pause_s=uneven)
    emacs.run_command("dsh-cancel")
    typed += emacs.type(KEYS, pause_s=uneven)
    wait_for(lambda: desk.model.requests[0].torn, "the model's answer is dropped")
    wait_for(desk.at_rest, "the turn is over")
    desk.run("dsh.followup", text="Mend add.")
    desk.wait_for_review()
    emacs.run_command("dsh-accept-all")
    assert "accepted and is in the document" in desk.tool_result(3)
    assert emacs.text() == MENDED + typed


# Approvals


@pytest.fixture
def outside(desk: EmacsDesk) -> Path:
    path = desk.root.parent / "outside.txt"
    path.write_text("far away\n")
    return path


def test_keys_that_fall_while_an_approval_waits_decide_nothing_and_a_code_action_does(
    desk: EmacsDesk, outside: Path
) -> None:
    emacs = desk.emacs
    desk.model.script(answer("", calls=[("read_file", {"path": str(outside)})]), DONE)
    desk.run("dsh.followup", text="Read it.")
    wait_for(lambda: desk.run("dsh.status").get("waitingFor") == "approval", "the approval waits")
    wait_for(lambda: "DSH asks: may read_file run?" in emacs.messages(), "the user is told")
    emacs.keys(START)
    typed = emacs.type(KEYS, pause_s=uneven)
    wait_for(lambda: emacs.text() == typed + CALC, "every key is in the buffer")
    assert emacs.prompts() == []
    assert desk.run("dsh.status")["waitingFor"] == "approval"
    desk.act(f"DSH: Allow once: read_file, read {outside}")
    assert "far away" in desk.tool_result(2)


def test_an_approval_is_refused_by_the_command_and_the_comment_is_read(desk: EmacsDesk, outside: Path) -> None:
    desk.model.script(answer("", calls=[("read_file", {"path": str(outside)})]), DONE)
    desk.run("dsh.followup", text="Read it.")
    wait_for(lambda: desk.run("dsh.status").get("waitingFor") == "approval", "the approval waits")
    [approval] = {action["approval"] for action in arguments_of_actions(desk) if "approval" in action}
    desk.run("dsh.approve", approval=approval, decision="reject", comment="Private.")
    assert "Private." in desk.tool_result(2)
    assert "far away" not in str(desk.model.requests[1].body)
