"""VS Code's review: the real file on the left, the proposal on the right, and what its user types on both sides."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Error

from tests.e2e.vscode_client import CALC, MENDED, MENDED_ADD, OTHER, Desk
from tests.e2e.vscode_window import WAIT_S, wait_for
from tests.support.model_server import Gate, Reply, answer

pytestmark = pytest.mark.timeout(300)

DONE = answer("Done.")


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, str]]:
    return ("edit_file", {"path": path, "old_text": old, "new_text": new})


WHOLE = CALC[CALC.index("    return a - b") :].removesuffix("\n")
MEND_BOTH = answer("Both.", calls=[edit("calc.py", WHOLE, MENDED[MENDED.index("    return a + b") :].rstrip())])
MEND_ADD = answer("One.", calls=[edit("calc.py", "a - b", "a + b")])


def ask_for_review(desk: Desk, *replies) -> None:
    desk.model.script(*replies)
    desk.ask("Mend it.")
    desk.open_review()


def place_cursor_in_proposal(desk: Desk, name: str, line: int) -> None:
    """Put the cursor at the end of a line of the proposal, from 0."""
    code = """
    const editor = vscode.window.activeTextEditor;
    const uri = editor?.document.uri;
    if (uri?.scheme !== 'dsh-proposal' || !uri.path.endsWith('/' + args[0])) return false;
    const at = editor.document.lineAt(args[1]).range.end;
    editor.selection = new vscode.Selection(at, at);
    await vscode.commands.executeCommand('noop'); // the editor runs it after it has moved the cursor
    return true;
    """

    def is_there() -> bool:
        with suppress(Error):  # the view may be a new one in a moment
            desk.page.locator(".editor.modified .view-line").first.click(timeout=5_000)
        return bool(desk.window.vscode(code, name, line))

    wait_for(is_there, "the proposal has the focus")


def test_each_edit_is_decided_by_the_words_above_it_and_the_model_reads_which(desk: Desk) -> None:
    ask_for_review(desk, MEND_BOTH, DONE)
    assert desk.window.text("calc.py") == CALC
    assert desk.proposal_text("calc.py") == MENDED
    desk.lens("Accept 1 of 2").click()
    wait_for(lambda: desk.window.text("calc.py") == MENDED_ADD, "the first edit lands")
    wait_for(lambda: desk.lens("of 2").count() == 0, "one edit is left")
    assert desk.proposal_text("calc.py") == MENDED
    assert len(desk.model.requests) == 1
    desk.lens("Reject").first.click()
    result = desk.tool_result(2)
    assert "calc.py: the edit was accepted and is in the document, line 2 (saved)" in result
    assert "calc.py: the user rejected the edit; the document is unchanged." in result
    desk.wait_until_idle()
    assert desk.window.text("calc.py") == desk.window.on_disk("calc.py") == MENDED_ADD
    wait_for(lambda: desk.proposal_text("calc.py") is None, "the review is closed")
    desk.chat.locator(".review .outcome").get_by_text("in part", exact=True).wait_for()


def test_a_correction_in_the_proposal_lands_in_its_place_and_the_model_reads_it(desk: Desk) -> None:
    ask_for_review(desk, MEND_ADD, DONE)
    place_cursor_in_proposal(desk, "calc.py", 1)
    desk.window.type("  # as it should\n    # be", pause_ms=20)
    corrected = CALC.replace("a - b", "a + b  # as it should\n    # be")
    wait_for(lambda: desk.proposal_text("calc.py") == corrected, "the proposal holds the correction")
    assert desk.window.text("calc.py") == CALC
    desk.window.press("Control+Alt+y")
    result = desk.tool_result(2)
    assert "the user accepted other text, which is in the document, lines 2-3" in result
    assert "# as it should\n    # be" in result
    assert desk.window.text("calc.py") == desk.window.on_disk("calc.py") == corrected
    desk.wait_until_idle()


def test_what_the_user_writes_elsewhere_in_a_proposal_is_theirs_and_is_not_lost(desk: Desk) -> None:
    ask_for_review(desk, MEND_ADD, DONE)
    place_cursor_in_proposal(desk, "calc.py", 5)
    desk.window.type("  # mine", pause_ms=20)
    desk.lens("Keep my edit").wait_for()
    desk.page.get_by_role("button", name="Accept File").first.click()
    both = MENDED_ADD.replace('"""Twice a."""', '"""Twice a."""  # mine')
    wait_for(lambda: desk.window.text("calc.py") == both, "both edits are in the file")
    assert "the edit was accepted and is in the document, line 2" in desk.tool_result(2)
    desk.wait_until_idle()


def test_typing_in_the_document_during_a_review_loses_nothing_and_a_refusal_changes_nothing(desk: Desk) -> None:
    ask_for_review(desk, MEND_BOTH, DONE)
    desk.window.open("calc.py")
    desk.window.place_cursor(0)
    typed = "# typed while the review is open\n"
    desk.window.type(typed, pause_ms=30)
    wait_for(lambda: desk.window.text("calc.py") == typed + CALC, "every key is in the file")
    wait_for(lambda: desk.proposal_text("calc.py") == typed + MENDED, "the proposal follows")
    desk.window.press("Control+Alt+Shift+n")
    result = desk.tool_result(2)
    assert result.count("the user rejected the edit; the document is unchanged.") == 2
    desk.wait_until_idle()
    assert desk.window.text("calc.py") == typed + CALC
    assert desk.window.on_disk("calc.py") == CALC


def test_a_declined_review_leaves_the_file_byte_for_byte(client_workbench, tmp_path: Path) -> None:
    odd = "\ufeffdef add(a, b):\r\n    return a - b\r\n\r\nlast = 'no newline'"
    with Desk.set_up(client_workbench, tmp_path, {"odd.py": odd}) as desk:
        ask_for_review(desk, answer("", calls=[edit("odd.py", "a - b", "a + b")]), DONE)
        desk.window.press("Control+Alt+Shift+n")
        assert "the user rejected the edit" in desk.tool_result(2)
        desk.wait_until_idle()
        assert (desk.window.folder / "odd.py").read_bytes() == odd.encode()
        desk.model.script(answer("", calls=[edit("odd.py", "a - b", "a + b")]), DONE)
        desk.ask("Again.")
        desk.open_review()
        desk.window.press("Control+Alt+Shift+y")
        assert "accepted and is in the document, line 2" in desk.tool_result(4)
        desk.wait_until_idle()
        assert (desk.window.folder / "odd.py").read_bytes() == odd.replace("a - b", "a + b").encode()


def ask_for_review_of_three(desk: Desk) -> None:
    """Let the model propose edits of three files, and look at them together once all of them wait."""
    calls = [edit("calc.py", "a - b", "a + b"), edit("other.py", "y = 2", "y = 3")]
    calls.append(("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"}))
    desk.model.script(answer("Three.", calls=calls), DONE)
    desk.ask("Mend it.")
    desk.chat.get_by_text("3 edits wait in 3 files").wait_for(timeout=WAIT_S * 1000)
    together = desk.page.locator(".multiDiffEditor")
    desk.show_review(lambda: together.count() > 0)


def test_edits_of_several_files_are_reviewed_together_and_accepted_by_the_button(desk: Desk) -> None:
    ask_for_review_of_three(desk)
    assert not (desk.window.folder / "pkg").exists()
    desk.page.locator(".editor-actions").get_by_role("button", name="Accept All").first.click()
    results = desk.tool_results(2)
    assert all("the edit was accepted" in result for result in results)
    desk.wait_until_idle()
    assert desk.window.on_disk("calc.py") == MENDED_ADD
    assert desk.window.on_disk("other.py") == "x = 1\ny = 3\n"
    assert desk.window.on_disk("pkg/new.py") == "NEW = True\n"


def test_in_the_view_of_several_files_a_file_is_decided_by_key_and_leaves_it(desk: Desk) -> None:
    ask_for_review_of_three(desk)
    place_cursor_in_proposal(desk, "calc.py", 1)
    desk.window.press("Control+Alt+y")
    wait_for(lambda: desk.window.text("calc.py") == MENDED_ADD, "the edit under the cursor lands")
    tab = desk.page.get_by_role("tab", name="DSH review (2 files)")
    tab.wait_for()
    wait_for(lambda: desk.page.get_by_role("tab", name="DSH review").count() == 1, "the view before is closed")
    wait_for(lambda: desk.proposal_text("calc.py") is None, "the file that is decided is shown no more")
    place_cursor_in_proposal(desk, "other.py", 1)
    desk.window.press("Control+Alt+n")
    desk.page.get_by_role("tab", name="DSH review: new.py").wait_for()
    desk.page.get_by_role("button", name="Reject File").first.click()
    results = desk.tool_results(2)
    assert ["rejected" in result for result in results] == [False, True, True]
    desk.wait_until_idle()
    wait_for(lambda: desk.page.get_by_role("tab", name="DSH review").count() == 0, "the review is closed")


def test_a_proposal_and_its_corrections_wait_while_another_session_is_shown(desk: Desk) -> None:
    ask_for_review(desk, MEND_ADD, DONE)
    place_cursor_in_proposal(desk, "calc.py", 1)
    desk.window.type("  # mine", pause_ms=20)
    corrected = CALC.replace("a - b", "a + b  # mine")
    wait_for(lambda: desk.proposal_text("calc.py") == corrected, "the proposal holds the correction")
    desk.window.palette("DSH: New Session")
    desk.chat.get_by_role("heading", name="Ask DSH").wait_for()
    assert desk.proposal_text("calc.py") == corrected
    desk.window.palette("DSH: Sessions")
    desk.page.locator(".quick-input-list .monaco-list-row", has_text="Mend it.").click()
    desk.wait_for_review()
    assert desk.proposal_text("calc.py") == corrected
    desk.window.press("Control+Alt+Shift+y")
    assert "the user accepted other text" in desk.tool_result(2)
    desk.wait_until_idle()
    assert desk.window.text("calc.py") == corrected


# The editor in a browser writes down in its databases, a moment later, what an extension keeps.
IS_WRITTEN_DOWN = """
async (words) => {
  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  for (const { name } of await indexedDB.databases()) {
    const database = await done(indexedDB.open(name));
    const stores = [...database.objectStoreNames].map((one) => database.transaction(one).objectStore(one));
    const rows = (await Promise.all(stores.map((store) => done(store.getAll())))).flat();
    database.close();
    if (rows.some((row) => String(row).includes('corrections.waiting') && String(row).includes(words))) return true;
  }
  return false;
}
"""


def test_what_was_written_into_a_proposal_outlives_the_window(desk: Desk) -> None:
    ask_for_review(desk, MEND_ADD, DONE)
    place_cursor_in_proposal(desk, "calc.py", 1)
    desk.window.type("  # mine", pause_ms=20)
    corrected = CALC.replace("a - b", "a + b  # mine")
    wait_for(lambda: desk.proposal_text("calc.py") == corrected, "the proposal holds the correction")
    wait_for(lambda: desk.page.evaluate(IS_WRITTEN_DOWN, "# mine"), "the editor has written down what is kept")
    desk.window.load()
    desk.page.locator(".notification-list-item", has_text="the review of calc.py has ended").get_by_role(
        "button", name="Open"
    ).click()
    code = "return vscode.workspace.textDocuments.filter((one) => one.isUntitled).map((one) => one.getText())"
    wait_for(lambda: desk.window.vscode(code) == [corrected], "what was written is shown")


def test_a_new_file_can_be_corrected_before_it_exists(desk: Desk) -> None:
    ask_for_review(
        desk, answer("New.", calls=[("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"})]), DONE
    )
    place_cursor_in_proposal(desk, "pkg/new.py", 0)
    desk.window.type("\nALSO = 1", pause_ms=20)
    desk.window.press("Control+Alt+y")
    assert "the user accepted other text" in desk.tool_result(2)
    desk.wait_until_idle()
    assert desk.window.on_disk("pkg/new.py") == "NEW = True\nALSO = 1\n"


def test_a_refusal_takes_the_users_words_to_the_model(desk: Desk) -> None:
    ask_for_review(desk, MEND_ADD, DONE)
    desk.lens("Reject with a comment").click()
    desk.page.locator(".quick-input-widget input").first.wait_for()
    desk.window.type("Keep it as it is.", pause_ms=5)
    desk.window.press("Enter")
    assert "They said: Keep it as it is." in desk.tool_result(2)
    assert desk.window.text("calc.py") == CALC
    desk.wait_until_idle()


def test_lines_that_the_user_changes_meanwhile_are_a_conflict_and_stay_theirs(desk: Desk) -> None:
    ask_for_review(desk, MEND_BOTH, DONE)
    desk.window.open("calc.py")
    desk.window.place_cursor(1, 16)
    desk.window.type("  # mine", pause_ms=20)
    theirs = CALC.replace("a - b", "a - b  # mine")
    wait_for(lambda: desk.window.text("calc.py") == theirs, "every key is in the file")
    wait_for(lambda: desk.proposal_text("calc.py") == theirs.replace("a + a + a", "a + a"), "the other edit is left")
    desk.window.press("Control+Alt+Shift+y")
    result = desk.tool_result(2)
    assert "calc.py: these lines were changed meanwhile; the edit was not applied." in result
    assert "calc.py: the edit was accepted and is in the document, line 7" in result
    assert desk.window.text("calc.py") == theirs.replace("a + a + a", "a + a")
    desk.wait_until_idle()


def test_a_review_that_opens_while_the_user_types_takes_no_focus_and_no_key(desk: Desk) -> None:
    gate = Gate()
    desk.model.script(Reply(packets=(gate, *MEND_ADD.packets)), DONE)
    desk.ask("Mend it.")
    wait_for(lambda: gate.reached, "the model is asked")
    desk.window.place_cursor(0)
    typed = "I type. "
    desk.window.type(typed, pause_ms=40)
    gate.release()
    while desk.status_label() != "DSH waits for your review" and len(typed) < 600:
        desk.window.type("key ", pause_ms=40)
        typed += "key "
    desk.window.type("and more of them\n", pause_ms=40)
    typed += "and more of them\n"
    wait_for(lambda: desk.window.text("calc.py") == typed + CALC, "every key is in the file")
    desk.open_review()
    desk.window.press("Control+Alt+Shift+y")
    assert "accepted and is in the document" in desk.tool_result(2)
    assert desk.window.text("calc.py") == typed + MENDED_ADD
    assert desk.window.on_disk("calc.py") == CALC
    desk.wait_until_idle()


def test_in_auto_edit_mode_edits_land_at_once_and_are_kept_or_undone_by_the_words_above_them(
    client_workbench, tmp_path: Path
) -> None:
    files = {"calc.py": CALC, "other.py": OTHER}
    with Desk.set_up(client_workbench, tmp_path, files, settings={"dsh.mode": "auto-edit"}) as desk:
        desk.model.script(MEND_BOTH, DONE)
        desk.ask("Mend it.")
        wait_for(lambda: desk.window.text("calc.py") == MENDED, "the edits land at once")
        desk.wait_until_idle()
        keep, undo = (desk.lens(re.compile(rf"\s{word}$")) for word in ("Keep", "Undo"))  # not those of all edits
        wait_for(lambda: keep.count() == 2, "both can be kept")
        keep.first.click()
        wait_for(lambda: keep.count() == undo.count() == 1, "one is decided")
        assert desk.window.text("calc.py") == MENDED
        undo.click()
        wait_for(lambda: desk.window.text("calc.py") == MENDED_ADD, "the other one is undone")
        wait_for(lambda: undo.count() == 0, "nothing is left to undo")
        outcome = desk.chat.locator(".review .outcome").first
        wait_for(lambda: outcome.inner_text() == "in part", "the chat says so")


def test_the_proposals_of_a_session_that_is_deleted_close_without_a_question_and_give_words_back(desk: Desk) -> None:
    ask_for_review(desk, MEND_ADD, DONE)
    place_cursor_in_proposal(desk, "calc.py", 1)
    desk.window.type("  # mine", pause_ms=20)
    corrected = CALC.replace("a - b", "a + b  # mine")
    wait_for(lambda: desk.proposal_text("calc.py") == corrected, "the proposal holds the correction")
    desk.window.palette("DSH: Sessions")
    row = desk.page.locator(".quick-input-list .monaco-list-row", has_text="Mend it.")
    row.hover()
    row.get_by_role("button", name="Delete").click()
    desk.page.locator(".monaco-dialog-box").get_by_role("button", name="Delete").click()
    wait_for(lambda: desk.page.get_by_role("tab", name="DSH review").count() == 0, "the review is closed")
    assert desk.page.locator(".monaco-dialog-box").count() == 0
    wait_for(lambda: desk.proposal_text("calc.py") is None, "its proposal is closed")
    assert desk.window.text("calc.py") == CALC
    desk.window.command("notifications.showList")  # what is told goes out of sight after a while, into this list
    desk.page.locator(".notification-list-item", has_text="the review of calc.py has ended").get_by_role(
        "button", name="Open"
    ).click()
    code = "return vscode.workspace.textDocuments.filter((one) => one.isUntitled).map((one) => one.getText())"
    wait_for(lambda: desk.window.vscode(code) == [corrected], "what was written is shown")
    assert desk.page.get_by_role("tab", name="DSH review").count() == 0, "nothing brings it back"
    assert desk.page.locator(".monaco-dialog-box").count() == 0


def test_a_deletion_and_a_rename_are_shown_as_such_and_unsaved_text_keeps_its_file(desk: Desk) -> None:
    move = answer("Move.", calls=[("move_file", {"path": "other.py", "new_path": "pkg/moved.py"})])
    ask_for_review(desk, answer("Delete.", calls=[("delete_file", {"path": "calc.py"})]), DONE, move, move, DONE)
    desk.page.get_by_role("tab", name="DSH review: calc.py (delete)").wait_for()
    assert (desk.window.folder / "calc.py").exists()
    desk.window.press("Control+Alt+Shift+y")
    assert "the deletion was accepted; the file is gone" in desk.tool_result(2)
    desk.wait_until_idle()
    assert not (desk.window.folder / "calc.py").exists()

    desk.window.open("other.py")
    desk.window.place_cursor(0)
    desk.window.type("# mine\n")
    desk.ask("And move it.")
    desk.open_review()
    desk.page.get_by_role("tab", name="DSH review: other.py → pkg/moved.py").wait_for()
    desk.window.press("Control+Alt+Shift+y")
    assert "holds text of it that is not saved" in desk.tool_result(4)
    assert desk.window.text("other.py") == f"# mine\n{OTHER}"
    wait_for(lambda: desk.chat.locator(".review").count() == 3, "the third review is the one that waits")
    desk.open_review()
    desk.window.command("workbench.action.files.saveAll")
    desk.window.press("Control+Alt+Shift+y")
    assert "the rename was accepted" in desk.tool_result(5)
    desk.wait_until_idle()
    assert desk.window.on_disk("pkg/moved.py") == f"# mine\n{OTHER}"
    assert desk.chat.locator(".review .name").all_inner_texts()[1:] == ["other.py → pkg/moved.py"] * 2
