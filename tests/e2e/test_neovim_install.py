"""The Neovim client as it is installed and found: a plain package, its help, its health, and `vim.lsp.enable`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import environment, wait_for
from tests.e2e.neovim import CLIENT_FOLDER, PROBES, Neovim
from tests.e2e.story import CALC

HEALTH = """
vim.cmd('checkhealth dsh')
return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')
"""


@contextmanager
def installed(folder: Path, init: str = "", env: Mapping[str, str] | None = None) -> Iterator[Neovim]:
    """Neovim with the client linked as a package, as the help says, and a user's configuration."""
    home = folder / "home"
    package = home / "data" / "nvim" / "site" / "pack" / "dsh" / "start"
    package.mkdir(parents=True)
    (package / "dsh").symlink_to(CLIENT_FOLDER)
    (home / "init.lua").write_text(f"vim.opt.swapfile = false\n{init}")
    (folder / "calc.py").write_text(CALC)
    arguments = ["-u", str(home / "init.lua"), "calc.py"]
    neovim = Neovim(arguments, env=environment(home, "sk-test") | (env or {}), folder=folder, columns=100, rows=30)
    try:
        neovim.attach_screen()
        neovim.lua(PROBES)
        yield neovim
        assert not neovim.mode()["blocking"], f"\n{neovim.screen}"
        neovim.servers = neovim.lua("return vim.api.nvim_get_proc_children(vim.fn.getpid())")
    finally:
        neovim.stop()


def test_a_plain_package_has_the_command_and_starts_nothing(tmp_path: Path) -> None:
    with installed(tmp_path) as neovim:
        assert neovim.lua("return vim.fn.exists(':Dsh')") == 2
        loaded = neovim.lua("return vim.tbl_keys(package.loaded)")
        assert [name for name in loaded if name.startswith("dsh")] == ["dsh.colors"]
        assert neovim.lua("return #vim.lsp.get_clients()") == 0
        neovim.keys(":Dsh<CR>")
        wait_for(lambda: neovim.mode()["mode"] == "i", "one can write")
        assert neovim.lua("return vim.bo.filetype") == "dsh-input"
        neovim.keys("<Esc>:Dsh<CR>")
        wait_for(lambda: neovim.text() == CALC, "it is closed again")


def test_the_health_is_good_and_says_what_there_is(tmp_path: Path) -> None:
    with installed(tmp_path) as neovim:
        health = str(neovim.lua(HEALTH))
        assert "ERROR" not in health
        assert "dsh-lsp " in health
        assert "the key is in DEEPSEEK_API_KEY" in health
        assert "the server does not run" in health


def test_the_health_names_a_server_that_is_not_there_a_key_that_is_missing_and_wrong_options(tmp_path: Path) -> None:
    init = """
    vim.g.dsh = {
      cmd = { 'no-such-server', 'serve' },
      chat = { positon = 'left', size = 7 },
      keys = { accept = 3 },
      settings = { model = { apiKeyEnv = 'NO_SUCH_KEY' } },
      colour = true,
    }
    """
    with installed(tmp_path, init) as neovim:
        health = str(neovim.lua(HEALTH))
        for problem in (
            "no-such-server is not an executable",
            "NO_SUCH_KEY is not set",
            "chat.positon is not an option, is it chat.position?",
            "chat.size: a number from 0.1 to 0.9 is wanted, not 7",
            "keys.accept: a key, or false for none, is wanted, not 3",
            "colour is not an option",
        ):
            assert problem in health


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("{ cmd = { '/no/such/dsh-lsp' } }", "/no/such/dsh-lsp is not an executable"),
        ("{ cmd = { vim.fn.exepath('dsh-lsp') } }", "dsh-lsp "),
        ("{ settings = { model = 5 } }", "settings.model: a table is wanted, not 5"),
        ("{ settings = { model = { provider = 'anthropic' } } }", "ANTHROPIC_API_KEY is not set"),
        ("{ settings = { model = { provider = 'openai_compatible' } } }", "`dsh-lsp doctor` says"),
        ("{ ['keys.accept'] = 'x' }", "keys.accept: write it as keys = { accept = … }"),
        ("{ chat = { input_height = 2.5 } }", "chat.input_height: a whole number from 1 to 40 is wanted, not 2.5"),
        ("{ settings = { mode = function() end } }", "settings: the server cannot be sent this"),
        ("'dsh'", 'vim.g.dsh: a table is wanted, not "dsh"'),
    ],
)
def test_the_health_says_of_any_options_what_is_so(tmp_path: Path, options: str, found: str) -> None:
    with installed(tmp_path, f"vim.g.dsh = {options}") as neovim:
        health = str(neovim.lua(HEALTH))
        assert found in health
        assert "Failed to run healthcheck" not in health
        assert ("the key is in DEEPSEEK_API_KEY" in health) == ("model" not in options)


def test_what_is_no_table_is_told_as_that(tmp_path: Path) -> None:
    with installed(tmp_path, "vim.g.dsh = 'dsh'") as neovim:
        neovim.lua("require('dsh.config').get()")
        wait_for(lambda: 'vim.g.dsh: a table is wanted, not "dsh"' in neovim.messages(), "it is told")


def test_setup_without_options_keeps_those_that_were_set(tmp_path: Path) -> None:
    with installed(tmp_path, "vim.g.dsh = { chat = { size = 0.3 } }") as neovim:
        neovim.lua("require('dsh').setup()")
        assert neovim.lua("return require('dsh.config').get().chat.size") == 0.3


def test_wrong_options_keep_their_defaults_and_are_told_once(tmp_path: Path) -> None:
    with installed(tmp_path, "vim.g.dsh = { chat = { size = 7 }, keys = { allow = false } }") as neovim:
        options: dict[str, Any] = neovim.lua("return require('dsh.config').get()")
        assert options["chat"]["size"] == 0.4
        assert options["keys"]["allow"] is False
        assert options["cmd"] == ["dsh-lsp", "serve"]
        wait_for(lambda: "vim.g.dsh.chat.size: a number" in neovim.messages(), "it is told")
        neovim.lua("require('dsh.config').get()")
        assert neovim.messages().count("chat.size") == 1
        neovim.lua("require('dsh').setup({ chat = { size = 0.3 } })")
        assert neovim.lua("return require('dsh.config').get().chat.size") == 0.3


def test_the_help_has_the_tags_that_it_names(tmp_path: Path) -> None:
    with installed(tmp_path) as neovim:
        folder = tmp_path / "doc"
        folder.mkdir()
        text = (CLIENT_FOLDER / "doc" / "dsh.txt").read_text()
        (folder / "dsh.txt").write_text(text)
        neovim.command(f"helptags {folder}")
        tags = {line.split("\t")[0] for line in (folder / "tags").read_text().splitlines()}
        assert {"dsh", ":Dsh"} <= tags
        assert set(re.findall(r"\|((?:dsh-|:Dsh)[\w-]*)\|", text)) <= tags


def test_the_server_starts_with_a_file_where_the_user_enables_it(tmp_path: Path) -> None:
    with installed(tmp_path, "vim.lsp.enable('dsh_lsp')") as neovim:
        wait_for(
            lambda: neovim.lua("local c = vim.lsp.get_clients({ name = 'dsh_lsp' })[1] return c and c.initialized"),
            "the server runs",
        )
        wait_for(lambda: neovim.lua("return require('dsh').status().state") == "idle", "the client knows of it")
        neovim.command("edit notes.unknown")
        neovim.keys("ix<Esc>")
        wait_for(
            lambda: neovim.lua("return #vim.lsp.get_clients({ bufnr = 0, name = 'dsh_lsp' }) == 1"),
            "a file of no type is shown to it too",
        )
        assert neovim.lua("return #vim.lsp.get_clients()") == 1


@pytest.mark.parametrize("lhs", ["<Plug>(dsh-ask)", "<Plug>(dsh-review)", "<Plug>(dsh-next-hunk)"])
def test_the_plug_maps_are_there_and_no_others(tmp_path: Path, lhs: str) -> None:
    with installed(tmp_path) as neovim:
        assert neovim.lua("return vim.fn.maparg(..., 'n')", lhs).startswith(":Dsh ")
        ours = neovim.lua("""
          return vim.tbl_filter(function(map)
            return (map.desc or ''):find('^dsh') ~= nil and not map.lhs:find('<Plug>', 1, true)
          end, vim.api.nvim_get_keymap('n'))
        """)
        assert ours == []


def test_options_that_cannot_be_sent_are_told_and_those_that_follow_are_tried(tmp_path: Path) -> None:
    with installed(tmp_path, "vim.lsp.config('dsh_lsp', { init_options = { mode = print } })") as neovim:
        neovim.keys(":Dsh ask One.<CR>")
        wait_for(lambda: "init_options: the server cannot be sent this" in neovim.messages(), "it is told")
        neovim.lua("vim.lsp.config('dsh_lsp', { init_options = { mode = 'plan' } })")
        neovim.keys(":Dsh mode ask<CR>")
        wait_for(lambda: neovim.lua("return require('dsh.client').get() ~= nil"), "the server runs")
