"""VS Code's chat: what its user types and sees there, and what the model reads of it."""

from __future__ import annotations

import pytest

from tests.e2e.story import DONE, held_after
from tests.e2e.vscode_client import Desk
from tests.e2e.vscode_window import wait_for
from tests.support.model_server import Gate, Reply, answer, refusal

pytestmark = pytest.mark.timeout(240)

READ = ("read_file", {"path": "calc.py"})


# What is shown


def test_an_answer_is_shown_as_markdown_with_its_thoughts_folded_and_its_tools_as_cards(desk: Desk) -> None:
    text = (
        "It is **wrong**:\n\n1. first\n2. second\n\n```python\nreturn a + b\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    desk.model.script(answer("I look.", reasoning="A thought of mine.", calls=[READ]), answer(text))
    desk.ask("What is wrong?")
    desk.wait_for_text("It is")
    desk.wait_until_idle()
    chat = desk.chat
    chat.locator(".markdown td", has_text="2").wait_for()
    assert chat.locator(".user").inner_text().endswith("What is wrong?")
    assert chat.locator(".markdown strong").inner_text() == "wrong"
    assert chat.locator(".markdown ol li").all_inner_texts() == ["first", "second"]
    assert chat.locator(".code code").inner_text().strip() == "return a + b"
    assert chat.locator(".code .hl-keyword").first.inner_text() == "return"
    assert chat.locator(".markdown td").all_inner_texts() == ["1", "2"]
    thought = chat.locator("details.thinking")
    assert not thought.locator(".plain-text").is_visible()
    thought.locator("summary").click()
    assert thought.locator(".plain-text").inner_text() == "A thought of mine."
    card = chat.locator(".tool")
    assert card.locator(".tool-title").inner_text() == "Read calc.py"
    assert card.locator(".tool-state").get_attribute("title") == "done"
    chat.locator('.meter[aria-label^="Context: 15 "]').wait_for()


def test_text_that_streams_is_shown_before_its_end_and_once_in_the_end(desk: Desk) -> None:
    reply, gate = held_after("First words, and then the rest of them.", 4)
    desk.model.script(reply)
    desk.ask("Talk.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.chat.locator("#live").get_by_text("First words").wait_for()
    gate.release()
    desk.wait_for_text("the rest of them.")
    desk.wait_until_idle()
    wait_for(lambda: desk.log_text().count("First words") == 1, "it is shown once")


LONG_LIST = "Steps:\n\n" + "".join(f"{number}. Do **this** {number}, then `that`.\n" for number in range(1, 81))
LONG_CODE = "\n```python\n" + "".join(f"def f{number}():\n    return 'x'\n" for number in range(1, 81))


def test_long_lists_and_long_code_are_markdown_while_they_stream(desk: Desk) -> None:
    reply, gate = held_after(LONG_LIST + LONG_CODE, -4)
    desk.model.script(reply)
    desk.ask("Talk.")
    wait_for(lambda: gate.reached, "the answer streams")
    live = desk.chat.locator("#live")
    live.locator("ol li", has_text="Do this 80, then that.").wait_for()
    assert live.locator("ol").count() == 1
    assert live.locator("ol li strong").all_inner_texts() == ["this"] * 80
    wait_for(lambda: "def f70():" in live.locator(".code code").inner_text(), "the code is shown")
    wait_for(lambda: live.locator(".code .hl-keyword").count() >= 2 * 70, "its words have their colours")
    assert "**" not in live.inner_text()
    streamed = live.locator("ol li").all_inner_texts()
    gate.release()
    desk.wait_until_idle()
    wait_for(lambda: live.locator("*").count() == 0, "the whole message is in its place")
    assert desk.chat.locator("#log section .markdown ol li").all_inner_texts() == streamed


EVIL = (
    "<img src=x onerror=\"document.body.dataset.evil='1'\"> <script>document.body.dataset.evil='2'</script>\n\n"
    "<b>bold?</b> [run me](javascript:document.body.dataset.evil=3) [command](command:workbench.action.quit) "
    "![picture](https://example.com/x.png)\n\n```html\n<img src=x onerror=\"document.body.dataset.evil='4'\">\n```\n"
)


def test_text_of_a_model_never_becomes_live_html_and_loads_nothing(desk: Desk) -> None:
    asked: list[str] = []
    desk.page.on("request", lambda request: asked.append(request.url))
    desk.model.script(answer(EVIL, reasoning=EVIL))
    desk.ask(EVIL.replace("\n", " "))
    desk.wait_for_text("run me")
    desk.wait_until_idle()
    assert desk.chat.locator("#log img, #log script, #log b, #log iframe").count() == 0
    assert desk.chat.locator("body").get_attribute("data-evil") is None
    for link in desk.chat.locator("#log .markdown a").all():
        assert link.get_attribute("href") == "#"
        link.click()
    assert desk.chat.locator("body").get_attribute("data-evil") is None
    assert not [url for url in asked if "example.com" in url]
    assert desk.chat.locator(".markdown").last.inner_text().count("onerror") >= 2


SCROLL = """
async (log) => {
  const scrolled = new Promise((resolve) => log.addEventListener('scroll', resolve, { once: true }));
  log.scrollTop = 100;
  await scrolled;
}
"""


def test_the_view_keeps_its_place_while_more_comes(desk: Desk) -> None:
    long = "\n\n".join(f"Paragraph {number}." for number in range(60))
    reply, gate = held_after("\n\n".join(f"More {number}." for number in range(60)), 10)
    desk.model.script(answer(long), reply)
    desk.ask("A long one.")
    desk.wait_for_text("Paragraph 59.")
    desk.wait_until_idle()
    desk.ask("More.")
    wait_for(lambda: gate.reached, "the answer streams")
    log = desk.chat.locator("#log")
    log.evaluate(SCROLL)
    gate.release()
    desk.wait_for_text("More 59.")
    assert log.evaluate("one => one.scrollTop") == 100
    latest, composer = desk.chat.get_by_role("button", name="Latest"), desk.chat.locator("#composer")
    [above, below_it] = [one.evaluate("one => one.getBoundingClientRect().toJSON()") for one in (latest, composer)]
    assert above["bottom"] <= below_it["top"], "it covers nothing of the input"
    latest.click()
    below = "one => one.scrollHeight - one.scrollTop - one.clientHeight"
    wait_for(lambda: log.evaluate(below) < 5, "the end is shown")


def test_what_went_wrong_is_said_once_with_what_mends_it_and_tried_again_by_a_click(desk: Desk) -> None:
    no_key = refusal(401, {"error": {"message": "no such key"}})
    desk.model.script(no_key, no_key, DONE)
    desk.ask("Begin.")
    desk.wait_for_text("Failed")
    desk.wait_for_text("no such key")
    assert desk.log_text().count("no such key") == 1
    desk.chat.get_by_role("button", name="Set API Key").click()
    desk.page.locator(".quick-input-widget .quick-input-title", has_text="API key of deepseek").wait_for()
    desk.window.press("Escape")
    desk.ask("Begin anew.")
    wait_for(lambda: desk.log_text().count("Failed") == 2, "it fails again")
    assert desk.chat.get_by_role("button", name="Retry").count() == 1  # the turn before is over
    desk.chat.get_by_role("button", name="Retry").click()
    desk.wait_for_text("Done.")
    desk.wait_until_idle()
    assert len(desk.model.requests) == 3


WORDS = """# A table

| name | value |
|--|--|
| alpha | 12345 |
| averylongnamewithoutanyspace | 1 |

שלום עולם.
"""
LINES = """
(element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const [text, box] = [range.getBoundingClientRect(), element.getBoundingClientRect()];
  return { lines: range.getClientRects().length, isAtRight: text.left - box.left > box.right - text.right };
}
"""
OUTSIDE = """
() => [...document.querySelectorAll('#composer button, #log .review button, #log .turn-actions button')]
  .filter((one) => one.checkVisibility())
  .filter((one) => {
    const { left, right, top, bottom } = one.getBoundingClientRect();
    const seen = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    return left < 0 || right > innerWidth || !(one.contains(seen) || document.querySelector('#log').contains(one));
  })
  .map((one) => one.ariaLabel ?? one.textContent)
"""


def test_in_the_narrowest_side_bar_words_stay_whole_and_nothing_is_out_of_reach(desk: Desk) -> None:
    side_bar = desk.page.locator(".part.sidebar")
    box = side_bar.bounding_box()
    assert box is not None
    edge = box["x"] + box["width"]
    desk.page.mouse.move(edge, 300)
    desk.page.mouse.down()
    desk.page.mouse.move(edge - 115, 300, steps=8)
    desk.page.mouse.up()
    wait_for(lambda: (side_bar.bounding_box() or box)["width"] < 200, "the side bar is narrow")
    desk.model.script(
        answer(WORDS, calls=[("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"})])
    )
    desk.ask("Mend it.")
    desk.wait_for_review()
    body = desk.chat.locator("body")
    desk.chat.locator(".review-waits").wait_for()
    wait_for(lambda: body.evaluate(OUTSIDE) == [], "each button can be clicked")
    assert desk.chat.locator("#log td", has_text="12345").evaluate(LINES)["lines"] == 1
    assert desk.chat.locator("#log .markdown p", has_text="שלום").evaluate(LINES)["isAtRight"]
    desk.chat.get_by_role("button", name="Reject All").click()
    desk.wait_until_idle()
    assert body.evaluate(OUTSIDE) == []


# One input


def test_while_a_turn_runs_enter_steers_alt_enter_queues_and_escape_stops(desk: Desk) -> None:
    reply, gate = held_after("A long answer that goes on and on.", 5)
    desk.model.script(reply, answer("As you wish."))
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_running()
    desk.ask("Be brief.")
    queue = desk.chat.locator(".queue li")
    queue.filter(has_text="Be brief.").filter(has_text="joins at the next step").wait_for()
    desk.wait_until_accepted()
    desk.input.click()
    desk.window.type("And then the tests.", pause_ms=5)
    desk.window.press("Alt+Enter")
    queue.filter(has_text="And then the tests.").filter(has_text="next turn").wait_for()
    desk.wait_until_accepted()

    waiting = queue.filter(has_text="And then the tests.")
    waiting.get_by_role("button", name="Edit: And then the tests.").click()
    desk.chat.get_by_label("Waiting message", exact=True).fill("And then nothing.")
    desk.window.press("Enter")
    queue.filter(has_text="And then nothing.").get_by_role("button", name="Remove: And then nothing.").click()
    wait_for(lambda: queue.count() == 1, "the message is gone")

    desk.input.click()
    desk.window.press("Escape")
    desk.wait_for_text("Stopped")
    wait_for(lambda: desk.model.requests[0].torn, "the model's answer is dropped")


def test_an_edit_of_a_waiting_message_keeps_its_lines_and_stays_open_while_others_come(desk: Desk) -> None:
    reply, gate = held_after("A long answer that goes on and on.", 5)
    desk.model.script(reply, DONE, DONE)
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_running()
    desk.wait_until_accepted()
    desk.input.click()
    desk.window.type("One", pause_ms=5)
    desk.window.press("Shift+Enter")
    desk.window.type("two", pause_ms=5)
    desk.window.press("Alt+Enter")
    desk.chat.locator(".queue li").get_by_role("button", name="Edit: One two").click()
    edited = desk.chat.get_by_label("Waiting message", exact=True)
    wait_for(lambda: edited.input_value() == "One\ntwo", "it has its lines")
    desk.window.type(" three", pause_ms=5)
    desk.window.command("dsh.inject", {"text": "Another."})
    desk.chat.locator(".queue li").filter(has_text="Another.").wait_for()
    desk.window.type(" four", pause_ms=5)
    wait_for(lambda: edited.input_value() == "One\ntwo three four", "every key is in it")
    desk.window.press("Enter")
    words = desk.chat.locator(".queue li", has_text="One").locator(".words")
    wait_for(lambda: words.text_content() == "One\ntwo three four", "the message reads so")
    desk.input.click()
    desk.window.press("Escape")
    desk.wait_for_text("Stopped")


def test_a_steered_message_is_in_the_next_request_of_the_turn(desk: Desk) -> None:
    first = answer("I read.", calls=[READ])
    gate = Gate()
    desk.model.script(Reply(packets=(*first.packets[:3], gate, *first.packets[3:])), DONE)
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_running()
    desk.ask("Leave double alone.")
    desk.chat.locator(".queue li").wait_for()
    gate.release()
    assert any("Leave double alone." in str(m["content"]) for m in desk.sent_messages(2) if m["role"] == "user")
    desk.wait_until_idle()
    wait_for(lambda: desk.chat.locator(".queue li").count() == 0, "nothing waits")
    assert desk.chat.locator(".turn").count() == 1


def test_what_waits_after_a_stop_is_paused_and_resumed_by_a_click(desk: Desk) -> None:
    reply, gate = held_after("A long answer that goes on and on.", 5)
    desk.model.script(reply, DONE)
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_running()
    desk.wait_until_accepted()
    desk.input.click()
    desk.window.type("Next.", pause_ms=5)
    desk.window.press("Alt+Enter")
    desk.chat.locator(".queue li").wait_for()
    desk.wait_until_accepted()
    desk.chat.get_by_role("button", name="Stop (Escape)").click()
    desk.chat.locator(".queue").get_by_text("Paused").wait_for()
    desk.chat.locator(".queue").get_by_role("button", name="Resume").click()
    desk.wait_for_text("Done.")
    wait_for(lambda: desk.chat.locator(".queue li").count() == 0, "nothing waits")


def test_words_stay_in_the_input_until_they_are_accepted(desk: Desk) -> None:
    desk.input.click()
    desk.window.type("half a tho", pause_ms=5)
    desk.window.press("Control+Shift+e")  # the explorer takes the chat's place
    wait_for(lambda: desk.page.locator(".explorer-folders-view").count() > 0, "the explorer is shown")
    desk.window.press("Control+Alt+d")
    desk.input.wait_for()
    wait_for(lambda: desk.input.input_value() == "half a tho", "the words are there again")


# Context


def test_a_file_is_added_by_an_at_sign_and_the_keyboard_and_goes_with_the_message(desk: Desk) -> None:
    desk.model.script(DONE)
    desk.input.click()
    desk.window.type("See @oth", pause_ms=20)
    desk.chat.get_by_role("option").filter(has_text="other.py").wait_for()
    desk.window.press("Enter")
    desk.chat.locator(".chip", has_text="other.py").wait_for()
    desk.window.type("and say what it does", pause_ms=5)
    desk.window.press("Enter")
    [message] = desk.sent_messages(1)
    assert message["content"].startswith("See and say what it does")
    assert "other.py" in message["content"]
    wait_for(lambda: desk.chat.locator(".chip:not(.suggested)").count() == 0, "the chips are sent")


def test_a_selection_goes_with_the_question_by_the_key_for_it(desk: Desk) -> None:
    desk.model.script(DONE)
    desk.window.place_cursor(1)
    desk.window.press("Shift+End")
    desk.window.press("Control+Alt+d")
    desk.chat.locator(".chip", has_text="calc.py:2").first.wait_for()
    desk.wait_for_cursor()
    desk.window.type("Is this right?", pause_ms=5)
    desk.window.press("Enter")
    [message] = desk.sent_messages(1)
    assert "return a - b" in message["content"]
    assert "calc.py" in message["content"]


PROBLEM = """
kept.problems = vscode.languages.createDiagnosticCollection('linter');
const document = vscode.window.activeTextEditor.document;
const range = new vscode.Range(1, 4, 1, 16);
const problem = new vscode.Diagnostic(range, 'it subtracts', vscode.DiagnosticSeverity.Warning);
problem.source = 'linter';
kept.problems.set(document.uri, [problem]);
"""


def test_a_problem_is_given_to_the_agent_by_its_quick_fix(desk: Desk) -> None:
    desk.model.script(DONE)
    desk.window.vscode(PROBLEM)
    desk.window.place_cursor(1, 6)
    desk.window.code_action("DSH: Fix this: it subtracts")
    [message] = desk.sent_messages(1)
    assert "Fix this problem: it subtracts (linter)" in message["content"]
    assert "return a - b" in message["content"]
    desk.wait_for_text("Done.")
