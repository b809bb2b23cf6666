"""Stock clients: what an editor does without that has no view of ours, or not even what LSP offers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcMethodNotFound

from tests.e2e.story import ACCEPT, CALC, DONE, MEND, MENDED
from tests.support.fake_editor import fake_editor
from tests.support.model_server import FakeModelServer, answer, refusal

READ_OUTSIDE = answer("", calls=[("read_file", {"path": "../secret.txt"})])


@pytest.fixture
def project(project: Path) -> Path:
    (project.parent / "secret.txt").write_text("the secret\n")
    (project / "calc.py").write_text(CALC)
    return project


def only(**capabilities: Any) -> types.ClientCapabilities:
    return types.ClientCapabilities(**capabilities)


SHOWS = types.WindowClientCapabilities(show_document=types.ShowDocumentClientCapabilities(support=True))


# Asking by code action


async def test_a_place_is_explained_by_code_action_and_the_answer_is_told(project, model) -> None:
    model.script(answer("# It subtracts.\n\nAt length."))
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        await editor.choose("calc.py", 1, "DSH: Explain this")
        await editor.event("turn/end")
        words = model.requests[0].body["messages"][-1]["content"]
        assert words.endswith("From calc.py, lines 2-2:\n```\n    return a - b\n\n```")
        await editor.until(lambda: "DSH: It subtracts." in editor.messages)


async def test_a_problem_that_another_server_found_is_mended_from_its_line(project, model) -> None:
    model.script(MEND, DONE)
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        where = types.Range(types.Position(1, 11), types.Position(1, 16))
        problem = types.Diagnostic(range=where, message="subtracts", source="tests")
        [action] = await editor.code_actions("calc.py", 1, problems=[problem], automatic=True)
        assert action.title == "DSH: Fix this: subtracts"
        await editor.choose("calc.py", 1, "DSH: Fix this", problems=[problem])
        await editor.event("review/opened")
        assert "Fix this problem: subtracts (tests)" in model.requests[0].body["messages"][-1]["content"]
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert editor.text("calc.py") == MENDED


async def test_a_light_does_not_follow_the_cursor_nor_does_it_in_a_client_that_asks_without_saying_so(
    project, model
) -> None:
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        assert await editor.code_actions("calc.py", 1, automatic=True) == []
    async with fake_editor(project, model_url=model.url, client_name="emacs") as editor:
        editor.open("calc.py")
        assert await editor.code_actions("calc.py", 1, automatic=None) == []


# Virtual documents


async def test_the_transcript_and_a_file_as_it_would_be_are_read_by_command(project, model) -> None:
    model.script(MEND, DONE)
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py", f"# unsaved\n{CALC}")
        session = (await editor.command("dsh.followup", {"text": "Mend it."}))["session"]
        opened = await editor.event("review/opened")
        proposed = {"uri": f"dsh:/proposal/{opened['data']['proposal']}/calc.py"}
        assert await editor.command("dsh.text", proposed) == {"text": f"# unsaved\n{MENDED}"}
        editor.type("calc.py", 0, 0, "# more\n")
        assert await editor.command("dsh.text", proposed) == {"text": f"# more\n# unsaved\n{MENDED}"}
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        with pytest.raises(JsonRpcException) as refused:
            await editor.command("dsh.text", proposed)
        assert refused.value.data["code"] == "NOT_PENDING"
        transcript = (await editor.command("dsh.text", {"uri": f"dsh:/session/{session}/transcript.md"}))["text"]
        assert "## You\n\nMend it." in transcript
        assert "Done." in transcript


NO_DOCUMENTS = [
    ("dsh:/session/none/transcript.md", "UNKNOWN_SESSION"),
    ("dsh:/session/x/other.md", "USAGE"),
    ("dsh:/session/../transcript.md", "UNKNOWN_SESSION"),
    ("dsh:/session/..%2F..%2Fsecret/transcript.md", "UNKNOWN_SESSION"),
    ("dsh:/proposal/none/calc.py", "NOT_PENDING"),
    ("dsh:/proposal/none", "USAGE"),
    ("file:///etc/passwd", "USAGE"),
    ("", "USAGE"),
]


async def test_what_is_no_virtual_document_is_refused(project, subtests) -> None:
    async with fake_editor(project) as editor:
        for uri, code in NO_DOCUMENTS:
            with subtests.test(uri):
                with pytest.raises(JsonRpcException) as refused:
                    await editor.command("dsh.text", {"uri": uri})
                assert refused.value.data["code"] == code


async def test_a_client_with_virtual_documents_reads_and_shows_them_under_their_own_name(project, model) -> None:
    model.script(answer("It adds."))
    content = types.TextDocumentContentClientCapabilities()
    capabilities = only(window=SHOWS, workspace=types.WorkspaceClientCapabilities(text_document_content=content))
    async with fake_editor(project, model_url=model.url, capabilities=capabilities) as editor:
        announced = editor.client.announced.capabilities.workspace
        assert announced.text_document_content.schemes == ("dsh",)
        session = (await editor.command("dsh.followup", {"text": "Why?", "wait": True}))["session"]
        uri = f"dsh:/session/{session}/transcript.md"
        read = await editor.client.workspace_text_document_content_async(types.TextDocumentContentParams(uri))
        assert "It adds." in read.text
        await editor.command("dsh.text", {"uri": uri, "show": True})
        assert [(shown.uri, shown.take_focus) for shown in editor.shown] == [(uri, False)]


async def test_an_answer_that_was_cut_off_is_told_as_one(project, model) -> None:
    model.script(answer("It adds, and", finish="length"))
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.followup", {"text": "Why?", "wait": True})
        await editor.until(lambda: any("cut off" in message for message in editor.messages))
        assert "DSH: It adds, and (the answer was cut off at its token limit)" in editor.messages


async def test_a_session_that_is_deleted_leaves_no_copy_of_its_transcript(
    project, model, monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model.script(answer("It adds."))
    async with fake_editor(project, model_url=model.url, capabilities=only(window=SHOWS)) as editor:
        session = (await editor.command("dsh.followup", {"text": "Why?", "wait": True}))["session"]
        await editor.command("dsh.text", {"uri": f"dsh:/session/{session}/transcript.md", "show": True})
        (copy,) = (tmp_path / "cache").rglob("*transcript.md")
        assert "It adds." in copy.read_text()
        await editor.command("dsh.session.delete", {"session": session})
        assert list((tmp_path / "cache").rglob("*transcript.md")) == []


async def test_a_client_that_has_read_a_virtual_document_is_told_once_that_it_has_changed(project, model) -> None:
    model.script(answer("It adds."), MEND, answer("Well."))
    content = types.TextDocumentContentClientCapabilities()
    capabilities = only(workspace=types.WorkspaceClientCapabilities(text_document_content=content))
    async with fake_editor(project, model_url=model.url, capabilities=capabilities) as editor:

        async def read(uri: str) -> str:
            params = types.TextDocumentContentParams(uri)
            return (await editor.client.workspace_text_document_content_async(params)).text

        editor.open("calc.py")
        session = (await editor.command("dsh.followup", {"text": "Why?", "wait": True}))["session"]
        transcript = f"dsh:/session/{session}/transcript.md"
        assert "I mend it." not in await read(transcript)
        await editor.command("dsh.followup", {"text": "Go."})
        await editor.until(lambda: editor.refreshed == [transcript])
        opened = (await editor.event("review/opened"))["data"]
        proposed = f"dsh:/proposal/{opened['proposal']}/calc.py"
        assert await read(proposed) == MENDED
        editor.type("calc.py", 0, 0, "# mine\n")
        await editor.until(lambda: editor.refreshed == [transcript, proposed])
        assert await read(proposed) == f"# mine\n{MENDED}"
        assert "I mend it." in await read(transcript)
        await editor.command("dsh.review.reject", {"hunks": "all"})
        await editor.event("turn/end", 2)
        await editor.until(lambda: editor.refreshed[2:] == [transcript])


@pytest.mark.parametrize("shows", [True, False])
async def test_a_client_without_them_is_shown_a_file_or_told_where_it_lies(project, model, tmp_path, shows) -> None:
    model.script(answer("It adds."))
    capabilities = only(window=SHOWS) if shows else only()
    async with fake_editor(project, model_url=model.url, capabilities=capabilities) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Why?", "wait": True})
        await editor.choose("calc.py", 1, "DSH: Show the conversation")
        if shows:
            [path] = [Path(shown.uri.removeprefix("file://")) for shown in editor.shown]
        else:
            [told] = [message for message in editor.messages if "shows no documents" in message]
            path = Path(told.rpartition(" is in ")[2])
            assert editor.shown == []
        assert "It adds." in path.read_text()
        assert path.stat().st_mode & 0o077 == 0, "it is the user's alone"


# A client that tells late of what is typed


async def test_an_edit_that_keys_overtake_again_and_again_lands_when_they_let_it_and_nobody_is_bothered(
    project, model
) -> None:
    model.script(MEND, DONE)
    overtaken = 7  # more often than an edit that is refused for no reason is tried
    async with fake_editor(project, model_url=model.url, overtaken=overtaken) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend it."})
        await editor.event("review/opened")
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert editor.text("calc.py") == "x" * overtaken + MENDED
        assert "accepted and is in the document" in editor.tool_results[0]
        assert len(editor.edits) == overtaken + 1
        assert not [message for message in editor.messages if "did not apply" in message]


# What a client lacks


async def test_a_client_without_progress_is_sent_none(project, model) -> None:
    model.script(answer("Ok."))
    async with fake_editor(project, model_url=model.url, capabilities=only()) as editor:
        await editor.command("dsh.followup", {"text": "Hello?", "wait": True})
        assert (await editor.command("dsh.status"))["state"] == "idle"
        assert editor.progress == []


async def test_a_client_that_applies_no_edits_is_told_so_once_for_each_acceptance_and_the_edit_waits(
    project, model
) -> None:
    model.script(MEND, DONE)
    async with fake_editor(project, model_url=model.url, capabilities=only()) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend it."})
        await editor.event("review/opened")
        titles = [action.title for action in await editor.code_actions("calc.py", 4)]
        assert any("Reject" in title for title in titles)
        assert not any("Accept" in title for title in titles), "what cannot be done is not offered"
        assert await editor.command("dsh.review.accept", {"hunks": "all"}) == {"left": 1}
        assert [message for message in editor.messages if "nothing was written" in message] == [
            "DSH: this editor cannot take edits safely; nothing was written"
        ]
        assert editor.edits == []
        await editor.command("dsh.review.reject", {"hunks": "all"})
        await editor.event("turn/end")
        assert (project / "calc.py").read_text() == CALC


async def test_a_client_that_cannot_ask_is_told_how_else_to_decide(project, model) -> None:
    model.script(READ_OUTSIDE, DONE)
    async with fake_editor(project, model_url=model.url, capabilities=only()) as editor:

        @editor.client.feature("window/showMessageRequest")
        def refuse(_params: types.ShowMessageRequestParams) -> None:
            raise JsonRpcMethodNotFound

        await editor.command("dsh.followup", {"text": "Read it."})
        approval = (await editor.event("approval/asked"))["data"]["id"]
        await editor.command("dsh.approve", {"approval": approval})
        await editor.until(lambda: [message for message in editor.messages if "cannot ask" in message])
        assert not editor.seen("approval/decided")
        await editor.command("dsh.approve", {"approval": approval, "decision": "allowOnce"})
        await editor.event("turn/end")
        assert "the secret" in editor.tool_results[0]
        assert len([message for message in editor.messages if "cannot ask" in message]) == 1


async def test_a_client_that_cannot_ask_is_asked_and_told_once_however_much_waits(project, model) -> None:
    twice = [("read_file", {"path": "../secret.txt"}), ("read_file", {"path": "../secret.txt"})]
    model.script(answer("", calls=twice), DONE)
    asked: list[str] = []
    name = "Visual Studio Code"  # no modal one: it is asked unbidden, once nobody types
    async with fake_editor(project, model_url=model.url, capabilities=only(), client_name=name) as editor:

        @editor.client.feature("window/showMessageRequest")
        def refuse(params: types.ShowMessageRequestParams) -> None:
            asked.append(params.message)
            raise JsonRpcMethodNotFound

        await editor.command("dsh.followup", {"text": "Read it."})
        for number in (1, 2):
            approval = (await editor.event("approval/asked", number))["data"]["id"]
            await editor.until(lambda: [message for message in editor.messages if "cannot ask" in message])
            await editor.until(lambda n=number: sum("may read_file run?" in one for one in editor.messages) == n)
            await editor.command("dsh.approve", {"approval": approval, "decision": "allowOnce"})
        await editor.event("turn/end")
        assert len(asked) == 1
        assert len([message for message in editor.messages if "cannot ask" in message]) == 1


@pytest.mark.parametrize("shows", [True, False])
async def test_a_turn_whose_model_fails_is_said_once_to_a_client_that_shows_no_progress(project, shows) -> None:
    busy = refusal(429, {"error": {"message": "slow down"}})
    capabilities = only(window=types.WindowClientCapabilities(work_done_progress=shows))
    options: dict[str, Any] = {"retry": {"firstSeconds": 0.05}}
    with FakeModelServer(busy, busy, busy, answer("Here I am.")) as model:
        options["model"] = {"baseUrl": model.url}
        async with fake_editor(project, options=options, capabilities=capabilities) as editor:
            await editor.command("dsh.followup", {"text": "Hello?", "wait": True})
            assert len(model.requests) == 4
            await editor.until(lambda: "DSH: Here I am." in editor.messages)
            told = [message for message in editor.messages if "slow down" in message]
            assert [message.partition("slow down")[2] for message in told] == (
                [] if shows else ["; it is tried again, up to 5 times, unless you cancel"]
            )


async def test_a_turn_that_reaches_a_limit_says_so_and_why(project) -> None:
    look = answer("", calls=[("read_file", {"path": "calc.py"})])
    with FakeModelServer(look, look) as model:
        options = {"model": {"baseUrl": model.url}, "limits": {"steps": 1}}
        async with fake_editor(project, options=options) as editor:
            await editor.command("dsh.followup", {"text": "Look.", "wait": True})
            why = "stopped: the turn reached its limit of 1 steps"
            await editor.until(lambda: f"DSH: {why}" in editor.messages)
            assert [value["message"] for _, value in editor.progress if value["kind"] == "end"] == [why]


@pytest.mark.parametrize("literals", [True, False])
async def test_a_client_that_takes_commands_alone_is_sent_no_literals_of_code_actions(
    project, model, literals
) -> None:
    kinds = types.ClientCodeActionKindOptions(value_set=["quickfix"])
    support = types.ClientCodeActionLiteralOptions(code_action_kind=kinds) if literals else None
    action = types.CodeActionClientCapabilities(code_action_literal_support=support)
    capabilities = only(
        text_document=types.TextDocumentClientCapabilities(code_action=action),
        workspace=types.WorkspaceClientCapabilities(apply_edit=True),
    )
    model.script(MEND, DONE)
    async with fake_editor(project, model_url=model.url, capabilities=capabilities) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend it."})
        await editor.event("review/opened")
        offered = await editor.code_actions("calc.py", 1)
        assert {bool(action.arguments) for action in offered} == {not literals}, "a command has them at its top"
        await editor.choose("calc.py", 1, ACCEPT)
        await editor.event("turn/end")
        assert editor.text("calc.py") == MENDED
