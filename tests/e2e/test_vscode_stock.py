"""Stock VS Code: its own preview of edits, what its user types meanwhile, and what the model reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stock_vscode import StockDesk
from tests.e2e.vscode import Workbench, package_test_extension, tools
from tests.e2e.vscode_window import wait_for
from tests.support.model_server import Gate, Reply, answer

pytestmark = pytest.mark.timeout(240)

CALC = 'def add(a, b):\n    return a - b\n\n\ndef double(a):\n    """Twice a."""\n    return a + a + a\n'
MENDED_ADD = CALC.replace("a - b", "a + b")
MENDED = MENDED_ADD.replace("a + a + a", "a + a")
OTHER = "x = 1\ny = 2\n"
ADD_ROW, DOUBLE_ROW = "return a -+ b", "return a + a + a"  # the preview shows old and new in one line
ACCEPT, REJECT = "DSH: Accept this edit", "DSH: Reject this edit"


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, str]]:
    return ("edit_file", {"path": path, "old_text": old, "new_text": new})


WHOLE = CALC[CALC.index("    return a - b") :].removesuffix("\n")
MEND_BOTH = answer("Two places.", calls=[edit("calc.py", WHOLE, MENDED[MENDED.index("    return a + b") :].rstrip())])
MEND_ADD = answer("One place.", calls=[edit("calc.py", "a - b", "a + b")])
DONE = answer("Done.")


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    installation = tools()
    folder = tmp_path_factory.mktemp("vscode")
    packages = [package_test_extension(name, installation, folder) for name in ("control", "stock")]
    with Workbench.start(folder, packages, env={}) as workbench:
        yield workbench


@pytest.fixture
def desk(workbench: Workbench, tmp_path: Path) -> Iterator[StockDesk]:
    with StockDesk.set_up(workbench, tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk


# The preview


def test_all_that_is_ticked_in_the_preview_lands_and_the_model_reads_where(desk: StockDesk) -> None:
    desk.ask_for_preview(MEND_BOTH, DONE)
    assert desk.window.text("calc.py") == CALC
    desk.preview.tick(ADD_ROW)
    desk.preview.tick(DOUBLE_ROW)
    desk.preview.apply()
    [result] = desk.tool_results(2)
    assert "calc.py: the edit was accepted and is in the document, line 2" in result
    assert "calc.py: the edit was accepted and is in the document, line 7" in result
    assert "not saved: the user's editor does not let the agent save" in result
    edited = {"text": MENDED, "dirty": True, "version": 2}
    wait_for(lambda: desk.window.document("calc.py") == edited, "it is in the buffer, at once and unsaved")
    assert desk.window.on_disk("calc.py") == CALC
    desk.wait_until_idle()


def test_what_is_left_unticked_stays_pending_and_is_decided_by_code_action(desk: StockDesk) -> None:
    desk.ask_for_preview(MEND_BOTH, DONE)
    desk.preview.tick(ADD_ROW)
    desk.preview.apply()
    [left] = desk.wait_for_pending(1)
    assert left["newText"] == "    return a + a\n"
    assert desk.window.text("calc.py") == MENDED_ADD
    assert len(desk.model.requests) == 1
    wait_for(lambda: not desk.preview.is_open, "the preview is closed")

    desk.window.place_cursor(left["range"]["start"]["line"], 4)
    desk.window.code_action(REJECT)
    [result] = desk.tool_results(2)
    assert "calc.py: the edit was accepted and is in the document, line 2" in result
    assert "calc.py: the user rejected the edit; the document is unchanged." in result
    assert desk.window.text("calc.py") == MENDED_ADD
    desk.wait_until_idle()


def test_a_discarded_preview_decides_nothing_and_is_not_raised_again(desk: StockDesk) -> None:
    desk.ask_for_preview(MEND_BOTH, DONE)
    desk.preview.discard()
    wait_for(lambda: any("still wait" in text for text in desk.window.notifications()), "the user is told")
    pending = desk.wait_for_pending(2)
    wait_for(lambda: not desk.preview.is_open, "the preview is closed")
    assert desk.window.document("calc.py") == {"text": CALC, "dirty": False, "version": 1}
    assert desk.window.on_disk("calc.py") == CALC
    assert len(desk.model.requests) == 1

    desk.window.place_cursor(pending[0]["range"]["start"]["line"], 4)
    desk.window.code_action(ACCEPT)
    wait_for(lambda: desk.window.text("calc.py") == MENDED_ADD, "the accepted edit lands")
    desk.run("dsh.review.reject", hunks="all", comment="Three of them is right.")
    [result] = desk.tool_results(2)
    assert "the edit was accepted and is in the document, line 2" in result
    assert "They said: Three of them is right." in result
    assert desk.window.text("calc.py") == MENDED_ADD
    desk.wait_until_idle()


def test_typing_during_the_preview_makes_it_stale_and_loses_nothing(desk: StockDesk) -> None:
    desk.ask_for_preview(MEND_BOTH, DONE)
    desk.window.place_cursor(0)
    desk.window.type("# typed meanwhile\n")
    typed = "# typed meanwhile\n"
    wait_for(lambda: desk.window.text("calc.py") == typed + CALC, "the keys are in the buffer")
    desk.preview.tick(ADD_ROW)
    desk.preview.apply()
    refusal = desk.window.page.get_by_text("has changed in the meantime").first
    refusal.wait_for()
    desk.window.press("Escape")
    pending = desk.wait_for_pending(2)
    assert desk.window.text("calc.py") == typed + CALC
    assert [hunk["range"]["start"]["line"] for hunk in pending] == [2, 7]

    wait_for(lambda: not desk.preview.is_open, "the preview is closed")
    desk.run("dsh.review.accept", hunks="all")
    [result] = desk.tool_results(2)
    assert "the edit was accepted and is in the document, line 3" in result
    assert "the edit was accepted and is in the document, line 8" in result
    assert "not saved: the document and its file differed before the edit" in result
    assert desk.window.text("calc.py") == typed + MENDED
    assert desk.window.on_disk("calc.py") == CALC
    desk.wait_until_idle()


def test_lines_that_the_user_changes_during_the_preview_are_a_conflict_and_stay_theirs(desk: StockDesk) -> None:
    desk.ask_for_preview(MEND_ADD, DONE)
    desk.window.place_cursor(1, len("    return a - b"))
    desk.window.type("  # mine")
    theirs = CALC.replace("a - b", "a - b  # mine")
    [result] = desk.tool_results(2)
    assert "calc.py: these lines were changed meanwhile; the edit was not applied." in result
    assert "calc.py now reads:\ndef add(a, b):\n    return a - b " in result  # as it was when the conflict arose
    desk.preview.tick(ADD_ROW)
    desk.preview.apply()  # stale now: the editor must not apply it
    desk.window.page.get_by_text("has changed in the meantime").first.wait_for()
    desk.window.press("Escape")
    desk.wait_until_idle()
    assert desk.window.text("calc.py") == theirs
    assert desk.window.on_disk("calc.py") == CALC


# Several files, and files that the editor does not hold


def test_edits_of_several_files_are_previewed_one_at_a_time_and_each_is_told_for_itself(desk: StockDesk) -> None:
    desk.window.open("other.py")
    desk.window.open("calc.py")
    calls = [edit("calc.py", "a - b", "a + b"), edit("other.py", "y = 2", "y = 3")]
    desk.ask_for_preview(answer("Both.", calls=calls), DONE)
    desk.wait_for_pending(2)
    assert desk.preview.rows() == ["calc.py", ADD_ROW], "the first that the model asked for"
    desk.preview.tick(ADD_ROW)
    desk.preview.apply()
    [left] = desk.wait_for_pending(1)
    assert desk.window.text("calc.py") == MENDED_ADD
    desk.window.open("other.py")
    desk.window.place_cursor(left["range"]["start"]["line"])
    desk.window.code_action(REJECT)
    accepted, rejected = desk.tool_results(2)
    assert "calc.py: the edit was accepted and is in the document, line 2" in accepted
    assert "other.py: the user rejected the edit; the document is unchanged." in rejected
    assert desk.window.text("other.py") == desk.window.on_disk("other.py") == OTHER
    desk.wait_until_idle()


def test_an_edit_of_a_file_that_is_not_open_goes_to_the_disk_and_opens_nothing(desk: StockDesk) -> None:
    desk.model.script(answer("There.", calls=[edit("other.py", "y = 2", "y = 3")]), DONE)
    desk.run("dsh.followup", text="Mend y.")
    desk.wait_for_pending(1)
    wait_for(
        lambda: any("DSH proposes an edit of other.py" in text for text in desk.window.notifications()), "it is told"
    )
    assert not desk.preview.is_open
    assert desk.window.on_disk("other.py") == OTHER
    desk.run("dsh.review.accept", hunks="all")
    [result] = desk.tool_results(2)
    assert "other.py: the edit was accepted and is in the document, line 2 (saved)" in result
    assert desk.window.on_disk("other.py") == "x = 1\ny = 3\n"
    assert desk.window.document("other.py") is None
    assert desk.window.document("calc.py") == {"text": CALC, "dirty": False, "version": 1}
    desk.wait_until_idle()


def test_a_new_file_exists_only_after_its_acceptance(desk: StockDesk) -> None:
    desk.model.script(answer("New.", calls=[("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"})]), DONE)
    desk.run("dsh.followup", text="Write it.")
    desk.wait_for_pending(1)
    assert not (desk.window.folder / "pkg").exists()
    desk.run("dsh.review.accept", hunks="all")
    [result] = desk.tool_results(2)
    assert "pkg/new.py: the edit was accepted" in result
    assert desk.window.on_disk("pkg/new.py") == "NEW = True\n"
    assert desk.window.document("pkg/new.py") is None
    desk.wait_until_idle()


def test_a_written_file_that_is_open_with_unsaved_text_keeps_that_text(desk: StockDesk) -> None:
    desk.window.place_cursor(7)
    desk.window.type("# unsaved\n")
    wait_for(lambda: desk.window.text("calc.py") == CALC + "# unsaved\n", "the keys are in the buffer")
    desk.model.script(
        answer("I read.", calls=[("read_file", {"path": "calc.py"})]),
        answer("I write.", calls=[("write_file", {"path": "calc.py", "content": MENDED + "# unsaved\n"})]),
        DONE,
    )
    desk.run("dsh.followup", text="Write it whole.")
    desk.preview.wait()
    desk.preview.tick(ADD_ROW)
    desk.preview.tick(DOUBLE_ROW)
    desk.preview.apply()
    assert "# unsaved" in desk.tool_results(2)[0]
    assert "not saved: the document and its file differed before the edit" in desk.tool_results(3)[-1]
    assert desk.window.text("calc.py") == MENDED + "# unsaved\n"
    assert desk.window.on_disk("calc.py") == CALC
    desk.wait_until_idle()


# Whole files, and the way back


def test_an_open_file_is_renamed_with_its_editor_and_a_rewind_gives_its_name_back(desk: StockDesk) -> None:
    call = ("move_file", {"path": "calc.py", "new_path": "lib/sums.py"})
    desk.model.script(answer("Move it.", calls=[call]), DONE)
    desk.run("dsh.followup", text="Move it.")
    desk.wait_for_pending(1)
    desk.run("dsh.review.accept", hunks="all")
    [result] = desk.tool_results(2)
    assert "the rename was accepted; the file is lib/sums.py now" in result
    assert desk.window.on_disk("lib/sums.py") == CALC
    assert not (desk.window.folder / "calc.py").exists()
    wait_for(lambda: desk.window.document("lib/sums.py") is not None, "its editor has the new name")
    desk.wait_until_idle()
    desk.run("dsh.rewind", turn=1)
    wait_for(lambda: desk.window.document("calc.py") is not None, "its editor has its name again")
    assert desk.window.on_disk("calc.py") == CALC
    wait_for(lambda: not (desk.window.folder / "lib/sums.py").exists(), "the other name is gone")


def test_a_deleted_file_comes_back_and_a_file_with_unsaved_text_is_not_deleted(desk: StockDesk) -> None:
    calls = [("delete_file", {"path": "other.py"}), ("delete_file", {"path": "calc.py"})]
    desk.model.script(answer("Away.", calls=calls[:1]), answer("That, too.", calls=calls[1:]), DONE)
    desk.window.place_cursor(7)
    desk.window.type("# mine\n")
    wait_for(lambda: desk.window.text("calc.py") == CALC + "# mine\n", "the keys are in the buffer")
    desk.run("dsh.followup", text="Away with them.")
    for _ in calls:
        [hunk] = desk.wait_for_pending(1)
        desk.run("dsh.review.accept", hunks="all")
        wait_for(lambda: hunk["id"] not in [one["id"] for one in desk.pending()], "it is decided")  # noqa: B023
    assert "the file is gone" in desk.tool_results(2)[0]
    assert "text of it that is not saved" in desk.tool_results(3)[-1]
    assert desk.window.text("calc.py") == CALC + "# mine\n"
    assert desk.window.on_disk("calc.py") == CALC
    desk.wait_until_idle()
    desk.run("dsh.rewind", turn=1)
    wait_for((desk.window.folder / "other.py").exists, "the file is there again")
    wait_for(lambda: desk.window.on_disk("other.py") == OTHER, "it holds what it held")


def test_a_rewind_takes_the_agents_lines_and_leaves_those_of_the_user(desk: StockDesk) -> None:
    desk.ask_for_preview(MEND_BOTH, DONE)
    desk.preview.tick(ADD_ROW)
    desk.preview.tick(DOUBLE_ROW)
    desk.preview.apply()
    desk.wait_until_idle()
    wait_for(lambda: desk.window.text("calc.py") == MENDED, "the edit is in the buffer")
    desk.window.place_cursor(6, len("    return a + a"))
    desk.window.type("  # twice")
    wait_for(
        lambda: desk.window.text("calc.py") == MENDED.replace("a + a\n", "a + a  # twice\n"), "the keys are there"
    )
    desk.run("dsh.rewind", turn=1)
    wanted = MENDED.replace("a + b", "a - b").replace("a + a\n", "a + a  # twice\n")
    wait_for(lambda: desk.window.text("calc.py") == wanted, "the untouched edit is taken back, the other one stays")
    told = "1 of 2 edits of turn 1 were taken back"
    wait_for(lambda: any(told in text for text in desk.window.notifications()), "the user is told of the other one")


# Keys


def test_a_review_that_opens_under_typing_fingers_takes_no_key_and_shows_its_preview_in_the_pause(
    desk: StockDesk,
) -> None:
    reply, gate = answer("I look at it first."), Gate()
    desk.model.script(Reply(packets=(*reply.packets[:3], gate, *reply.packets[3:-2], *MEND_ADD.packets)), DONE)
    desk.run("dsh.followup", text="Mend add.")
    wait_for(lambda: gate.reached, "the model answers")
    desk.window.place_cursor(0)
    typed = type_on(desk, "# keys: ")
    gate.release()
    while not desk.pending() and len(typed) < 500:
        typed += type_on(desk, "0123456789 ")
    typed += type_on(desk, "y n 1 2 while it waits ")
    assert not desk.preview.is_open
    assert desk.window.text("calc.py") == typed + CALC
    desk.preview.wait()
    desk.preview.discard()
    desk.window.place_cursor(0, len(typed))
    typed += type_on(desk, "and on\n")
    wait_for(lambda: desk.window.text("calc.py") == typed + CALC, "every key is there once")
    desk.run("dsh.review.accept", hunks="all")
    [result] = desk.tool_results(2)
    assert "calc.py: the edit was accepted and is in the document, line 3" in result
    assert desk.window.text("calc.py") == typed + MENDED_ADD
    desk.wait_until_idle()


ROUNDS = 3


def test_an_edit_accepted_between_keys_lands_exactly_once_and_no_key_is_lost(desk: StockDesk) -> None:
    desk.window.place_cursor(0)
    typed, request = "", 0
    for number in range(1, ROUNDS + 1):
        old, new = ("a - b", "a + b") if number % 2 else ("a + b", "a - b")
        desk.model.script(answer("Once more.", calls=[edit("calc.py", old, new)]), DONE)
        typed += type_on(desk, f" round {number} ")
        sent = desk.window.send("dsh.followup", {"text": f"Round {number}."})
        while not desk.pending() and len(typed) < 600:
            typed += type_on(desk, "x")
        accepted = desk.window.send("dsh.review.accept", {"hunks": "all"})
        request += 2
        while len(desk.model.requests) < request and len(typed) < 600:
            typed += type_on(desk, "yn1 ")
        assert desk.window.answer(accepted) == {"left": 0}
        assert desk.window.answer(sent)["session"]
        [result] = desk.tool_results(request)[-1:]
        assert "calc.py: the edit was accepted and is in the document, line 2" in result
        wait = f"round {number}: every key once, and the edit"
        wait_for(lambda: desk.window.text("calc.py") == typed + CALC.replace("a - b", new), wait)  # noqa: B023
        desk.wait_until_idle()
    assert not desk.preview.is_open
    assert desk.window.on_disk("calc.py") == CALC


def type_on(desk: StockDesk, text: str) -> str:
    """Type as fast as a fast typist."""
    desk.window.type(text, pause_ms=90)
    return text


def test_an_accepted_edit_is_one_step_of_undo(desk: StockDesk) -> None:
    desk.ask_for_preview(MEND_ADD, DONE)
    desk.preview.tick(ADD_ROW)
    desk.preview.apply()
    wait_for(lambda: desk.window.text("calc.py") == MENDED_ADD, "the edit lands")
    desk.wait_until_idle()
    desk.window.place_cursor(0)
    desk.window.press("Control+z")
    wait_for(lambda: desk.window.text("calc.py") == CALC, "one undo takes it back")


def test_what_is_applied_after_the_turn_was_cancelled_is_not_denied_and_can_be_taken_back(desk: StockDesk) -> None:
    desk.ask_for_preview(MEND_ADD)
    desk.run("dsh.cancel")
    desk.wait_until_idle()
    assert desk.pending() == []
    assert desk.window.text("calc.py") == CALC
    desk.model.script(DONE)
    desk.run("dsh.followup", text="And now?")
    results = desk.tool_results(2)
    assert "NOT CONFIRMED: the review was cancelled, but the editor still shows it to the user" in results[0]
    desk.wait_until_idle()
    desk.preview.tick(ADD_ROW)
    desk.preview.apply()
    wait_for(lambda: desk.window.text("calc.py") == MENDED_ADD, "the late edit lands")
    desk.run("dsh.rewind", turn=1)
    wait_for(lambda: desk.window.text("calc.py") == CALC, "it is taken back")
