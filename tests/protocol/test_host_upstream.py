"""What stock pygls still does wrong; a failure here says that an override of `dsh_lsp/lsp` may go.

Each case is a trap that the host answers, shown on a plain pygls server. When a new pygls mends one, its case fails:
then delete the case, and the override if ours does nothing more.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.e2e.desk import wait_for
from tests.support.raw_client import NO_ANSWER, RawClient

STOCK = """
import asyncio, sys
import anyio
from dsh_lsp.lsp.compiled_types import import_types
import_types()  # for speed alone: the classes are those of the package
from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("stock", "1")
seen = []

@server.command("echo")
async def echo(argument):
    return argument

@server.command("kind")
async def kind(argument):
    return type(argument).__name__

@server.command("seen")
async def tell():
    return seen

@server.command("slow")
async def slow():
    await asyncio.sleep(0.2)
    seen.append("ran to its end")

@server.command("hang")
async def hang():
    await asyncio.sleep(60)

@server.feature("test/shielded")
async def shielded(params):
    with anyio.CancelScope(shield=True):
        await asyncio.sleep(0.2)
        seen.append("the shield held")

@server.feature("textDocument/hover")
async def hover(params):
    return None

@server.command("set")
async def a_set():
    return {1}

@server.command("nan")
async def nan():
    return float("nan")

@server.command("bug")
async def bug():
    raise RuntimeError("a bug")

@server.command("print")
async def stray():
    print("a stray print", flush=True)

@server.command("ask")
async def ask():
    edit = types.ApplyWorkspaceEditParams(edit=types.WorkspaceEdit(changes={}))
    await asyncio.wait_for(server.workspace_apply_edit_async(edit), 0.05)

@server.command("flood")
async def flood():
    async def beat():
        while True:
            await asyncio.sleep(0.01)
            seen.append("beat")
    task = asyncio.create_task(beat())
    for _ in range(40):
        server.protocol.notify("test/flood", {"text": "x" * 10_000})
        await asyncio.sleep(0)
    task.cancel()

@server.command("progress")
async def progress(token):
    await server.work_done_progress.create_async(token)
    server.work_done_progress.begin(token, types.WorkDoneProgressBegin(title="x"))
    server.work_done_progress.end(token, types.WorkDoneProgressEnd())
    return token in server.work_done_progress.tokens

@server.thread()
@server.feature("test/notified")
def notified(params):
    pass

server.start_io()
"""


def start() -> RawClient:
    return RawClient.start(("-c", STOCK))


def run(client: RawClient, command: str, *arguments: Any) -> dict[str, Any]:
    params = {"command": command, "arguments": list(arguments)}
    return client.request("workspace/executeCommand", params, timeout_s=5)


def is_unanswered(client: RawClient, message_id: int) -> bool:
    """Whether a request is passed over: the ones after it are answered."""
    assert run(client, "echo", 1)["result"] == 1
    return not any("method" not in m and m.get("id") == message_id for m in client.messages)


def is_silent(client: RawClient, message_id: int) -> bool:
    """Whether no request is answered any more."""
    with pytest.raises(TimeoutError):
        client.reply(message_id, timeout_s=0.7)
    return client.process.poll() is None


def popups(client: RawClient) -> list[Any]:
    return client.notifications("window/showMessage")


def cancel_lets_a_command_run_on(client: RawClient) -> bool:
    slow = client.post("workspace/executeCommand", {"command": "slow", "arguments": []})
    client.notify("$/cancelRequest", {"id": slow})
    assert client.reply(slow)["error"]["code"] == -32800
    with suppress(TimeoutError):
        return wait_for(lambda: "ran to its end" in run(client, "seen")["result"], "it runs on", timeout_s=5)
    return False


def cancel_tears_a_shield(client: RawClient) -> bool:
    shielded = client.post("test/shielded", {})
    client.notify("$/cancelRequest", {"id": shielded})
    assert client.reply(shielded)["error"]["code"] == -32800
    time.sleep(0.4)
    return "the shield held" not in run(client, "seen")["result"]


def bad_params_are_a_popup_and_no_answer(client: RawClient) -> bool:
    before = len(popups(client))
    hover = client.post("textDocument/hover", {"textDocument": {}})
    return is_unanswered(client, hover) and len(popups(client)) > before


def a_request_without_params_gets_no_answer(client: RawClient) -> bool:
    return is_unanswered(client, client.post("test/unknown"))


def a_result_that_is_no_json_gets_no_answer(client: RawClient) -> bool:
    before = len(popups(client))
    command = client.post("workspace/executeCommand", {"command": "set", "arguments": []})
    return is_unanswered(client, command) and len(popups(client)) > before


def not_a_number_breaks_the_json(client: RawClient) -> bool:
    with pytest.raises(TimeoutError):
        run(client, "nan")
    return "NaN is not JSON" in str(client.garbage)


def a_client_that_does_not_read_stops_the_loop(client: RawClient) -> bool:
    client.stop_reading()
    flood = client.post("workspace/executeCommand", {"command": "flood", "arguments": []})
    time.sleep(0.5)  # 50 beats of a loop that runs
    client.resume_reading()
    client.reply(flood)
    return run(client, "seen")["result"].count("beat") < 20


def a_nested_message_is_taken_for_one(client: RawClient) -> bool:
    nested = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}
    return run(client, "kind", nested)["result"] != "dict"


def a_late_reply_is_a_popup(client: RawClient) -> bool:
    client.on_request("workspace/applyEdit", lambda _params: NO_ANSWER)
    assert "error" in run(client, "ask")
    asked = next(m for m in client.messages if m.get("method") == "workspace/applyEdit")
    before = len(popups(client))
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"applied": True}})
    run(client, "echo", 1)
    return len(popups(client)) > before


def shutdown_fails_with_a_command_in_flight(client: RawClient) -> bool:
    client.post("workspace/executeCommand", {"command": "hang", "arguments": []})
    return client.request("shutdown").get("error", {}).get("code") == -32603


def exit_without_shutdown_is_a_success(client: RawClient) -> bool:
    client.notify("exit")
    return client.wait_exit() == 0


def a_signal_ends_it_without_ceremony(client: RawClient) -> bool:
    client.process.send_signal(signal.SIGTERM)
    return client.wait_exit() == -signal.SIGTERM


def a_stray_print_breaks_the_stream(client: RawClient) -> bool:
    client.post("workspace/executeCommand", {"command": "print", "arguments": []})
    with pytest.raises(TimeoutError):
        run(client, "echo", 1)
    return "a stray print" in str(client.garbage)


def a_bug_shows_its_traceback_to_the_client(client: RawClient) -> bool:
    return "traceback" in run(client, "bug")["error"]["data"]


def a_header_in_lower_case_is_not_heard(client: RawClient) -> bool:
    body = b'{"jsonrpc":"2.0","id":"low","method":"test/unknown","params":{}}'
    client.send_bytes(b"content-length: %d\r\n\r\n%b" % (len(body), body))
    return is_silent(client, client.post("test/unknown", {}))


def invalid_json_is_a_popup_without_an_error(client: RawClient) -> bool:
    before, heard = len(popups(client)), len(client.messages)
    client.send_body(b"{nope")
    run(client, "echo", 1)
    return len(popups(client)) > before and not any("error" in message for message in client.messages[heard:])


def a_second_initialize_is_welcome(client: RawClient) -> bool:
    return "result" in client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})


def a_request_after_shutdown_gets_no_answer(client: RawClient) -> bool:
    client.request("shutdown")
    return is_silent(client, client.post("test/unknown", {}))


def a_progress_token_is_never_freed(client: RawClient) -> bool:
    client.on_request("window/workDoneProgress/create", lambda _params: None)
    return run(client, "progress", "one")["result"] is True


def a_progress_is_made_without_the_capability(client: RawClient) -> bool:
    client.on_request("window/workDoneProgress/create", lambda _params: None)
    run(client, "progress", "another")
    asked = [m["params"]["token"] for m in client.messages if m.get("method") == "window/workDoneProgress/create"]
    return "another" in asked


TRAPS: tuple[Callable[[RawClient], bool], ...] = (
    cancel_lets_a_command_run_on,
    cancel_tears_a_shield,
    bad_params_are_a_popup_and_no_answer,
    a_request_without_params_gets_no_answer,
    a_result_that_is_no_json_gets_no_answer,
    a_client_that_does_not_read_stops_the_loop,
    a_nested_message_is_taken_for_one,
    a_late_reply_is_a_popup,
    a_bug_shows_its_traceback_to_the_client,
    invalid_json_is_a_popup_without_an_error,
    a_progress_token_is_never_freed,
    a_progress_is_made_without_the_capability,
)
FATAL_TRAPS: tuple[Callable[[RawClient], bool], ...] = (
    not_a_number_breaks_the_json,
    shutdown_fails_with_a_command_in_flight,
    exit_without_shutdown_is_a_success,
    a_signal_ends_it_without_ceremony,
    a_stray_print_breaks_the_stream,
    a_header_in_lower_case_is_not_heard,
    a_second_initialize_is_welcome,
    a_request_after_shutdown_gets_no_answer,
)


@pytest.fixture(scope="module")
def stock() -> Iterator[RawClient]:
    """A server that outlives the traps that it falls into."""
    with start() as client:
        client.initialize()
        yield client


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_stock_pygls_still_has_the_trap(stock: RawClient, trap: Callable[[RawClient], bool]) -> None:
    assert trap(stock), f"pygls has mended this: {trap.__name__}; the override that answers it may go"


@pytest.mark.parametrize("trap", FATAL_TRAPS, ids=lambda trap: trap.__name__)
def test_stock_pygls_still_has_the_trap_that_ends_it(trap: Callable[[RawClient], bool]) -> None:
    with start() as client:
        client.initialize()
        assert trap(client), f"pygls has mended this: {trap.__name__}; the override that answers it may go"


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"capabilities": {"textDocument": {"hover": {"contentFormat": ["morse"]}}}}, "an unknown value"),
        ({"capabilities": {}, "trace": "compact"}, "a trace that vscode-languageclient sends"),
    ],
)
def test_stock_pygls_still_does_not_answer_an_initialize_with(params: dict[str, Any], named: str) -> None:
    with start() as client:
        first = client.post("initialize", {"processId": None, "rootUri": None, **params})
        second = client.post("test/unknown", {})
        assert client.reply(second)["error"]["code"] == -32601
        assert not any(message.get("id") == first for message in client.messages), f"pygls has mended {named}"


def test_stock_pygls_still_runs_commands_before_initialize() -> None:
    with start() as client:
        assert run(client, "echo", 1)["result"] == 1


def test_stock_pygls_still_outlives_its_client() -> None:
    parent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with start() as orphan:
        try:
            orphan.initialize(processId=parent.pid)
        finally:
            parent.kill()
            parent.wait(5)
        time.sleep(2.5)  # ours looks every two seconds
        assert orphan.process.poll() is None
