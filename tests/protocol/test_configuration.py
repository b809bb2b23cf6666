"""Configuration over the wire: asked for at the start and at each change, applied to sessions that are live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcMethodNotFound

from tests.support.fake_editor import FakeEditor, fake_editor
from tests.support.model_server import FakeModelServer, Gate, answer, chunk, event

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


class Pulled:
    """The settings of an editor that is asked for them."""

    def __init__(self, editor: FakeEditor, section: dict[str, Any]) -> None:
        self.asked: list[Any] = []
        self.section = section
        self._editor = editor
        for method in ("workspace/configuration", "client/registerCapability"):
            editor.client.protocol.fm.features.pop(method, None)  # ours take the place of the client's own

        @editor.client.feature("workspace/configuration")
        def configuration(params: types.ConfigurationParams):
            self.asked.append([item.section for item in params.items])
            return [self.section]

        @editor.client.feature("client/registerCapability")
        def register(params: types.RegistrationParams) -> None:
            pass

    async def change(self, section: dict[str, Any] | None = None) -> None:
        """Let the user change them."""
        self.section, before = self.section if section is None else section, len(self.asked)
        self._editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
        await self._editor.until(lambda: len(self.asked) > before)


async def test_a_client_of_ours_changes_rules_and_trust_while_a_session_lives(project, model) -> None:
    model.script(TOUCH, answer("Done."), TOUCH, answer("No."))
    section: dict = {"shell": {"allow": ["touch here"]}}
    async with fake_editor(project, model_url=model.url, dsh={}, profile="visual_studio_code") as editor:
        pulled = Pulled(editor, section)
        await pulled.change()
        assert pulled.asked[0] == ["dsh"]
        await editor.command("dsh.followup", {"text": "Go.", "wait": True})
        assert (project / "here").exists()
        assert not editor.seen("approval/asked")
        await pulled.change({"shell": {"allow": ["touch here"]}, "workspaceTrusted": False})
        await editor.until(lambda: editor.statuses[-1]["mode"] == "read-only")
        await editor.command("dsh.followup", {"text": "Go.", "wait": True})
        assert "in read-only mode" in editor.tool_results[1]
        with pytest.raises(JsonRpcException, match="not trusted") as refused:
            await editor.command("dsh.mode.set", {"mode": "ask"})
        assert refused.value.data["code"] == "UNTRUSTED"


async def test_a_rule_is_gone_when_the_whole_section_is(project, model) -> None:
    model.script(TOUCH, answer("No."))
    async with fake_editor(project, model_url=model.url, dsh={}, profile="visual_studio_code") as editor:
        pulled = Pulled(editor, {"shell": {"allow": ["touch here"]}})
        await pulled.change()
        await editor.command("dsh.status")
        pulled.section = None  # type: ignore[assignment]
        await pulled.change()
        await editor.command("dsh.status")
        await editor.command("dsh.followup", {"text": "Go."})
        await editor.until(lambda: editor.seen("approval/asked"))
        assert not (project / "here").exists()
        await editor.command("dsh.cancel")


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


async def test_settings_that_change_while_a_turn_runs_hold_for_its_next_call_and_the_model_for_the_next_session(
    project, model
) -> None:
    gate = Gate()
    held = answer("", calls=[("shell", {"command": "touch here"})]).before(event(chunk({"content": "x"})), gate)
    model.script(held, TOUCH, answer("Done."))
    with FakeModelServer(answer("From the other one.")) as other:
        async with fake_editor(project, dsh={}, profile="visual_studio_code", options={"model": {}}) as editor:
            pulled = Pulled(editor, {"model": {"baseUrl": model.url}})
            await pulled.change()
            first = await editor.command("dsh.followup", {"text": "Go."})
            await gate.wait_reached()
            await pulled.change(
                {"model": {"baseUrl": other.url}, "shell": {"allow": ["touch here"]}, "limits": {"steps": 2}}
            )
            await editor.command("dsh.status")  # after the answer to what was asked
            gate.release()
            end = await editor.event("turn/end")
            assert (project / "here").exists()
            assert not editor.seen("approval/asked"), "the rules of the call are those of now"
            assert len(model.requests) == 2, "the second step was the last one"
            assert end["session"] == first["session"]
            assert other.requests == [], "a session stays with its model"
            await editor.command("dsh.session.new")
            done = await editor.command("dsh.followup", {"text": "Hello.", "wait": True})
            assert done["text"] == "From the other one."


@pytest.mark.parametrize("settings", [None, {}, {"other": {"x": 1}}, {"dsh": None}, {"dsh": "text"}, []])
async def test_a_client_that_tells_nothing_of_use_changes_nothing_and_is_asked_nothing(project, settings) -> None:
    options = {"shell": {"allow": ["touch here"]}}
    async with fake_editor(project, options=options) as editor:
        editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=settings))
        await editor.command("dsh.status")
        assert len(editor.messages) == (settings == {"dsh": "text"})


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


async def test_a_client_that_announces_settings_and_does_not_give_them_is_told_so_once(project) -> None:
    workspace = types.WorkspaceClientCapabilities(configuration=True)
    capabilities = types.ClientCapabilities(workspace=workspace)
    async with fake_editor(project, capabilities=capabilities) as editor:
        asked: list[Any] = []
        editor.client.protocol.fm.features.pop("workspace/configuration", None)

        @editor.client.feature("workspace/configuration")
        def refuse(params: types.ConfigurationParams) -> None:
            asked.append(params)
            raise JsonRpcMethodNotFound

        for number in range(1, 4):
            params = types.DidChangeConfigurationParams(settings=None)
            editor.client.workspace_did_change_configuration(params)
            await editor.until(lambda n=number: len(asked) >= n)
        await editor.until(lambda: editor.messages)
        assert (await editor.command("dsh.status"))["state"] == "idle"
        [told] = editor.messages
        assert told.startswith("DSH: the editor does not tell its settings (workspace/configuration: ")
        assert told.endswith("; those that are known stay")
