"""Bad input over the wire: keys, servers, arguments, settings and tool calls that are wrong get a clear word."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from tests.e2e.story import CALC
from tests.support.fake_editor import fake_editor, session_rows
from tests.support.model_server import answer, refusal


@pytest.fixture
def project(project: Path) -> Path:
    (project / "calc.py").write_text(CALC)
    return project


async def test_a_missing_key_is_told_before_anything_is_accepted(project, model) -> None:
    model.script(answer("Ok."))
    async with fake_editor(project, model_url=model.url, key=None) as editor:
        with pytest.raises(JsonRpcException, match="DEEPSEEK_API_KEY") as refused:
            await editor.command("dsh.followup", {"text": "Hello?"})
        assert refused.value.data["code"] == "NO_KEY"
        assert not editor.events
        assert (await editor.command("dsh.status"))["state"] == "idle"


async def test_a_wrong_key_ends_the_turn_with_a_clear_word_and_never_shows_the_key(project, model) -> None:
    body = {"error": {"message": "Your api key: sk-test-secret is invalid", "type": "authentication_error"}}
    model.script(refusal(401, body), answer("Ok."))
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.followup", {"text": "Hello?"})
        end = await editor.event("turn/end")
        failure = end["data"]["reason"]["error"]
        assert failure["code"] == "AUTH"
        assert "DEEPSEEK_API_KEY" in failure["message"]
        await editor.until(lambda: "end" in editor.kinds)
        assert "failed" in editor.progress[-1][1]["message"]
        assert any("DEEPSEEK_API_KEY" in message for message in editor.messages)
        everything = repr(editor.events) + repr(editor.progress) + repr(editor.messages)
        assert "sk-test-secret" not in everything + repr(session_rows(project))
        assert (await editor.command("dsh.followup", {"text": "Now?", "wait": True}))["text"] == "Ok."


async def test_a_server_that_cannot_be_reached_is_named(project) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        options = {"model": {"baseUrl": url}, "retry": {"maxRetries": 0}}
        async with fake_editor(project, options=options) as editor:
            done = await editor.command("dsh.followup", {"text": "Hello?", "wait": True})
            assert done["reason"]["error"]["code"] == "TRANSPORT"
            assert url.removeprefix("http://") in done["reason"]["error"]["message"]
            assert (await editor.command("dsh.status"))["state"] == "idle"


WRONG_ARGUMENTS = [
    ("dsh.followup", {}, "text"),
    ("dsh.followup", {"text": ""}, "text"),
    ("dsh.followup", {"text": "x", "colour": 1}, "colour"),
    ("dsh.followup", "x", "object"),
    ("dsh.review.accept", {}, "hunks"),
    ("dsh.nothing", {}, "dsh.nothing"),
]


async def test_a_wrong_argument_is_refused_with_the_reason(project, subtests) -> None:
    async with fake_editor(project) as editor:
        for command, argument, words in WRONG_ARGUMENTS:
            with subtests.test(command, argument=argument):
                with pytest.raises(JsonRpcException, match=words) as refused:
                    await editor.command(command, argument)
                assert refused.value.code == -32602
                assert (await editor.command("dsh.status"))["state"] == "idle"


async def test_an_unknown_session_is_named(project) -> None:
    async with fake_editor(project) as editor:
        with pytest.raises(JsonRpcException, match="s9") as refused:
            await editor.command("dsh.cancel", {"session": "s9"})
        assert refused.value.data["code"] == "UNKNOWN_SESSION"


async def test_malformed_tool_arguments_are_a_result_that_the_model_reads(project, model) -> None:
    model.script(
        answer("", calls=[("read_file", '{"path": 7, "limit": "x"'), ("edit_file", {"path": "calc.py"})]),
        answer("Sorry."),
    )
    async with fake_editor(project, model_url=model.url) as editor:
        done = await editor.command("dsh.followup", {"text": "Go.", "wait": True})
        assert done["text"] == "Sorry."
        assert "not a JSON object" in editor.tool_results[0]
        assert "old_text: Field required; new_text: Field required" in editor.tool_results[1]


IMPOSSIBLE = [
    (("read_file", {"path": "none.py"}), "does not exist"),
    (("read_file", {"path": "."}), "is not a file"),
    (("read_file", {"path": "binary"}), "not UTF-8 text"),
    (("read_file", {"path": "calc.py", "offset": 99}), "only 6 lines"),
    (("edit_file", {"path": "calc.py", "old_text": "nope", "new_text": ""}), "does not occur"),
    (
        ("edit_file", {"path": "calc.py", "old_text": "return a", "new_text": "x"}),
        "occurs 2 times in calc.py, at lines 2, 6",
    ),
    (("edit_file", {"path": "calc.py", "old_text": "return a -- b", "new_text": ""}), "2\t    return a - b"),
    (("edit_file", {"path": "calc.py", "old_text": " ", "new_text": "x"}), "more than white space"),
    (("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a - b"}), "would not change"),
    (("write_file", {"path": "binary", "content": "x"}), "not UTF-8 text"),
    (("write_file", {"path": ".git/hooks/pre-commit", "content": "x"}), "never writes it"),
    (("read_file", {"path": "a\0b"}), "NUL"),
]


async def test_a_tool_that_cannot_do_it_says_why_and_touches_nothing(project, model, subtests) -> None:
    (project / "binary").write_bytes(b"\x00\xff\x80")
    (project / "escape").symlink_to("/etc")
    async with fake_editor(project, model_url=model.url) as editor:
        for call, words in IMPOSSIBLE:
            with subtests.test(call[0], arguments=call[1]):
                model.script(answer("", calls=[call]), answer("Sorry."))
                await editor.command("dsh.followup", {"text": "Go.", "wait": True})
                assert words in editor.tool_results[-1]
                assert not editor.seen("review/opened")


async def test_bad_settings_are_told_with_their_path_and_the_rest_counts(project, model) -> None:
    model.script(answer("Ok."))
    options = {"model": {"baseUrl": model.url, "maxTokens": -1}, "maxParallelTolCalls": 3}
    async with fake_editor(project, options=options) as editor:
        await editor.command("dsh.followup", {"text": "Hello?", "wait": True})
        assert [message for message in editor.messages if "model.maxTokens" in message]
        assert len(model.requests) == 1


async def test_a_log_that_cannot_be_written_refuses_the_input(project, model, tmp_path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    async with fake_editor(
        project, model_url=model.url, options={"sessions": {"directory": str(blocker / "x")}}
    ) as editor:
        with pytest.raises(JsonRpcException, match="cannot be written") as refused:
            await editor.command("dsh.followup", {"text": "Hello?"})
        assert refused.value.data["code"] == "LOG_NOT_WRITABLE"
        await asyncio.sleep(0.1)
        assert not model.requests, "nothing is asked before what led to it is on disk"
