"""Run and show: one prompt without an editor, and what is left of it, in processes of their own."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dsh_lsp.__main__ import main
from dsh_lsp.llm import demo_script as script
from tests.support.model_server import FakeModelServer, Gate, Reply, Request, answer, refusal

KEY = "sk-test-0123456789abcdef"
RAW = b"\xef\xbb\xbfone\r\ntwo \xf0\x9f\x90\x8d\r\nthree"
EDIT = ("edit_file", {"path": "a.txt", "old_text": "two", "new_text": "2"})


@dataclass
class Place:
    """A project, a folder for sessions, and a model."""

    folder: Path
    server: FakeModelServer
    env: dict[str, str] = field(default_factory=lambda: {"MY_KEY": KEY})

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def sessions(self) -> Path:
        return self.folder / "sessions"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "dsh_lsp", *arguments, "--sessions", str(self.sessions)]

    def run_command(self, *arguments: str) -> list[str]:
        where = ("--directory", str(self.project), "--settings", str(self.folder / "settings.json"))
        return self.command("run", "Mend it.", *where, *arguments)

    def environ(self) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if key != "DEEPSEEK_API_KEY"}
        return {**env, "TERM": "dumb", "XDG_STATE_HOME": str(self.folder / "state"), **self.env}

    def do(self, command: list[str], *, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command whose input is empty, or what a pipe brings."""
        return subprocess.run(
            command, env=self.environ(), input=typed or "", capture_output=True, text=True, timeout=30, check=False
        )

    def on_terminal(self, command: list[str], *answers: tuple[str, str]) -> tuple[str, int]:
        """Run a command on a terminal; each answer is typed, or ^C sent, once its words are there."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, env=self.environ(), stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            screen, waiting = "", list(answers)
            try:
                while piece := os.read(ours, 65536):
                    screen += piece.decode(errors="replace")
                    if waiting and waiting[0][0] in screen.rpartition("\0")[2]:
                        typed = waiting.pop(0)[1]
                        if typed == "^C":  # not by the terminal, which would have to be its controlling one
                            process.send_signal(signal.SIGINT)
                        else:
                            os.write(ours, typed.encode())
                        screen += "\0"  # what was answered is not looked at again
            except OSError:  # Linux says so when the other side is closed
                pass
            finally:
                if waiting:  # it will never hear what it waits for
                    process.kill()
            code = process.wait(10)
        os.close(ours)
        assert not waiting, screen
        return screen.replace("\0", ""), code

    def log(self) -> list[dict[str, Any]]:
        (path,) = self.sessions.glob("*.jsonl")
        return [json.loads(line) for line in path.read_bytes().splitlines()]

    def outcomes(self) -> list[str]:
        return [
            hunk["outcome"] for row in self.log() if row["type"] == "review/decided" for hunk in row["data"]["hunks"]
        ]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    servers: list[FakeModelServer] = []

    def make(*replies: Reply | Callable[[Request], Reply]) -> Place:
        server = FakeModelServer(*replies)
        servers.append(server)
        server.__enter__()
        made = Place(tmp_path, server)
        made.project.mkdir()
        (made.project / "a.txt").write_bytes(RAW)
        settings = {"model": {"baseUrl": server.url, "apiKeyEnv": "MY_KEY", "name": "fake"}}
        (tmp_path / "settings.json").write_text(json.dumps(settings))
        return made

    yield make
    for server in servers:
        server.stop()


def assert_order(screen: str, *expected: str) -> None:
    words, at = " ".join(screen.split()), 0
    for text in expected:
        found = words.find(text, at)
        assert found >= 0, f"{text!r} is not after {words[:at][-60:]!r} in:\n{screen}"
        at = found + len(text)


def test_accepted_edits_land_byte_for_byte_and_the_log_and_show_tell_of_them(
    place: Callable[..., Place], capsys: pytest.CaptureFixture[str]
) -> None:
    here = place(answer("I see.", reasoning="Hm.", calls=[EDIT]), answer("Done."))
    done = here.do(here.run_command("--yes"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (here.project / "a.txt").read_bytes() == RAW.replace(b"two", b"2")
    assert_order(done.stdout, "you Mend it.", "dsh (Hm.)", "I see.", "Edit a.txt")
    assert_order(done.stdout, "2 - two", "2 + 2", "Saved in a.txt.", "dsh Done.", "dsh-lsp show")
    assert here.outcomes() == ["landed"]

    session = here.log()[0]["id"]
    shown = here.do(here.command("show", "last"))
    assert_order(shown.stdout, "# Mend it.", session, "**You:** Mend it.", "> Hm.", "edit_file", "landed", "Done.")
    assert main(["show", session, "--model", "--sessions", str(here.sessions)]) == 0
    model = capsys.readouterr().out
    assert_order(model, '"model":"fake"', "tool edit_file", "=== system", "=== user Mend it.", "calls edit_file")
    assert_order(model, "=== result of", "is in the document", "=== assistant Done.")
    assert main(["show", session[:8], "--json", "--sessions", str(here.sessions)]) == 0
    view = json.loads(capsys.readouterr().out)
    assert [turn["ended"] for turn in view["turns"]] == ["completed"]
    everything = done.stdout + shown.stdout + model + json.dumps(here.log())
    assert KEY not in everything
    assert KEY in here.server.requests[0].headers["authorization"]


def test_a_person_at_a_terminal_decides_on_each_edit(place: Callable[..., Place]) -> None:
    new = ("write_file", {"path": "b.txt", "content": "x\n"})
    here = place(answer(calls=[EDIT]), answer(calls=[new]), answer("Done."))
    screen, code = here.on_terminal(
        here.run_command(), ("Accept?", "what\n"), ("Accept?", "y\n"), ("Accept?", "n no\n")
    )
    assert code == 0
    assert here.outcomes() == ["landed", "rejected"]
    assert (here.project / "a.txt").read_bytes() == RAW.replace(b"two", b"2")
    assert not (here.project / "b.txt").exists()
    assert_order(screen, "a.txt, an edit", "y", "Saved", "b.txt, a new file", "n no", "Rejected; b.txt")
    assert "They said: no" in json.dumps(here.server.requests[2].body)


@pytest.mark.parametrize(("typed", "outcome"), [("", "rejected"), ("y\n", "landed"), ("q\n", "rejected")])
def test_without_a_terminal_an_edit_needs_a_word_and_silence_rejects(
    place: Callable[..., Place], typed: str, outcome: str
) -> None:
    here = place(answer(calls=[EDIT]), answer("Done."))
    done = here.do(here.run_command(), typed=typed)
    assert (done.returncode, here.outcomes()) == (0, [outcome])
    assert ((here.project / "a.txt").read_bytes() == RAW) == (outcome == "rejected")


def test_the_rows_on_standard_output_are_those_of_the_log_without_chunks(place: Callable[..., Place]) -> None:
    here = place(answer("I see.", calls=[EDIT]), answer("Done."))
    done = here.do(here.run_command("--yes", "--json"))
    assert done.returncode == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows == [row for row in here.log() if "chunk" not in row["type"]]
    assert [rows[0]["type"], rows[-1]["type"]] == ["session", "turn/end"]
    assert "a.txt, an edit" in done.stderr


def test_what_reaches_further_is_refused_without_a_terminal_and_asked_for_at_one(place: Callable[..., Place]) -> None:
    outside = answer(calls=[("read_file", {"path": "../secret.txt"})])
    here = place(outside, answer("Done."), outside, answer("Done."))
    (here.folder / "secret.txt").write_text("the secret")
    done = here.do(here.run_command("--yes"), typed="y\n")
    assert_order(done.stdout, "May read_file run?", "outside the workspace:", "secret.txt", "Refused")
    assert "the secret" not in json.dumps(here.server.requests[1].body)
    screen, code = here.on_terminal(here.run_command("--yes"), ("Allow?", "y\n"))
    assert code == 0
    assert "the secret" in json.dumps(here.server.requests[3].body), screen


def test_a_question_is_answered_at_the_terminal_and_nowhere_else(place: Callable[..., Place]) -> None:
    ask = ("ask", {"question": "Which one?", "options": ["this", "that"], "free_text": False})
    here = place(answer(calls=[ask]), answer("Fine."), answer(calls=[ask]), answer("Fine."))
    done = here.do(here.run_command("--yes"))
    assert_order(done.stdout, "Which one?", "[1] this", "Not answered")
    assert "nobody can be asked" in json.dumps(here.server.requests[1].body)
    screen, code = here.on_terminal(here.run_command("--yes"), ("from 1 to 2", "3\n"), ("from 1 to 2", "2\n"))
    assert code == 0
    assert "The user answered: that" in json.dumps(here.server.requests[3].body), screen


@pytest.mark.parametrize("key", [KEY, None])
def test_a_key_that_is_missing_or_refused_is_named(place: Callable[..., Place], key: str | None) -> None:
    here = place(refusal(401, {"error": {"message": f"Your key {KEY} is invalid", "type": "authentication_error"}}))
    here.env = {"MY_KEY": key} if key else {}
    done = here.do(here.run_command())
    assert done.returncode == 1
    assert done.stderr.startswith("dsh-lsp run: ")
    assert done.stderr.count("\n") == 1
    assert "MY_KEY" in done.stderr
    assert KEY not in done.stdout + done.stderr
    assert key or not list(here.sessions.glob("*")), "what is refused at once leaves nothing"


def test_ctrl_c_cancels_the_turn_and_the_log_is_whole(place: Callable[..., Place]) -> None:
    whole = answer("This is an answer that never ends.")
    here = place(Reply(packets=(*whole.packets[:4], Gate())))
    with subprocess.Popen(
        here.run_command(), env=here.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        screen = ""
        while "This is" not in screen and (piece := process.stdout.read(1)):
            screen += piece
        assert "This is" in screen
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (130, "dsh-lsp run: cancelled\n")
    rows = here.log()
    assert (rows[-1]["type"], rows[-1]["data"]["reason"]["kind"]) == ("turn/end", "aborted")
    assert_order(here.do(here.command("show", "last")).stdout, "This is", "(cut short)", "ended as aborted")


def test_ctrl_c_at_a_question_writes_nothing(place: Callable[..., Place]) -> None:
    here = place(answer(calls=[EDIT]))
    screen, code = here.on_terminal(here.run_command(), ("Accept?", "^C"))
    assert (code, here.outcomes()) == (130, ["cancelled"]), screen
    assert (here.project / "a.txt").read_bytes() == RAW


@pytest.mark.parametrize("question", [script.QUESTION, "Write me a poem."])
def test_the_demo_s_script_plays_and_says_that_it_is_one(place: Callable[..., Place], question: str) -> None:
    here = place()
    for name, text in script.FILES.items():
        (here.project / name).write_text(text)
    route = ("--provider", "demo", "--model", script.FAST_MODEL, "--directory", str(here.project), "--yes")
    done = here.do(here.command("run", question, *route))
    assert done.returncode == 0
    mended = script.NEW in (here.project / "calc.py").read_text()
    assert mended == (question == script.QUESTION)
    assert ("I am the script" in done.stdout) != mended


def test_what_cannot_begin_says_why_in_one_line(
    place: Callable[..., Place], capsys: pytest.CaptureFixture[str]
) -> None:

    here = place()
    (here.folder / "bad.json").write_text('{"limits": {"steps": "many"}}')
    (here.sessions).mkdir()
    (here.sessions / "bad.jsonl").write_text("nothing\n")
    for arguments, code, told in (
        (["run", " "], 2, "the prompt is empty"),
        (["run", "x", "--directory", "/no/such"], 2, "is not a directory"),
        (["run", "x", "--mode", "loud"], 2, "setting mode: "),
        (["run", "x", "--provider", "acme"], 2, "setting model.provider: "),
        (["run", "x", "--settings", "/no/such"], 2, "cannot be read"),
        (["run", "x", "--settings", str(here.folder / "bad.json")], 2, "setting limits.steps: "),
        (["show", "nobody"], 1, "no session nobody"),
        (["show", "/no/such.jsonl"], 1, "no file /no/such.jsonl"),
        (["show", "bad"], 1, "bad.jsonl"),
    ):
        assert main([*arguments, "--sessions", str(here.sessions)]) == code, arguments
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), arguments
        assert err.startswith(f"dsh-lsp {arguments[0]}: ")
        assert told in err
