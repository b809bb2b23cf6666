"""The agent over the wire: the real server as a subprocess, a real LSP client, a model server on the loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from tests.e2e.story import CALC
from tests.support.fake_editor import fake_editor, session_rows
from tests.support.model_server import Gate, answer, chunk, event

EDIT = answer(
    "I propose an edit.",
    reasoning="It subtracts.",
    calls=[("edit_file", {"path": "calc.py", "old_text": "return a - b", "new_text": "return a + b"})],
)
READ = answer("Reading.", calls=[("read_file", {"path": "calc.py"})])


@pytest.fixture
def project(project: Path) -> Path:
    (project / "calc.py").write_text(CALC)
    return project


def users_words(request) -> list[str]:
    return [message["content"] for message in request.body["messages"] if message["role"] == "user"]


async def test_a_question_becomes_a_previewed_edit_in_the_users_buffer(project, model) -> None:
    model.script(READ, EDIT, answer("Done."))
    async with fake_editor(
        project, model_url=model.url, profile="visual_studio_code", decide_preview=lambda edits: [True] * len(edits)
    ) as editor:
        editor.open("calc.py", "# mine, unsaved\n" + CALC)
        accepted = await editor.command("dsh.followup", {"text": "Mend add."})
        assert set(accepted) == {"session", "message"}
        end = await editor.event("turn/end")

        assert end["data"]["reason"] == {"kind": "completed"}
        assert editor.text("calc.py") == "# mine, unsaved\n" + CALC.replace("a - b", "a + b")
        assert (project / "calc.py").read_text() == CALC
        (edit,) = editor.edits
        assert edit.edit.changes is None
        (change,) = edit.edit.document_changes
        assert change.text_document.version == 2
        assert edit.edit.change_annotations["dsh"].needs_confirmation
        assert [e.annotation_id for e in change.edits] == ["dsh"]
        assert "# mine, unsaved" in editor.tool_results[0]
        assert "accepted and is in the document, line 3" in editor.tool_results[1]

        durable = [e for e in editor.events if "seq" in e]
        assert [e["seq"] for e in durable] == sorted(e["seq"] for e in durable)
        boundaries = [e["type"] for e in durable if e["type"].startswith(("turn/", "review/", "edit/", "tool/"))]
        assert boundaries == [
            "turn/start",
            "tool/call",
            "tool/result",
            "tool/call",
            "review/opened",
            "edit/landed",
            "review/decided",
            "tool/result",
            "turn/end",
        ]
        assert not editor.seen("assistant/chunk")
        streamed = "".join(e["data"]["text"] for e in editor.seen("assistant/stream") if e["data"]["kind"] == "text")
        assert streamed == "Reading.I propose an edit.Done."
        first_call = editor.seen("tool/call")[0]
        assert first_call["card"] == {"kind": "read", "title": "Read calc.py", "path": "calc.py"}
        await editor.until(lambda: "end" in editor.kinds)
        assert editor.kinds[0] == "begin"
        assert editor.kinds.count("end") == 1

        await editor.until(lambda: session_rows(project)[-1]["type"] == "turn/end")
    header, *rows = session_rows(project)
    assert header["type"] == "session"
    assert [row["seq"] for row in rows] == list(range(len(rows)))


async def test_reasoning_goes_back_to_the_model_on_every_answer(project, model) -> None:
    model.script(answer("a", reasoning="why", calls=[("list_files", {})]), answer("b"), answer("c"))
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.followup", {"text": "one", "wait": True})
        await editor.command("dsh.followup", {"text": "two", "wait": True})
        answers = [m for m in model.requests[2].body["messages"] if m["role"] == "assistant"]
        assert [m["reasoning_content"] for m in answers] == ["why", ""]
        assert model.requests[0].headers["authorization"] == "Bearer sk-test-secret"


async def test_an_edit_that_the_preview_discards_waits_for_the_commands(project, model) -> None:
    model.script(EDIT, answer("Fine."))
    async with fake_editor(
        project, model_url=model.url, profile="visual_studio_code", decide_preview=lambda _edits: None
    ) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        await editor.until(lambda: any("still wait" in message for message in editor.messages))
        assert not editor.seen("review/decided")
        assert len(editor.edits) == 1
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert editor.text("calc.py") == CALC.replace("a - b", "a + b")
        assert editor.edits[1].edit.change_annotations is None


async def test_a_preview_may_apply_a_part_and_the_rest_still_waits(project, model) -> None:
    both = CALC.replace("a - b", "a + b").replace("a + a", "2 * a")
    model.script(answer("", calls=[("write_file", {"path": "calc.py", "content": both})]), answer("Fine."))
    async with fake_editor(
        project, model_url=model.url, profile="visual_studio_code", decide_preview=lambda edits: [True, False]
    ) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend it."})
        await editor.event("edit/landed")
        left = await editor.command("dsh.review.list")
        (waiting,) = left["files"][0]["hunks"]
        assert waiting["newText"] == "    return 2 * a\n"
        await editor.command("dsh.review.reject", {"hunks": [waiting["id"]], "comment": "leave it"})
        await editor.event("turn/end")
        assert editor.text("calc.py") == CALC.replace("a - b", "a + b")
        assert "is in the document" in editor.tool_results[0]
        assert "rejected the edit" in editor.tool_results[0]
        assert "leave it" in editor.tool_results[0]


async def test_an_editor_without_preview_decides_by_code_action_and_typing_stays_safe(project, model) -> None:
    model.script(EDIT, answer("Done."))
    async with fake_editor(project, model_url=model.url) as editor:
        uri = editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        await editor.until(lambda: editor.diagnostics.get(uri))
        (hint,) = editor.diagnostics[uri]
        assert hint.range.start.line == 1
        assert "+     return a + b" in hint.message
        for _ in range(3):
            editor.type("calc.py", 0, 0, "# typed\n")
        await editor.until(lambda: editor.diagnostics[uri][0].range.start.line == 4)
        assert not editor.edits
        assert not editor.seen("review/decided")
        titles = [action.title for action in await editor.code_actions("calc.py", 4)]
        assert titles[:2] == ["DSH: Accept this edit", "DSH: Reject this edit"]
        await editor.choose("calc.py", 4, "DSH: Accept this edit")
        await editor.event("turn/end")
        assert editor.text("calc.py") == "# typed\n" * 3 + CALC.replace("a - b", "a + b")
        assert editor.diagnostics[uri] == []
        assert "not saved: the document and its file differed before the edit" in editor.tool_results[0]


async def test_a_clean_document_is_saved_where_the_editor_offers_it(project, model) -> None:
    model.script(EDIT, answer("Done."))
    async with fake_editor(project, model_url=model.url, dsh={"save": True}, saves=True) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        await editor.event("review/opened")
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert (project / "calc.py").read_text() == CALC.replace("a - b", "a + b")
        assert "(saved)" in editor.tool_results[0]
        states = [status["state"] for status in editor.statuses]
        assert "waiting" in states
        assert await editor.until(lambda: editor.statuses[-1]["state"] == "idle")


async def test_a_clean_document_stays_unsaved_where_the_editor_does_not(project, model) -> None:
    model.script(EDIT, answer("Done."))
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        await editor.event("review/opened")
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert (project / "calc.py").read_text() == CALC
        assert "does not let the agent save" in editor.tool_results[0]
        assert any("unsaved" in message for message in editor.messages)


async def test_an_editor_that_says_yes_and_does_nothing_is_not_believed(project, model) -> None:
    model.script(EDIT, READ, answer("Hm."))
    async with fake_editor(project, model_url=model.url, applies="lies") as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        await editor.event("review/opened")
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.until(lambda: editor.seen("turn/end"), timeout_s=20)
        assert "NOT CONFIRMED" in editor.tool_results[0]
        assert "not confirmed and may still arrive" in editor.tool_results[1]
        assert not editor.seen("edit/landed")
        assert editor.seen("review/decided")[0]["data"]["hunks"][0]["outcome"] == "unconfirmed"
        at = CALC.index("a - b")
        editor.type("calc.py", at, at + len("a - b"), "a + b")
        await editor.event("edit/landed")


async def test_the_model_is_told_of_the_text_that_a_person_put_in_its_place(project, model) -> None:
    model.script(EDIT, answer("I see."))
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        opened = await editor.event("review/opened")
        hunk = opened["data"]["files"][0]["hunks"][0]
        mine = "    return sum((a, b))\n"
        await editor.command("dsh.review.accept", {"hunks": [hunk["id"]], "edited": {hunk["id"]: mine.rstrip("\n")}})
        await editor.event("turn/end")
        assert mine in editor.text("calc.py")
        assert "the user accepted other text, which is in the document, line 2" in editor.tool_results[0]
        assert mine in editor.tool_results[0] + "\n"
        assert editor.seen("review/decided")[0]["data"]["hunks"][0]["text"] == mine


async def test_a_client_of_a_later_version_is_served_and_its_user_told_what_to_update(project, model) -> None:
    model.script(answer("Hello."))
    async with fake_editor(project, model_url=model.url, dsh={"version": 2}) as editor:
        await editor.command("dsh.followup", {"text": "Hi.", "wait": True})
        assert [message for message in editor.messages if "update dsh-lsp" in message]


async def test_an_edit_that_the_editor_refuses_waits_on_and_the_user_is_told_once(project, model) -> None:
    model.script(EDIT, answer("Hm."))
    async with fake_editor(project, model_url=model.url, applies="refuses") as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        await editor.event("review/opened")
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.until(lambda: any("gave no reason" in message for message in editor.messages))
        assert len((await editor.command("dsh.review.list"))["files"]) == 1
        assert len(editor.edits) == 1
        uri = (project / "calc.py").as_uri()
        await editor.until(lambda: len(editor.diagnostics[uri]) == 1)
        editor.applies = "honest"
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert editor.text("calc.py") == CALC.replace("a - b", "a + b")


async def test_lines_that_the_user_changed_are_a_conflict_and_are_left_alone(project, model) -> None:
    model.script(EDIT, answer("I see."))
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        await editor.event("review/opened")
        at = CALC.index("a - b")
        editor.type("calc.py", at, at + 5, "b - a")
        await editor.event("turn/end")
        assert not editor.edits
        assert "these lines were changed meanwhile" in editor.tool_results[0]
        assert "return b - a" in editor.tool_results[0]


async def test_a_hunk_among_equal_lines_stays_with_its_own(project, model) -> None:
    (project / "same.py").write_text("x = 1\nx = 1\nx = 1\n")
    both = {"path": "same.py", "content": "x = 1\nx = 2\nx = 1\n"}
    model.script(answer("", calls=[("write_file", both)]), answer("Done."))
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("same.py")
        await editor.command("dsh.followup", {"text": "Go."})
        await editor.event("review/opened")
        editor.type("same.py", 0, 0, "x = 1\n")  # only the place tells these lines apart
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert editor.text("same.py") == "x = 1\nx = 1\nx = 2\nx = 1\n"


async def test_a_file_that_the_editor_does_not_hold_is_written_after_acceptance_byte_for_byte(project, model) -> None:
    raw = b"\xef\xbb\xbfone\r\ntwo\r\nthree"
    (project / "dos.txt").write_bytes(raw)
    (project / "dos.txt").chmod(0o640)
    (project / "link.txt").symlink_to("dos.txt")
    model.script(
        answer("", calls=[("edit_file", {"path": "link.txt", "old_text": "two\n", "new_text": "2\n"})]),
        answer("", calls=[("write_file", {"path": "new/file.txt", "content": "hello\n"})]),
        answer("Done."),
    )
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.followup", {"text": "Go."})
        await editor.event("review/opened")
        assert (project / "dos.txt").read_bytes() == raw
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("review/opened", 2)
        assert (project / "dos.txt").read_bytes() == raw.replace(b"two", b"2")
        assert (project / "dos.txt").stat().st_mode & 0o777 == 0o640
        assert (project / "link.txt").is_symlink()
        assert not (project / "new").exists()
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        assert (project / "new" / "file.txt").read_text() == "hello\n"
        assert not editor.edits


async def test_a_steer_is_in_the_next_request_of_the_running_turn(project, model) -> None:
    gate = Gate()
    model.script(READ.before(event(chunk({"content": "Hm"})), gate), answer("Both done."))
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "First."})
        await gate.wait_reached()
        await editor.command("dsh.steer", {"text": "And this."})
        gate.release()
        await editor.event("turn/end")
        assert users_words(model.requests[1]) == ["First.", "And this."]
        assert len(editor.seen("turn/start")) == 1


async def test_an_inject_waits_for_the_next_question(project, model) -> None:
    model.script(answer("Ok."))
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.inject", {"text": "For later."})
        assert (await editor.command("dsh.status"))["queue"] == {"nextTurn": 0, "nextStep": 1}
        assert not model.requests
        await editor.command("dsh.followup", {"text": "Now.", "wait": True})
        assert users_words(model.requests[0]) == ["For later.", "Now."]


@pytest.mark.parametrize("by", ["command", "progress"])
async def test_a_cancel_in_mid_stream_ends_the_turn_and_the_next_question_works(project, model, by) -> None:
    gate = Gate()
    model.script(answer("").before(event(chunk({"content": "Once upon"})), gate), answer("Fine."))
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.followup", {"text": "Tell."})
        await gate.wait_reached()
        await editor.event("assistant/stream")
        await editor.until(lambda: "begin" in editor.kinds)
        if by == "command":
            assert (await editor.command("dsh.cancel"))["wasRunning"]
        else:
            editor.cancel_progress(editor.progress[0][0])
        end = await editor.event("turn/end")
        assert end["data"]["reason"] == {"kind": "aborted", "reason": {"kind": "user"}}
        assert editor.seen("assistant/message")[0]["data"]["interrupted"]
        await editor.until(lambda: model.requests[0].torn)
        await editor.until(lambda: "end" in editor.kinds)
        assert editor.kinds.count("end") == 1
        done = await editor.command("dsh.followup", {"text": "Again.", "wait": True})
        assert (done["reason"], done["text"]) == ({"kind": "completed"}, "Fine.")
        assert not (await editor.command("dsh.cancel"))["wasRunning"]


async def test_a_cancel_during_a_review_decides_it_as_cancelled_and_a_late_accept_decides_nothing(
    project, model
) -> None:
    model.script(EDIT, answer("Fine."))
    async with fake_editor(project, model_url=model.url) as editor:
        uri = editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend add."})
        opened = await editor.event("review/opened")
        hunk = opened["data"]["files"][0]["hunks"][0]["id"]
        await editor.command("dsh.cancel")
        await editor.event("turn/end")
        assert editor.seen("review/decided")[0]["data"]["hunks"] == [{"id": hunk, "outcome": "cancelled"}]
        assert editor.diagnostics[uri] == []
        with pytest.raises(JsonRpcException, match="not waiting") as refused:
            await editor.command("dsh.review.accept", {"hunks": [hunk]})
        assert refused.value.data["code"] == "NOT_PENDING"
        assert not editor.edits
        assert editor.text("calc.py") == CALC


async def test_a_selection_goes_along_as_a_fenced_block(project, model) -> None:
    model.script(answer("Ok."))
    async with fake_editor(project, model_url=model.url) as editor:
        uri = editor.open("calc.py", CALC.replace("a - b", "a ~ b"))
        span = {"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 16}}
        context = [{"uri": uri, "range": span}, {"uri": uri}]
        await editor.command("dsh.followup", {"text": "Why?", "context": context, "wait": True})
        (words,) = users_words(model.requests[0])
        assert words == "Why?\n\nFrom calc.py, lines 2-2:\n```\nreturn a ~ b\n```\n\nSee calc.py"
