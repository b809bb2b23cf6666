"""The Neovim client says the same as the server and as its own help: names, options, commands, highlights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsh_lsp.lsp import protocol

FOLDER = Path(__file__).parents[2] / "editor-clients" / "nvim"
LUA = sorted((FOLDER / "lua").rglob("*.lua"))
HELP = (FOLDER / "doc" / "dsh.txt").read_text()
MAX_LINES = 400


def source(name: str) -> str:
    return (FOLDER / "lua" / "dsh" / f"{name}.lua").read_text()


def test_the_client_knows_every_command_and_no_other() -> None:
    assert set(re.findall(r"= '(dsh\.[\w.]+)'", source("protocol"))) == set(protocol.COMMANDS)


def test_the_client_knows_every_method_and_the_version() -> None:
    text = source("protocol")
    ours = {value for name, value in vars(protocol).items() if isinstance(value, str) and value.startswith("dsh/")}
    assert set(re.findall(r"= '(dsh/\w+)'", text)) == ours
    assert f"M.VERSION = {protocol.VERSION}\n" in text


def test_the_help_names_every_option_and_its_default() -> None:
    section = HELP[HELP.index("*dsh-options*") : HELP.index("*dsh-settings*")]
    options = re.findall(r"path = '([\w.]+)',\s*default = (.+?),\s*check = ", source("config"), re.DOTALL)
    written = re.findall(r"^([\w.]+) +\S.*\n +Default: (.+)$", section, re.MULTILINE)
    assert [(path, re.sub(r"\s+", " ", default)) for path, default in options] == written


def test_the_help_names_every_command_and_no_other() -> None:
    section = HELP[HELP.index("*:Dsh*") : HELP.index("*dsh-chat*")]
    table = source("commands")
    table = table[table.index("M.SUBCOMMANDS = {") :]
    commands = set(re.findall(r"^  (\w+) = \{", table, re.MULTILINE))
    written = {
        word
        for line in re.findall(r"^([a-z]+(?:, [a-z]+)*)\b(?=[ \n])", section, re.MULTILINE)
        for word in line.split(", ")
    }
    assert written == commands


def test_the_help_names_every_highlight_and_what_it_links_to() -> None:
    section = HELP[HELP.index("*dsh-highlights*") : HELP.index("*dsh-troubles*")]
    links = re.findall(r"^  (Dsh\w+) = '(\w+)'", source("colors"), re.MULTILINE)
    assert re.findall(r"^(Dsh\w+) +links to (\w+)$", section, re.MULTILINE) == links


def test_the_help_names_every_plug_map() -> None:
    plugin = (FOLDER / "plugin" / "dsh.lua").read_text()
    maps = re.findall(r"^  (?:\['([\w-]+)'\]|(\w+)) = \{ (?:'n'|\{ 'n', 'x' \}), ", plugin, re.MULTILINE)
    section = HELP[HELP.index("*dsh-maps*") : HELP.index("*dsh-events*")]
    names = {quoted or plain for quoted, plain in maps}
    assert set(re.findall(r"<Plug>\(dsh-([\w-]+)\)", section)) == names


def test_the_help_names_every_event() -> None:
    feed = source("feed") + source("client")
    announced = set(re.findall(r"\] = '(Dsh\w+)'|announce\('(Dsh\w+)'", feed))
    section = HELP[HELP.index("*dsh-events*") : HELP.index("*dsh-statusline*")]
    assert set(re.findall(r"^(Dsh\w+) ", section, re.MULTILINE)) == {one or other for one, other in announced}


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.stem)
def test_a_module_says_what_it_is_and_has_one_job(path: Path) -> None:
    text = path.read_text()
    assert re.match(r"---\w+: \S", text), text.splitlines()[0]
    assert len(text.splitlines()) <= MAX_LINES


def test_the_picture_names_every_module_and_no_other() -> None:
    page = (FOLDER.parents[1] / "docs" / "architecture.md").read_text()
    assert set(re.findall(r"`(\w+\.lua)`", page)) == {path.name for path in LUA}


def test_the_readmes_name_keys_that_exist() -> None:
    defaults = set(re.findall(r"path = 'keys\.\w+', default = '([^']+)'", source("config")))
    readme = (FOLDER.parents[1] / "README.md").read_text()
    section = readme[readme.index("### Neovim") : readme.index("### Emacs")]
    for text in (section, (FOLDER / "README.md").read_text()):
        named = set(re.findall(r"`(g\w{2}|[\[\]]\w|<[\w-]+>)`", text))
        assert named
        assert named <= defaults | {"<Tab>", "<CR>"}


@pytest.mark.parametrize("page", ["README.md", "docs/troubleshooting.md", "editor-clients/nvim/README.md"])
def test_pages_name_subcommands_that_exist(page: str) -> None:
    table = source("commands")
    table = table[table.index("M.SUBCOMMANDS = {") :]
    commands = set(re.findall(r"^  (\w+) = \{", table, re.MULTILINE))
    named = re.findall(r"`:Dsh (\w+)", (FOLDER.parents[1] / page).read_text())
    assert named
    assert set(named) <= commands
