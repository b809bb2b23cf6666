"""VS Code's palette and menus: what has no place in the chat's page, or a second one here."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error, Locator

from tests.e2e.story import held_after
from tests.e2e.vscode_client import CALC, MENDED_ADD, Desk
from tests.e2e.vscode_window import wait_for
from tests.support.model_server import answer

pytestmark = pytest.mark.timeout(300)

DONE = answer("Done.")


def rows(desk: Desk) -> Locator:
    return desk.page.locator(".quick-input-list .monaco-list-row")


def say_in_box(desk: Desk, command: str, words: str) -> None:
    """Run a command that asks for words, and give them."""
    desk.window.palette(command)
    desk.page.locator(".quick-input-widget .quick-input-title", has_text=command).wait_for()
    desk.page.locator(".quick-input-widget input").first.fill(words)
    desk.window.press("Enter")


def test_mode_and_model_are_chosen_and_the_next_request_has_them(desk: Desk) -> None:
    desk.window.palette("DSH: Set Mode")
    rows(desk).filter(has_text="Plan").click()
    desk.chat.locator(".pick.mode", has_text="Plan").wait_for()
    desk.window.palette("DSH: Select Model")
    desk.page.get_by_placeholder("Choose a model").or_(desk.page.get_by_placeholder("type the name")).first.wait_for()
    desk.page.locator(".quick-input-widget input").first.fill("model-of-mine")
    rows(desk).filter(has_text='Use "model-of-mine"').click()
    desk.chat.locator(".pick.model", has_text="model-of-mine").wait_for()
    desk.model.script(DONE)
    desk.ask("Hello?")
    desk.wait_for_text("Done.")
    assert desk.model.requests[-1].body["model"] == "model-of-mine"


def test_context_that_is_injected_while_nothing_runs_goes_with_the_next_message(desk: Desk) -> None:
    say_in_box(desk, "DSH: Inject Context", "The tests are slow.")
    row = desk.chat.locator(".queue li")
    row.filter(has_text="The tests are slow.").filter(has_text="goes with your next message").wait_for()
    assert desk.chat.locator(".queue").get_by_role("button", name="Resume").count() == 0
    desk.model.script(DONE)
    desk.ask("Why?")
    said = [str(message["content"]) for message in desk.sent_messages(1) if message["role"] == "user"]
    assert any("The tests are slow." in text for text in said)
    desk.wait_until_idle()


def test_a_session_is_exported_renamed_and_deleted(desk: Desk) -> None:
    desk.model.script(answer("An answer to keep."))
    desk.ask("A question.")
    desk.wait_for_text("An answer to keep.")
    desk.wait_until_idle()
    desk.window.palette("DSH: Export Session")
    exported = "return vscode.window.activeTextEditor?.document.getText() ?? ''"
    wait_for(lambda: "An answer to keep." in desk.window.vscode(exported), "the transcript is shown")
    desk.window.palette("DSH: Sessions")
    rows(desk).filter(has_text="A question.").hover()
    rows(desk).get_by_role("button", name="Rename").click()
    desk.page.locator(".quick-input-widget .quick-input-title", has_text="Rename Session").wait_for()
    desk.page.locator(".quick-input-widget input").first.fill("Kept")
    desk.window.press("Enter")
    wait_for(lambda: "Kept" in str(desk.window.command("dsh.session.list", {})), "the session has its new name")
    desk.window.palette("DSH: Sessions")
    rows(desk).filter(has_text="Kept").hover()
    rows(desk).get_by_role("button", name="Delete").click()
    desk.page.locator(".monaco-dialog-box").get_by_role("button", name="Delete").click()
    desk.chat.get_by_role("heading", name="Ask DSH").wait_for()
    desk.window.palette("DSH: Sessions")
    desk.page.get_by_placeholder("There are no sessions yet").wait_for()


def test_all_files_that_are_selected_are_added(desk: Desk) -> None:
    paths = [str(Path(desk.window.folder) / name) for name in ("calc.py", "other.py")]
    code = """
    const uris = args.map((one) => vscode.Uri.file(one));
    await vscode.commands.executeCommand('dsh.ui.addFile', uris[0], uris);
    """
    desk.window.vscode(code, *paths)
    chips = desk.chat.locator(".chip:not(.suggested)")
    wait_for(lambda: chips.all_inner_texts() == ["calc.py", "other.py"], "both files are added")


def test_the_edits_of_a_turn_are_taken_back_and_its_session_is_forked(client_workbench: Any, tmp_path: Path) -> None:
    mend = answer("One.", calls=[("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"})])
    with Desk.set_up(client_workbench, tmp_path, {"calc.py": CALC}, settings={"dsh.mode": "auto-edit"}) as desk:
        desk.model.script(mend, DONE)
        desk.ask("Mend it.")
        desk.wait_for_text("Done.")
        desk.wait_until_idle()
        assert desk.window.text("calc.py") == MENDED_ADD
        desk.window.palette("DSH: Rewind Turn")
        rows(desk).filter(has_text="Turn 1").click()
        desk.page.locator(".monaco-dialog-box").get_by_role("button", name="Rewind").click()
        wait_for(lambda: desk.window.text("calc.py") == CALC, "the edit is taken back")
        desk.wait_until_idle()
        desk.window.palette("DSH: Fork Session")
        wait_for(lambda: len(list((tmp_path / "sessions").glob("*.jsonl"))) == 2, "there is a session more")
        desk.wait_for_text("Done.")


def test_a_running_turn_is_steered(desk: Desk) -> None:
    reply, gate = held_after("A long answer that goes on and on.")
    desk.model.script(reply, DONE)
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    say_in_box(desk, "DSH: Steer", "Be brief.")
    desk.chat.locator(".queue li", has_text="Be brief.").wait_for()
    gate.release()
    said = [str(message["content"]) for message in desk.sent_messages(2) if message["role"] == "user"]
    assert any("Be brief." in text for text in said)
    desk.wait_until_idle()


def test_what_waits_is_resumed_and_a_history_made_shorter_by_the_palette(desk: Desk) -> None:
    reply, gate = held_after("A long answer that goes on and on.")
    long = [answer(f"The answer {number}. " + "word " * 400) for number in range(3)]
    desk.model.script(reply, *long, answer("A SUMMARY of it all."), DONE)
    assert not desk.window.palette_offers("DSH: Compact")
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_accepted()
    desk.input.click()
    desk.window.type("Next.", pause_ms=5)
    desk.window.press("Alt+Enter")
    desk.chat.locator(".queue li").wait_for()
    assert not desk.window.palette_offers("DSH: Resume Queue")
    desk.window.palette("DSH: Cancel")
    desk.chat.locator(".queue").get_by_text("Paused").wait_for()
    desk.window.palette("DSH: Resume Queue")
    desk.wait_for_text("The answer 0.")
    desk.wait_until_idle()
    wait_for(lambda: desk.chat.locator(".queue li").count() == 0, "nothing waits")

    for number in (1, 2):
        desk.ask("More.")
        desk.wait_for_text(f"The answer {number}.")
        desk.wait_until_idle()
    desk.window.palette("DSH: Compact")
    desk.page.locator(".notification-list-item", has_text="the history is shorter").wait_for()
    desk.ask("And now?")
    said = str(desk.sent_messages(6))
    assert "A SUMMARY of it all." in said
    assert "The answer 0." not in said
    desk.wait_for_text("Done.")
    desk.wait_for_text("The answer 0.")  # what its user reads is kept


def menu(desk: Desk, *names: str) -> None:
    """Choose in an open context menu, and in the menus that open beside it: a menu takes no click while it opens."""
    menus = desk.page.locator(".monaco-menu")
    *ways, last = (menus.locator(".action-item", has_text=name).last for name in names)
    for row in ways:
        row.hover()
    last.wait_for()

    def chosen() -> bool:
        with suppress(Error):
            last.click(timeout=1_000)
        return menus.count() == 0

    wait_for(chosen, "the menu is closed")


def test_files_and_selections_are_added_by_the_context_menus(desk: Desk) -> None:
    chips = desk.chat.locator(".chip:not(.suggested)")
    desk.window.place_cursor(1)
    desk.window.press("Shift+End")
    line = desk.page.locator(".editor-instance .view-line", has_text="return a - b")
    line.locator("span span").first.click(button="right")
    menu(desk, "DSH", "Add Selection to Context")
    wait_for(lambda: chips.all_inner_texts() == ["calc.py:2"], "the selection is added")
    desk.wait_for_cursor()
    line.locator("span span").first.click(button="right")
    menu(desk, "DSH", "Ask About Selection")
    desk.wait_for_cursor()
    desk.window.press("Control+Shift+e")
    desk.page.locator(".explorer-folders-view .monaco-list-row", has_text="other.py").click(button="right")
    menu(desk, "Add File to Context")
    wait_for(lambda: chips.all_inner_texts() == ["calc.py:2", "other.py"], "both are in the page, which is a new one")
    desk.wait_for_cursor()
    desk.model.script(DONE)
    desk.ask("What is this?")
    [message] = desk.sent_messages(1)
    assert "return a - b" in message["content"]
    assert "other.py" in message["content"]
    desk.wait_until_idle()


def test_the_server_is_started_again_and_its_log_is_shown(desk: Desk) -> None:
    before = desk.server()
    desk.window.palette("DSH: Restart Server")
    wait_for(lambda: desk.server() not in (before, None), "another server runs")
    desk.wait_until_connected()
    desk.window.palette("DSH: Show Log")
    desk.page.locator(".panel .output", has_text="the server is taken from").or_(
        desk.page.locator(".part.panel", has_text="the server is taken from")
    ).first.wait_for()
