"""Clients in turn: a session that was begun in one editor is gone on with in another, of another kind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pygls.exceptions import JsonRpcException

from tests.e2e.story import ACCEPT, CALC, DONE, MEND, MENDED
from tests.support.fake_editor import fake_editor, session_rows
from tests.support.model_server import answer

VSCODE: dict[str, Any] = {
    "profile": "visual_studio_code",
    "client_name": "Visual Studio Code",
    "dsh": {"review": True, "approve": True, "save": True},
}
NEOVIM: dict[str, Any] = {
    "profile": "neovim",
    "client_name": "Neovim",
    "options": {"eventToken": None},
}  # a stock one
READ_OUTSIDE = answer("", calls=[("read_file", {"path": "../secret.txt"})])


@pytest.fixture
def project(project: Path) -> Path:
    (project.parent / "secret.txt").write_text("the secret\n")
    (project / "calc.py").write_text(CALC)
    return project


async def test_a_review_that_waited_in_vs_code_is_closed_with_it_and_its_work_goes_on_in_neovim(
    project, model
) -> None:
    model.script(MEND, MEND, DONE)
    async with fake_editor(project, model_url=model.url, **VSCODE) as editor:
        editor.open("calc.py")
        session = (await editor.command("dsh.followup", {"text": "Mend it."}))["session"]
        opened = (await editor.event("review/opened"))["data"]
        await editor.command("dsh.followup", {"text": "I have moved; mend it now."})
    assert (project / "calc.py").read_text() == CALC, "nobody has accepted it"
    async with fake_editor(project, model_url=model.url, **NEOVIM) as editor:
        editor.open("calc.py")
        summary = (await editor.command("dsh.session.open", {"session": session}))["summary"]
        assert (summary["session"], summary["title"]) == (session, "Mend it.")
        assert await editor.command("dsh.review.list") == {"files": []}
        hunk = opened["files"][0]["hunks"][0]["id"]
        with pytest.raises(JsonRpcException) as refused:
            await editor.command("dsh.review.accept", {"hunks": [hunk]})
        assert refused.value.data["code"] == "NOT_PENDING"
        status = await editor.command("dsh.status")
        assert (status["state"], status["paused"], status["queue"]["nextTurn"]) == ("idle", True, 1)
        await editor.command("dsh.inbox.resume")
        await editor.until(lambda: editor.diagnostics.get(editor.uri("calc.py")))
        await editor.choose("calc.py", 1, ACCEPT)
        await editor.until(lambda: len(model.requests) == 3)
        assert editor.text("calc.py") == MENDED
        told = [message["content"] for message in model.requests[1].body["messages"]]
        assert "I have moved; mend it now." in told
        assert any("cancelled" in text for text in told if text is not None), "what became of the first edit is told"
    rows = [row["data"] for row in session_rows(project) if row["type"] == "review/decided"]
    assert [hunk["outcome"] for row in rows for hunk in row["hunks"]] == ["cancelled", "landed"]


async def test_an_approval_that_waited_in_neovim_is_no_permission_in_vs_code(project, model) -> None:
    model.script(READ_OUTSIDE, READ_OUTSIDE, answer("Thanks."))
    async with fake_editor(project, model_url=model.url, **NEOVIM) as editor:
        editor.open("calc.py")
        session = (await editor.command("dsh.followup", {"text": "Read it."}))["session"]
        async with asyncio.timeout(10):
            while (await editor.command("dsh.status")).get("waitingFor") != "approval":  # noqa: ASYNC110 - it has no events
                await asyncio.sleep(0.02)
    async with fake_editor(project, model_url=model.url, **VSCODE) as editor:
        await editor.command("dsh.session.open", {"session": session})
        first = editor.seen("approval/asked")[0]["data"]
        assert editor.seen("approval/decided")[0]["data"]["outcome"]["kind"] == "cancelled"
        with pytest.raises(JsonRpcException) as refused:
            await editor.command("dsh.approve", {"approval": first["id"], "decision": "allowOnce"})
        assert refused.value.data["code"] == "NOT_PENDING"
        await editor.command("dsh.followup", {"text": "Try again."})
        again = (await editor.event("approval/asked", 2))["data"]
        await editor.command("dsh.approve", {"approval": again["id"], "decision": "allowOnce"})
        await editor.until(lambda: len(editor.seen("turn/end")) == 2)
        assert "the secret" in editor.tool_results[-1]


async def test_a_window_that_opens_while_another_closes_gets_the_session_when_that_has_let_go(project, model) -> None:
    model.script(answer("One."), answer("Two."))
    async with fake_editor(project, model_url=model.url, **NEOVIM) as second:
        async with fake_editor(project, model_url=model.url, **VSCODE) as first:
            session = (await first.command("dsh.followup", {"text": "Hello.", "wait": True}))["session"]
            opening = asyncio.create_task(second.command("dsh.session.open", {"session": session}))
            await asyncio.sleep(0.5)
            assert not opening.done(), "it waits for the one that has it"
            assert (await second.command("dsh.session.list"))["sessions"][0]["session"] == session, "and serves on"
        assert (await opening)["summary"]["session"] == session
        done = await second.command("dsh.followup", {"text": "And here?", "wait": True})
        assert (done["session"], done["text"]) == (session, "Two.")
