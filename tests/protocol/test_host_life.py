"""The life of the host over the wire: how it begins, and each way in which it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from dsh_lsp.lsp.host import HostProtocol, create_server
from tests.support.raw_client import HOST_FIXTURE, NO_ANSWER, WAIT_S, RawClient


class ListSink:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, body: bytes) -> None:
        self.sent.append(json.loads(body))

    def send_live(self, body: bytes) -> bool:
        self.send(body)
        return True

    async def drain(self) -> None: ...


def fresh_protocol() -> tuple[HostProtocol, ListSink]:
    protocol, sink = create_server("unserved", "1").protocol, ListSink()
    protocol.attach(sink)
    return protocol, sink


def ask_initialize(protocol: HostProtocol, sink: ListSink, **params: Any) -> dict[str, Any]:
    params = {"processId": None, "rootUri": None, "capabilities": {}, **params}
    protocol.handle_message({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    return sink.sent[-1]


def test_requests_before_initialize_are_refused() -> None:
    protocol, sink = fresh_protocol()
    for method in ("workspace/executeCommand", "shutdown", "test/raw"):
        protocol.handle_message({"jsonrpc": "2.0", "id": 1, "method": method})
        assert sink.sent[-1]["error"]["code"] == -32002
    protocol.handle_message({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {}})
    assert len(sink.sent) == 3


def test_a_failed_initialize_may_be_repeated_and_a_good_one_may_not() -> None:
    protocol, sink = fresh_protocol()
    assert ask_initialize(protocol, sink, capabilities=7)["error"]["code"] == -32602
    assert "result" in ask_initialize(protocol, sink)
    assert ask_initialize(protocol, sink)["error"]["code"] == -32600


def test_initialize_accepts_values_of_a_newer_protocol() -> None:
    protocol, sink = fresh_protocol()
    symbols = {"symbolKind": {"valueSet": [1, 999]}, "tagSupport": {"valueSet": [77]}}
    capabilities = {
        "workspace": {"symbol": symbols, "workspaceEdit": {"failureHandling": "hope"}},
        "textDocument": {"hover": {"contentFormat": ["morse"]}},
    }
    assert "result" in ask_initialize(protocol, sink, capabilities=capabilities, trace="compact")


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, "utf-16"),
        ([], "utf-16"),
        (["utf-8", "utf-16", "utf-32"], "utf-16"),
        (["utf-32", "utf-8"], "utf-32"),
        (["utf-7", "utf-8"], "utf-8"),
        (["utf-7"], "utf-16"),
    ],
)
def test_positions_count_utf_16_wherever_the_client_lets_them(offered: Any, chosen: str) -> None:
    protocol, sink = fresh_protocol()
    capabilities = {} if offered is None else {"general": {"positionEncodings": offered}}
    result = ask_initialize(protocol, sink, capabilities=capabilities)["result"]
    assert result["capabilities"]["positionEncoding"] == protocol.position_encoding == chosen


def test_initialize_advertises_commands_and_incremental_sync() -> None:
    protocol, sink = fresh_protocol()

    async def command(_argument: dict[str, Any]) -> None: ...

    protocol.command_table["dsh.x"] = command
    capabilities = ask_initialize(protocol, sink)["result"]["capabilities"]
    assert capabilities["executeCommandProvider"] == {"commands": ["dsh.x"], "workDoneProgress": True}
    sync = capabilities["textDocumentSync"]
    assert (sync["openClose"], sync["change"], sync["save"]) == (True, 2, True)


def test_shutdown_answers_with_commands_in_flight_and_refuses_what_follows(fresh: RawClient) -> None:
    slow = fresh.post_command("test.slow")
    fresh.on_request("test/ask", lambda _params: NO_ANSWER)
    asking = fresh.post_command("test.ask", {"method": "test/ask", "timeout": None})
    fresh.wait_for(lambda message: message.get("method") == "test/ask")
    assert fresh.request("shutdown", timeout_s=3)["result"] is None
    assert fresh.reply(slow)["error"]["code"] == -32800
    assert fresh.reply(asking)["error"]["data"] == {"code": "EDITOR_CLOSED"}
    assert fresh.command("test.echo")["error"]["code"] == -32600
    assert fresh.request("shutdown")["error"]["code"] == -32600
    assert fresh.request("initialize", {"capabilities": {}})["error"]["code"] == -32600
    fresh.notify("exit")
    assert fresh.wait_exit() == 0
    assert fresh.stderr.count("the hook ended") == 1


def test_shutdown_is_answered_though_exit_overtakes_the_hook() -> None:
    with RawClient.start_host(HOOK_SECONDS="0.5") as client:
        client.initialize()
        slow = client.post_command("test.slow")
        shutdown = client.post("shutdown")
        client.notify("exit")
        assert client.wait_exit(timeout_s=5) == 0
        assert client.reply(slow)["error"]["code"] == -32800
        assert client.reply(shutdown)["result"] is None


def test_a_cancelled_shutdown_is_answered_once_and_is_one() -> None:
    with RawClient.start_host(HOOK_SECONDS="0.3") as client:
        client.initialize()
        shutdown = client.post("shutdown")
        client.notify("$/cancelRequest", {"id": shutdown})
        client.notify("exit")
        assert client.wait_exit(timeout_s=5) == 0
        assert [message for message in client.messages if message.get("id") == shutdown][1:] == []
        assert client.reply(shutdown)
        assert "the hook ended" in client.stderr


def test_a_shutdown_hook_that_hangs_delays_the_end_by_two_seconds_only() -> None:
    with RawClient.start_host(HOOK_SECONDS="30") as client:
        client.initialize()
        began = time.monotonic()
        assert client.request("shutdown", timeout_s=4)["result"] is None
        assert 1.5 < time.monotonic() - began < 3.5
        client.notify("exit")
        assert client.wait_exit(timeout_s=5) == 0


LOST_PLACES = {
    "negative length": b"Content-Length: -5\r\n\r\n",
    "endless length": b"Content-Length: 99999999999999999999\r\n\r\n",
    "no length": b"Content-Type: text\r\n\r\n{}",
    "endless header": b"X-Filler: 1\r\n" * 1000,
    "a length that is too short": b'Content-Length: 5\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"test/raw"}\r\n\r\n',
}
"""Frames after which nobody knows where the next one begins."""


def leave(client: RawClient, how: str) -> None:
    match how:
        case "exit":
            client.notify("exit")
        case "exit while a thread works":
            client.post("test/thread", {"seconds": 30})
            client.notify("exit")
        case "end of input":
            client.end_input()
        case "end of input after shutdown":
            client.request("shutdown")
            client.end_input()
        case "exit straight after shutdown":
            client.post("shutdown")
            client.notify("exit")
        case "SIGTERM" | "SIGINT" | "SIGHUP":
            client.process.send_signal(signal.Signals[how])
        case _ if how in LOST_PLACES:
            client.send_bytes(LOST_PLACES[how])
        case "sys.exit":
            client.post_command("test.fail", {"how": "exit"})
        case "a crash in the task group":
            client.post_command("test.crash")


@pytest.mark.parametrize(
    ("how", "code", "hook"),
    [
        ("exit", 1, True),
        ("exit straight after shutdown", 0, True),
        ("exit while a thread works", 1, True),
        ("end of input", 1, True),
        ("end of input after shutdown", 0, True),
        ("SIGTERM", 143, True),
        ("SIGINT", 130, True),
        ("SIGHUP", 129, True),
        *((how, 1, True) for how in LOST_PLACES),
        ("sys.exit", 1, True),
        ("a crash in the task group", 1, True),
    ],
)
def test_every_end_has_its_exit_code_and_runs_the_hook(fresh: RawClient, how: str, code: int, hook: bool) -> None:
    fresh.command("test.echo")
    leave(fresh, how)
    assert fresh.wait_exit(timeout_s=5) == code
    assert fresh.stderr.count("the hook ended") == hook


def test_output_that_nobody_can_read_ends_the_server() -> None:
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, *HOST_FIXTURE], stdin=subprocess.PIPE, stdout=write_end, stderr=subprocess.DEVNULL
    )
    os.close(write_end)
    os.close(read_end)
    try:
        assert process.stdin is not None
        body = b'{"jsonrpc":"2.0","id":1,"method":"nothing"}'
        process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        process.stdin.flush()
        assert process.wait(WAIT_S) == 1  # its start included
    finally:
        process.kill()
        process.wait(5)
        with suppress(OSError):
            process.stdin.close()


@pytest.mark.parametrize("how", ["SIGTERM", "end of input"])
def test_a_blocked_loop_cannot_keep_the_process(fresh: RawClient, how: str) -> None:
    fresh.post_command("test.block", {"seconds": 30})
    time.sleep(0.1)
    leave(fresh, how)
    assert fresh.wait_exit(timeout_s=9) == (143 if how == "SIGTERM" else 1)


@pytest.mark.parametrize(("how", "code"), [("SIGTERM", 143), ("end of input", 1), ("exit", 1)])
def test_a_client_that_does_not_read_cannot_keep_the_process(fresh: RawClient, how: str, code: int) -> None:
    fresh.stop_reading()
    fresh.post_command("test.flood", {"count": 200})
    time.sleep(0.2)
    leave(fresh, how)
    assert fresh.process.wait(5) == code


def test_an_orphan_ends_with_its_client_and_a_stranger_s_number_is_ignored() -> None:
    parent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with RawClient.start_host() as orphan, RawClient.start_host() as other:
        try:
            orphan.initialize(processId=parent.pid)
        finally:
            parent.kill()
            parent.wait(5)
        other.initialize(processId=parent.pid)  # dead already, as that of another container
        assert orphan.wait_exit(timeout_s=5) == 1
        time.sleep(0.5)
        assert other.command("test.echo")["result"] == {}
        assert other.close() == 0
