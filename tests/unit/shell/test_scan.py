"""Scan: what is accepted runs exactly the listed commands, as a real bash is the judge; all else is asked for."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.shell.rules import CHANGES_THE_SHELL, READS_SUBSCRIPTS, RUNS_ITS_WORDS, CommandRules, ShellSettings
from dsh_lsp.shell.scan import MAX_CHARS, Script, scan, visible

RULES = ("git status", "git diff *", "ls *", "pytest *", "echo *", "cat *", "make", "npm run test", "grep *", "cd *")
ALLOWED, ASK = True, False

LINES = [
    ("git status", ALLOWED),
    ("  git   status  ", ALLOWED),
    ("git\tstatus", ALLOWED),
    ("git diff", ALLOWED),
    ("git diff HEAD~1", ASK),  # a tilde may be a home
    ("git diff --stat HEAD^ -- src/a.py", ALLOWED),
    ("git 'diff'", ALLOWED),
    ("git di'ff' a", ALLOWED),
    ('git diff "a b.py"', ALLOWED),
    ("make", ALLOWED),
    ("make all", ASK),
    ("make\n", ALLOWED),
    ("make\nmake", ALLOWED),
    ("make;", ALLOWED),
    ("git status && make", ALLOWED),
    ("git status || make", ALLOWED),
    ("git diff | cat", ALLOWED),
    ("git diff 2>&1 | grep x", ALLOWED),
    ("ls 2>/dev/null", ALLOWED),
    ("ls > /dev/null", ALLOWED),
    ("npm run test", ALLOWED),
    ("npm run tests", ASK),
    ("npm run", ASK),
    ("git status --short", ASK),
    ("git", ASK),
    ("gitstatus", ASK),
    ("/usr/bin/git status", ASK),
    ("./git status", ASK),
    ("git status; rm -rf x", ASK),
    ("git status && rm x", ASK),
    ("git status\nrm x", ASK),
    ("git status & rm x", ASK),
    ("git status &", ASK),
    ("git diff |& tee x", ASK),
    ("ls > x", ASK),
    ("ls >> x", ASK),
    ("ls >| x", ASK),
    ("ls &> x", ASK),
    ("ls 2> x", ASK),
    ("ls < x", ASK),
    ("ls <> x", ASK),
    ("ls >&2", ASK),
    ("ls {fd}>x", ASK),
    ("ls > /dev/nullx", ASK),
    ("echo $(rm x)", ASK),
    ("echo `rm x`", ASK),
    ('echo "$(rm x)"', ASK),
    ('echo "`rm x`"', ASK),
    ("echo ${x:-$(rm x)}", ASK),
    ("echo $x", ASK),
    ('echo "$x"', ASK),
    ("echo '$x'", ALLOWED),
    ("echo $'\\x64'", ASK),
    ('echo $"x"', ASK),
    ("cat <(ls)", ASK),
    ("ls >(rm x)", ASK),
    ("cat <<EOF\n$(rm x)\nEOF", ASK),
    ("cat <<'EOF'\nx\nEOF", ASK),
    ("cat <<< x", ASK),
    ("A=1 git status", ASK),
    ("PATH=. git status", ASK),
    ("a[$(rm)]=1", ASK),
    ("export A=1", ASK),
    ("time git status", ASK),
    ("coproc git status", ASK),
    ("! git status", ASK),
    ("if git status; then rm x; fi", ASK),
    ("for x in a; do rm x; done", ASK),
    ("{ git status; }", ASK),
    ("(git status)", ASK),
    ("f() { rm x; }; f", ASK),
    ("[[ -f x ]]", ASK),
    ("((x=1))", ASK),
    ("ls *", ASK),
    ("ls ?", ASK),
    ("ls [a]", ASK),
    ("ls {a,b}", ASK),
    ("ls ~", ASK),
    ("ls \\\nx", ASK),
    ("git di\\ff", ASK),
    ("ls # rm x", ASK),
    ("echo a#b", ASK),
    ("ls !!", ASK),
    ("ls 'x", ASK),
    ('ls "x', ASK),
    ("ls &&", ASK),
    ("&& ls", ASK),
    ("ls ;; ls", ASK),
    ("ls\rrm x", ASK),
    ("ls\x0brm", ASK),
    ("ls\u00a0x", ASK),
    ("ls é", ASK),
    ("ls 'é'", ALLOWED),
    ("ls \u202e", ASK),
    ("", ASK),
    ("   ", ASK),
    ("\n", ASK),
    ("ls " + "x" * MAX_CHARS, ASK),
]


@pytest.mark.parametrize(("line", "decision"), LINES, ids=lambda value: repr(value)[:40])
def test_a_line_runs_unasked_only_if_every_command_of_it_is_allowed(
    line: str, decision: bool, tmp_path: Path
) -> None:
    rules = CommandRules(tmp_path, ShellSettings(allow=RULES), {"PATH": os.defpath})
    assert rules.allow(line) is decision


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(LINES) >= 60
    assert sum(decision for _, decision in LINES) >= 15


def test_words_are_what_a_shell_would_hand_over() -> None:
    assert scan("git diff 'a b' \"c\"d''e --x=1") == Script(
        commands=(("git", "diff", "a b", "cde", "--x=1"),), plain=True
    )
    assert scan("make && ls 2>&1") == Script(commands=(("make",), ("ls",)), plain=False)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_at_once(text: str) -> None:
    script = scan(text)
    assert script is None or all(words and all(isinstance(word, str) for word in words) for words in script.commands)


def test_what_hides_or_reorders_text_is_spelled_out() -> None:
    assert visible("rm \u202ex\x1b[0m\u200b\r") == "rm \\u202ex\\x1b[0m\\u200b\\r"
    assert visible("a b\n\té😀") == "a b\n\té😀"


# -- a real bash as the judge ------------------------------------------------------------------------------------

WORDS = [
    *("git", "diff", "rm", "x", "ls", "--output=y", "A=1", "EOF", "echo", "if", "then", "fi", "time", "!", "{", "}"),
    *("do", "case", "in", "esac", "for", "while", "done", "coproc", "function", "select", "[[", "]]", "1", "2", "cd"),
    *("eval", "exec", "command", "builtin", "let", "trap", "source"),
]
MARKS = [
    *(" ", " ", " ", " ", "\n", ";", "&", "|", "&&", "||", "|&", ">", "<", ">>", "<<", "<<<", ">&", "&>", "(", ")"),
    *("$(", ")", "`", '"', '"', "'", "'", "\\", "\\\n", "$", "${", "}", "#", "=", "*", "?", "[", "]", "~", "{", ","),
    *("$'", '$"', "\t", "\r", "\x0b", "\x0c", "\u00a0", "é", "^", "%", "@", "+", "-", ".", ";;", "2>&1"),
    *(">/dev/null", "2>/dev/null", "> /dev/null"),
]
ALMOST = ["git diff", 'git diff "x"', "ls 'a b'", "git diff; ls", "ls && rm x", "ls | rm", "git diff # c", "rm"]

# Nothing is found on PATH, so that every command comes to the handler, which prints its words.
JUDGE = r"""
told() { local all='' word; for word in "$@"; do all+="$word"$'\3'; done; printf '\2%s\2' "$all"; return 0; }
command_not_found_handle() { told "$@" >&9; return 0; }
echo() { told echo "$@" >&9; }
cd() { told cd "$@" >&9; }
PATH=/nonexistent
exec 9>&1
while IFS= read -r -d '' line; do
  printf '\1' >&9
  ( eval "$line"; wait ) >/dev/null 2>/dev/null </dev/null
done
exit 0
"""


def random_line(source: random.Random) -> str:
    choice = source.random()
    if choice < 0.35:
        parts = [
            source.choice(WORDS) if source.random() < 0.5 else source.choice([" ", source.choice(MARKS)])
            for _ in range(source.randint(2, 14))
        ]
        return "".join(parts)
    if choice < 0.7:
        line = source.choice(ALMOST)
        for _ in range(source.randint(1, 3)):
            at = source.randint(0, len(line))
            line = line[:at] + source.choice(MARKS) + source.choice(["", "", source.choice(WORDS)]) + line[at:]
        return line
    return "".join(source.choice(WORDS + MARKS) for _ in range(source.randint(1, 10)))


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to ask")
@pytest.mark.parametrize("seed", range(40 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 2))
def test_bash_runs_no_command_that_the_scan_did_not_list(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    lines = [line for _ in range(400) if "\0" not in (line := random_line(source)) and "exec" not in line]
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", JUDGE],
        input=b"".join(line.encode() + b"\0" for line in lines),
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={"LC_ALL": "C.UTF-8"},
        timeout=55,
        check=True,
    )
    told = done.stdout.split(b"\1")[1:]
    assert len(told) == len(lines)
    accepted = 0
    for line, answer in zip(lines, told, strict=True):
        script = scan(line)
        if script is None:
            continue
        accepted += 1
        listed = {tuple(word.encode() for word in words) for words in script.commands}
        ran = [tuple(one.split(b"\3")[:-1]) for one in answer.split(b"\2") if one]
        builtin = {("1",), ("2",)}
        if any(words[0].decode() in RUNS_ITS_WORDS | CHANGES_THE_SHELL | READS_SUBSCRIPTS for words in listed):
            continue  # runs its words, which only a rule that names them allows
        assert set(ran) <= listed | builtin, line
    assert accepted > 20, "a scan that refuses everything proves nothing"
