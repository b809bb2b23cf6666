"""Deaths: whatever ends the server, in whatever state, it is gone soon and what it acknowledged is on disk."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dsh_lsp.events import TurnEnd, TurnStart
from dsh_lsp.messages import UserMessage
from dsh_lsp.session.loading import load_session
from tests.support.model_server import FakeModelServer, Gate, answer
from tests.support.raw_client import NO_ANSWER, RawClient, agent_handshake

GONE_S = 5.0
MARK = "DSH_TEST_DEATH"
READ = answer("", calls=[("read_file", {"path": "calc.py"})])
EDIT = answer("", calls=[("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"})])

# An editor that owns the server's pipes and passes on what the test says; the sibling only inherits them.
EDITOR = """
import os, subprocess, sys, threading
server = subprocess.Popen([sys.executable, "-m", "dsh_lsp", "serve"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
sibling = 0
if sys.argv[1] == "sibling":
    pipes = server.stdin.fileno(), server.stdout.fileno()
    sibling = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=pipes).pid
print(server.pid, sibling, file=sys.stderr, flush=True)
def copy(source, target):
    while data := os.read(source, 65536):
        os.write(target, data)
threading.Thread(target=copy, args=(server.stdout.fileno(), 1), daemon=True).start()
copy(0, server.stdin.fileno())
"""


class Stage:
    """One server with its project and model, brought into a state; `acknowledged` are the inputs it took."""

    def __init__(self, tmp_path: Path, model: FakeModelServer, editor: str) -> None:
        self.model = model
        self.root, self.state = tmp_path / "project", tmp_path / "state"
        self.root.mkdir()
        (self.root / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        self.mark = f"{MARK}={tmp_path}"
        env = {"XDG_STATE_HOME": str(self.state), "DEEPSEEK_API_KEY": "sk-test-secret", MARK: str(tmp_path)}
        self.between = editor != "test"
        arguments = ("-c", EDITOR, editor) if self.between else ("-m", "dsh_lsp", "serve")
        self.client = RawClient.start(arguments, env)
        self.sibling = 0
        self.server = self.client.process.pid
        if self.between:
            self.server, self.sibling = map(int, self.client.wait_stderr("\n").split())
        self.client.on_request("window/workDoneProgress/create", lambda _params: None)
        self.client.initialize(
            **agent_handshake(self.state, model.url),
            rootUri=self.root.as_uri(),
            processId=self.client.process.pid if self.between else os.getpid(),
        )
        self.acknowledged: list[str] = []

    def say(self, text: str, command: str = "dsh.followup") -> None:
        self.acknowledged.append(self.client.command(command, {"text": text})["result"]["message"])

    def wait_event(self, tag: str) -> None:
        self.client.wait_for(lambda message: _event_type(message) == tag, what=tag)

    def log(self) -> list[Any]:
        (path,) = (self.state / "sessions").glob("*.jsonl")
        return [event.data for event in load_session(path).log]

    def orphans(self) -> list[str]:
        """Processes that carry this stage's mark, without its own helpers."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            if int(entry.name) in (self.client.process.pid, self.sibling):
                continue
            with suppress(OSError):  # it has ended meanwhile
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_text())
        return found


def _event_type(message: dict[str, Any]) -> Any:
    value = (message.get("params") or {}).get("value") if message.get("method") == "$/progress" else None
    return value.get("type") if isinstance(value, dict) else None


# States


def idle(stage: Stage) -> None:
    stage.model.script(answer("Good morning."))
    stage.say("Hello.")
    stage.wait_event("turn/end")


def streaming(stage: Stage) -> None:
    packets = list(answer("A long answer that never comes to its end.").packets)
    gate = Gate()
    held = answer("").before(*packets[:4], gate)
    stage.model.script(held)
    stage.say("Tell me.")
    stage.wait_event("assistant/stream")


def reviewing(stage: Stage) -> None:
    stage.client.on_request("workspace/applyEdit", lambda _params: NO_ANSWER)
    stage.model.script(READ, EDIT)
    stage.say("Mend add.")
    stage.wait_event("review/opened")


def asking(stage: Stage) -> None:
    """A call waits for the user's permission."""
    stage.model.script(answer("", calls=[("read_file", {"path": "../elsewhere.txt"})]))
    stage.say("Read it.")
    stage.wait_event("approval/asked")


def several(stage: Stage) -> None:
    """A review waits, an answer to a `wait: true` is owed, and more input lies in the queue."""
    reviewing(stage)
    stage.client.post_command("dsh.followup", {"text": "And then?", "wait": True})
    stage.say("A second thing.")
    stage.say("By the way.", "dsh.steer")


# Deaths


def kill_the_editor(stage: Stage) -> None:
    stage.client.process.kill()


def close_the_pipes(stage: Stage) -> None:
    stage.client.end_input()


def terminate(stage: Stage) -> None:
    os.kill(stage.server, signal.SIGTERM)


def interrupt(stage: Stage) -> None:
    os.kill(stage.server, signal.SIGINT)


def shut_down(stage: Stage) -> None:
    began = time.monotonic()
    assert stage.client.request("shutdown", timeout_s=4)["result"] is None
    assert time.monotonic() - began < 2.5  # VS Code waits two seconds, and ours took less
    stage.client.notify("exit")


DEATHS: dict[str, tuple[str, Callable[[Stage], None], int | None]] = {
    "the editor is killed": ("alone", kill_the_editor, None),
    "the editor is killed and a sibling holds the pipes": ("sibling", kill_the_editor, None),
    "the pipes are closed": ("test", close_the_pipes, 1),
    "SIGTERM": ("test", terminate, 143),
    "SIGINT": ("test", interrupt, 130),
    "shutdown": ("test", shut_down, 0),
}


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + GONE_S
    while _runs(pid):
        assert time.monotonic() < deadline, f"the server still runs after {GONE_S} s"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    with suppress(OSError):  # where nobody reaps it, the dead keep their number
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="looks for what is left behind in /proc")
@pytest.mark.parametrize("state", [idle, streaming, asking, reviewing, several], ids=lambda state: state.__name__)
@pytest.mark.parametrize("death", DEATHS)
def test_it_is_gone_soon_and_its_log_is_whole(
    tmp_path: Path, model: FakeModelServer, death: str, state: Callable[[Stage], None]
) -> None:
    editor, kill, code = DEATHS[death]
    stage = Stage(tmp_path, model, editor)
    with stage.client:
        try:
            state(stage)
            kill(stage)
            if code is None:
                wait_gone(stage.server)
            else:
                assert stage.client.wait_exit(timeout_s=GONE_S) == code
        finally:
            for pid in filter(None, (stage.sibling, stage.server if stage.between else 0)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    logged = stage.log()
    text = str(logged)
    assert all(message in text for message in stage.acknowledged)
    assert any(isinstance(data, UserMessage) for data in logged)
    turns = [type(data) for data in logged if isinstance(data, TurnStart | TurnEnd)]
    assert turns == [TurnStart, TurnEnd] * (len(turns) // 2)
    assert stage.orphans() == []
