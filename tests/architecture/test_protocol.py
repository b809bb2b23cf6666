"""Protocol: the page, the names, the argument models and the runtime say the same."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcInternalError, JsonRpcInvalidParams

from dsh_lsp.events import TAGS
from dsh_lsp.lsp import arguments, protocol
from dsh_lsp.lsp.protocol import COMMANDS
from dsh_lsp.lsp.refusals import REQUEST_FAILED, internal_error, invalid_params
from dsh_lsp.plugins.toolbox import find_tools
from dsh_lsp.wire import to_camel
from tests.architecture.mirrors import PAGE as SETTINGS
from tests.architecture.mirrors import leaves, page

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "dsh_lsp").rglob("*.py"))
PAGE = (ROOT / "docs" / "protocol.md").read_text()
FOUND = re.findall(r"^\| `(dsh\.[a-zA-Z.]+)` \| `\{([^`]*)\}`", PAGE, re.MULTILINE)
ROWS = dict(FOUND)
UNSENT = {"assistant/chunk"}
NEVER_SENT = {
    "DUPLICATE_PLUGIN",  # reasons in the report of `dsh.plugins.reload`
    "NO_PLUGIN",
    "INVALID_BOUNDARY",  # a boundary is never a client's
}
SENT_UNDER_ANOTHER_CLASS = {"NO_KEY", "NOTHING_OWED", "UNSUPPORTED_REASONING_EFFORT", "UNTRUSTED"}


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


def codes_of(*errors: str) -> set[str]:
    """The codes with which the package makes errors of some classes."""
    calls = (node for path in SOURCES for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {
        keyword.value.value
        for node in calls
        if isinstance(node.func, ast.Name) and node.func.id in errors
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }


def test_the_page_names_the_code_of_every_error_and_no_other() -> None:
    section = PAGE[PAGE.index("### Errors") : PAGE.index("## Events")]
    assert re.findall(r"^\| `(\w+)` \(−(\d+)\) \| `(\w+)`", section, re.MULTILINE) == [
        ("InvalidParams", str(-JsonRpcInvalidParams.CODE), invalid_params("").data["code"]),
        ("RequestFailed", str(-REQUEST_FAILED), "NO_KEY"),
        ("InternalError", str(-JsonRpcInternalError.CODE), internal_error("").data["code"]),
    ]
    written = re.findall(r"^\| [^|]*\| `([A-Z_]+)` \|", section, re.MULTILINE)
    raised = codes_of("SessionError", "ConfigError") - NEVER_SENT | SENT_UNDER_ANOTHER_CLASS
    assert sorted(written) == sorted({*raised, "USAGE", "INTERNAL"})


def test_the_page_names_every_request_and_notification_of_the_server_and_no_other() -> None:
    names = {value for value in vars(protocol).values() if isinstance(value, str) and value.startswith("dsh/")}
    assert set(re.findall(r"`(dsh/[a-z]+)", PAGE)) == names


def test_every_command_runs_something() -> None:
    from dsh_lsp.lsp.commands import RUN

    assert set(RUN) == set(COMMANDS)


def test_the_page_of_tools_names_every_tool_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    section = page[page.index("## The tools there are") : page.index("## The stages of a call")]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(tool.name for tool in find_tools())
