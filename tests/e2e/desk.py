"""Desk: what a test sees of a user at work in any editor: commands, reviews, files, what the model reads."""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.support.model_server import FakeModelServer

T = TypeVar("T")

WAIT_S = 20.0  # a limit, not a delay: a machine under load takes long
POLL_S = 0.01


class ModelReader:
    """Whoever reads what the model was told."""

    model: FakeModelServer
    wait_s = WAIT_S

    def sent_messages(self, request: int) -> list[dict[str, Any]]:
        """Wait for the model's request of this number, from 1, and return its messages without the system prompt."""
        self.model.wait_for_requests(request, self.wait_s)
        messages = self.model.requests[request - 1].body["messages"]
        return [message for message in messages if message["role"] != "system"]

    def tool_results(self, request: int) -> list[str]:
        """The tool results in the model's request of this number, in order."""
        return [str(message["content"]) for message in self.sent_messages(request) if message["role"] == "tool"]

    def tool_result(self, request: int) -> str:
        """The last one of them."""
        return self.tool_results(request)[-1]


class EditorDesk(ModelReader, ABC):
    """A user at work: an editor with the server attached, a folder with files, and the fake model server."""

    def __init__(self, model: FakeModelServer, root: Path) -> None:
        self.model = model
        self.root = root

    @abstractmethod
    def send(self, command: str, **argument: Any) -> int:
        """Send a command through the editor's client and go on; `answer` has what becomes of it."""

    @abstractmethod
    def answer(self, request: int) -> dict[str, Any]:
        """Wait for a command's answer: its `result`, or the `failure`."""

    def run(self, command: str, **argument: Any) -> Any:
        """Run a command that must not fail."""
        answer = self.answer(self.send(command, **argument))
        assert "failure" not in answer, answer
        return answer["result"]

    def pending(self) -> list[dict[str, Any]]:
        """The hunks that wait for a decision."""
        return [hunk for file in self.run("dsh.review.list")["files"] for hunk in file["hunks"]]

    def wait_for_review(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many hunks wait for a decision."""
        return wait_for(lambda: hunks if len(hunks := self.pending()) >= count else [], "a review is open")

    def on_disk(self, name: str) -> str:
        """A file as it is saved."""
        return saved(self.root / name).decode().replace("\r\n", "\n")


def environment(home: Path, key: str | None) -> dict[str, str]:
    """The environment of a user who has nothing but this editor, and `dsh-lsp` on the path."""
    env = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "DSH_LOG_LEVEL": "INFO",
    }
    env |= {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    env |= {"XDG_CONFIG_DIRS": str(home), "XDG_DATA_DIRS": str(home), "XDG_RUNTIME_DIR": str(home)}
    if key is not None:
        env["DEEPSEEK_API_KEY"] = key
    return env


def print_logs(home: Path) -> None:
    """Print the server's logs; pytest shows them when the test fails."""
    for log in sorted((home / "state").rglob("*.log")):
        print(f"-- {log.name}\n{log.read_text(errors='replace')[-20_000:]}")


def wait_for(probe: Callable[[], T], what: str, timeout_s: float = WAIT_S, poll_s: float = POLL_S) -> T:
    """Wait until `probe` returns something true, and return that.

    Raises:
        TimeoutError: it never did.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {what}")
        time.sleep(poll_s)
    return found


def saved(path: Path) -> bytes:
    """A file as it is saved; an editor that saves may take the old one away for a moment."""

    def read() -> list[bytes]:
        with suppress(FileNotFoundError):
            return [path.read_bytes()]
        return []

    return wait_for(read, f"{path.name} is there")[0]


def ended_within(pid: int, timeout_s: float) -> bool:
    """Whether a process that is no child of ours ends in time; one that nobody has reaped yet has ended."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        with suppress(FileNotFoundError):
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        time.sleep(POLL_S)
    return False


def check_that_they_end(servers: list[int]) -> None:
    """End the servers that outlived their editor, and fail because of them."""
    survivors = [pid for pid in servers if not ended_within(pid, 5)]
    for pid in survivors:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
    assert not survivors, "a server outlived its editor"
