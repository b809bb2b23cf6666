"""VS Code's client over time: servers that die, windows that reload, keys, sessions, modes, and a flood."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.vscode_client import CALC, MENDED_ADD, OTHER, Desk
from tests.e2e.vscode_window import wait_for
from tests.support.model_server import Gate, Reply, answer, chunk, event

pytestmark = pytest.mark.timeout(400)

FILES = {"calc.py": CALC, "other.py": OTHER}
DONE = answer("Done.")
MEND_ADD = answer("One.", calls=[("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"})])


def held(words: str, packets: int = 5) -> tuple[Reply, Gate]:
    whole, gate = answer(words), Gate()
    return Reply(packets=(*whole.packets[:packets], gate, *whole.packets[packets:])), gate


def kill_server(desk: Desk) -> None:
    server = desk.server()
    assert server is not None
    os.kill(server, signal.SIGKILL)


def wait_until_on_disk(desk: Desk, words: str) -> None:
    """The end of a turn is written when nobody waits for it, a moment after it is shown."""
    folder = desk.window.folder.parent / "sessions"
    wait_for(lambda: any(words in file.read_text() for file in folder.rglob("*.jsonl")), f"{words} is on disk")


NOTE_BANNERS = """
(banner) => {
  window.banners = [];
  new MutationObserver(() => window.banners.push(banner.textContent)).observe(banner, { childList: true });
}
"""


def key_of(desk: Desk) -> str | None:
    """The key that the server has in its environment, if one runs."""
    try:
        rows = Path(f"/proc/{desk.server()}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [row.partition(b"=")[2].decode() for row in rows if row.startswith(b"OTHER_KEY=")]
    return found[0] if found else None


# Death and reload


def test_a_server_that_is_killed_is_said_to_be_and_its_session_goes_on(desk: Desk) -> None:
    desk.model.script(answer("The first answer."), answer("The second answer."))
    desk.ask("Remember this.")
    desk.wait_for_text("The first answer.")
    desk.wait_until_idle()
    wait_until_on_disk(desk, "turn/end")
    banner = desk.chat.locator("#banner")
    banner.evaluate(NOTE_BANNERS)  # it is started again in less than a second
    kill_server(desk)
    said = "The server has stopped unexpectedly."
    wait_for(lambda: said in " ".join(banner.evaluate("() => window.banners")), "it is said to have stopped")
    wait_for(lambda: desk.status_label() == "DSH is idle", "it is started again")
    desk.wait_for_text("The first answer.")
    desk.ask("And now?")
    desk.wait_for_text("The second answer.")
    assert any("Remember this." in str(message["content"]) for message in desk.sent_messages(2))


def test_a_server_that_is_killed_in_mid_turn_loses_no_word_and_the_turn_can_be_tried_again(desk: Desk) -> None:
    reply, gate = held("Half of it, and never more.")
    desk.model.script(reply, answer("The whole answer."))
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_running()
    kill_server(desk)
    wait_for(lambda: desk.status_label() == "DSH is idle", "it is started again")
    desk.wait_for_text("Begin.")
    desk.chat.get_by_role("button", name="Retry").click()
    desk.wait_for_text("The whole answer.")


def test_a_window_that_is_reloaded_in_mid_turn_has_its_session_again(desk: Desk) -> None:
    reply, gate = held("Half of it, and then the rest.")
    desk.model.script(answer("The first answer."), reply, answer("After the reload."))
    desk.ask("Remember this.")
    desk.wait_for_text("The first answer.")
    desk.wait_until_idle()
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.wait_until_accepted()  # else the new page has the words still, and nobody to say that they were taken
    desk.window.forget_host()
    desk.page.reload()
    desk.window.wait_until_ready()
    desk.open_chat()
    desk.wait_for_text("The first answer.")
    desk.wait_for_text("Begin.")
    wait_for(lambda: desk.status_label() == "DSH is idle", "the turn that was cut is closed")
    desk.ask("Go on.")
    desk.wait_for_text("After the reload.")


# Keys


def test_without_a_key_the_chat_asks_for_one_and_the_server_gets_it_by_its_environment(
    client_workbench: Any, tmp_path: Path
) -> None:
    with Desk.set_up(client_workbench, tmp_path, FILES, settings={"dsh.model.apiKeyEnv": "OTHER_KEY"}) as desk:
        desk.model.script(answer("With a key."))
        desk.ask("Begin.")
        error = desk.chat.get_by_role("alert")
        error.get_by_text("OTHER_KEY").wait_for()
        assert desk.input.input_value() == "Begin."
        assert desk.model.requests == []
        error.get_by_role("button", name="Set API Key").click()
        desk.page.locator('.quick-input-widget input[type="password"]').wait_for()
        desk.window.type("sk-from-the-box", pause_ms=5)
        desk.window.press("Enter")
        wait_for(lambda: key_of(desk) == "sk-from-the-box", "the server has it")
        desk.wait_until_idle()
        desk.input.click()
        desk.window.press("Enter")
        desk.wait_for_text("With a key.")
        assert desk.model.requests[0].headers["authorization"] == "Bearer sk-from-the-box"
        for kept in (tmp_path / "sessions").rglob("*"):
            assert not kept.is_file() or b"sk-from-the-box" not in kept.read_bytes()


# Sessions, modes


def test_sessions_are_begun_chosen_and_forked(desk: Desk) -> None:
    desk.model.script(answer("One answer."), answer("Another answer."), answer("After the fork."))
    desk.ask("In the first session.")
    desk.wait_for_text("One answer.")
    desk.wait_until_idle()
    desk.window.palette("DSH: New Session")
    wait_for(lambda: "One answer." not in desk.log_text(), "the new one is empty")
    desk.ask("In the second session.")
    desk.wait_for_text("Another answer.")
    desk.wait_until_idle()
    desk.window.palette("DSH: Sessions")
    row = desk.page.locator(".quick-input-list .monaco-list-row.focused")
    row.filter(has_text="In the second session.").wait_for()
    desk.window.press("ArrowDown")
    row.filter(has_text="In the first session.").wait_for()
    desk.window.press("Enter")
    desk.wait_for_text("One answer.")
    wait_for(lambda: "Another answer." not in desk.log_text(), "the other session is shown no more")
    desk.chat.locator(".turn").evaluate("turn => { turn.dataset.session = 'first' }")
    desk.chat.locator(".turn").hover()
    desk.chat.get_by_role("button", name="Fork here").click()
    desk.chat.locator(".turn:not([data-session])").wait_for()  # that of the fork
    wait_for(lambda: desk.log_text().count("One answer.") == 1, "the fork has the history")
    desk.ask("In the fork.")
    desk.wait_for_text("After the fork.")
    assert any("In the first session." in str(message["content"]) for message in desk.sent_messages(3))
    assert not any("In the second session." in str(message["content"]) for message in desk.sent_messages(3))


def test_the_mode_is_set_from_the_input_and_holds_for_the_agent(desk: Desk) -> None:
    desk.model.script(answer("Nothing yet."), MEND_ADD, DONE)
    desk.ask("Begin.")
    desk.wait_for_text("Nothing yet.")
    desk.wait_until_idle()
    desk.chat.locator(".pick.mode").click()
    row = desk.page.locator(".quick-input-list .monaco-list-row.focused")
    row.wait_for()
    desk.window.type("Read-only", pause_ms=5)
    row.filter(has_text="Read-only").wait_for()
    desk.window.press("Enter")
    desk.chat.locator(".pick.mode", has_text="Read-only").wait_for()
    desk.ask("Mend it.")
    desk.wait_for_text("Done.")
    assert "read-only" in desk.tool_result(3)
    assert desk.window.text("calc.py") == CALC


def test_a_turns_edits_are_taken_back_from_its_end(desk: Desk) -> None:
    desk.model.script(MEND_ADD, DONE)
    desk.ask("Mend it.")
    desk.open_review()
    desk.window.press("Control+Alt+Shift+y")
    wait_for(lambda: desk.window.text("calc.py") == MENDED_ADD, "the edit lands")
    desk.wait_until_idle()
    desk.chat.get_by_role("button", name="Rewind edits").click()
    desk.page.get_by_role("button", name="Rewind", exact=True).click()
    wait_for(lambda: desk.window.text("calc.py") == CALC, "the file is as it was")


def test_commands_are_offered_only_when_they_make_sense(desk: Desk) -> None:
    reply, gate = held("A long answer that goes on.")
    desk.model.script(reply)
    assert not desk.window.palette_offers("DSH: Cancel")
    assert not desk.window.palette_offers("DSH: Accept All")
    assert desk.window.palette_offers("DSH: Ask")
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    wait_for(lambda: desk.window.palette_offers("DSH: Cancel"), "a turn can be cancelled")
    assert desk.window.palette_offers("DSH: Steer")
    desk.window.palette("DSH: Cancel")
    desk.wait_for_text("Stopped")
    wait_for(lambda: desk.window.palette_offers("DSH: Retry"), "it can be tried again")
    assert not desk.window.palette_offers("DSH: Steer")


def test_a_turn_is_a_progress_that_can_be_cancelled(desk: Desk) -> None:
    reply, gate = held("A long answer that goes on.")
    desk.model.script(reply)
    desk.ask("Begin.")
    wait_for(lambda: gate.reached, "the answer streams")
    desk.page.locator(".statusbar-item", has_text="DSH: thinking").click()
    desk.page.locator(".notification-list-item").get_by_role("button", name="Cancel").first.click()
    desk.wait_for_text("Stopped")


# The user's own language servers


LANGUAGES = """
kept.problems = vscode.languages.createDiagnosticCollection('linter');
const check = (document) => {
  if (document.uri.scheme !== 'file' || !document.uri.path.endsWith('calc.py')) return;
  const line = document.getText().split('\\n').findIndex((one) => one.includes('a + b'));
  const range = new vscode.Range(line, 4, line, 10);
  const found = line < 0 ? [] : [new vscode.Diagnostic(range, 'adding is forbidden here', 0)];
  kept.problems.set(document.uri, found);
};
vscode.workspace.onDidChangeTextDocument(({ document }) => setTimeout(() => check(document), 200));
vscode.languages.registerDefinitionProvider({ scheme: 'file', pattern: '**/*.py' }, {
  provideDefinition: (document, position) => new vscode.Location(document.uri, new vscode.Position(4, 4)),
});
"""


def test_the_agent_reads_the_problems_and_definitions_that_the_editor_knows(desk: Desk) -> None:
    desk.window.vscode(LANGUAGES)
    find = ("language", {"operation": "definition", "path": "calc.py", "symbol": "add"})
    desk.model.script(MEND_ADD, answer("And who adds?", calls=[find]), DONE)
    desk.ask("Mend it.")
    desk.open_review()
    desk.window.press("Control+Alt+Shift+y")
    assert "adding is forbidden here" in desk.tool_result(2)
    assert "calc.py:5" in desk.tool_result(3)
    desk.wait_until_idle()


# A flood


CHUNKS, SECONDS = 20_000, 5.0


def a_list_and_code(number: int) -> str:
    """Lists and code as long as the flood is, one block each."""
    if number == CHUNKS // 2:
        return "\n\n```python\n"
    start = ("\n- " if number < CHUNKS // 2 else "\nw = ") if number % 20 == 0 else ""
    return f"{start}w{number} "


FLOODS: dict[str, Callable[[int], str]] = {"one line": lambda number: f"w{number} ", "list and code": a_list_and_code}


def flood(words_of: Callable[[int], str]) -> Reply:
    """An answer of many chunks, sent evenly."""
    from tests.support.model_server import Pause

    size = 100
    packets: list[Any] = [event(chunk({"role": "assistant", "content": ""}))]
    for start in range(0, CHUNKS, size):
        words = b"".join(event(chunk({"content": words_of(number)})) for number in range(start, start + size))
        packets += [Pause(SECONDS * size / CHUNKS), words]
    usage = {"prompt_tokens": 10, "completion_tokens": CHUNKS}
    return Reply(packets=(*packets, event(chunk({}, "stop", usage=usage)), b"data: [DONE]\n\n"))


WATCH = """
() => {
  window.watched = { longest: 0, frames: 0, tasks: [] };
  let last = performance.now();
  const frame = () => {
    const now = performance.now();
    window.watched.longest = Math.max(window.watched.longest, now - last);
    window.watched.frames += 1;
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.watched.tasks.push(entry.duration);
  }).observe({ type: 'longtask' });
}
"""


class Pauses:
    """How long the machine lets a program wait that asks for little."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def longest_ms(self) -> float:
        """The longest pause until now, which is the last one that is looked at."""
        self._over.set()
        self._thread.join()
        return self._longest_s * 1000

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._over.wait(0.01):
            now = time.monotonic()
            self._longest_s, last = max(self._longest_s, now - last), now


@pytest.mark.parametrize("words", FLOODS)
def test_a_flood_of_chunks_delays_no_key_and_the_view_stays_alive(desk: Desk, words: str) -> None:
    desk.model.script(flood(FLOODS[words]), DONE)
    frame = desk.chat.locator("body").element_handle().owner_frame()
    frame.evaluate(WATCH)
    desk.ask("Flood.")
    desk.window.place_cursor(0)
    typed = ""
    started = time.monotonic()
    machine = Pauses()
    while not (desk.model.requests and desk.model.requests[0].answered and desk.status_label() == "DSH is idle"):
        desk.page.keyboard.type("k" * 10, delay=30)
        typed += "k" * 10
        assert time.monotonic() - started < 90, "the flood ends"
    wait_for(lambda: desk.window.text("calc.py") == typed + CALC, "exactly the keys that were pressed")
    wait_for(lambda: f"w{CHUNKS - 1}" in desk.log_text(), "all of it is shown")
    wait_for(lambda: desk.log_text().count("w777 ") == 1, "it is shown once")
    watched = frame.evaluate("() => window.watched")
    nodes = frame.evaluate("() => document.querySelectorAll('*').length")
    memory = frame.evaluate("() => performance.memory ? performance.memory.usedJSHeapSize : 0")
    print(
        f"longest frame {watched['longest']:.0f} ms, long tasks {[round(t) for t in watched['tasks']]}, "
        f"{nodes} nodes, {memory / 1e6:.0f} MB, {len(typed)} keys"
    )
    # A key is felt to stick beyond a second; on an idle machine it is a tenth of it, and another program waits, too.
    assert watched["longest"] < 1_000 + machine.longest_ms()
    assert nodes < 10_000
    assert memory < 200e6
    desk.ask("And now?")
    desk.wait_for_text("Done.")
