"""Generated reviews in Emacs, with eglot and with lsp-mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.emacs import EGLOT, LSP_MODE, EmacsDesk
from tests.e2e.generated import FILES, play, text_of
from tests.e2e.story import uneven

SEEDS = range(2)


@dataclass
class EmacsHands:
    """A user's hands in Emacs."""

    desk: EmacsDesk

    def begin(self, line: int, *, below: bool) -> None:
        emacs = self.desk.emacs
        emacs.answer_prompt("\x1bgg", str(line))
        emacs.keys("\x05" + "\r" * below)
        at_line = f"(= (line-number-at-pos (window-point)) {line + below})"
        wait_for(lambda: emacs.value(at_line), f"the cursor is on line {line}")

    def write(self, text: str) -> None:
        self.desk.emacs.type(text, pause_s=uneven)

    def leave(self) -> None:
        pass

    def show(self, name: str) -> None:
        self.desk.emacs.answer_prompt("\x18b", name)
        wait_for(lambda: self.desk.emacs.value(f'(equal (buffer-name) "{name}")'), f"{name} shows")

    def save(self) -> None:
        self.desk.emacs.keys("\x18\x13")

    def press(self) -> None:
        pass

    def text(self, name: str) -> str | None:
        return self.desk.emacs.text(name)

    def check(self) -> None:
        assert self.desk.emacs.prompt is None


@pytest.fixture(params=[EGLOT, LSP_MODE], ids=["eglot", "lsp-mode"])
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EmacsDesk]:
    with EmacsDesk.set_up(tmp_path, {name: text_of(name) for name in FILES}, client=request.param) as desk:
        for name in reversed(FILES):
            desk.emacs.keys(f"\x18\x06{name}\r")
            attached = f'(and (equal (buffer-name) "{name}") {desk.client.attached})'
            wait_for(lambda form=attached: desk.emacs.value(form), f"{name} is open")  # type: ignore[misc]
        yield desk


@pytest.mark.parametrize("seed", SEEDS)
def test_the_laws_hold_while_keys_fall_and_edits_are_decided_in_any_order(
    desk: EmacsDesk, tmp_path: Path, seed: int
) -> None:
    play(desk, EmacsHands(desk), seed, tmp_path / "home")
