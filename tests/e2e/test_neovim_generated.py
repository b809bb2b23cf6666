"""Generated reviews in Neovim, stock and with the client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.generated import FILES, play, text_of
from tests.e2e.neovim import Desk
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import uneven

SEEDS = range(3)
PRESS = (
    "if vim.fn.maparg('gha', 'n') ~= '' then vim.api.nvim_input(']hgha') end"  # at once: the map leaves in a moment
)
HELD = "return vim.fn.bufloaded(...) == 1 and vim.api.nvim_buf_get_lines(vim.fn.bufnr(...), 0, -1, false)"


@dataclass
class NeovimHands:
    """A user's hands in Neovim."""

    desk: Desk

    def begin(self, line: int, *, below: bool) -> None:
        neovim = self.desk.neovim
        neovim.keys(f"<C-\\><C-n>:{line}<CR>{'o' if below else 'A'}")
        wait_for(lambda: neovim.mode()["mode"] == "i", "one can write")

    def write(self, text: str) -> None:
        self.desk.neovim.type(text, pause_s=uneven)

    def leave(self) -> None:
        self.desk.neovim.keys("<C-\\><C-n>")

    def show(self, name: str) -> None:
        self.desk.neovim.keys(f":buffer {name}<CR>")

    def save(self) -> None:
        self.desk.neovim.keys(":silent wall<CR>")

    def press(self) -> None:
        self.desk.neovim.lua(PRESS)

    def text(self, name: str) -> str | None:
        held = self.desk.neovim.lua(HELD, name)
        return "".join(f"{line}\n" for line in held) if held else None

    def check(self) -> None:
        assert not (told := self.desk.neovim.lua("return vim.v.errmsg")), told
        if isinstance(self.desk, ClientDesk):
            for name in FILES:
                wait_for(lambda name=name: self.desk.marks(name) == [], "nothing is drawn")  # type: ignore[misc]


@pytest.fixture(params=[Desk, ClientDesk], ids=["stock", "client"])
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    with request.param.set_up(tmp_path, {name: text_of(name) for name in FILES}) as desk:
        desk.neovim.command(f"badd {FILES[1]}")
        yield desk


@pytest.mark.parametrize("seed", SEEDS)
def test_the_laws_hold_while_keys_fall_and_edits_are_decided_in_any_order(
    desk: Desk, tmp_path: Path, seed: int
) -> None:
    play(desk, NeovimHands(desk), seed, tmp_path / "home")
