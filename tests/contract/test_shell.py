"""Shell: real commands under the real guard: what the model reads of them, and that they end as a whole."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.errors import ToolError
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugins.tools.shell import Shell
from dsh_lsp.shell.environment import ChildEnvironment
from dsh_lsp.shell.guard import read_row
from dsh_lsp.shell.process import run_command
from dsh_lsp.shell.rules import ShellSettings
from dsh_lsp.wire import dumps, encode
from tests.support.headless_tools import answers, codes, with_plugins
from tests.support.shell_bench import KEY, Here, run


async def test_output_of_both_kinds_the_exit_code_and_the_folder_are_told(here: Here) -> None:
    texts, failed = await run(here, "echo out; echo err >&2; exit 3", "pwd", "true")
    assert texts == ["out\nerr\n[exit code 3]", f"{here.root}\n[exit code 0]", "(no output)\n[exit code 0]"]
    assert failed == [False, False, False], "a test that fails is a result, not a failure of the tool"


async def test_what_the_command_did_to_files_is_found_and_told(here: Here) -> None:
    here.open = {"a.txt": "one\n", "b.txt": "unsaved\n"}
    (here.root / "gone.txt").write_text("x")
    texts, _ = await run(here, "echo two >> a.txt; mkdir d; touch d/new.txt; rm gone.txt")
    assert texts[0].splitlines()[1:] == [
        "[exit code 0]",
        "[created: d/new.txt]",
        "[changed: a.txt]",
        "[deleted: gone.txt]",
        "[open in the editor, which may still hold the text from before: a.txt]",
        "[the command did not see the unsaved text of: b.txt]",
    ]


async def test_what_it_did_in_another_folder_of_the_window_is_told_and_of_ignored_files_nothing(here: Here) -> None:
    other = here.root.parent / "other"
    other.mkdir()
    here.folders = [other]
    (here.root / ".ignore").write_text(".env\n")
    texts, _ = await run(here, f"touch .env '{other}/new.txt'")
    assert texts[0].splitlines()[1:] == ["[exit code 0]", f"[created: {other}/new.txt]"]
    assert "not ignored ones" in Shell.description


async def test_no_input_no_terminal_and_no_stdout_of_ours(here: Here, capfd) -> None:
    texts, _ = await run(here, "cat; tty; read x < /dev/tty; echo done")
    assert "not a tty" in texts[0]
    assert "done\n[exit code 0]" in texts[0]
    assert capfd.readouterr().out == "", "standard output belongs to the protocol"


async def test_fifty_megabytes_are_read_to_their_end_and_shown_by_both_ends(here: Here) -> None:
    texts, _ = await run(here, "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last >&2")
    assert texts[0].startswith("first\nxxx")
    assert "last\n[exit code 0]" in texts[0]
    assert "bytes left out" in texts[0]
    assert len(texts[0]) < 40_000


async def test_a_command_that_cannot_begin_says_so(here: Here) -> None:
    texts, _ = await run(here, "no-such-command-anywhere", "echo '\N{DEGREE SIGN}'", "echo a\0b")
    assert "exit code 127" in texts[0]
    assert texts[1] == "°\n[exit code 0]"
    assert "NUL" in texts[2]


async def test_a_file_whose_name_is_no_text_is_named_in_words_that_editors_can_read(here: Here) -> None:
    script = [call("shell", command="touch \"$(printf 'caf\\351.txt')\""), say("ok")]
    async with with_plugins(script, parts={"keys": here.keys}) as w:
        w.h.registry.register(here.shell(w.h))
        w.h.agent.followup(w.h.say("go"))
        await w.h.agent.when_idle()
        assert "[created: caf\\udce9.txt]" in answers(w.h)[0]
        for event in w.h.log:
            dumps(encode(event.data)).encode()


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def test_half_of_a_character_is_refused_and_nothing_stays_open(here: Here) -> None:
    texts, failed = await run(here, "echo '\ud800'")
    assert (texts, failed) == (
        ["Error: invalid arguments: they hold half of a character, a surrogate without its other"],
        [True],
    )
    opened = await anyio.to_thread.run_sync(descriptors)
    for command in ("echo '\ud800'", f"echo {'x' * 300_000}"):
        with pytest.raises((UnicodeEncodeError, ToolError)):
            await run_command(
                command,
                folder=here.root,
                environment=ChildEnvironment(here.keys),
                timeout_s=5,
                abort=AbortSignal(),
                on_output=lambda _: None,
            )
    assert await anyio.to_thread.run_sync(descriptors) == opened


def alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
    return found


STUBBORN = "trap '' TERM; echo $$ >> pids; while :; do sleep 1; done"


async def test_at_its_limit_a_command_ends_with_all_its_children_and_what_it_said_is_kept(here: Here) -> None:
    command = f'echo begun; (setsid sh -c "{STUBBORN.replace("$", chr(92) + "$")}" &); {STUBBORN}'
    started = time.monotonic()
    texts, failed = await run(here, command, timeout_seconds=1.0)
    pids = [int(line) for line in (here.root / "pids").read_text().split()]
    assert len(pids) == 2
    assert alive(pids) == []
    assert time.monotonic() - started < 6
    assert texts[0].startswith("begun\n[timed out after 1 s; the command and all that it had started were ended]")
    assert failed == [True]


async def test_the_users_limit_is_the_most_that_a_call_may_take(here: Here) -> None:
    here.settings = ShellSettings(timeout_seconds=0.3)
    texts, _ = await run(here, "sleep 30", timeout_seconds=20.0)
    assert "timed out after 0.3 s" in texts[0]


async def test_what_is_left_in_the_background_ends_with_the_command(here: Here) -> None:
    texts, _ = await run(here, "sleep 60 & echo $! > pids; echo ok")
    assert texts[0].startswith("ok\n[exit code 0]\n[a process left in the background ended with the command]")
    assert alive([int((here.root / "pids").read_text())]) == []


async def test_a_guard_that_is_killed_takes_its_command_along(here: Here) -> None:
    texts, _ = await run(here, "(setsid sleep 60 & echo $! > pids); echo $$ >> pids; kill -9 $PPID; sleep 60")
    assert "ended from outside" in texts[0]
    assert alive([int(line) for line in (here.root / "pids").read_text().split()]) == []


HOPPER = """
import os, sys, time
os.setsid()
end = time.monotonic() + 30
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    time.sleep(float(sys.argv[1]))
"""

# Each in another way out of reach: by forking on and on, without a parent, a session, an environment or signals.
ESCAPES = r"""
trap '' TERM HUP
for pause in 0 0.002 0.05; do ({python} -S hop.py $pause $PWD >/dev/null 2>&1 &); done
(setsid sh -c "sleep 60; : $PWD" &)
(env -i setsid /bin/sh -c "/bin/sleep 60; : $PWD" &)
nohup sh -c "sleep 60; : $PWD" >/dev/null 2>&1 &
sh -c "kill -STOP \$\$; : $PWD" &
second=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status)
grep -qa guard.py "/proc/$second/cmdline" || exit 9
sleep 0.3
"""
KILLERS = {
    "the command is over": "exit 3",
    "the guard is killed": "kill -9 $PPID; sleep 60",
    "the guard is stopped": "kill -STOP $PPID; sleep 60",
    "the report is forged": "echo gone > /proc/$PPID/fd/$(ls /proc/$PPID/fd | sort -n | tail -n 1); sleep 60",
    "the second guard is killed": "kill -9 $second; exit 3",
    "the second guard is stopped": "kill -STOP $second; exit 3",
}

KILLERS_ALWAYS = ("the command is over", "the guard is killed")
IN_THE_LONG_RUN = pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "long", reason="takes seconds: part of the long run"
)


def running_in(folder: Path) -> list[str]:
    """The command lines that name a folder, looked for more than once: one that forks on can be missed."""
    found = []
    for _ in range(20):
        for proc in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (proc / "cmdline").read_bytes().decode(errors="replace")
                if str(folder) in line:
                    found.append(f"{proc.name} {line}")
        time.sleep(0.005)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process can get rid of what it is found by")
@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=() if how in KILLERS_ALWAYS else IN_THE_LONG_RUN) for how in KILLERS]
)
async def test_nothing_escapes_however_it_forks_and_whatever_it_does_to_the_guards(here: Here, how: str) -> None:
    (here.root / "hop.py").write_text(HOPPER)
    texts, _ = await run(here, ESCAPES.replace("{python}", sys.executable) + KILLERS[how])
    found = await anyio.to_thread.run_sync(running_in, here.root)
    assert found == [], texts
    assert ("exit code 3" if "exit 3" in KILLERS[how] else "ended from outside") in texts[0]
    assert "could not be ended" not in texts[0]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is nobody to look for them")
@IN_THE_LONG_RUN
async def test_guards_that_are_both_stopped_are_ended_at_the_limit_with_all_below_them(here: Here) -> None:
    command = ESCAPES.replace("{python}", sys.executable) + "kill -STOP $second $PPID; sleep 60"
    (here.root / "hop.py").write_text("")
    started = time.monotonic()
    await run(here, command, timeout_seconds=0.5)
    assert time.monotonic() - started < 0.5 + 6.5, "once over its time, not twice"
    assert await anyio.to_thread.run_sync(running_in, here.root) == []


async def test_a_cancel_ends_it_and_keeps_what_it_had_said(here: Here) -> None:
    async with with_plugins([call("shell", command="echo begun; touch here; sleep 60")]) as w:
        w.h.registry.register(here.shell(w.h))
        said: list[str] = []
        heard = anyio.Event()
        w.h.agent.hooks.tools.progress.listen(lambda told: (said.append(told[1]), heard.set()))
        w.h.agent.followup(w.h.say("go"))
        with anyio.fail_after(10):
            await heard.wait()
        assert said[0] == "begun\n", "live output is shown"
        w.h.agent.cancel(USER)
        with anyio.fail_after(5):
            await w.h.agent.when_idle()
        assert codes(w.h) == ["ABORTED"]
        assert "begun" in answers(w.h)[0]


async def test_live_output_is_up_to_date_while_the_command_says_no_more(here: Here) -> None:
    async with with_plugins([call("shell", command="echo one; sleep 0.03; echo two; sleep 60")]) as w:
        w.h.registry.register(here.shell(w.h))
        heard = anyio.Event()
        w.h.agent.hooks.tools.progress.listen(lambda told: heard.set() if told[1] == "one\ntwo\n" else None)
        w.h.agent.followup(w.h.say("go"))
        with anyio.fail_after(10):
            await heard.wait()
        w.h.agent.cancel(USER)
        with anyio.fail_after(5):
            await w.h.agent.when_idle()


async def test_no_key_of_ours_reaches_a_child_or_comes_back(here: Here) -> None:
    (here.root / ".env").write_text(f"KEY={KEY}\n")
    texts, _ = await run(here, "env", "cat .env", "cat /proc/$PPID/environ | tr '\\0' ' '")
    assert all(KEY not in text for text in texts)
    assert "PATH=" in texts[0]
    assert "COPY_OF_IT" not in texts[0]
    assert texts[1].startswith("KEY=[key left out]")


async def test_an_exported_function_does_not_stand_in_for_a_program(here: Here) -> None:
    here.environ |= {"BASH_FUNC_ls%%": "() { echo impostor; }", "BASH_ENV": "/no/such"}
    texts, _ = await run(here, "ls; ls")
    assert "impostor" not in texts[0]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (b"  10     1    10 S    sleep 60 DSH_RUN=abc PATH=/bin", (10, 1, 10, True)),
        (b"11 10 10 R+ sh -c echo DSH_RUN=abcd", (11, 10, 10, False)),
        (b"12 10 10 Z <defunct>", None),
        (b"garbage", None),
    ],
)
def test_a_row_of_the_process_list_is_read_where_there_is_no_proc(row: bytes, found: object) -> None:
    assert read_row(row, b"DSH_RUN=abc") == found
