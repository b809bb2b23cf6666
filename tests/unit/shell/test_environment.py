"""Environment: no child gets a key of ours, and each gets what the user has set."""

from __future__ import annotations

from dsh_lsp.secrets import Keys
from dsh_lsp.shell.environment import MARKER, ChildEnvironment

KEY = "sk-canary-0123456789"


def test_the_variables_that_hold_our_keys_are_left_out_by_name_and_by_value() -> None:
    environ = {
        "DEEPSEEK_API_KEY": KEY,
        "COPY": KEY,
        "HEADER": f"Bearer {KEY}",
        "OTHER_API_KEY": "the user's own",
        "PATH": "/bin",
        "SHORT": "x",
        "A_WORD": "lm-studio",
        "ITS_PATH": "/opt/lm-studio/bin",
    }
    child = ChildEnvironment(Keys({"DEEPSEEK_API_KEY", "MISSING", "SHORT", "A_WORD"}, environ))
    assert child.of_run("r1") == {
        "OTHER_API_KEY": "the user's own",
        "PATH": "/bin",
        "ITS_PATH": "/opt/lm-studio/bin",
        "TERM": "dumb",
        MARKER: "r1",
    }


def test_what_steers_a_shell_is_left_out() -> None:
    steering = {"BASH_ENV": "x", "ENV": "x", "SHELLOPTS": "xtrace", "PS4": "$(rm x)", "BASH_FUNC_git%%": "() { rm; }"}
    assert set(ChildEnvironment(Keys((), steering)).of_run("r")) == {"TERM", MARKER}


def test_the_environment_is_read_when_a_command_starts() -> None:
    environ = {"A": "1"}
    child = ChildEnvironment(Keys(("KEY",), environ))
    environ["KEY"] = KEY
    environ["B"] = KEY
    assert "B" not in child.of_run("r")
