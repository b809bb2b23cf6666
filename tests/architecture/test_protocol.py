"""Protocol: the page, the names, the argument models and the runtime say the same."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from dsh_lsp.events import TAGS
from dsh_lsp.lsp import arguments
from dsh_lsp.lsp.protocol import COMMANDS
from dsh_lsp.plugins.toolbox import find_tools
from dsh_lsp.wire import to_camel
from tests.architecture.mirrors import PAGE as SETTINGS
from tests.architecture.mirrors import leaves, page

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
FOUND = re.findall(r"^\| `(dsh\.[a-zA-Z.]+)` \| `\{([^`]*)\}`", PAGE, re.MULTILINE)
ROWS = dict(FOUND)
UNSENT = {"assistant/chunk"}


def test_the_page_names_every_command_once_and_no_other() -> None:
    assert sorted(name for name, _ in FOUND) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_the_arguments_of_every_command(command: str) -> None:
    model = getattr(arguments, COMMANDS[command])
    written = {key.strip() for key in ROWS[command].split(",") if key.strip()}
    real = {f.alias or name if f.is_required() else f"{f.alias or name}?" for name, f in model.model_fields.items()}
    assert written == real


def test_the_page_of_settings_is_made_from_the_models() -> None:
    assert page() == SETTINGS.read_text(), "write it again: python -m tests.architecture.mirrors"


def test_every_setting_is_described_in_a_sentence() -> None:
    for key, field in leaves():
        assert re.fullmatch(r"[A-Z`].*\.", field.get("description", "")), key


def test_the_page_names_every_event_once_with_its_data() -> None:
    section = PAGE[PAGE.index("## Events") : PAGE.index("## Edits")]
    written = re.findall(r"^\| `([a-z/-]+)` \| `\{([^`]*)\}`", section, re.MULTILINE)
    fields = {
        tag: [(to_camel(f.name), f.default is None) for f in dataclasses.fields(cls)] for cls, tag in TAGS.items()
    }
    sent = {tag: ", ".join(f"{n}?" if may else n for n, may in of) for tag, of in fields.items() if tag not in UNSENT}
    assert sorted(written) == sorted(sent.items())


def test_every_command_runs_something() -> None:
    from dsh_lsp.lsp.commands import RUN

    assert set(RUN) == set(COMMANDS)


def test_the_page_of_tools_names_every_tool_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    section = page[page.index("## The tools there are") : page.index("## The stages of a call")]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(tool.name for tool in find_tools())
