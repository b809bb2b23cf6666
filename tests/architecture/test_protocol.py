"""Protocol: the page, the names, the argument models and the runtime say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsh_lsp.compose import Settings
from dsh_lsp.events import TAGS
from dsh_lsp.lsp import arguments
from dsh_lsp.lsp.protocol import COMMANDS
from dsh_lsp.plugins.toolbox import find_tools
from dsh_lsp.settings import rights_of

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
ROWS = dict(re.findall(r"^\| `(dsh\.[a-zA-Z.]+)` \| `\{([^`]*)\}`", PAGE, re.MULTILINE))


def test_the_page_names_every_command_and_no_other() -> None:
    assert set(ROWS) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_the_arguments_of_every_command(command: str) -> None:
    model = getattr(arguments, COMMANDS[command])
    written = {key.strip() for key in ROWS[command].split(",") if key.strip()}
    real = {f.alias or name if f.is_required() else f"{f.alias or name}?" for name, f in model.model_fields.items()}
    assert written == real


def test_the_page_names_every_setting_and_no_other() -> None:
    def keys(model, prefix=""):
        for field in model.model_fields.values():
            inner = field.annotation
            if isinstance(inner, type) and hasattr(inner, "model_fields"):
                yield from keys(inner, f"{prefix}{field.alias}.")
            else:
                yield prefix + field.alias

    section = PAGE[PAGE.index("### Settings") : PAGE.index("## Commands")]
    rows = dict(re.findall(r"^\| `([a-zA-Z.]+)`( †)? \|", section, re.MULTILINE))
    assert set(rows) == set(keys(Settings))
    assert {key for key, mark in rows.items() if mark} == set(rights_of(Settings))


def test_the_page_names_every_event() -> None:
    for tag in TAGS.values():
        assert f"`{tag}" in PAGE


def test_every_command_runs_something() -> None:
    from dsh_lsp.lsp.commands import RUN

    assert set(RUN) == set(COMMANDS)


def test_the_page_of_tools_names_every_tool_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    section = page[page.index("## The tools there are") : page.index("## The stages of a call")]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(tool.name for tool in find_tools())
