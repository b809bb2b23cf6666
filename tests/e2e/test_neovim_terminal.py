"""The Neovim client in a real terminal: a person's session from the first question to the last, key by key.

With `DSH_PICTURES=docs/images` in the environment it draws the pictures of the documentation on the way.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.desk import environment, saved, wait_for
from tests.e2e.neovim import CLIENT_FOLDER, PROGRAM
from tests.e2e.terminal import TMUX, Terminal
from tests.support.model_server import FakeModelServer, Gate, Reply, answer

PICTURES = os.environ.get("DSH_PICTURES")
TITLE = "Wrong by a cent"

CART = '''"""A cart and what it costs."""

from dataclasses import dataclass


@dataclass
class Line:
    price: float
    count: int


def total(lines):
    result = 0
    for line in lines:
        result += line.price * line.count
    return result


def discount(amount, percent):
    return amount - amount * percent / 100
'''
TOTAL = '''def total(lines: list[Line]) -> Decimal:
    """The exact sum of all lines."""
    return sum((line.price * line.count for line in lines), Decimal())
'''
MENDED = (
    CART.replace(
        "from dataclasses import dataclass\n", "from dataclasses import dataclass\nfrom decimal import Decimal\n"
    )
    .replace("price: float", "price: Decimal")
    .replace(CART[CART.index("def total") : CART.index("\n\n\ndef discount") + 1], TOTAL)
)
CONFIGURATION = f"""
vim.opt.swapfile = false
vim.opt.number = true
vim.opt.laststatus = 3
vim.opt.ruler = false
vim.opt.hlsearch = false
vim.opt.rtp:prepend('{CLIENT_FOLDER}')
vim.g.dsh = {{ settings = {{ model = {{ baseUrl = vim.env.TEST_MODEL_URL }} }} }}
vim.o.statusline = " %f %m%=%{{v:lua.require'dsh'.statusline()}} "
"""

READS = answer(
    "I read the cart and its tests first.",
    reasoning="Money in floats. The cents get lost in the sum, I suppose; but I have not seen the code.",
    calls=[("read_file", {"path": "cart.py"}), ("list_files", {})],
    usage=(8_000, 200),
)
EDITS = answer(
    "The prices are `float`, and **0.1 + 0.2 is not 0.3**. With `Decimal` the sums are exact:\n\n"
    "```lua\nlocal exact = 10 + 20 -- in cents\n```\n\n- `Line.price` becomes a `Decimal`\n- `total` says so\n",
    calls=[("write_file", {"path": "cart.py", "content": MENDED})],
    usage=(21_000, 900),
)
TESTS = answer(
    "Now I run the tests.", calls=[("shell", {"command": "python -m pytest -q tests/"})], usage=(30_000, 300)
)
DONE = answer("Done. `discount` still takes whatever it is given; see cart.py:17.", usage=(31_000, 400))


@dataclass
class Scene:
    """A terminal with Neovim, and what is around it."""

    terminal: Terminal
    model: FakeModelServer
    root: Path

    def draw(self, name: str) -> None:
        if PICTURES:
            folder = Path(__file__).parents[2] / PICTURES
            folder.mkdir(exist_ok=True)
            self.terminal.draw(folder / f"neovim-{name}.svg")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    if TMUX is None:
        if os.environ.get("CI") == "true":
            pytest.fail("tmux is not installed")
        pytest.skip("tmux is not installed")
    home = tmp_path / "home"
    home.mkdir()
    (home / "init.lua").write_text(CONFIGURATION)
    with tempfile.TemporaryDirectory(prefix="shop-", dir="/tmp") as folder, FakeModelServer() as model:
        root = Path(folder)
        (root / "cart.py").write_text(CART)
        env = environment(home, "sk-test") | {"TEST_MODEL_URL": model.url}
        program = [str(PROGRAM), "--clean", "-u", str(home / "init.lua"), "cart.py"]
        with Terminal.start(program, folder=root, env=env, columns=130, rows=38) as terminal:
            terminal.wait_for("def discount")
            yield Scene(terminal, model, root)
            leave_insert(terminal)
            terminal.type(":qall!")
            terminal.keys("Enter")
            wait_for(lambda: not _lives(terminal), "Neovim has ended")


def _lives(terminal: Terminal) -> bool:
    import subprocess

    try:
        return "def " in terminal.text() or "dsh" in terminal.text()
    except subprocess.CalledProcessError:  # the session ended with its only program
        return False


def leave_insert(terminal: Terminal) -> None:
    """Go to normal mode, by keys that a terminal never takes for the beginning of another one, as it does Escape."""
    terminal.keys("C-\\", "C-n")


def held(reply: Reply, packets: int) -> tuple[Reply, Gate]:
    gate = Gate()
    return Reply(packets=(*reply.packets[:packets], gate, *reply.packets[packets:])), gate


def test_a_session_from_the_first_question_to_the_last_key(scene: Scene) -> None:
    terminal, model = scene.terminal, scene.model
    last, gate = held(TESTS, 3)
    model.script(READS, EDITS, last, DONE)

    terminal.type(":Dsh ask The totals are wrong by a cent sometimes. Why?")
    terminal.keys("Enter")
    terminal.wait_for("waits for your review")
    wait_for(lambda: terminal.text().count("from decimal import Decimal") == 2, "it shows in both windows")
    terminal.type("gg]h")
    terminal.wait_for("gha accept")
    assert saved(scene.root / "cart.py").decode() == CART
    terminal.type(f":Dsh rename {TITLE}")
    terminal.keys("Enter")
    terminal.wait_for(f"◆ {TITLE}")
    terminal.type("]h]h")
    terminal.wait_for("return sum((")
    scene.draw("review")

    terminal.type("ghA")
    wait_for(lambda: saved(scene.root / "cart.py").decode() == MENDED, "all has landed and is saved")
    wait_for(lambda: gate.reached, "the model goes on")
    terminal.wait_for("Now I run the te")
    terminal.type(":Dsh ask")
    terminal.keys("Enter")
    terminal.wait_for("INSERT")
    terminal.type("And leave discount alone.")
    terminal.wait_for("And leave discount alone.")
    scene.draw("steer")
    terminal.keys("C-s")
    terminal.wait_for("1 queued")
    gate.release()

    terminal.wait_for("waits for your permission")
    leave_insert(terminal)
    terminal.type(":Dsh chat")
    terminal.keys("Enter")
    terminal.wait_for("May shell run?")
    terminal.type("gg")
    scene.draw("permission")
    terminal.type("ghn")
    terminal.wait_for("Refuse shell. Why (may be empty)?")
    terminal.type("there are no tests yet")
    terminal.keys("Enter")
    model.wait_for_requests(4, 20)
    messages = model.requests[3].body["messages"]
    assert any("there are no tests yet" in str(message["content"]) for message in messages)
    assert any("And leave discount alone." in str(message["content"]) for message in messages)

    terminal.type(":Dsh chat")
    terminal.keys("Enter")
    terminal.wait_for("Done.")
    leave_insert(terminal)
    terminal.type(":wincmd k")
    terminal.keys("Enter")
    terminal.type("gg/Thinking")
    terminal.keys("Enter", "Tab")
    terminal.wait_for("Money in floats.")
    scene.draw("conversation")
    terminal.type("/cart.py:17")
    terminal.keys("Enter")
    terminal.type("gf")
    wait_for(lambda: "17" in terminal.text(), "the link leads to the file")
