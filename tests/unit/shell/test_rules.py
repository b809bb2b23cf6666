"""Rules: what the user wrote down, and nothing that only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from dsh_lsp.shell.rules import CommandRules, ShellSettings, grant_key


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "*",
        " *",
        "git; ls",
        "git $x",
        "git * status",
        "git*",
        "A=1 git",
        "git && ls",
        "git 2>&1",
        "time git",
    ],
)
def test_a_rule_that_is_no_plain_command_is_a_problem_of_the_settings(rule: str) -> None:
    with pytest.raises(ValidationError, match="one plain command"):
        ShellSettings(allow=(rule,))


def program(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def rules(root: Path, path: str) -> CommandRules:
    return CommandRules(root, ShellSettings(allow=("tool *",)), {"PATH": path})


def test_a_program_inside_the_workspace_is_not_the_one_that_the_rule_means(tmp_path: Path) -> None:
    root, outside = tmp_path / "w", tmp_path / "bin"
    program(root / "node_modules" / ".bin", "tool")
    program(outside, "tool")
    inside = str(root / "node_modules" / ".bin")
    assert rules(root, f"{outside}:{inside}").allow("tool x")
    assert not rules(root, f"{inside}:{outside}").allow("tool x")
    assert not rules(root, f"node_modules/.bin:{outside}").allow("tool x")
    program(root, "tool")
    assert not rules(root, f":{outside}").allow("tool x"), "an empty entry is the current directory"


def test_a_relative_entry_of_the_path_is_looked_for_wherever_the_line_goes(tmp_path: Path) -> None:
    program(tmp_path / "bin", "tool")
    program(tmp_path / "w" / "sub" / "tools", "tool")
    settings = ShellSettings(allow=("tool", "cd *"))
    moving = CommandRules(tmp_path / "w", settings, {"PATH": f"tools:{tmp_path}/bin"})
    assert moving.allow("tool"), "there is no such folder in the root"
    assert not moving.allow("cd sub && tool")
    assert CommandRules(tmp_path / "w", settings, {"PATH": f"{tmp_path}/bin:tools"}).allow("cd sub && tool")


@pytest.mark.parametrize(
    ("rule", "line", "allowed"),
    [
        ("eval *", "eval 'rm x'", False),
        ("eval ls", "eval ls", True),
        ("command *", "command rm x", False),
        ("command -v *", "command -v ls", False),
        ("command -p *", "command -p rm x", False),
        ("command -v ls", "command -v ls", True),
        ("command ls *", "command ls -l x", True),
        ("command ls *", "command lsx", False),
        ("command *", "command", True),
        ("builtin eval *", "builtin eval 'rm x'", False),
        ("command builtin eval *", "command builtin eval 'rm x'", False),
        ("exec *", "exec rm x", False),
        (". *", ". ./x", False),
        ("source *", "source x", False),
        ("trap *", "trap 'rm x' EXIT", False),
        ("mapfile *", "mapfile -C 'rm x' -c 1", False),
        ("let *", "let 'a[$(rm x)]=1'", False),
        ("let *", "let PATH=1 && ls", False),
        ("let a=1", "let a=1", True),
        ("export *", "export PATH=./x && ls", False),
        ("export A=1", "export A=1 && ls", True),
        ("builtin export *", "builtin export PATH=./x && ls", False),
        ("declare *", "declare PATH=./x && ls", False),
        ("typeset *", "typeset -x PATH=./x && ls", False),
        ("readonly *", "readonly PATH=./x && ls", False),
        ("read *", "read PATH && ls", False),
        ("getopts *", "getopts a: PATH -a && ls", False),
        ("wait *", "wait -p PATH && ls", False),
        ("unset *", "unset PATH && ls", False),
        ("set *", "set -k && ls PATH=./x", False),
        ("shopt *", "shopt -os keyword && ls PATH=./x", False),
        ("printf *", "printf -v PATH %s ./x && ls", False),
        ("printf *", "printf -vPATH %s ./x && ls", False),
        ("printf -v *", "printf -v PATH %s ./x && ls", False),
        ("printf *", "printf -v 'BASH_CMDS[ls]' %s ./x && ls", False),
        ("printf -v a %s *", "printf -v a %s x && ls", True),
        ("test *", "test -v 'a[$(rm x)]' && ls", False),
        ("printf *", "printf -v 'a[`rm x`]' y", False),
        ("printf *", "printf '%s' x", True),
        ("echo *", "echo '$(rm x)'", True),
    ],
)
def test_a_builtin_that_runs_its_words_is_allowed_only_with_the_words_that_it_runs(
    tmp_path: Path, rule: str, line: str, allowed: bool
) -> None:
    here = CommandRules(tmp_path, ShellSettings(allow=(rule, "ls")), {"PATH": "/nonexistent"})
    assert here.allow(line) is allowed


def test_a_program_that_a_builtin_runs_is_looked_for_as_any_other(tmp_path: Path) -> None:
    program(tmp_path / "bin", "tool")
    settings, environ = ShellSettings(allow=("command tool *",)), {"PATH": f"{tmp_path}/bin"}
    assert CommandRules(tmp_path / "elsewhere", settings, environ).allow("command tool x")
    assert not CommandRules(tmp_path, settings, environ).allow("command tool x")


def test_a_program_inside_any_folder_of_the_window_is_inside(tmp_path: Path) -> None:
    root, other, outside = tmp_path / "w", tmp_path / "other", tmp_path / "bin"
    program(other / "bin", "tool")
    program(outside, "tool")
    settings, environ = ShellSettings(allow=("tool *",)), {"PATH": f"{other}/bin:{outside}"}
    folders: list[Path] = []
    here = CommandRules(root, settings, environ, folders=lambda: folders)
    assert here.allow("tool x")
    folders.append(other)
    assert not here.allow("tool x"), "the folder came into the window meanwhile"


def test_a_link_into_the_workspace_is_inside(tmp_path: Path) -> None:
    root, outside = tmp_path / "w", tmp_path / "bin"
    program(root, "tool")
    outside.mkdir()
    (outside / "tool").symlink_to(root / "tool")
    assert not rules(root, str(outside)).allow("tool")


def test_a_later_setting_holds_at_once_and_covers_the_line_that_was_asked_for(tmp_path: Path) -> None:
    here = CommandRules(tmp_path, ShellSettings())
    assert not here.covered([grant_key("make")])
    here.settings = ShellSettings(allow=("make",))
    assert here.covered([grant_key("make"), "make", grant_key("make x")]) == {grant_key("make")}
