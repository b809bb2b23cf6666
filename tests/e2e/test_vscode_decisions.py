"""VS Code's decisions: what its user permits, refuses and answers in the chat, and what the model reads of it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Error, Locator

from tests.e2e.story import DONE
from tests.e2e.vscode_client import Desk
from tests.e2e.vscode_window import wait_for
from tests.support.model_server import answer

pytestmark = pytest.mark.timeout(240)


def in_view(element: Locator) -> bool:
    """Whether all of an element of the conversation can be seen."""
    code = """
    (all) => {
      if (all.length !== 1) return false;
      const [shown, screen] = [all[0], document.getElementById('log')].map((each) => each.getBoundingClientRect());
      return shown.top >= screen.top - 1 && shown.bottom <= screen.bottom + 1;
    }
    """
    with suppress(Error):  # the page may be a new one in a moment
        return bool(element.evaluate_all(code))
    return False


def wait_for_permission(desk: Desk, tool: str, number: int = 1) -> Locator:
    """The permission of this number, from 1, once it waits and the editor knows: those before it are decided."""
    decided = desk.chat.locator(".approval.decided")
    wait_for(lambda: decided.count() == number - 1, "the permissions before are decided")
    group = desk.chat.get_by_role("group", name=f"May {tool} run?")
    group.wait_for()
    wait_for(lambda: desk.status_label() == "DSH needs your permission", "the status item says so")
    return group


def last_shown(desk: Desk) -> tuple[str, float] | None:
    """When the permission that waits was last shown, and where in the conversation; nothing when none waits."""
    code = """
    (log) => {
      const asked = log.querySelector('.approval.waits');
      return asked && [asked.dataset.since, log.scrollTop];
    }
    """
    found = desk.chat.locator("#log").evaluate(code)
    return found and (found[0], found[1])


def was_answered(desk: Desk, before: tuple[str, float]) -> bool:
    """Whether a key has shown the next part of the permission or has given it: its place alone may move by itself."""
    now = last_shown(desk)
    return now is None or now[0] != before[0]


def test_an_approval_is_decided_where_it_stands_and_a_refusal_takes_words_along(desk: Desk) -> None:
    outside = desk.window.folder.parent / "outside.txt"
    outside.write_text("far away\n")
    call = ("read_file", {"path": str(outside)})
    desk.model.script(answer("", calls=[call]), answer("", calls=[call]), DONE)
    desk.ask("Read it.")
    group = wait_for_permission(desk, "read_file")
    assert str(outside) in group.inner_text()
    badge = desk.page.locator('.activitybar .action-item:has([aria-label^="DSH"]) .badge-content', has_text="1")
    badge.wait_for()
    group.get_by_label("Words for the agent, if you reject").fill("Stay inside.")
    group.get_by_role("button", name="Reject").click()
    assert "Stay inside." in desk.tool_result(2)

    group = wait_for_permission(desk, "read_file", 2)
    group.get_by_role("button", name="Allow", exact=True).click()
    assert "far away" in desk.tool_result(3)
    desk.wait_until_idle()
    desk.wait_for_text("Rejected: Stay inside.")
    wait_for(lambda: not badge.is_visible(), "the badge is gone")


def test_a_permission_is_given_and_refused_by_key_and_palette_and_never_unseen(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("far away\n")
    call = ("read_file", {"path": str(tmp_path / "outside.txt")})
    long = "\n\n".join(f"Paragraph {number}." for number in range(60))
    desk.model.script(*[answer(long, calls=[call])] * 4, DONE)
    assert not desk.window.palette_offers("DSH: Allow")
    desk.ask("Read it.")
    group = wait_for_permission(desk, "read_file")
    desk.page.wait_for_timeout(500)  # a key that comes sooner was meant for something else
    wait_for(lambda: in_view(group), "all of it is shown")
    desk.window.place_cursor(0)
    desk.window.press("Control+Alt+n")
    assert "rejected" in desk.tool_result(2)

    wait_for_permission(desk, "read_file", 2)
    desk.chat.locator("#log").evaluate("one => { one.scrollTop = 0 }")
    desk.page.wait_for_timeout(500)
    desk.window.press("Control+Alt+y")
    wait_for(lambda: in_view(group), "it is shown first")
    assert len(desk.model.requests) == 2
    desk.page.wait_for_timeout(500)
    desk.window.press("Control+Alt+y")
    assert "far away" in desk.tool_result(3)

    wait_for_permission(desk, "read_file", 3)
    desk.window.press("Control+Shift+e")  # the explorer takes the chat's place
    wait_for(lambda: desk.page.locator(".explorer-folders-view").count() > 0, "the explorer is shown")
    desk.window.palette("DSH: Allow")
    wait_for(lambda: in_view(group), "it is shown first")
    assert len(desk.model.requests) == 3
    desk.page.wait_for_timeout(500)
    desk.window.palette("DSH: Allow for Session")
    assert "far away" in desk.tool_result(4)
    desk.wait_for_text("Done.")  # it was not asked again
    desk.wait_until_idle()
    assert not desk.window.palette_offers("DSH: Reject")


def test_a_permission_that_is_longer_than_the_screen_is_shown_part_by_part_before_a_key_gives_it(desk: Desk) -> None:
    command = "\n".join(f"echo line {number}" for number in range(60))
    desk.model.script(answer("", calls=[("shell", {"command": command})]), DONE)
    desk.ask("Run it.")
    wait_for_permission(desk, "shell")
    places: list[float] = []
    last = last_shown(desk)
    while last is not None:
        assert len(places) < 10, "it is given in the end"
        desk.page.wait_for_timeout(600)
        desk.window.press("Control+Alt+y")
        with suppress(TimeoutError):  # a key that comes too soon does nothing
            wait_for(partial(was_answered, desk, last), "the key shows the next part or decides", timeout_s=5)
        last = last_shown(desk)
        places += [last[1]] if last is not None else []
    assert len(places) >= 3
    assert places == sorted(places), "from its beginning, which is shown first, to its end"
    assert "line 59" in desk.tool_result(2)
    desk.wait_until_idle()


def scroll_on(desk: Desk) -> None:
    """Turn the wheel and wait until the conversation stands: a slow page scrolls all that waits in one go."""
    log = desk.chat.locator("#log")
    log.evaluate("one => { one.stands = new Promise((done) => { one.onscrollend = done; }); }")
    desk.page.mouse.wheel(0, 200)
    log.evaluate("one => one.stands.then(() => {})")


def test_a_click_allows_nothing_that_has_not_been_on_the_screen(desk: Desk) -> None:
    command = "\n".join(f"echo line {number}" for number in range(60))
    desk.model.script(answer("", calls=[("shell", {"command": command})]), DONE)
    desk.ask("Run it.")
    group = desk.chat.get_by_role("group", name="May shell run?")
    allow = group.get_by_role("button", name="Allow", exact=True)
    wait_for(lambda: in_view(allow), "its end is shown, with the buttons")
    allow.click()
    wait_for(lambda: in_view(group.locator(".lead")), "its beginning is shown instead")
    desk.page.wait_for_timeout(500)
    group.locator(".lead").hover()
    while not in_view(allow):
        scroll_on(desk)
    assert len(desk.model.requests) == 1
    allow.click()
    assert "line 59" in desk.tool_result(2)
    desk.wait_until_idle()


def test_a_command_that_would_not_see_unsaved_text_is_allowed_with_saving_it_first(desk: Desk) -> None:
    desk.window.place_cursor(0)
    desk.window.type("# unsaved\n")
    desk.model.script(answer("", calls=[("shell", {"command": "cat calc.py && echo nothing else"})]), DONE)
    desk.ask("Run it.")
    group = wait_for_permission(desk, "shell")
    group.get_by_role("button", name="Allow", exact=True).click()
    desk.page.locator(".monaco-dialog-box").get_by_text("calc.py").wait_for()
    desk.page.get_by_role("button", name="Save and Run").click()
    assert "# unsaved" in desk.tool_result(2)
    assert desk.window.on_disk("calc.py").startswith("# unsaved\n")
    desk.wait_until_idle()


def test_a_question_is_answered_where_it_stands(desk: Desk) -> None:
    call = ("ask", {"question": "Which one?", "options": ["the first", "the second"]})
    desk.model.script(answer("", calls=[call]), DONE)
    desk.ask("Ask me.")
    group = desk.chat.get_by_role("group", name="The agent has a question")
    group.get_by_role("button", name="the second").click()
    assert "the second" in desk.tool_result(2)
    desk.wait_until_idle()
    desk.wait_for_text("You: the second")


def test_after_a_decision_by_keyboard_the_focus_is_at_what_was_decided(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("far away\n")
    desk.model.script(answer("", calls=[("read_file", {"path": str(tmp_path / "outside.txt")})]), DONE)
    desk.ask("Read it.")
    group = desk.chat.get_by_role("group", name="May read_file run?")
    group.get_by_role("button", name="Allow", exact=True).press("Enter")
    desk.chat.locator(".approval.decided summary:focus").wait_for()
    desk.wait_until_idle()
