"""Editor pages: they name what exists, their blocks are well formed, and they say what was tried."""

from __future__ import annotations

import inspect
import json
import re
import tomllib

import pytest

from dsh_lsp.lsp import asking
from dsh_lsp.lsp.protocol import COMMANDS
from tests.e2e.pages import EDITORS

TRIED = {"emacs.md", "neovim-stock.md", "vscode.md"}  # what they say is done by the editor suites
PAGES = sorted(path.name for path in EDITORS.glob("*.md"))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (EDITORS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_whether_it_was_tried(page: str) -> None:
    assert ("not tried" in (EDITORS / page).read_text().lower()) == (page not in TRIED)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_commands_and_actions_that_exist(page: str) -> None:
    text = (EDITORS / page).read_text()
    assert set(re.findall(r"\bdsh\.[a-z]+(?:\.[a-z]+)*", text)) - {"dsh.sublime"} <= set(COMMANDS)
    source = inspect.getsource(asking)
    for title in re.findall(r"\*((?:Explain|Ask about|Fix) this|Show the conversation)\*", text):
        assert title in source


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_can_be_read(page: str) -> None:
    for block in blocks(page, "json"):
        json.loads(block)
    for block in blocks(page, "toml"):
        tomllib.loads(block)
