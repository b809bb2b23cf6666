"""VS Code's chat: where keys fall after a click, and what was begun to be written when the page comes again."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.e2e.story import DONE, held_after
from tests.e2e.vscode_client import Desk
from tests.e2e.vscode_window import wait_for
from tests.support.model_server import answer

pytestmark = pytest.mark.timeout(240)

SELECT = """
const editor = vscode.window.activeTextEditor;
editor.selection = new vscode.Selection(args[0], 0, args[0], 4);
"""


def wait_for_words(words: Locator, text: str) -> None:
    wait_for(lambda: words.input_value() == text, f"it reads {text!r}")


def hide_and_show(desk: Desk) -> None:
    """The explorer takes the chat's place, and the chat takes it again."""
    desk.window.press("Control+Shift+e")
    wait_for(lambda: desk.page.locator(".explorer-folders-view").count() > 0, "the explorer is shown")
    wait_for(lambda: desk.page.locator('iframe.webview[src*="dsh-lsp"]').count() == 0, "the page is gone")
    desk.window.press("Control+Alt+d")
    desk.wait_for_cursor()


def test_keys_fall_into_the_input_after_a_click_whatever_becomes_of_what_was_clicked(desk: Desk) -> None:
    reply, gate = held_after("A long answer that goes on and on.", 5)
    desk.model.script(reply, DONE)
    desk.chat.get_by_role("button", name="Explain what this project does").click()
    desk.window.type(" in a line", pause_ms=5)
    wait_for_words(desk.input, "Explain what this project does in a line")

    chips = desk.chat.locator(".chip:not(.suggested)")
    desk.chat.locator(".chip.suggested", has_text="calc.py").click()
    chips.wait_for()
    desk.window.type(".", pause_ms=5)
    desk.chat.get_by_role("button", name="Remove calc.py").click()
    wait_for(lambda: chips.count() == 0, "the chip is gone")
    desk.window.type(".", pause_ms=5)
    wait_for_words(desk.input, "Explain what this project does in a line..")

    desk.chat.get_by_role("button", name="Send (Enter)").click()
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_running()
    desk.window.type("Shorter", pause_ms=5)
    wait_for_words(desk.input, "Shorter")
    gate.release()
    desk.wait_until_idle()


def test_what_the_chat_begins_with_keeps_the_focus_while_the_editor_is_used(desk: Desk) -> None:
    example = desk.chat.locator(".examples button").first
    example.focus()
    desk.window.vscode(SELECT, 1)
    desk.chat.locator(".chip.suggested", has_text="calc.py:2").wait_for()
    assert desk.chat.locator(".examples button:focus").count() == 1


def test_an_answer_and_words_for_a_refusal_that_were_begun_outlive_the_page(desk: Desk) -> None:
    outside = desk.window.folder.parent / "outside.txt"
    outside.write_text("far away\n")
    ask = ("ask", {"question": "Which one?"})
    desk.model.script(answer("", calls=[ask]), answer("", calls=[("read_file", {"path": str(outside)})]), DONE)
    desk.ask("Ask me.")
    words = desk.chat.get_by_label("Your answer")
    words.click()
    desk.window.type("The second", pause_ms=5)
    hide_and_show(desk)
    wait_for_words(words, "The second")
    words.click()
    desk.window.press("End")
    desk.window.type(" one", pause_ms=5)
    desk.window.press("Enter")
    assert "The second one" in desk.tool_result(2)

    comment = desk.chat.get_by_label("Words for the agent, if you reject")
    comment.click()
    desk.window.type("Stay inside.", pause_ms=5)
    hide_and_show(desk)
    wait_for_words(comment, "Stay inside.")
    desk.chat.get_by_role("button", name="Reject", exact=True).click()
    assert "Stay inside." in desk.tool_result(3)
    desk.wait_until_idle()
    assert desk.input.input_value() == ""


def test_an_edit_of_a_waiting_message_outlives_the_page_and_becomes_a_draft_when_that_is_taken(desk: Desk) -> None:
    reply, gate = held_after("A long answer that goes on and on.", 5)
    desk.model.script(reply, DONE)
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_running()
    desk.input.click()
    desk.window.type("And then.", pause_ms=5)
    desk.window.press("Alt+Enter")
    desk.chat.locator(".queue li").get_by_role("button", name="Edit: And then.").click()
    edited = desk.chat.get_by_label("Waiting message", exact=True)
    desk.window.type(" The tests", pause_ms=5)
    wait_for_words(edited, "And then. The tests")
    hide_and_show(desk)
    wait_for_words(edited, "And then. The tests")
    gate.release()
    desk.wait_for_text("Done.")
    wait_for_words(desk.input, "And then. The tests")
    desk.wait_until_idle()
