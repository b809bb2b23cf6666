"""Demo: what a person sees of it, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dsh_lsp.llm import demo_script as script
from dsh_lsp.lsp.demo import run_demo
from dsh_lsp.screen import DiffLine, Screen, diff_lines
from tests.support.raw_client import RawClient

ESCAPE = "\x1b["


@dataclass
class Run:
    """One demo in a process of its own, with a temporary directory and a mark in its environment."""

    temporary: Path
    arguments: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    terminal: bool = False
    screen: str = ""
    code: int | None = None
    seconds: float = 0.0
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def start(self, **streams: object) -> subprocess.Popen[str]:
        self.temporary.mkdir(parents=True, exist_ok=True)
        env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "DEEPSEEK_API_KEY")}
        env |= {"TMPDIR": str(self.temporary), "DSH_TEST_MARK": self.mark, "TERM": "xterm-256color", **self.env}
        command = [sys.executable, "-m", "dsh_lsp", "demo", *self.arguments]
        return subprocess.Popen(command, env=env, text=True, **streams)  # type: ignore[call-overload,no-any-return]

    def play(self) -> Run:
        began = time.monotonic()
        if self.terminal:
            self._play_on_terminal()
        else:
            with self.start(stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
                self.screen, _ = process.communicate(timeout=30)
                self.code = process.returncode
        self.seconds = time.monotonic() - began
        return self

    def _play_on_terminal(self) -> None:
        ours, theirs = pty.openpty()
        with self.start(stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            pieces: list[bytes] = []
            try:
                while piece := os.read(ours, 65536):
                    pieces.append(piece)
            except OSError:  # Linux says so when the other side is closed
                pass
            self.code = process.wait(30)
        os.close(ours)
        self.screen = b"".join(pieces).decode()

    def left_behind(self) -> list[str]:
        """Files in the temporary directory, and processes that inherited the mark."""
        return [str(path) for path in self.temporary.rglob("*")] + list(processes_marked(self.mark))


def processes_marked(mark: str) -> Iterator[str]:
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environ.read_bytes():
                yield (environ.parent / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """All ways to run it, side by side: the lie alone takes ten seconds."""
    folder = tmp_path_factory.mktemp("demo")
    wanted = {
        "normal": Run(folder / "normal", ("--fast",)),
        "reject": Run(folder / "reject", ("--fast", "--reject")),
        "lie": Run(folder / "lie", ("--fast", "--lie")),
        "terminal": Run(folder / "terminal", ("--fast",), terminal=True),
        "no colour": Run(folder / "no-colour", ("--fast",), {"NO_COLOR": "1"}, terminal=True),
        "dumb": Run(folder / "dumb", ("--fast",), {"TERM": "dumb"}, terminal=True),
        "ascii": Run(folder / "ascii", ("--fast",), {"PYTHONIOENCODING": "ascii"}),
    }
    with ThreadPoolExecutor(max_workers=3) as pool:
        started = {
            name: pool.submit(run.play) for name, run in sorted(wanted.items(), key=lambda item: item[0] != "lie")
        }
        return {name: future.result() for name, future in started.items()}


def assert_order(screen: str, *expected: str) -> None:
    words = " ".join(screen.split())
    at = 0
    for text in expected:
        found = words.find(text, at)
        assert found >= 0, f"{text!r} is not after {words[:at][-60:]!r} in:\n{screen}"
        at = found + len(text)


def test_a_failing_test_is_mended_before_your_eyes(runs: dict[str, Run]) -> None:
    run = runs["normal"]
    assert_order(
        run.screen,
        "The model in this demo is a script; everything else is real.",
        "AssertionError: -1 != 5",
        "FAILED (failures=1)",
        f"you {script.QUESTION}",
        "Let me see what is here.",
        "List files in .",
        "Read test_calc.py",
        "Read calc.py",
        "You want it small",
        "Edit calc.py",
        "calc.py, waiting for your review",
        "6 - return a - b 6 + return a + b",
        "you accept",
        "Landed in calc.py, line 6, and saved.",
        "Ran 1 test",
        "OK",
        "Done.",
        "The test failed before and passes now",
        "DEEPSEEK_API_KEY",
    )
    # The steer is sent while the first tool runs; which step takes it is a matter of milliseconds.
    assert_order(run.screen, "List files in .", f"you {script.STEER}", "You want it small")
    assert run.code == 0
    assert run.seconds < 15  # it is played beside others here; alone it takes less than two


def test_the_transcript_in_the_documentation_is_what_is_shown(runs: dict[str, Run]) -> None:
    recorded = Path(__file__).parents[2] / "docs" / "demo.txt"
    assert words_of(recorded.read_text(encoding="utf-8")) == words_of(runs["normal"].screen)


def words_of(screen: str) -> list[str]:
    """Sorted, for the steer's place may differ, and without times."""
    return sorted(re.sub(r"in \d\.\d+s", "", screen).split())


def test_a_rejected_edit_leaves_the_test_failing_and_is_what_was_asked_for(runs: dict[str, Run]) -> None:
    run = runs["reject"]
    assert_order(
        run.screen,
        "you reject: ",
        "Rejected; calc.py is not touched.",
        "FAILED (failures=1)",
        "You said: ",
        "the test still fails.",
    )
    assert "Landed" not in run.screen
    assert run.code == 0


def test_an_editor_that_lies_is_not_believed(runs: dict[str, Run]) -> None:
    run = runs["lie"]
    assert_order(
        run.screen,
        "you accept",
        "The editor says that it applied it.",
        "Not confirmed",
        "FAILED (failures=1)",
        "! calc.py: NOT CONFIRMED: ",
        "I read the file again.",
        "calc.py still says `return a - b`",
        "the edit is not confirmed; the test still fails.",
    )
    assert "Landed" not in run.screen
    assert "passes now" not in run.screen
    assert run.code == 1


@pytest.mark.parametrize("name", ["normal", "reject", "lie", "no colour", "dumb", "ascii"])
def test_escape_codes_go_only_to_a_terminal_that_wants_them(runs: dict[str, Run], name: str) -> None:
    assert "\x1b" not in runs[name].screen
    assert "(A failing test" in runs[name].screen  # thinking is told apart without a colour, too


def test_a_terminal_sees_thinking_dimmed_and_the_diff_coloured(runs: dict[str, Run]) -> None:
    screen = runs["terminal"].screen
    assert f"{ESCAPE}31m - " in screen
    assert f"{ESCAPE}32m + " in screen
    assert f"{ESCAPE}2mA{ESCAPE}0m" in screen
    assert screen.count(ESCAPE) % 2 == 0  # each colour is taken back
    assert runs["terminal"].code == 0


def test_an_old_pipe_gets_what_it_can_take(runs: dict[str, Run]) -> None:
    assert runs["ascii"].code == 0
    assert runs["ascii"].screen.isascii()


@pytest.mark.parametrize("name", ["normal", "reject", "lie", "terminal"])
def test_no_file_and_no_process_stays_behind(runs: dict[str, Run], name: str) -> None:
    assert runs[name].left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    run = Run(tmp_path / "temporary", ())
    with run.start(stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        while "List files" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)  # at once: on a loaded machine the demo is soon over
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert errors == ""
    assert run.left_behind() == []


def test_a_reader_who_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    run = Run(tmp_path / "temporary", ("--fast",))
    with run.start(stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.wait(15)
    assert process.returncode == 141
    assert errors == ""
    assert run.left_behind() == []


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ((sys.executable, "-c", "raise SystemExit('no such luck')"), "ended with code 1: no such luck"),
        ((sys.executable, "-c", "print('hello', flush=True)"), "ended with code 0"),
        (("/no/such/server",), "No such file"),
    ],
)
def test_a_server_that_does_not_start_gives_one_line(
    capsys: pytest.CaptureFixture[str], server: tuple[str, ...], told: str
) -> None:
    assert run_demo(rejects=False, fast=True, server=server) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("dsh-lsp demo: the server did not start: ")
    assert told in errors
    assert errors.count("\n") == 1


# The script, in a project of the user's own


@pytest.fixture
def own_project(tmp_path: Path) -> Iterator[RawClient]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").write_text("print('mine')\n")
    with RawClient.start(["-m", "dsh_lsp", "serve"]) as client:
        options = {"model": {"provider": "demo", "name": script.FAST_MODEL}, "sessions": {"directory": str(tmp_path)}}
        client.initialize({"experimental": {"dsh": {"version": 1}}}, options, rootUri=project.as_uri())
        yield client
        client.close()


def test_in_a_project_of_your_own_the_script_says_that_it_is_one(own_project: RawClient) -> None:
    for words in ("Mend my program.", "Please?", script.QUESTION):
        reply = own_project.command("dsh.followup", {"text": words, "wait": True})
        assert reply["result"]["text"] == script.SORRY, words
        assert reply["result"]["reason"]["kind"] == "completed"


# The screen


def screen_of(width: int = 60) -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    return Screen(out, width=width, colours=False), out


def test_streamed_words_wrap_whole_wherever_the_pieces_are_cut() -> None:
    text = "Some words that are long enough to need a second line, and even a third one, to be shown whole."
    whole, expected = screen_of(50)
    whole.stream("text", text)
    whole.close()
    for size in range(1, 9):
        screen, out = screen_of(50)
        for start in range(0, len(text), size):
            screen.stream("text", text[start : start + size])
        screen.close()
        assert out.getvalue() == expected.getvalue()
    lines = expected.getvalue().splitlines()
    assert max(map(len, lines)) <= 50
    assert " ".join(" ".join(lines).removeprefix("dsh").split()) == text


def test_a_diff_shows_both_numbers_and_what_it_leaves_out() -> None:
    before = "".join(f"line {number}\n" for number in range(1, 21))
    after = before.replace("line 3\n", "").replace("line 18\n", "LINE 18\nand more\n")
    lines = list(diff_lines(before, after, context=1))
    assert lines == [
        DiffLine(number=2, sign=" ", text="line 2"),
        DiffLine(number=3, sign="-", text="line 3"),
        DiffLine(number=3, sign=" ", text="line 4"),
        None,
        DiffLine(number=16, sign=" ", text="line 17"),
        DiffLine(number=18, sign="-", text="line 18"),
        DiffLine(number=17, sign="+", text="LINE 18"),
        DiffLine(number=18, sign="+", text="and more"),
        DiffLine(number=19, sign=" ", text="line 19"),
    ]
