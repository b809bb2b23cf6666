"""Work-done progress: one begin, one end, and only where the client agreed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dsh_lsp.errors import EditorError
from dsh_lsp.lsp.progress import TurnProgress
from tests.e2e.desk import wait_for
from tests.support.model_server import FakeModelServer, answer
from tests.support.raw_client import NO_ANSWER, RawClient, Refusal


class RecordingClient:
    """A client that answers `create` when it is told to."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.values: list[tuple[str, dict[str, Any]]] = []
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def request(self, method: str, params: dict[str, Any], *, timeout_s: float | None) -> Any:
        assert method == "window/workDoneProgress/create"
        assert timeout_s is not None
        self.created.append(params["token"])
        return await self.answer

    def notify(self, method: str, params: Any | None = None) -> None:
        assert method == "$/progress"
        assert params is not None
        self.values.append((params["token"], params["value"]))

    @property
    def kinds(self) -> list[str]:
        return [value["kind"] for _, value in self.values]


async def test_nothing_is_sent_before_the_client_agreed_and_the_begin_says_the_latest() -> None:
    client = RecordingClient()
    progress = TurnProgress(client)
    beginning = asyncio.create_task(progress.begin())
    await asyncio.sleep(0)
    progress.report("reading")
    assert client.values == []
    client.answer.set_result(None)
    await beginning
    progress.report("thinking")
    progress.end("done")
    assert client.kinds == ["begin", "report", "end"]
    assert client.values[0][1]["message"] == "reading"
    assert client.values[0][1]["cancellable"]
    assert {token for token, _ in client.values} == {progress.token} == set(client.created)


async def test_nothing_follows_the_end() -> None:
    client = RecordingClient()
    client.answer.set_result(None)
    progress = TurnProgress(client)
    await progress.begin()
    progress.end("done")
    progress.end("again")
    progress.report("late")
    assert client.kinds == ["begin", "end"]


async def test_a_turn_that_is_over_before_the_client_agreed_still_ends_what_it_created() -> None:
    client = RecordingClient()
    progress = TurnProgress(client)
    beginning = asyncio.create_task(progress.begin())
    await asyncio.sleep(0)
    progress.end("done")
    client.answer.set_result(None)
    await beginning
    assert client.kinds == ["begin", "end"]


async def test_a_client_that_refuses_sees_no_progress() -> None:
    client = RecordingClient()
    client.answer.set_exception(EditorError("no", code="EDITOR_REFUSED"))
    progress = TurnProgress(client)
    await progress.begin()
    progress.report("reading")
    progress.end("done")
    assert client.values == []


async def test_every_turn_has_a_token_of_its_own() -> None:
    assert len({TurnProgress(RecordingClient()).token for _ in range(100)}) == 100


def progress_of(client: RawClient) -> list[tuple[str, str]]:
    values = [params for params in client.notifications("$/progress") if params["token"] != "events"]
    return [(params["token"], params["value"]["kind"]) for params in values]


def creates(client: RawClient) -> list[str]:
    return [m["params"]["token"] for m in client.messages if m.get("method") == "window/workDoneProgress/create"]


def test_over_the_wire_each_turn_creates_begins_and_ends_one(tmp_path) -> None:
    with (
        FakeModelServer(answer("one"), answer("two")) as model,
        RawClient.start_agent(tmp_path, model_url=model.url) as client,
    ):
        client.on_request("window/workDoneProgress/create", lambda _params: None)
        for text in ("first", "second"):
            client.command("dsh.followup", {"text": text, "wait": True})
        wait_for(lambda: [kind for _, kind in progress_of(client)].count("end") == 2, "both have ended")
        seen = progress_of(client)
        assert [kind for _, kind in seen if kind != "report"] == ["begin", "end"] * 2
        assert len(set(creates(client))) == 2
        assert {token for token, _ in seen} == set(creates(client))
        assert client.close() == 0


@pytest.mark.parametrize("manner", ["no capability", "refuses", "silent"])
def test_over_the_wire_a_client_without_progress_gets_none(tmp_path, manner: str) -> None:
    def refuse(_params: Any) -> Any:
        if manner == "silent":
            return NO_ANSWER
        raise Refusal(-32601, "no")

    capabilities = {} if manner == "no capability" else {"window": {"workDoneProgress": True}}
    with (
        FakeModelServer(answer("one")) as model,
        RawClient.start_agent(tmp_path, model_url=model.url, capabilities=capabilities) as client,
    ):
        client.on_request("window/workDoneProgress/create", refuse)
        result = client.command("dsh.followup", {"text": "first", "wait": True})["result"]
        assert result["text"] == "one"
        assert progress_of(client) == []
        assert bool(creates(client)) is (manner != "no capability")
        assert client.close() == 0
