"""`$/cancelRequest` on the real server: it cancels questions and awaited turns, never an input that was taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsh_lsp.events import TurnEnd
from dsh_lsp.messages import UserMessage
from dsh_lsp.session.loading import load_session
from tests.support.model_server import FakeModelServer, Gate, answer
from tests.support.raw_client import RawClient


@pytest.fixture
def client(model: FakeModelServer, tmp_path: Path) -> Iterator[RawClient]:
    with RawClient.start_agent(tmp_path, model_url=model.url) as started:
        started.on_request("window/workDoneProgress/create", lambda _params: None)
        yield started


def logged(state: Path) -> list[Any]:
    (path,) = (state / "sessions").glob("*.jsonl")
    return [event.data for event in load_session(path).log]


def cancel_at_once(client: RawClient, command: str, argument: dict[str, Any]) -> dict[str, Any]:
    message_id = client.post_command(command, argument)
    client.notify("$/cancelRequest", {"id": message_id})
    return client.reply(message_id)


def test_cancelling_an_awaited_followup_cancels_its_turn(client, model, tmp_path) -> None:
    model.script(answer("A long answer.").before(Gate()))
    waiting = client.post_command("dsh.followup", {"text": "Go.", "wait": True})
    model.wait_for_requests(1)
    client.notify("$/cancelRequest", {"id": waiting})
    assert client.reply(waiting, timeout_s=2)["error"]["code"] == -32800
    client.wait_for(is_event("turn/end"), timeout_s=5)
    assert client.command("dsh.status")["result"]["state"] == "idle"
    assert client.close() == 0
    (end,) = (data for data in logged(tmp_path) if isinstance(data, TurnEnd))
    assert end.reason.kind == "aborted"
    assert end.reason.reason.kind == "user"


def test_cancelling_the_progress_cancels_the_turn_without_a_complaint(client, model, tmp_path) -> None:
    model.script(answer("A long answer.").before(Gate()))
    client.command("dsh.followup", {"text": "Go."})
    begun = client.wait_for(lambda message: ((message.get("params") or {}).get("value") or {}).get("kind") == "begin")
    for token in ("stranger", begun["params"]["token"]):
        client.notify("window/workDoneProgress/cancel", {"token": token})
    client.wait_for(is_event("turn/end"), timeout_s=5)
    assert client.close() == 0
    (end,) = (data for data in logged(tmp_path) if isinstance(data, TurnEnd))
    assert end.reason.kind == "aborted"
    assert client.stderr == ""


@pytest.mark.parametrize("command", ["dsh.followup", "dsh.steer", "dsh.inject"])
def test_an_input_that_was_taken_is_answered_though_it_is_cancelled(client, model, tmp_path, command: str) -> None:
    model.script(answer("One."))
    reply = cancel_at_once(client, command, {"text": "Go."})
    assert set(reply["result"]) == {"session", "message"}
    if command != "dsh.inject":
        client.wait_for(is_event("turn/end"))
    assert client.close() == 0
    ends = [data.reason.kind for data in logged(tmp_path) if isinstance(data, TurnEnd)]
    assert ends == ([] if command == "dsh.inject" else ["completed"])


def test_inputs_that_are_cancelled_while_others_are_written_are_answered_too(client, model, tmp_path) -> None:
    model.script(answer("One."), *[answer("More.")] * 20)
    posted = []
    for number in range(20):
        message_id = client.post_command("dsh.inject", {"text": f"Word {number}."})
        client.notify("$/cancelRequest", {"id": message_id})
        posted.append(message_id)
    replies = [client.reply(message_id) for message_id in posted]
    client.command("dsh.followup", {"text": "Go.", "wait": True})
    assert client.close() == 0
    taken = [data.content[0].text for data in logged(tmp_path) if isinstance(data, UserMessage)]
    assert [f"Word {number}." in str(taken) for number in range(20)] == [True] * 20
    assert [reply.get("error") for reply in replies] == [None] * 20


def is_event(tag: str) -> Any:
    def matches(message: dict[str, Any]) -> bool:
        value = (message.get("params") or {}).get("value") if message.get("method") == "$/progress" else None
        return isinstance(value, dict) and value.get("type") == tag

    return matches
