"""VS Code client: its manifest, its names and its settings say what the server and its own sources say."""

from __future__ import annotations

import json
import re

import pytest

from dsh_lsp import __version__
from dsh_lsp.lsp import protocol
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import rights_of
from tests.architecture.mirrors import LOCK, MANIFEST, properties

CLIENT = MANIFEST.parent
SOURCES = {path: path.read_text() for path in sorted((CLIENT / "src").rglob("*.ts"))}
CONTRIBUTES = json.loads(MANIFEST.read_text())["contributes"]

# Menus of the stable API. Others are proposed: the build that tests use would take them, the released editor not.
STABLE_MENUS = {
    "commandPalette",
    "view/title",
    "editor/title",
    "editor/context",
    "explorer/context",
}


def test_the_settings_are_made_from_the_servers_models() -> None:
    written = CONTRIBUTES["configuration"][0]["properties"]
    assert written == properties(), "write them again: python -m tests.architecture.mirrors"


def test_there_is_one_version() -> None:
    manifest, lock = json.loads(MANIFEST.read_text()), json.loads(LOCK.read_text())
    written = {manifest["version"], lock["version"], lock["packages"][""]["version"]}
    assert written == {__version__}, "write it again: python -m tests.architecture.mirrors"


def test_no_workspace_can_set_what_raises_rights() -> None:
    written = CONTRIBUTES["configuration"][0]["properties"]
    raising = {f"dsh.{key}" for key in rights_of(Settings)} - {"dsh.workspaceTrusted"}
    for key in {"dsh.client.server", *raising}:
        assert written[key]["scope"] == "machine", key


def test_a_workspace_that_is_not_trusted_can_set_nothing() -> None:
    restricted = json.loads(MANIFEST.read_text())["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    assert restricted == sorted(properties()), "write them again: python -m tests.architecture.mirrors"


def test_the_client_names_the_servers_version_requests_and_commands() -> None:
    source = (CLIENT / "src" / "protocol.ts").read_text()
    assert f"VERSION = {protocol.VERSION};" in source
    named = dict(re.findall(r"export const ([A-Z]+) = '(dsh/[a-z]+)'", source))
    constants = {name: value for name, value in vars(protocol).items() if str(value).startswith("dsh/")}
    assert constants.items() <= named.items()
    assert set(protocol.COMMANDS) <= set(re.findall(r"^  '(dsh\.[a-zA-Z.]+)':", source, re.MULTILINE))


def test_each_command_of_the_manifest_is_in_the_table_and_none_has_a_name_of_the_servers() -> None:
    table = set(re.findall(r"^  '(dsh\.ui\.[a-zA-Z]+)':", (CLIENT / "src" / "commands.ts").read_text(), re.MULTILINE))
    offered = {command["command"] for command in CONTRIBUTES["commands"]}
    assert offered <= table
    assert all(name.startswith("dsh.ui.") for name in offered)
    used = {item["command"] for menu in CONTRIBUTES["menus"].values() for item in menu if "command" in item}
    used |= {binding["command"] for binding in CONTRIBUTES["keybindings"]}
    assert used <= offered


def test_only_stable_api_is_used() -> None:
    manifest = json.loads(MANIFEST.read_text())
    assert "enabledApiProposals" not in manifest
    submenus = {submenu["id"] for submenu in CONTRIBUTES["submenus"]}
    assert set(CONTRIBUTES["menus"]) <= STABLE_MENUS | submenus
    assert manifest["devDependencies"]["@types/vscode"] == manifest["engines"]["vscode"].removeprefix(
        "^"
    ).removesuffix(".0")


def test_no_text_becomes_html_in_the_page() -> None:
    unsafe = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser"
        r"|\beval\(|new Function"
    )
    for path, source in SOURCES.items():
        assert not unsafe.search(source), path


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CLIENT)))
def test_each_file_has_one_job(path) -> None:
    source = SOURCES[path]
    assert source.startswith("/**"), "it says what it is"
    assert len(source.splitlines()) <= 400
