"""Kills: a server that is killed in any state leaves a session that another one goes on with; one at a time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsh_lsp.session.loading import load_session
from tests.support.model_server import FakeModelServer, Gate, answer
from tests.support.raw_client import NO_ANSWER, RawClient, agent_handshake

READ = answer("", calls=[("read_file", {"path": "calc.py"})])
EDIT = answer("", calls=[("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"})])
OUTSIDE = answer("", calls=[("read_file", {"path": "/etc/hostname"}), ("read_file", {"path": "calc.py"})])
TEXT = "def add(a, b):\n    return a - b\n"


class Desk:
    """A project, its sessions and a model; servers come and go."""

    def __init__(self, folder: Path, model: FakeModelServer) -> None:
        self.root, self.state, self.model = folder / "project", folder / "state", model
        self.root.mkdir()
        (self.root / "calc.py").write_text(TEXT)
        self.accepted: list[str] = []

    def start(self) -> RawClient:
        env = {"XDG_STATE_HOME": str(self.state), "DEEPSEEK_API_KEY": "sk-test-secret"}
        client = RawClient.start(("-m", "dsh_lsp", "serve"), env)
        client.on_request("window/workDoneProgress/create", lambda _params: None)
        client.on_request("workspace/applyEdit", lambda _params: NO_ANSWER)
        client.initialize(**agent_handshake(self.state, self.model.url), rootUri=self.root.as_uri())
        return client

    def say(self, client: RawClient, text: str, command: str = "dsh.followup") -> str:
        result = client.command(command, {"text": text})["result"]
        self.accepted.append(result["message"])
        return str(result["session"])

    def path(self) -> Path:
        (path,) = (self.state / "sessions").glob("*.jsonl")
        return path


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with FakeModelServer() as server:
        yield Desk(tmp_path, server)


def event_of(message: dict[str, Any]) -> dict[str, Any]:
    value = (message.get("params") or {}).get("value") if message.get("method") == "$/progress" else None
    return value if isinstance(value, dict) else {}


def wait_event(client: RawClient, tag: str, after: int = 0) -> None:
    client.wait_for(lambda message: event_of(message).get("type") == tag, what=tag, after=after)


def streaming(desk: Desk, client: RawClient) -> None:
    packets = list(answer("A long answer that never comes to its end.").packets)
    desk.model.script(answer("").before(*packets[:6], Gate()))
    desk.say(client, "Tell me.")
    wait_event(client, "assistant/stream")


def approving(desk: Desk, client: RawClient) -> None:
    desk.model.script(OUTSIDE)
    desk.say(client, "Look there.")
    wait_event(client, "approval/asked")


def reviewing(desk: Desk, client: RawClient) -> None:
    desk.model.script(READ, EDIT)
    desk.say(client, "Mend add.")
    wait_event(client, "review/opened")
    desk.say(client, "And then this.")
    desk.say(client, "By the way.", "dsh.steer")


def busy(requests: int) -> Callable[[Desk, RawClient], None]:
    """Wherever a busy turn is when the model has got so many requests."""

    def state(desk: Desk, client: RawClient) -> None:
        desk.model.script(*[READ] * 200)
        desk.say(client, "Read it again and again.")
        desk.model.wait_for_requests(requests)

    state.__name__ = f"busy with request {requests}"
    return state


STATES = [streaming, approving, reviewing, busy(1), busy(6)]


def complete(messages: list[dict[str, Any]]) -> bool:
    """Whether every call in a request has its result right after it."""
    owed: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            owed.remove(message["tool_call_id"])
        elif owed:
            return False
        owed += [call["id"] for call in message.get("tool_calls") or ()]
    return not owed


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_another_server_goes_on_with_the_session_of_a_killed_one(
    desk: Desk, state: Callable[[Desk, RawClient], None]
) -> None:
    with desk.start() as client:
        state(desk, client)
        os.kill(client.process.pid, signal.SIGKILL)
        client.wait_exit()
    path = desk.path()
    left = path.read_bytes()
    bystander = path.with_name("bystander.jsonl")
    bystander.write_bytes(b'{"type":"session","id":"other"')
    with FakeModelServer(answer("I go on."), *[answer("More.")] * 4) as second_model:
        desk.model = second_model
        with desk.start() as client:
            opened = client.command("dsh.session.open", {"session": path.stem})
            assert "result" in opened, opened
            replayed = len(client.messages)
            desk.say(client, "Go on.")
            wait_event(client, "turn/end", after=replayed)
            assert client.close() == 0
        requests = second_model.requests
        assert requests
        assert all(complete(request.body["messages"]) for request in requests)
    after = path.read_bytes()
    whole = left[: left.rfind(b"\n") + 1]
    assert after.startswith(whole), "nothing is taken back"
    log = load_session(path).log
    assert not log.state.turn_open
    text = path.read_text()
    assert all(message in text for message in desk.accepted)
    assert bystander.read_bytes() == b'{"type":"session","id":"other"'
    assert (desk.root / "calc.py").read_text() == TEXT


def test_a_second_server_waits_for_the_first_one_and_then_names_it(desk: Desk) -> None:
    desk.model.script(answer("Good morning."))
    with desk.start() as first, desk.start() as second:
        session = desk.say(first, "Hello.")
        wait_event(first, "turn/end")
        began = time.monotonic()
        refused = second.command("dsh.session.open", {"session": session}, timeout_s=15)["error"]
        assert 4.5 < time.monotonic() - began < 12
        assert refused["data"]["code"] == "SESSION_LOCKED"
        assert f"process {first.process.pid} (dsh-lsp" in refused["message"]
        assert "result" in second.command("dsh.status", {}), "only this session is refused"
        waiting = second.post_command("dsh.session.open", {"session": session})
        os.kill(first.process.pid, signal.SIGKILL)
        opened = second.reply(waiting)
        assert opened["result"]["summary"]["session"] == session
        assert second.close() == 0


def test_one_bad_log_among_good_ones_is_refused_alone(desk: Desk) -> None:
    desk.model.script(answer("Good morning."))
    with desk.start() as client:
        good = desk.say(client, "Hello.")
        wait_event(client, "turn/end")
        assert client.close() == 0
    lines = desk.path().read_bytes().replace(good.encode(), b"bad").splitlines(keepends=True)
    damaged = b"".join([*lines[:3], b"\0\0\0\n", *lines[4:]])
    bad = desk.path().with_name("bad.jsonl")
    bad.write_bytes(damaged)
    with desk.start() as client:
        listed = client.command("dsh.session.list", {})["result"]["sessions"]
        assert good in str(listed)
        refused = client.command("dsh.session.open", {"session": "bad"})["error"]
        assert refused["data"]["code"] == "LOG_NOT_READABLE"
        assert "line 4 is damaged" in refused["message"]
        assert "result" in client.command("dsh.session.open", {"session": good})
        assert client.close() == 0
    assert bad.read_bytes() == damaged
