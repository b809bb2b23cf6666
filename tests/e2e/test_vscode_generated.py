"""Generated reviews in VS Code, with our extension."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.generated import FILES, play, text_of
from tests.e2e.vscode_client import Desk

pytestmark = pytest.mark.timeout(400)

SEEDS = range(2)
PLAIN = {  # what is typed is what stands there
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "editor.wordBasedSuggestions": "off",
    "editor.autoIndent": "none",
}


class CommandDesk:
    """What is done through the extension."""

    def __init__(self, desk: Desk) -> None:
        self.model = desk.model
        self._window = desk.window

    def run(self, command: str, **argument: Any) -> Any:
        return self._window.command(command, argument)

    def send(self, command: str, **argument: Any) -> int:
        return self._window.send(command, argument)

    def pending(self) -> list[dict[str, Any]]:
        return [hunk for file in self.run("dsh.review.list")["files"] for hunk in file["hunks"]]

    def on_disk(self, name: str) -> str:
        return self._window.on_disk(name)


class VSCodeHands:
    """A user's hands in VS Code; a review that opens by itself must not take them from where they are."""

    def __init__(self, desk: Desk) -> None:
        self._window = desk.window
        self._shown = FILES[0]
        for name in reversed(FILES):
            self._window.open(name)

    def begin(self, line: int, *, below: bool) -> None:
        self._window.open(self._shown)
        self._window.place_cursor(line - 1)
        self._window.press("End")
        if below:
            self._window.press("Enter")

    def write(self, text: str) -> None:
        self._window.type(text, pause_ms=30)

    def leave(self) -> None:
        self._window.press("Escape")
        self._window.catch_up()

    def show(self, name: str) -> None:
        self._shown = name
        self._window.open(name)

    def save(self) -> None:
        self._window.open(self._shown)
        self._window.press("Control+s")

    def press(self) -> None:
        pass

    def text(self, name: str) -> str | None:
        document = self._window.document(name)
        return None if document is None else str(document["text"])

    def check(self) -> None:
        pass


@pytest.fixture
def desk(client_workbench, tmp_path: Path) -> Iterator[Desk]:
    files = {name: text_of(name) for name in FILES}
    with Desk.set_up(client_workbench, tmp_path, files, settings=PLAIN) as desk:
        yield desk


@pytest.mark.parametrize("seed", SEEDS)
def test_the_laws_hold_while_keys_fall_and_edits_are_decided_in_any_order(
    desk: Desk, tmp_path: Path, seed: int
) -> None:
    play(CommandDesk(desk), VSCodeHands(desk), seed, tmp_path)
