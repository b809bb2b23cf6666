"""Fuzz: whatever a client sends, each request is answered once, and nothing else happens.

A seeded generator sends valid, mutated and hostile messages to the real server and to the fixture; hypothesis sends
made-up params to the fixture and shrinks what it finds. An oracle that knows JSON-RPC alone says what must come back.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types

from dsh_lsp.lsp.protocol import COMMANDS
from dsh_lsp.wire import loads
from tests.support.raw_client import RawClient

LONG = settings.default is not None and settings.default.max_examples > 1000
MESSAGES = 50_000 if LONG else 2_500  # for each of two servers
BATCH = 100
GROWTH_BYTES = 64 << 20

NOTHING, NULL = object(), "the null id"

URIS = ["file:///project/a.py", "file:///project/b%20c.py", "untitled:1", "dsh-diff:/x", "", "::", "file:///\u2028"]
HEAD = {"jsonrpc": "2.0"}
ENDING = {"shutdown", "exit", "initialize", "initialized"}
METHODS = sorted(set(types.METHOD_TO_TYPES) - ENDING)
HANDLED = [
    *("textDocument/hover", "textDocument/codeAction", "textDocument/codeLens", "workspace/executeCommand"),
    *("textDocument/didOpen", "textDocument/didChange", "textDocument/didClose", "textDocument/didSave"),
    *("workspace/didChangeWorkspaceFolders", "window/workDoneProgress/cancel", "$/setTrace", "$/cancelRequest"),
    "test/raw",
]
FIXTURE_COMMANDS = ["test.echo", "test.validate", "test.bad_result", "test.fail", "test.token", "test.accept"]
ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 10**30, 1e308, 0.5, "", "x", "\ud800", "\u2028\x00", "a" * 5000),
    *([], {}, [[]], [None], {"": None}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": 1, "method": "exit"}),
]
HOSTILE_BODIES = [
    *(b"", b"{", b"null", b"[]", b"{}", b"7", b'"x"', b"\xff\xfe", b"\x00" * 40, b"[" * 5000, b"1" * 5000),
    *(b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","method":null}', b'{"jsonrpc":"2.0","id":1e3,"method":"x"}'),
    *(b'{"jsonrpc":"2.0","id":{},"method":"x"}', b'{"jsonrpc":"2.0","method":"$/cancelRequest"}'),
    b'[{"jsonrpc":"2.0","id":1,"method":"dsh.status"}]',
    b'{"jsonrpc":"2.0","result":1}',
    b'{"jsonrpc":"2.0","id":"dsh-1","result":1,"error":{}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
    b'{"jsonrpc":"2.0","id":"nan","method":"test/raw","params":[NaN,Infinity]}',
    b'{"jsonrpc":"2.0","id":"deep","method":"test/raw","params":' + b"[" * 400 + b"]" * 400 + b"}",
]


def expected(body: bytes) -> Any:
    """The id under which one answer must come: an id, `NULL`, or `NOTHING` if no answer may come."""
    try:
        message = loads(body)
    except (ValueError, RecursionError):
        return NULL
    if not isinstance(message, dict):
        return NULL
    message_id = message.get("id")
    valid_id = type(message_id) in (int, str)
    if "method" not in message and ("result" in message or "error" in message):
        return NOTHING
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return key(message_id) if valid_id else NULL
    if "id" not in message:
        return NOTHING
    return key(message_id) if valid_id else NULL


def key(message_id: Any) -> str:
    return NULL if message_id is None else json.dumps(message_id)


class Generator:
    """Messages from a seed; `commands` are those of the server that gets them."""

    def __init__(self, seed: int, commands: list[str]) -> None:
        self.random = random.Random(seed)
        self.commands = commands
        self.number = 0
        self.recent: list[Any] = [0]

    def body(self) -> bytes:
        draw = self.random.random()
        if draw < 0.05:
            return self.random.choice(HOSTILE_BODIES)
        body = json.dumps(self.message(), ensure_ascii=self.random.random() < 0.9).encode("utf-8", "surrogatepass")
        return self.mutated(body) if draw < 0.35 else body

    def message(self) -> dict[str, Any]:
        kind = self.random.random()
        if kind < 0.15:
            return self.command()
        if kind < 0.2:
            return {**HEAD, "method": "$/cancelRequest", "params": {"id": self.random.choice(self.recent)}}
        if kind < 0.35:
            return {**HEAD, "method": self.random.choice([*METHODS, *HANDLED * 4]), "params": self.document_params()}
        if kind < 0.4:
            return {**HEAD, "id": self.value(), self.random.choice(["result", "error"]): self.value()}
        method = self.random.choice(self.random.choice([METHODS, HANDLED, ["test/unknown", "$/x", ""]]))
        message = {**HEAD, "id": self.new_id(), "method": method}
        if self.random.random() < 0.9:
            message["params"] = self.document_params() if self.random.random() < 0.5 else self.value()
        return message

    def new_id(self) -> Any:
        self.number += 1
        made = self.random.choice([self.number, f"r{self.number}", -self.number, 10**20 + self.number])
        self.recent = [*self.recent[-20:], made]
        return made

    def command(self) -> dict[str, Any]:
        argument = {
            "text": self.value(),
            "session": self.random.choice([None, "none", self.value()]),
            "hunks": self.random.choice(["all", [], self.value()]),
            "what": self.random.choice(["nan", "set", "circle"]),
            "how": self.random.choice(["bug", "dsh", "usage", "group", self.value()]),
        }
        chosen = {name: argument[name] for name in self.random.sample(sorted(argument), self.random.randrange(4))}
        arguments = self.random.choice([[chosen], [chosen], [chosen], [], [self.value()], self.value()])
        params = {"command": self.random.choice(self.commands), "arguments": arguments}
        return {**HEAD, "id": self.new_id(), "method": "workspace/executeCommand", "params": params}

    def document_params(self) -> Any:
        place = {"line": self.random.randrange(5), "character": self.random.choice([0, 3, 2**31 - 1, -1])}
        uri = self.random.choice(URIS)
        return {
            "textDocument": {
                "uri": uri,
                "version": self.random.randrange(9),
                "languageId": "x",
                "text": "a\n\u2028b",
            },
            "position": place,
            "range": {"start": place, "end": place},
            "context": {"diagnostics": [], "triggerKind": self.random.choice([1, 99])},
            "contentChanges": self.random.choice([[{"text": "z"}], [{"range": {"start": place, "end": place}}], 7]),
            "token": self.value(),
            "value": self.value(),
            "event": {"added": [], "removed": [{"uri": uri, "name": "n"}]},
        }

    def value(self) -> Any:
        if self.random.random() < 0.2:
            return {self.random.choice(["a", "id", "a-b", "params"]): self.value(), "b": [self.value()]}
        return self.random.choice(ODD_VALUES)

    def mutated(self, body: bytes) -> bytes:
        data = bytearray(body)
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randrange(len(data)) if data else 0
            match self.random.randrange(5):
                case 0:
                    data[at : at + 1] = bytes([self.random.randrange(256)])
                case 1:
                    del data[at : at + self.random.randint(1, 9)]
                case 2:
                    data[at:at] = self.random.choice(
                        [b'"', b"{", b"]", b",", b":null,", b"\\u0000", b"1e999", b"\xe2"]
                    )
                case 3:
                    data[at:at] = data[at // 2 : at]
                case _:
                    del data[at:]
        body = bytes(data)
        return b"" if any(f'"{word}"'.encode() in body for word in ENDING) else body


def resident_bytes(pid: int) -> int:
    if sys.platform != "linux":
        return 0
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def answers(messages: list[dict[str, Any]]) -> Counter[str]:
    return Counter(key(message.get("id")) for message in messages if "method" not in message)


def send(client: RawClient, bodies: list[bytes], wanted: int, *, timeout_s: float = 20) -> Counter[str]:
    """Send, wait for so many answers, and return those that came."""
    before = len(client.messages)
    frames = [b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies]
    client.send_bytes(b"".join(frames))
    deadline = time.monotonic() + timeout_s
    while (came := answers(client.messages[before:])).total() < wanted and time.monotonic() < deadline:
        assert not client.ended, client.stderr[-2000:]
        time.sleep(0.002)
    return came


def send_and_compare(client: RawClient, bodies: list[bytes], *, timeout_s: float = 20) -> None:
    """Send, wait until all that must be answered are, and compare what came."""
    wanted = Counter(found for body in bodies if (found := expected(body)) is not NOTHING)
    came = send(client, bodies, wanted.total(), timeout_s=timeout_s)
    assert came == wanted, {
        "missing": list((wanted - came).items())[:5],
        "too many": list((came - wanted).items())[:5],
        "bodies": [body[:300] for body in bodies if expected(body) in (wanted - came)][:5],
    }


def fixture_server(_state: Path) -> RawClient:
    client = RawClient.start_host()
    client.initialize()
    return client


def real_server(state: Path) -> RawClient:
    return RawClient.start_agent(state, key="")


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("start", "commands", "seed"),
    [
        (fixture_server, FIXTURE_COMMANDS, 1),
        (real_server, sorted(set(COMMANDS) - {"dsh.inject"}), 2),  # each of which is a write to disk
    ],
    ids=["fixture", "real"],
)
def test_each_request_of_a_wild_client_is_answered_once(
    tmp_path: Path, start: Callable[[Path], RawClient], commands: list[str], seed: int
) -> None:
    generator = Generator(seed, commands)
    with start(tmp_path) as client:
        grown_from = 0
        for number in range(MESSAGES // BATCH):
            send_and_compare(client, [generator.body() for _ in range(BATCH)])
            client.forget_messages()
            if number == MESSAGES // BATCH // 5:
                grown_from = resident_bytes(client.process.pid)
        assert resident_bytes(client.process.pid) - grown_from < GROWTH_BYTES
        assert client.garbage is None
        assert client.close() == 0
    assert client.forgotten["window/showMessage"] == 0
    assert client.notifications("window/showMessage") == []
    assert "could not be handled" not in client.stderr  # the last net held nothing


# Made-up params


@pytest.fixture(scope="module")
def fixture() -> Iterator[RawClient]:
    client = fixture_server(Path())
    yield client
    assert client.close() == 0
    assert client.garbage is None
    assert client.notifications("window/showMessage") == []


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
NAMES = st.sampled_from(["textDocument", "uri", "position", "line", "command", "arguments", "id", "jsonrpc", "token"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=5), inner),
    max_leaves=8,
)
CALLS = st.fixed_dictionaries(
    {
        "method": st.sampled_from(HANDLED)
        | st.sampled_from(METHODS)
        | st.text(max_size=10).filter(lambda m: m not in ENDING)
    },
    optional={"params": VALUES, "id": st.integers() | st.text(max_size=10) | LEAVES, "extra": LEAVES},
)


@settings(max_examples=max(40, settings.default.max_examples // 4 if settings.default else 40))
@given(st.lists(CALLS, max_size=10))
def test_each_request_with_made_up_params_is_answered_once(fixture: RawClient, calls: list[dict[str, Any]]) -> None:
    bodies = [json.dumps({**HEAD, **call}).encode() for call in calls]
    send_and_compare(fixture, bodies)


@pytest.mark.parametrize("depth", [500, 900, *range(970, 1000, 5), 1000, 5000])
def test_each_request_that_is_nested_too_deep_is_answered_once(fixture: RawClient, depth: int) -> None:
    """Just below Python's limit it depends on the frames in use whether a message can be read and has its id."""
    deep = b"[" * depth + b"]" * depth
    shapes = [
        b'"test/raw","params":%b',
        b'"textDocument/hover","params":%b',
        b'"textDocument/hover","params":{"textDocument":%b}',
        b'"workspace/executeCommand","params":{"command":"test.echo","arguments":[{"a":%b}]}',
        b'"initialize","params":{"capabilities":{"experimental":%b}}',
    ]
    bodies = [
        b'{"jsonrpc":"2.0","id":%d,"method":' % number + shape % deep + b"}" for number, shape in enumerate(shapes)
    ]
    came = send(fixture, bodies, len(bodies))
    assert came.total() == len(bodies), came
    unread = came.pop(NULL, 0)
    assert set(came.values()) <= {1}, came
    assert unread == 0 if depth <= 900 else unread == len(bodies) if depth >= 1000 else True
