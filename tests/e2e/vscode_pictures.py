"""VS Code pictures: `python -m tests.e2e.vscode_pictures` takes those of the README anew, in light and dark.

Rules: a story with a scripted model, so that a picture shows what the release does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.e2e.vscode_client import Desk, start_workbench
from tests.support.model_server import answer

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "images"
THEMES = {"light": "Default Light Modern", "dark": "Default Dark Modern"}
CART = '''"""Prices of a shopping cart."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    name: str
    price: float
    count: int = 1


def total(items: list[Item]) -> float:
    """The sum of all prices."""
    result = 0
    for item in items:
        result += item.price
    return result


def discount(amount: float, percent: float) -> float:
    return amount - amount * percent
'''
TEST = """from cart import Item, discount, total


def test_total_counts_each_piece() -> None:
    assert total([Item("pen", 2.0, 3)]) == 6.0


def test_discount_is_in_percent() -> None:
    assert discount(200.0, 10) == 180.0
"""
SUM_OLD = "    result = 0\n    for item in items:\n        result += item.price\n    return result"
SUM_NEW = "    return sum(item.price * item.count for item in items)"
STORY = (
    answer(
        "I look at the tests first, then at the code that they test.",
        reasoning="Two tests fail. I should read both files before I propose anything.",
        calls=[("read_file", {"path": "test_cart.py"}), ("read_file", {"path": "cart.py"})],
        usage=(4_200, 180),
    ),
    answer(
        "Two causes:\n\n1. `total` ignores `count`.\n2. `discount` takes a fraction, its test gives **percent**.\n\n"
        "```python\nassert total([Item('pen', 2.0, 3)]) == 6.0\n```\n\nBoth are small edits in `cart.py`:",
        calls=[
            ("edit_file", {"path": "cart.py", "old_text": SUM_OLD, "new_text": SUM_NEW}),
            ("edit_file", {"path": "cart.py", "old_text": "amount * percent", "new_text": "amount * percent / 100"}),
        ],
        usage=(9_800, 420),
    ),
    answer("Both tests should pass now. Shall I run them?", usage=(11_000, 40)),
)


def main() -> None:
    """Tell the story in each theme, and take its pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures") as temporary:
        folder = Path(temporary)
        (folder / "workbench").mkdir()
        with start_workbench(folder / "workbench", env={"DEEPSEEK_API_KEY": "sk-test"}) as workbench:
            for name, theme in THEMES.items():
                (folder / name).mkdir()
                settings = {
                    "workbench.colorTheme": theme,
                    "diffEditor.renderSideBySide": False,
                    "breadcrumbs.enabled": False,
                    "editor.minimap.enabled": False,
                }
                files = {"cart.py": CART, "test_cart.py": TEST}
                with Desk.set_up(workbench, folder / name, files, settings=settings, size=(1280, 860)) as desk:
                    take(desk, name)


def take(desk: Desk, theme: str) -> None:
    """One theme's pictures."""
    desk.page.wait_for_timeout(1_000)
    desk.window.screenshot(PICTURES / f"vscode-welcome-{theme}.png")
    desk.model.script(*STORY)
    desk.ask("The tests of the cart fail. Why?")
    desk.open_review()
    desk.page.wait_for_timeout(1_500)
    desk.window.screenshot(PICTURES / f"vscode-review-{theme}.png")


if __name__ == "__main__":
    main()
