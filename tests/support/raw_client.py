"""Raw client: a small JSON-RPC client on a server's stdin and stdout that can also misbehave.

Owns: one child process, which it ends by its id, and two threads.
Rules: every wait has a time limit and then raises `TimeoutError`; the standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

Message = dict[str, Any]
Answer = Callable[[Any], Any]

WAIT_S = 20.0  # a limit, not a delay: a machine under load takes long
EXIT_S = 10.0
_FIXTURE = """
from dsh_lsp.lsp.compiled_types import import_types
import_types()
from tests.protocol.host_fixture import main
main()
"""
HOST_FIXTURE = ("-c", _FIXTURE)
METHOD_NOT_FOUND = {"code": -32601, "message": "the test's editor does not know this method"}


class Refusal(Exception):  # noqa: N818 - an answer, raised by the test's handler of a server request
    """Answer a server request with this error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


NO_ANSWER = object()
"""What a handler returns to leave a server request without an answer."""


class RawClient:
    """A connection to one server process.

    `messages` is all that came from the server, in order; `stderr` is the text of its stderr so far.
    """

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        self.messages: list[Message] = []
        self.forgotten: Counter[str | None] = Counter()
        self.ended = False
        self.garbage: str | None = None
        self._handlers: dict[str, Answer] = {}
        self._stderr: list[bytes] = []
        self._last_id = 0
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._may_read = threading.Event()
        self._may_read.set()
        self._may_read_stderr = threading.Event()
        self._may_read_stderr.set()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._read_stdout, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    @classmethod
    def start(cls, arguments: Sequence[str], env: Mapping[str, str] | None = None) -> RawClient:
        """Start a server: this Python with `arguments`; `env` is added to the environment."""
        return cls(arguments, env)

    @classmethod
    def start_host(cls, **env: str) -> RawClient:
        """Start the fixture: a server of the same host, whose commands do what goes wrong in real ones."""
        return cls.start(HOST_FIXTURE, env)

    @classmethod
    def start_agent(
        cls,
        state: Path,
        *,
        model_url: str = "http://127.0.0.1:9",
        key: str = "sk-test-secret",
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> RawClient:
        """Start the real server and do the handshake as a client of ours; its sessions and logs go to `state`."""
        client = cls.start(
            ("-m", "dsh_lsp", "serve"), {"XDG_STATE_HOME": str(state), "DEEPSEEK_API_KEY": key, **(env or {})}
        )
        try:
            client.initialize(**{**agent_handshake(state, model_url), **more})
        except BaseException:
            client.kill()
            raise
        return client

    @property
    def stderr(self) -> str:
        return b"".join(self._stderr).decode("utf-8", "replace")

    def wait_stderr(self, text: str, *, timeout_s: float = WAIT_S) -> str:
        """Wait until stderr holds a text, which takes its own way, and return all of it."""
        deadline = time.monotonic() + timeout_s
        while text not in self.stderr:
            if time.monotonic() > deadline:
                raise TimeoutError(f"stderr has no {text!r}: {self.stderr[-2000:]}")
            time.sleep(0.005)
        return self.stderr

    # To the server

    def send_bytes(self, data: bytes) -> None:
        """Write anything."""
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send_body(self, body: bytes) -> None:
        """Write a body, which need not be JSON, with its header."""
        self.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def send(self, message: Any) -> None:
        """Write a message as it is."""
        self.send_body(json.dumps(message).encode())

    def notify(self, method: str, params: Any = None) -> None:
        self.send(_message(method, params))

    def post(self, method: str, params: Any = None) -> int:
        """Send a request and return its id; `reply()` waits for the answer."""
        with self._changed:
            self._last_id += 1
            message_id = self._last_id
        self.send({"id": message_id, **_message(method, params)})
        return message_id

    def reply(self, message_id: Any, *, timeout_s: float = WAIT_S) -> Message:
        """Wait for the whole answer to a request."""
        return self.wait_for(
            lambda message: "method" not in message and message.get("id") == message_id,
            timeout_s=timeout_s,
            what=f"the answer to {message_id!r}",
        )

    def request(self, method: str, params: Any = None, *, timeout_s: float = WAIT_S) -> Message:
        """Send a request and wait for its whole answer."""
        return self.reply(self.post(method, params), timeout_s=timeout_s)

    def command(self, name: str, argument: Any = None, *, timeout_s: float = WAIT_S, **more: Any) -> Message:
        """Run a command with one argument, or none; `more` are further params, such as `workDoneToken`."""
        return self.reply(self.post_command(name, argument, **more), timeout_s=timeout_s)

    def post_command(self, name: str, argument: Any = None, **more: Any) -> int:
        """Send a command without waiting for it."""
        arguments = [] if argument is None else [argument]
        return self.post("workspace/executeCommand", {"command": name, "arguments": arguments, **more})

    def initialize(
        self,
        capabilities: Message | None = None,
        options: Any = None,
        *,
        timeout_s: float = 30.0,
        **more: Any,
    ) -> Message:
        """Do the handshake and return the result; `more` are further params, such as `workspaceFolders`."""
        params: Message = {"processId": os.getpid(), "rootUri": None, "capabilities": capabilities or {}}
        if options is not None:
            params["initializationOptions"] = options
        reply = self.request("initialize", {**params, **more}, timeout_s=timeout_s)
        assert "result" in reply, f"initialize failed: {reply}\n{self.stderr}"
        self.notify("initialized", {})
        result: Message = reply["result"]
        return result

    # From the server

    def on_request(self, method: str, answer: Answer) -> None:
        """Answer a request of the server with `answer(params)`; it may raise `Refusal`, return `NO_ANSWER`."""
        self._handlers[method] = answer

    def wait_for(
        self,
        predicate: Callable[[Message], bool],
        *,
        timeout_s: float = WAIT_S,
        after: int = 0,
        what: str = "a message",
    ) -> Message:
        """Return the first message that satisfies, among those that came and will come, from index `after` on."""
        deadline = time.monotonic() + timeout_s
        seen = after
        with self._changed:
            while True:
                for message in self.messages[seen:]:
                    if predicate(message):
                        return message
                seen = max(seen, len(self.messages))
                left = deadline - time.monotonic()
                if left <= 0 or self.ended:
                    state = f"the stream ended (exit code {self.process.poll()})" if self.ended else "time is up"
                    raise TimeoutError(f"{what} did not come: {state}; stderr: {self.stderr[-2000:]}")
                self._changed.wait(left)

    def notifications(self, method: str) -> list[Any]:
        """The params of all notifications of a method so far."""
        with self._changed:
            return [m.get("params") for m in self.messages if m.get("method") == method and "id" not in m]

    def forget_messages(self) -> None:
        """Empty `messages`, but count what was in it by method, in `forgotten`."""
        with self._changed:
            self.forgotten.update(message.get("method") for message in self.messages)
            self.messages.clear()

    def stop_reading_stderr(self) -> None:
        """Leave what the server writes to stderr in the pipe, after at most one read more."""
        self._may_read_stderr.clear()

    def resume_reading_stderr(self) -> None:
        self._may_read_stderr.set()

    def stop_reading(self) -> None:
        """Leave what the server sends in the pipe, after at most one message more."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    # The end

    def end_input(self) -> None:
        """Close the server's stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_exit(self, *, timeout_s: float = EXIT_S) -> int:
        """Wait for the process's end and return its exit code."""
        code = self.process.wait(timeout_s)
        for thread in self._threads:
            thread.join(2)
        return code

    def close(self, *, timeout_s: float = EXIT_S) -> int:
        """Say goodbye as LSP wants it, and return the exit code; a server that does not end is killed."""
        try:
            if self.process.poll() is None:
                self.resume_reading()
                self.request("shutdown", timeout_s=timeout_s)
                self.notify("exit")
            return self.wait_exit(timeout_s=timeout_s)
        except (TimeoutError, subprocess.TimeoutExpired, OSError, ValueError):
            return self.kill()
        finally:
            self._close_pipes()

    def kill(self) -> int:
        """End the server at once."""
        self.resume_reading()
        self.resume_reading_stderr()
        if self.process.poll() is None:
            self.process.kill()
        code = self.wait_exit()
        self._close_pipes()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for thread in self._threads:
            thread.join(2)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                with suppress(OSError):  # a broken pipe may still hold what could not be written
                    pipe.close()

    # Threads

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := os.read(self.process.stderr.fileno(), 4096):
            self._stderr.append(data)
            self._may_read_stderr.wait()

    def _read_stdout(self) -> None:
        try:
            while (message := self._read_message()) is not None:
                with self._changed:
                    self.messages.append(message)
                    self._changed.notify_all()
                if "method" in message and "id" in message:
                    self._answer(message)
        except (ValueError, OSError) as error:
            self.garbage = repr(error)
        finally:
            with self._changed:
                self.ended = True
                self._changed.notify_all()

    def _read_message(self) -> Message | None:
        stream = self.process.stdout
        assert stream is not None
        self._may_read.wait()
        length: int | None = None
        while (line := stream.readline()) != b"\r\n":
            if not line:
                return None
            name, _, value = line.partition(b":")
            if name == b"Content-Length":
                length = int(value)
            elif name != b"Content-Type":  # which stock pygls sends
                raise ValueError(f"not a header: {line[:200]!r}")
        if length is None:
            raise ValueError("no Content-Length")
        message: Message = json.loads(stream.read(length), parse_constant=_refuse_constant)
        return message

    def _answer(self, request: Message) -> None:
        reply: Message = {"jsonrpc": "2.0", "id": request["id"]}
        handler = self._handlers.get(request["method"])
        try:
            result = handler(request.get("params")) if handler is not None else None
        except Refusal as refusal:
            reply["error"] = refusal.error
        else:
            if result is NO_ANSWER:
                return
            reply |= {"result": result} if handler is not None else {"error": METHOD_NOT_FOUND}
        with suppress(OSError, ValueError):  # the server has gone; whoever waits for it will see that
            self.send(reply)


def agent_handshake(state: Path, model_url: str) -> dict[str, Any]:
    """What `initialize` needs for the real server, without a process."""
    return {
        "capabilities": {"window": {"workDoneProgress": True}, "experimental": {"dsh": {"version": 1}}},
        "options": {
            "eventToken": "events",
            "model": {"baseUrl": model_url},
            "sessions": {"directory": str(state / "sessions")},
        },
    }


def _message(method: str, params: Any) -> Message:
    head: Message = {"jsonrpc": "2.0", "method": method}
    return head if params is None else {**head, "params": params}


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
