"""Models over the wire: chosen, listed and switched in mid-session, and history made shorter on demand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from tests.support.fake_editor import fake_editor, session_rows
from tests.support.model_server import FakeModelServer, answer, refusal

MODELS = {"data": [{"id": "small", "context_length": 9_000}, {"id": "large"}]}


@pytest.fixture
def project(project: Path) -> Path:
    (project / "a.py").write_text("x = 1\n")
    return project


@pytest.fixture
def model(model: FakeModelServer) -> FakeModelServer:
    model.documents["/models"] = refusal(200, MODELS)
    return model


def compatible(model: FakeModelServer, **more) -> dict:
    return {"model": {"provider": "openai_compatible", "baseUrl": model.url, "name": "small", **more}}


async def test_a_server_on_this_machine_needs_no_key_and_lists_its_models(project, model) -> None:
    model.script(answer("Hi."))
    async with fake_editor(project, options=compatible(model), key=None) as editor:
        done = await editor.command("dsh.followup", {"text": "Hello", "wait": True})
        assert done["text"] == "Hi."
        assert "authorization" not in model.requests[0].headers
        assert await editor.command("dsh.model.list", {}) == {}
        listed = (await editor.event("model/list"))["data"]
        assert [(m["name"], m.get("contextWindow")) for m in listed["models"]] == [("small", 9_000), ("large", None)]
        assert listed["failed"] == []


async def test_a_model_is_switched_in_mid_session_and_its_history_stays_valid(project, model) -> None:
    model.script(
        answer("Reading.", reasoning="why", calls=[("read_file", {"path": "a.py"})]),
        answer("It sets x."),
        answer("Still x."),
    )
    async with fake_editor(project, model_url=model.url, dsh={}) as editor:
        await editor.command("dsh.followup", {"text": "one", "wait": True})
        chosen = {"provider": "deepseek", "name": "deepseek-v4-pro"}
        assert await editor.command("dsh.model.set", chosen) == chosen
        assert (await editor.command("dsh.status"))["model"] == chosen
        assert (await editor.event("model/selected"))["data"] == chosen
        await editor.command("dsh.followup", {"text": "two", "wait": True})
        assert [r.body["model"] for r in model.requests] == ["deepseek-flash"] * 2 + ["deepseek-v4-pro"]
        with pytest.raises(JsonRpcException, match="baseUrl"):
            await editor.command("dsh.model.set", {"provider": "openai_compatible", "name": "m"})
        with pytest.raises(JsonRpcException, match="provider"):
            await editor.command("dsh.model.set", {"provider": "nobody", "name": "m"})
        session = (await editor.command("dsh.status"))["session"]
    # another provider, in another life of the session
    model.script(answer("Over here."))
    options = {**compatible(model), "sessions": {"directory": str(project.parent / "project-state")}}
    async with fake_editor(project, options=options) as editor:
        await editor.command("dsh.session.open", {"session": session})
        await editor.command("dsh.model.set", {"provider": "openai_compatible", "name": "small"})
        await editor.command("dsh.followup", {"text": "three", "wait": True})
        body = model.requests[-1].body
        assert body["model"] == "small"
        assert not any("reasoning_content" in message for message in body["messages"])
        roles = [message["role"] for message in body["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "user"]
        assert "thinking" not in body


async def test_a_conversation_is_made_shorter_when_its_user_asks(project, model) -> None:
    long = "word " * 400
    model.script(*(answer(long) for _ in range(3)), answer("In short."), answer("Yes."))
    async with fake_editor(project, model_url=model.url, dsh={}) as editor:
        for text in ("one", "two", "three"):
            await editor.command("dsh.followup", {"text": text, "wait": True})
        before = (await editor.command("dsh.status"))["usage"]["contextTokens"]
        assert await editor.command("dsh.compact", {}) == {}
        done = (await editor.event("compact/done"))["data"]
        assert done["ok"]
        assert done["after"] < done["before"] == before
        assert "compacting" in [status["state"] for status in editor.statuses]
        status = await editor.command("dsh.status")
        assert (status["state"], status["usage"]["contextTokens"]) == ("idle", done["after"])
        await editor.command("dsh.followup", {"text": "four", "wait": True})
        first, *_ = [m for m in model.requests[-1].body["messages"] if m["role"] == "user"]
        assert "In short." in first["content"]
        await editor.until(lambda: session_rows(project)[-1]["type"] == "turn/end")
