"""Folders over the wire: those of the user's window are the workspace, and they come and go while sessions live."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from tests.support.fake_editor import fake_editor
from tests.support.model_server import answer


@pytest.fixture
def first(tmp_path: Path) -> Path:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "here.py").write_text("x = 1\n")
    return tmp_path / "first"


@pytest.fixture
def second(tmp_path: Path) -> Path:
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "there.py").write_text("y = 1\n")
    (tmp_path / "second" / "AGENTS.md").write_text("Write tests.\n")
    return tmp_path / "second"


def told(request) -> str:
    return "\n".join(m["content"] for m in request.body["messages"] if m["role"] == "user")


async def test_a_file_of_a_second_folder_is_read_found_and_edited_as_one_of_the_first(first, second, model) -> None:
    path = str(second / "there.py")
    edit = {"path": path, "old_text": "y = 1", "new_text": "y = 2"}
    model.script(
        answer("", calls=[("read_file", {"path": path}), ("search", {"pattern": "y", "path": str(second)})]),
        answer("", calls=[("edit_file", edit)]),
        answer("Done."),
    )
    async with fake_editor(first, model_url=model.url, folders=(first, second)) as editor:
        await editor.command("dsh.followup", {"text": "Go."})
        opened = (await editor.event("review/opened"))["data"]
        assert [file["uri"] for file in opened["files"]] == [(second / "there.py").as_uri()]
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert not editor.seen("approval/asked")
        assert (second / "there.py").read_text() == "y = 2\n"
        assert all("y = 1" in result for result in editor.tool_results[:2])
        assert f"Further folders of the workspace, whose paths are absolute: {second}" in told(model.requests[0])
        assert "Write tests." in told(model.requests[-1])


async def test_a_folder_that_leaves_the_window_is_outside_and_the_first_that_stays_is_where_sessions_begin(
    first, second, model
) -> None:
    read = answer("", calls=[("read_file", {"path": str(second / "there.py")})])
    back = answer("", calls=[("read_file", {"path": str(first / "here.py")})])
    model.script(read, answer("No."), read, answer("Yes."), back, answer("No."))
    async with fake_editor(first, model_url=model.url, folders=(first,)) as editor:
        await editor.command("dsh.followup", {"text": "Go."})
        asked = (await editor.event("approval/asked"))["data"]
        assert "outside" in [effect["kind"] for effect in asked["effects"]]
        await editor.command("dsh.approve", {"approval": asked["id"], "decision": "reject"})
        await editor.event("turn/end")
        editor.change_folders(added=[second])
        await editor.command("dsh.followup", {"text": "Now?", "wait": True})
        assert "y = 1" in editor.tool_results[-1]
        assert str(second) in told(model.requests[-1])
        editor.change_folders(removed=[first])
        new = await editor.command("dsh.session.new", {"title": "Elsewhere"})
        assert new["root"] == str(second)
        await editor.command("dsh.followup", {"text": "And back?"})
        asked = (await editor.event("approval/asked", 2))["data"]
        assert "outside" in [effect["kind"] for effect in asked["effects"]]
        await editor.command("dsh.approve", {"approval": asked["id"], "decision": "reject"})
        await editor.event("turn/end", 3)


async def test_a_session_begins_in_no_folder_that_is_not_there(first, subtests) -> None:
    async with fake_editor(first) as editor:
        for root in ("nowhere", "/nowhere/at/all", "", "file:///tmp"):
            with subtests.test(root):
                with pytest.raises(JsonRpcException, match="is no folder") as refused:
                    await editor.command("dsh.session.new", {"root": root})
                assert refused.value.data["code"] == "NOT_A_FOLDER"
