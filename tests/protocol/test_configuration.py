"""Configuration over the wire: asked for at the start and at each change, applied to sessions that are live."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.support.fake_editor import fake_editor
from tests.support.model_server import FakeModelServer, answer

TOUCH = answer("", calls=[("shell", {"command": "touch here"})])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def model():
    with FakeModelServer() as server:
        yield server


async def test_a_client_of_ours_changes_rules_and_trust_while_a_session_lives(project, model) -> None:
    model.script(TOUCH, answer("Done."), TOUCH, answer("No."))
    section: dict = {"shell": {"allow": ["touch here"]}}
    async with fake_editor(project, model_url=model.url, dsh={}, profile="visual_studio_code") as editor:
        asked = []
        for method in ("workspace/configuration", "client/registerCapability"):
            editor.client.protocol.fm.features.pop(method, None)  # ours take the place of the client's own

        @editor.client.feature("workspace/configuration")
        def configuration(params: types.ConfigurationParams):
            asked.append([item.section for item in params.items])
            return [section]

        @editor.client.feature("client/registerCapability")
        def register(params: types.RegistrationParams) -> None:
            pass

        def changed() -> None:
            params = types.DidChangeConfigurationParams(settings=None)
            editor.client.workspace_did_change_configuration(params)

        changed()
        await editor.until(lambda: asked)
        assert asked[0] == ["dsh"]
        await editor.command("dsh.followup", {"text": "Go.", "wait": True})
        assert (project / "here").exists()
        assert not editor.seen("approval/asked")
        section = {"shell": {"allow": ["touch here"]}, "workspaceTrusted": False}
        changed()
        await editor.until(lambda: editor.statuses[-1]["mode"] == "read-only")
        await editor.command("dsh.followup", {"text": "Go.", "wait": True})
        assert "in read-only mode" in editor.tool_results[1]
        with pytest.raises(JsonRpcException, match="not trusted") as refused:
            await editor.command("dsh.mode.set", {"mode": "ask"})
        assert refused.value.data["code"] == "UNTRUSTED"


async def test_a_stock_client_sends_its_settings_along_and_raises_no_rights(project, model) -> None:
    model.script(TOUCH, answer("No."))
    async with fake_editor(project, model_url=model.url) as editor:
        settings = {"dsh": {"shell": {"allow": ["touch here"]}, "limits": {"steps": "many"}}}
        params = types.DidChangeConfigurationParams(settings=settings)
        editor.client.workspace_did_change_configuration(params)
        await editor.until(lambda: len(editor.messages) >= 2)
        assert any("shell.allow" in message and "not used" in message for message in editor.messages)
        assert any("limits.steps" in message for message in editor.messages)
        await editor.command("dsh.followup", {"text": "Go."})
        asked = await editor.event("approval/asked")
        await editor.command("dsh.approve", {"approval": asked["data"]["id"], "decision": "reject"})
        await editor.event("turn/end")
        assert not (project / "here").exists()


async def test_in_auto_edit_an_agent_that_writes_the_editor_s_settings_is_asked_twice(project, model) -> None:
    settings = {"path": ".vscode/settings.json", "content": '{"dsh.shell.allow": ["touch here"]}\n'}
    model.script(answer("", calls=[("write_file", settings)]), TOUCH, answer("No."))
    async with fake_editor(project, model_url=model.url, options={"mode": "auto-edit"}) as editor:
        await editor.command("dsh.followup", {"text": "Go."})
        first = (await editor.event("approval/asked"))["data"]
        assert [effect["kind"] for effect in first["effects"]] == ["rights"]
        assert not (project / ".vscode").exists()
        await editor.command("dsh.approve", {"approval": first["id"], "decision": "allowOnce"})
        await editor.until(lambda: len(editor.seen("approval/asked")) > 1 or editor.seen("review/opened"))
        if len(editor.seen("approval/asked")) < 2:  # what a person allowed first may still be reviewed
            await editor.command("dsh.review.accept", {"hunks": "all"})
        second = (await editor.event("approval/asked", 2))["data"]
        assert (project / ".vscode" / "settings.json").exists()
        assert [effect["kind"] for effect in second["effects"]] == ["command"], "the command is still asked for"
        await editor.command("dsh.approve", {"approval": second["id"], "decision": "reject"})
        await editor.event("turn/end")
        assert not (project / "here").exists()
