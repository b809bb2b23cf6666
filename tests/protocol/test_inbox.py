"""The inbox over the wire: what waits can be seen, changed, dropped, resumed; what is owed can be retried."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from tests.support.fake_editor import FakeEditor, fake_editor
from tests.support.model_server import FakeModelServer, Gate, answer, chunk, event, refusal


def words(model: FakeModelServer, request: int) -> list[str]:
    return [m["content"] for m in model.requests[request].body["messages"] if m["role"] == "user"]


async def hold_a_turn(editor: FakeEditor, model: FakeModelServer, gate: Gate) -> None:
    await editor.command("dsh.followup", {"text": "First."})
    await gate.wait_reached()


async def test_what_waits_is_listed_edited_and_removed_before_it_is_claimed(tmp_path: Path, model) -> None:
    gate = Gate()
    model.script(answer("a").before(event(chunk({"content": "x"})), gate), answer("b"))
    async with fake_editor(tmp_path, model_url=model.url) as editor:
        await hold_a_turn(editor, model, gate)
        second = await editor.command("dsh.followup", {"text": "Second."})
        third = await editor.command("dsh.followup", {"text": "Third."})
        urgent = await editor.command("dsh.followup", {"text": "Urgent.", "first": True})
        listed = await editor.command("dsh.inbox.list")
        assert [entry["text"] for entry in listed["nextTurn"]] == ["Urgent.", "Second.", "Third."]
        await editor.command("dsh.inbox.edit", {"message": second["message"], "text": "Second, better."})
        await editor.command("dsh.inbox.remove", {"message": third["message"]})
        left = await editor.command("dsh.inbox.remove", {"message": urgent["message"]})
        assert left == {"nextTurn": [{"message": second["message"], "text": "Second, better."}], "nextStep": []}
        gate.release()
        await editor.event("turn/end", 2)
        assert words(model, 1) == ["First.", "Second, better."]
        for command in ("dsh.inbox.edit", "dsh.inbox.remove"):
            argument = {"message": second["message"], **({"text": "x"} if command.endswith("edit") else {})}
            with pytest.raises(JsonRpcException, match="does not wait") as refused:
                await editor.command(command, argument)
            assert refused.value.data["code"] == "ALREADY_CLAIMED"


async def test_what_a_cancelled_turn_left_waiting_is_resumed(tmp_path: Path, model) -> None:
    gate = Gate()
    model.script(answer("a").before(event(chunk({"content": "x"})), gate), answer("b"))
    async with fake_editor(tmp_path, model_url=model.url, dsh={}) as editor:
        await hold_a_turn(editor, model, gate)
        await editor.command("dsh.followup", {"text": "Second."})
        await editor.command("dsh.cancel")
        await editor.event("turn/end")
        await editor.until(lambda: editor.statuses[-1]["paused"])
        assert len(model.requests) == 1
        await editor.command("dsh.inbox.resume")
        await editor.event("turn/end", 2)
        assert words(model, 1)[-1] == "Second."
        assert await editor.until(lambda: not editor.statuses[-1]["paused"])


async def test_a_cancel_may_drop_what_waits(tmp_path: Path, model) -> None:
    gate = Gate()
    model.script(answer("a").before(event(chunk({"content": "x"})), gate))
    async with fake_editor(tmp_path, model_url=model.url) as editor:
        await hold_a_turn(editor, model, gate)
        await editor.command("dsh.followup", {"text": "Second."})
        await editor.command("dsh.cancel", {"keepInbox": False})
        await editor.event("turn/end")
        assert await editor.command("dsh.inbox.list") == {"nextTurn": [], "nextStep": []}


async def test_a_failed_turn_is_retried_without_saying_it_again(tmp_path: Path, model) -> None:
    model.script(refusal(401, {"error": {"message": "no"}}), answer("Here."))
    async with fake_editor(tmp_path, model_url=model.url) as editor:
        with pytest.raises(JsonRpcException) as refused:
            await editor.command("dsh.retry")
        assert refused.value.data["code"] == "NOTHING_OWED"
        await editor.command("dsh.followup", {"text": "Hello?", "wait": True})
        assert await editor.command("dsh.retry") == {}
        await editor.event("turn/end", 2)
        assert words(model, 1) == ["Hello?"]
        assert len(editor.seen("user/message")) == 1
        with pytest.raises(JsonRpcException):
            await editor.command("dsh.retry")


async def test_a_cancel_says_which_tool_it_waits_for(tmp_path: Path, model) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    model.script(answer("", calls=[("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"})]))
    async with fake_editor(tmp_path, model_url=model.url) as editor:
        await editor.command("dsh.followup", {"text": "Go."})
        await editor.event("review/opened")
        assert await editor.command("dsh.cancel") == {"wasRunning": True, "waitingForTool": "edit_file"}
        end = await editor.event("turn/end")
        assert end["data"]["reason"]["kind"] == "aborted"
        assert len(editor.seen("tool/result")) == 1
