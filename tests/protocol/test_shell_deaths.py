"""Shell deaths: whatever ends a command, the editor or the server, nothing that the command started lives on.

Its processes ignore SIGTERM, move to sessions of their own, and drop their environment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.protocol.test_deaths import DEATHS, GONE_S, Stage, _event_type, _runs
from tests.support.model_server import FakeModelServer, answer

PROCESSES = 4

COMMAND = r"""
trap '' TERM HUP INT
echo $$ >> pids
stubborn='trap "" TERM HUP; echo $$ >> pids; while :; do sleep 1; done'
(setsid sh -c "$stubborn" &)
(env -i PATH="$PATH" setsid sh -c "$stubborn" &)
sh -c "$stubborn" | cat > /dev/null &
while :; do echo busy; sleep 1; done
"""


def running(stage: Stage) -> list[int]:
    """Let the agent run the command; the processes that it started."""
    stage.model.script(answer("", calls=[("shell", {"command": COMMAND})]), answer("Done."))
    stage.say("Run it.")
    asked = stage.client.wait_for(lambda message: _event_type(message) == "approval/asked", what="approval/asked")
    approval = asked["params"]["value"]["data"]["id"]
    stage.client.command("dsh.approve", {"approval": approval, "decision": "allowOnce"})
    deadline = time.monotonic() + 10
    while len(pids := pids_of(stage)) < PROCESSES:
        assert time.monotonic() < deadline, f"the command has not started: {pids}"
        time.sleep(0.02)
    return pids


def pids_of(stage: Stage) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(line) for line in (stage.root / "pids").read_text().split()]
    return []


def cancel(stage: Stage) -> None:
    stage.client.command("dsh.cancel")


def kill_the_server(stage: Stage) -> None:
    os.kill(stage.server, signal.SIGKILL)


ENDS: dict[str, tuple[str, Callable[[Stage], None]]] = {
    name: DEATHS[name][:2]
    for name in ("the editor is killed", "the editor is killed and a sibling holds the pipes", "shutdown")
} | {"the turn is cancelled": ("test", cancel), "the server is killed": ("alone", kill_the_server)}


@pytest.mark.skipif(sys.platform != "linux", reason="finds those that dropped their environment by their parents")
@pytest.mark.parametrize("end", ENDS)
def test_nothing_that_a_command_started_survives(tmp_path: Path, model: FakeModelServer, end: str) -> None:
    editor, act = ENDS[end]
    stage = Stage(tmp_path, model, editor)
    with stage.client:
        pids: list[int] = []
        try:
            pids = running(stage)
            act(stage)
            deadline = time.monotonic() + GONE_S
            while alive := [pid for pid in pids if _runs(pid)]:
                assert time.monotonic() < deadline, f"still there: {alive}"
                time.sleep(0.02)
        finally:
            for pid in filter(None, (stage.sibling, stage.server if stage.between else 0, *pids)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
