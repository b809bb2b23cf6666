"""Approvals over the wire: nothing but an answer allows, and nothing that a user types is taken for one."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.support.fake_editor import fake_editor, session_rows
from tests.support.model_server import answer

READ_OUTSIDE = answer("", calls=[("read_file", {"path": "../secret.txt"})])


@pytest.fixture
def project(project: Path) -> Path:
    (project.parent / "secret.txt").write_text("the secret\n")
    (project / "calc.py").write_text("x = 1\n")
    return project


async def ask(editor) -> str:
    await editor.command("dsh.followup", {"text": "Read it."})
    asked = await editor.event("approval/asked")
    return asked["data"]["id"]


def assert_is_on_the_page(status: dict[str, Any]) -> None:
    """A status has every key that `docs/protocol.md` promises, and no other."""
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    (shape,) = re.findall(r"^`dsh/status` \(to [^)]*\): `(\{.*?\})`", page, re.MULTILINE | re.DOTALL)
    written = re.findall(r"(\w+)(\??)(?=\s*[:,}])", re.sub(r'"\w+"', "", shape))
    keys = {*status, *(key for value in status.values() if isinstance(value, dict) for key in value)}
    assert {key for key, may_lack in written if not may_lack} <= keys <= {key for key, _ in written}


async def test_an_approval_is_given_by_the_command_alone(project, model) -> None:
    model.script(READ_OUTSIDE, answer("Thanks."))
    async with fake_editor(project, model_url=model.url) as editor:
        approval = await ask(editor)
        asked = editor.seen("approval/asked")[0]["data"]
        assert [effect["kind"] for effect in asked["effects"]] == ["outside"]
        status = await editor.command("dsh.status")
        assert (status["state"], status["waitingFor"]) == ("waiting", "approval")
        assert_is_on_the_page(status)
        assert not editor.seen("tool/result")
        await editor.command("dsh.approve", {"approval": approval, "decision": "allowOnce"})
        await editor.event("turn/end")
        assert "the secret" in editor.tool_results[0]
        assert editor.seen("approval/decided")[0]["data"] == {
            "id": approval,
            "outcome": {"kind": "allowedOnce", "grantKeys": []},
        }


async def test_a_rejection_and_its_comment_reach_the_model(project, model) -> None:
    model.script(READ_OUTSIDE, answer("Fine."))
    async with fake_editor(project, model_url=model.url) as editor:
        approval = await ask(editor)
        await editor.command("dsh.approve", {"approval": approval, "decision": "reject", "comment": "Private."})
        await editor.event("turn/end")
        assert "the user rejected" in editor.tool_results[0]
        assert "Private." in editor.tool_results[0]
        assert "the secret" not in str(model.requests[1].body)


async def test_what_was_allowed_for_the_session_is_not_asked_again_and_nothing_else_is_covered(
    project, model
) -> None:
    other = answer("", calls=[("read_file", {"path": "../other.txt"})])
    (project.parent / "other.txt").write_text("other\n")
    model.script(READ_OUTSIDE, READ_OUTSIDE, other, answer("Done."))
    async with fake_editor(project, model_url=model.url) as editor:
        approval = await ask(editor)
        await editor.command("dsh.approve", {"approval": approval, "decision": "allowSession"})
        second = await editor.event("approval/asked", 2)
        assert second["data"]["effects"][0]["detail"].endswith("other.txt")
        assert len(editor.tool_results) == 2
        await editor.command("dsh.approve", {"approval": second["data"]["id"], "decision": "reject"})
        await editor.event("turn/end")


async def test_a_client_of_ours_shows_the_question_itself(project, model) -> None:
    model.script(READ_OUTSIDE, answer("Thanks."))
    async with fake_editor(project, model_url=model.url, dsh={"approve": True}) as editor:
        shown = []
        editor.client.feature("dsh/approve")(lambda params: shown.append(params) or {"shown": True})
        approval = await ask(editor)
        await editor.until(lambda: shown)
        assert shown[0].approval == approval
        assert shown[0].tool == "read_file"
        assert "secret.txt" in shown[0].detail
        await editor.command("dsh.approve", {"approval": approval, "decision": "allowOnce"})
        await editor.event("turn/end")
        assert await editor.until(lambda: editor.statuses[-1]["state"] == "idle")


async def test_an_unknown_client_gets_no_prompt_until_its_user_asks_for_one(project, model) -> None:
    model.script(READ_OUTSIDE, answer("Thanks."))
    async with fake_editor(project, model_url=model.url) as editor:
        prompts = []

        @editor.client.feature("window/showMessageRequest")
        def prompt(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
            prompts.append([action.title for action in params.actions or []])
            return types.MessageActionItem(title="Allow") if len(prompts) > 1 else None

        editor.open("calc.py")
        approval = await ask(editor)
        await asyncio.sleep(0.3)
        assert prompts == []
        await editor.command("dsh.approve", {"approval": approval})
        await editor.until(lambda: prompts)
        assert prompts[0][0] == "Later"
        assert prompts[0][-1] == "Allow"
        assert not editor.seen("approval/decided"), "no answer means later"
        await editor.command("dsh.approve", {"approval": approval})
        await editor.event("turn/end")
        assert "the secret" in editor.tool_results[0]


async def test_a_client_that_is_not_modal_is_asked_once_nobody_types(project, model) -> None:
    model.script(READ_OUTSIDE, answer("Thanks."))
    async with fake_editor(project, model_url=model.url, client_name="Visual Studio Code") as editor:
        prompted_at: list[float] = []
        loop = asyncio.get_running_loop()
        typed_at = [loop.time()]

        @editor.client.feature("window/showMessageRequest")
        def prompt(params: types.ShowMessageRequestParams) -> types.MessageActionItem:
            prompted_at.append(loop.time())
            return types.MessageActionItem(title="Reject")

        editor.open("calc.py", "x = 2\n")
        await ask(editor)
        for _ in range(3):
            editor.type("calc.py", 0, 0, "#")
            typed_at.append(loop.time())
            await asyncio.sleep(0.2)
        await editor.event("turn/end")
        # On a slow machine that pause may have come before the keys above.
        assert prompted_at[0] - max(when for when in typed_at if when < prompted_at[0]) >= 1.9
        assert "rejected" in editor.tool_results[0]


async def test_a_code_action_decides_where_the_user_asks_for_it(project, model) -> None:
    model.script(READ_OUTSIDE, answer("Thanks."))
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        await ask(editor)
        titles = [action.title for action in await editor.code_actions("calc.py", 0)]
        assert [title.split(":")[1].strip() for title in titles[:2]] == ["Reject", "Allow once"]
        await editor.choose("calc.py", 0, "DSH: Allow once")
        await editor.event("turn/end")
        assert "the secret" in editor.tool_results[0]


async def test_a_cancel_closes_the_question_and_a_late_answer_decides_nothing(project, model) -> None:
    model.script(READ_OUTSIDE, answer("Fine."))
    async with fake_editor(project, model_url=model.url) as editor:
        approval = await ask(editor)
        await editor.command("dsh.cancel")
        await editor.event("turn/end")
        assert editor.seen("approval/decided")[0]["data"]["outcome"]["kind"] == "cancelled"
        assert "aborted" in editor.tool_results[0]
        for argument in ({"approval": approval, "decision": "allowOnce"}, {"approval": approval}):
            with pytest.raises(JsonRpcException, match="not waiting") as refused:
                await editor.command("dsh.approve", argument)
            assert refused.value.data["code"] == "NOT_PENDING"
        await editor.until(lambda: session_rows(project)[-1]["type"] == "turn/end")
    kinds = [row["type"] for row in session_rows(project)]
    assert kinds.count("approval/asked") == kinds.count("approval/decided") == 1


async def test_a_file_that_gives_rights_is_approved_first_and_then_reviewed(project, model) -> None:
    model.script(answer("", calls=[("write_file", {"path": ".envrc", "content": "export A=1\n"})]), answer("Done."))
    async with fake_editor(project, model_url=model.url) as editor:
        approval = await ask(editor)
        assert not editor.seen("review/opened")
        await editor.command("dsh.approve", {"approval": approval, "decision": "allowOnce"})
        await editor.event("review/opened")
        assert not (project / ".envrc").exists()
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert (project / ".envrc").read_text() == "export A=1\n"


async def test_what_a_command_would_not_see_is_listed_and_saved_first_on_wish(project, model) -> None:
    command = answer("", calls=[("shell", {"command": "cat calc.py"})])
    model.script(command, command, command, answer("Done."))
    offers = {"approve": True, "save": True}
    async with fake_editor(project, model_url=model.url, dsh=offers) as editor:
        shown = []
        editor.client.feature("dsh/approve")(lambda params: shown.append(params) or {"shown": True})
        uri = editor.open("calc.py", "x = 2\n")
        approval = await ask(editor)
        await editor.until(lambda: shown)
        assert shown[0].unsaved == [uri]
        assert "unsaved, so not seen by it: calc.py" in shown[0].detail
        assert shown[0].card.kind == "terminal"
        await editor.command("dsh.approve", {"approval": approval, "decision": "allowOnce"})
        second = (await editor.event("approval/asked", 2))["data"]
        assert editor.tool_results[0].startswith("x = 1\n")
        assert "did not see the unsaved text of: calc.py" in editor.tool_results[0]
        assert second["unsaved"] == [uri]
        await editor.command("dsh.approve", {"approval": second["id"], "decision": "allowOnce", "save": True})
        third = (await editor.event("approval/asked", 3))["data"]
        assert editor.tool_results[1].startswith("x = 2\n")
        assert "unsaved" not in third
        await editor.command("dsh.approve", {"approval": third["id"], "decision": "reject"})
        await editor.event("turn/end")


async def test_read_only_refuses_edits_until_the_mode_changes(project, model) -> None:
    edit = answer("", calls=[("edit_file", {"path": "calc.py", "old_text": "1", "new_text": "2"})])
    model.script(edit, answer("I may not."), edit, answer("Done."))
    async with fake_editor(project, model_url=model.url, options={"mode": "read-only"}) as editor:
        editor.open("calc.py")
        assert (await editor.command("dsh.status"))["mode"] == "read-only"
        await editor.command("dsh.followup", {"text": "Go.", "wait": True})
        assert "in read-only mode" in editor.tool_results[0]
        assert await editor.command("dsh.mode.set", {"mode": "ask"}) == {"mode": "ask"}
        await editor.command("dsh.followup", {"text": "Go."})
        await editor.event("review/opened")
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end", 2)
        assert editor.text("calc.py") == "x = 2\n"
        assert len(editor.seen("permission/preset")) == 1


async def test_plan_mode_is_told_to_the_model(project, model) -> None:
    model.script(answer("A plan."), answer("No plan."))
    async with fake_editor(project, model_url=model.url, options={"mode": "plan"}) as editor:
        await editor.command("dsh.followup", {"text": "Go.", "wait": True})
        await editor.command("dsh.mode.set", {"mode": "ask"})
        await editor.command("dsh.followup", {"text": "Go.", "wait": True})
        systems = [request.body["messages"][0]["content"] for request in model.requests]
        assert ["plan mode" in system for system in systems] == [True, False]
