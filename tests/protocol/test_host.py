"""The host as a process: what a client may do to it, and what it answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.desk import wait_for
from tests.support.raw_client import NO_ANSWER, RawClient, Refusal

URI = "file:///project/a.py"


def is_error_without_id(message: dict[str, Any]) -> bool:
    return "error" in message and message.get("id", 0) is None


@pytest.fixture(scope="module")
def editor() -> Iterator[RawClient]:
    client = RawClient.start_host()
    client.initialize()
    yield client
    assert client.close() == 0
    assert client.garbage is None
    assert client.notifications("window/showMessage") == []  # stock pygls pops up for most of what follows


# Messages that are none


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{nope", -32700),
        (b"", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[NaN]}', -32700),
        (b"[" * 100_000, -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"shutdown"}]', -32600),
        (b"7", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"shutdown"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"shutdown"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"shutdown"}', -32600),
        (b'{"jsonrpc":"2.0","method":7}', -32600),
    ],
)
def test_what_is_no_message_gets_an_error_with_a_null_id(editor: RawClient, body: bytes, code: int) -> None:
    before = len(editor.messages)
    editor.send_body(body)
    answer = editor.wait_for(is_error_without_id, after=before)
    assert answer["error"]["code"] == code
    assert editor.command("test.echo", {"alive": True})["result"] == {"alive": True}


def test_a_request_of_another_version_is_refused_by_its_id(editor: RawClient) -> None:
    editor.send({"jsonrpc": "1.0", "id": "old", "method": "shutdown"})
    assert editor.reply("old")["error"]["code"] == -32600


def test_replies_that_nobody_awaits_are_ignored(editor: RawClient) -> None:
    for reply in ({"id": 1, "result": None}, {"id": "dsh-999", "result": 1}, {"id": [1], "error": "odd"}):
        editor.send({"jsonrpc": "2.0", **reply})
    assert editor.command("test.echo")["result"] == {}


@pytest.mark.parametrize(
    "frame",
    [
        b"content-length: %d\r\n\r\n%b",
        b"Content-Length: %d\n\n%b",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nCONTENT-LENGTH:%d\r\n\r\n%b",
        b"\r\n\r\nContent-Length: %d\r\n\r\n%b",
    ],
)
def test_headers_pass_in_any_spelling(editor: RawClient, frame: bytes) -> None:
    message_id = f"spelling {frame!r}"
    body = json.dumps({"jsonrpc": "2.0", "id": message_id, "method": "test/raw"}).encode()
    editor.send_bytes(frame % (len(body), body))
    assert editor.reply(message_id)["result"] == {"params": None}


# Params


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("textDocument/hover", {"textDocument": {}}, "uri"),
        ("textDocument/hover", {"textDocument": {"uri": URI}, "position": {"line": "x"}}, "character"),
        ("workspace/executeCommand", {"arguments": []}, "command"),
        ("workspace/executeCommand", [1], "executeCommand"),
        ("workspace/executeCommand", None, "command"),
    ],
)
def test_bad_params_are_answered_with_the_reason(editor: RawClient, method: str, params: Any, named: str) -> None:
    error = editor.request(method, params)["error"]
    assert error["code"] == -32602
    assert named in error["message"]
    assert "\n" not in error["message"]


def test_a_request_without_params_is_handled(editor: RawClient) -> None:
    assert editor.request("test/raw")["result"] == {"params": None}


def test_params_of_unknown_types_arrive_as_they_were_sent(editor: RawClient) -> None:
    params = {"jsonrpc": "2.0", "id": 1, "a-b": {"class": None, "type_name": [1, {"jsonrpc": "2.0"}]}}
    assert editor.request("test/raw", params)["result"] == {"params": params}
    assert editor.command("test.echo", params)["result"] == params


@pytest.mark.parametrize("method", ["test/unknown", "textDocument/definition", "$/unknown"])
@pytest.mark.parametrize("params", [None, {"x": 1}, [1]])
def test_unknown_requests_are_told_so(editor: RawClient, method: str, params: Any) -> None:
    assert editor.request(method, params)["error"]["code"] == -32601


def test_bad_and_failing_notifications_are_dropped_in_silence(editor: RawClient) -> None:
    before = len(editor.messages)
    editor.notify("test/unknown", {"x": 1})
    editor.notify("textDocument/didChange", {"textDocument": {"uri": URI}})
    editor.notify("textDocument/didChange")
    editor.notify("textDocument/didSave", {"textDocument": {"uri": URI}})
    editor.notify("$/cancelRequest", {"id": "never sent"})
    editor.notify("$/setTrace", {"value": "compact"})
    assert editor.command("test.take_seen")["result"] == []
    assert len(editor.messages) == before + 1
    editor.wait_stderr("the save handler fails")


# Results and errors


@pytest.mark.parametrize("what", ["nan", "set", "object", "circle"])
def test_a_result_that_is_no_json_is_an_internal_error(editor: RawClient, what: str) -> None:
    error = editor.command("test.bad_result", {"what": what})["error"]
    assert error["code"] == -32603
    assert error["data"] == {"code": "INTERNAL"}


def test_half_a_surrogate_pair_survives(editor: RawClient) -> None:
    assert editor.command("test.bad_result", {"what": "surrogate"})["result"] == "a\ud800b"


@pytest.mark.parametrize(
    ("how", "code", "data", "message"),
    [
        ("bug", -32603, "INTERNAL", "internal error: RuntimeError: first line second line"),
        ("dsh", -32803, "NO_KEY", "No key: set DEEPSEEK_API_KEY."),
        ("usage", -32602, "NO_HUNK", "Unknown hunk."),
        ("group", -32803, "NO_KEY", "No key."),
    ],
)
def test_errors_cross_the_border_without_traceback(
    editor: RawClient, how: str, code: int, data: str, message: str
) -> None:
    error = editor.command("test.fail", {"how": how})["error"]
    assert error == {"code": code, "message": message, "data": {"code": data}}


def test_a_bug_is_logged_with_its_traceback(editor: RawClient) -> None:
    editor.command("test.fail", {})
    editor.wait_stderr('argument["how"]')


# Commands


def test_a_validation_that_fails_inside_a_command_is_not_the_clients_mistake(editor: RawClient) -> None:
    error = editor.command("test.validate", {"range": {"line": "x"}})["error"]
    assert error["code"] == -32603
    assert error["data"] == {"code": "INTERNAL"}


@pytest.mark.parametrize("arguments", [[{}, {}], [7], ["x"], [[1]], [True]])
def test_a_command_takes_one_object(editor: RawClient, arguments: list[Any]) -> None:
    params = {"command": "test.echo", "arguments": arguments}
    assert editor.request("workspace/executeCommand", params)["error"]["code"] == -32602


@pytest.mark.parametrize("params", [{}, {"arguments": None}, {"arguments": []}, {"arguments": [None]}])
def test_a_missing_argument_is_an_empty_object(editor: RawClient, params: dict[str, Any]) -> None:
    reply = editor.request("workspace/executeCommand", {"command": "test.echo", **params})
    assert reply["result"] == {}


def test_an_unknown_command_is_refused(editor: RawClient) -> None:
    error = editor.command("test.nothing")["error"]
    assert error["code"] == -32602
    assert "test.nothing" in error["message"]


def test_a_command_sees_the_clients_progress_token(editor: RawClient) -> None:
    first = editor.post_command("test.token", workDoneToken="a")
    second = editor.post_command("test.token")
    assert editor.reply(first)["result"] == "a"
    assert editor.reply(second)["result"] is None


def test_cancel_stops_a_command(editor: RawClient) -> None:
    editor.command("test.take_seen")
    message_id = editor.post_command("test.slow")
    editor.notify("$/cancelRequest", {"id": message_id})
    assert editor.reply(message_id, timeout_s=2)["error"]["code"] == -32800
    assert editor.command("test.take_seen")["result"] == ["slow began", "slow ended"]


def test_a_cancelled_command_that_has_a_result_all_the_same_is_answered_with_it(editor: RawClient) -> None:
    message_id = editor.post_command("test.accept", {"seconds": 0.2})
    editor.notify("$/cancelRequest", {"id": message_id})
    assert editor.reply(message_id, timeout_s=2)["result"] == {"accepted": True}


@pytest.mark.parametrize(
    "params", [None, {}, {"id": None}, {"id": [1]}, {"id": {"a": 1}}, {"id": 1e9}, {"id": True}, [1]]
)
def test_a_cancellation_of_nothing_is_nothing(editor: RawClient, params: Any) -> None:
    editor.notify("$/cancelRequest", params)
    assert editor.command("test.echo")["result"] == {}


def test_requests_that_share_an_id_are_answered_each(editor: RawClient) -> None:
    command = {"command": "test.slow", "arguments": []}
    before = len(editor.messages)
    for _ in range(2):
        editor.send({"jsonrpc": "2.0", "id": "twice", "method": "workspace/executeCommand", "params": command})
    editor.notify("$/cancelRequest", {"id": "twice"})
    first = editor.wait_for(lambda message: message.get("id") == "twice", after=before)
    assert first["error"]["code"] == -32800
    assert [message.get("id") for message in editor.messages[before:]] == ["twice"]
    editor.command("test.take_seen")


# Order


def test_the_first_step_of_a_handler_comes_before_the_next_message(editor: RawClient) -> None:
    editor.command("test.take_seen")
    document = {"uri": URI, "languageId": "python", "version": 0, "text": ""}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    for version in range(1, 51):
        change = {"textDocument": {"uri": URI, "version": version}, "contentChanges": [{"text": "x"}]}
        editor.notify("textDocument/didChange", change)
    seen = editor.command("test.take_seen")["result"]
    first_steps = [entry for entry in seen if entry != "later"]
    assert first_steps == [f"open {URI}", *(f"change {version}" for version in range(1, 51))]


def test_notifications_leave_nothing_behind(editor: RawClient) -> None:
    def held() -> int:
        return int(editor.command("test.measure")["result"]["heldFutures"])

    before = held()
    for version in range(20):
        change = {"textDocument": {"uri": URI, "version": version}, "contentChanges": [{"text": "x"}]}
        editor.notify("textDocument/didChange", change)
    wait_for(lambda: held() <= before, "all of them are over")


# Requests to the client


@pytest.mark.parametrize("result", [None, {}, "text", 7, [1], {"applied": False, "jsonrpc": "2.0"}])
def test_a_result_of_the_client_arrives_raw(editor: RawClient, result: Any) -> None:
    editor.on_request("test/ask", lambda params: {"asked": params, "answer": result} if params else result)
    assert editor.command("test.ask", {"method": "test/ask", "timeout": 5})["result"] == {"result": result}


def test_a_refusal_of_the_client_is_an_editor_error(editor: RawClient) -> None:
    def refuse(_params: Any) -> Any:
        raise Refusal(-32803, "not now")

    editor.on_request("test/ask", refuse)
    error = editor.command("test.ask", {"method": "test/ask", "timeout": 5})["error"]
    assert error["data"] == {"code": "EDITOR_REFUSED"}
    assert "not now (-32803)" in error["message"]


@pytest.mark.parametrize("reply", [{"error": "odd"}, {"error": []}, {"error": {}}])
def test_an_error_of_any_shape_ends_the_request(editor: RawClient, reply: dict[str, Any]) -> None:
    editor.on_request("test/ask", lambda _params: NO_ANSWER)
    before = len(editor.messages)
    command = editor.post_command("test.ask", {"method": "test/ask", "timeout": 5})
    asked = editor.wait_for(lambda message: message.get("method") == "test/ask", after=before)
    editor.send({"id": asked["id"], **reply})  # without "jsonrpc", as sloppy clients do
    assert editor.reply(command)["error"]["data"] == {"code": "EDITOR_REFUSED"}


def test_silence_of_the_client_times_out_and_a_late_reply_passes(editor: RawClient) -> None:
    editor.on_request("test/ask", lambda _params: NO_ANSWER)
    before = len(editor.messages)
    error = editor.command("test.ask", {"method": "test/ask", "timeout": 0.1})["error"]
    assert error["data"] == {"code": "EDITOR_TIMEOUT"}
    asked = editor.wait_for(lambda message: message.get("method") == "test/ask", after=before)
    assert {"id": asked["id"]} in editor.notifications("$/cancelRequest")
    editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"late": True}})
    assert editor.command("test.echo")["result"] == {}


def test_a_cancelled_command_cancels_what_it_asks_the_client(editor: RawClient) -> None:
    editor.on_request("test/ask", lambda _params: NO_ANSWER)
    before = len(editor.messages)
    command = editor.post_command("test.ask", {"method": "test/ask", "timeout": None})
    asked = editor.wait_for(lambda message: message.get("method") == "test/ask", after=before)
    editor.notify("$/cancelRequest", {"id": command})
    assert editor.reply(command)["error"]["code"] == -32800
    assert {"id": asked["id"]} in editor.notifications("$/cancelRequest")


@pytest.mark.parametrize("answer", [None, {}, "text", {"applied": "perhaps"}])
def test_a_typed_request_of_pygls_ends_on_any_answer(editor: RawClient, answer: Any) -> None:
    editor.on_request("workspace/applyEdit", lambda _params: answer)
    reply = editor.command("test.ask_typed", {"timeout": 5}, timeout_s=3)
    assert "result" in reply or reply["error"]["code"] == -32603


def test_a_late_answer_to_a_typed_request_of_pygls_passes(editor: RawClient) -> None:
    editor.on_request("workspace/applyEdit", lambda _params: NO_ANSWER)
    before = len(editor.messages)
    assert "error" in editor.command("test.ask_typed", {"timeout": 0.05})
    asked = editor.wait_for(lambda message: message.get("method") == "workspace/applyEdit", after=before)
    editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"applied": True}})
    assert editor.command("test.echo")["result"] == {}


# The stream


def test_the_host_starts_without_heavy_imports() -> None:
    program = "import sys, dsh_lsp.lsp.host; print({'pydantic', 'httpx'} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", program], timeout=10) == b"set()\n"


def test_a_stray_print_does_not_touch_the_stream(editor: RawClient) -> None:
    assert editor.command("test.stray")["result"] is None
    assert editor.garbage is None
    editor.wait_stderr("a stray print")
    editor.wait_stderr("a child says ''")


def test_a_client_that_does_not_read_stops_neither_the_loop_nor_loses_an_answer(fresh: RawClient) -> None:
    before = fresh.command("test.measure")["result"]
    fresh.stop_reading()
    flood = fresh.post_command("test.flood", {"count": 2000})
    time.sleep(0.8)
    echoes = [fresh.post_command("test.echo", {"number": number}) for number in range(20)]
    measured = fresh.post_command("test.measure")
    time.sleep(0.2)
    fresh.resume_reading()
    blocked = fresh.reply(measured)["result"]
    assert blocked["beats"] - before["beats"] >= 10
    assert blocked["peakBytes"] - before["peakBytes"] < 12 << 20
    assert [fresh.reply(echo)["result"]["number"] for echo in echoes] == list(range(20))
    dropped = fresh.reply(flood)["result"]["dropped"]
    assert [params["number"] for params in fresh.notifications("test/durable")] == list(range(2000))
    assert 0 < dropped == 2000 - len(fresh.notifications("test/live"))
    assert fresh.close() == 0
