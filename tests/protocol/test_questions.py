"""Questions over the wire: shown by the best means that a client has, answered by command."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.support.fake_editor import fake_editor
from tests.support.model_server import FakeModelServer, answer

ASK = answer("", calls=[("ask", {"question": "Which one?", "options": ["this", "that"], "free_text": False})])
WHY = answer("", calls=[("ask", {"question": "Why?"})])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "calc.py").write_text("x = 1\n")
    return root


@pytest.fixture
def model():
    with FakeModelServer() as server:
        yield server


async def asked(editor, number: int = 1) -> str:
    event = await editor.event("question/asked", number)
    return event["data"]["id"]


async def test_a_client_of_ours_shows_the_question_and_its_user_answers_once(project, model) -> None:
    model.script(ASK, answer("Good."))
    async with fake_editor(project, model_url=model.url, dsh={"ask": True}) as editor:
        shown = []
        editor.client.feature("dsh/ask")(lambda params: shown.append(params) or {"shown": True})
        await editor.command("dsh.followup", {"text": "Go."})
        question = await asked(editor)
        await editor.until(lambda: shown)
        assert (shown[0].question, shown[0].text, shown[0].options) == (question, "Which one?", ["this", "that"])
        status = await editor.command("dsh.status")
        assert (status["state"], status["waitingFor"]) == ("waiting", "question")
        with pytest.raises(JsonRpcException, match="must be one of"):
            await editor.command("dsh.answer", {"question": question, "answer": "both"})
        await editor.command("dsh.answer", {"question": question, "answer": "that"})
        await editor.event("turn/end")
        assert editor.tool_results == ["The user answered: that"]
        assert editor.seen("question/answered")[0]["data"] == {"id": question, "answer": "that"}
        with pytest.raises(JsonRpcException, match="not waiting") as late:
            await editor.command("dsh.answer", {"question": question, "answer": "this"})
        assert late.value.data["code"] == "NOT_PENDING"


async def test_any_client_answers_by_code_action_or_by_the_command_and_is_prompted_on_its_wish(
    project, model
) -> None:
    model.script(ASK, WHY, ASK, answer("Good."))
    async with fake_editor(project, model_url=model.url) as editor:
        prompts = []

        @editor.client.feature("window/showMessageRequest")
        def prompt(params: types.ShowMessageRequestParams) -> types.MessageActionItem:
            prompts.append([action.title for action in params.actions or []])
            return types.MessageActionItem(title="that")

        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Go."})
        await asked(editor)
        await editor.choose("calc.py", 0, "DSH: Answer: this")
        why = await asked(editor, 2)
        with pytest.raises(JsonRpcException, match="in words"):
            await editor.command("dsh.answer", {"question": why})
        await editor.command("dsh.answer", {"question": why, "answer": "Because."})
        third = await asked(editor, 3)
        assert prompts == []
        await editor.command("dsh.answer", {"question": third})
        await editor.event("turn/end")
        assert prompts == [["Later", "this", "that"]]
        assert [text.removeprefix("The user answered: ") for text in editor.tool_results] == [
            "this",
            "Because.",
            "that",
        ]


async def test_a_user_who_is_told_of_a_question_and_not_of_its_id_answers_it_in_words(project, model) -> None:
    model.script(WHY, answer("Good."))
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.followup", {"text": "Go."})
        await asked(editor)
        await editor.until(lambda: any("Answer with the command dsh.answer" in one for one in editor.messages))
        await editor.command("dsh.answer", {"answer": "Because."})
        await editor.event("turn/end")
        assert editor.tool_results == ["The user answered: Because."]
        with pytest.raises(JsonRpcException, match="no question waits") as refused:
            await editor.command("dsh.answer", {"answer": "Because."})
        assert refused.value.data["code"] == "NOT_PENDING"
