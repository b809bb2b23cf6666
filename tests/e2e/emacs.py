"""Emacs: a real one in a terminal, with the configuration of the documentation, and keys as a person types them.

Owns: the process of one editor on a terminal of its own; a door into it, by which the tests look; a folder that
stands for the user's home.
Rules: nothing of ours runs inside but what the page tells the user to write, and the probes of `probes.el`, which
only note what happens; keys come through the terminal; every wait has a time limit; what was started is ended by its
id.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.e2e.desk import WAIT_S, EditorDesk, check_that_they_end, environment, print_logs, wait_for
from tests.e2e.pages import block_of
from tests.e2e.story import DONE, MEND
from tests.support.model_server import FakeModelServer, Reply

PROGRAM = shutil.which("emacs")
PROBES = Path(__file__).with_name("probes.el")
COLUMNS, ROWS = 100, 30

START, END = "\x1b<", "\x1b>"
TO_HUNK = f"{START}\x13return\r\x05"  # the end of the line that the search finds
KEYS = "# y n 1 2 3 a b yes no q <go on> "  # what a prompt would take for an answer

# Emacs opens /dev/tty, which only the terminal of its session is.
ON_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""

# A user of a terminal with a quiet start; what the client needs is in the page's block.
HABITS = """
(setq inhibit-startup-screen t make-backup-files nil auto-save-default nil create-lockfiles nil)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An LSP client of Emacs: its page, and how the probes reach it.

    `settings` gives the server its settings, `attached` says whether it runs, `process` is its process, `send` runs a
    command with the variables `id`, `command` and `argument`; `code_action` is the command that offers code actions.
    """

    heading: str
    code_action: str
    settings: str
    attached: str
    process: str
    send: str


EGLOT = Client(
    heading="eglot",
    code_action="eglot-code-actions",
    settings="""
    (setf (alist-get 'python-mode eglot-server-programs)
          `("dsh-lsp" "serve" :initializationOptions (:model (:baseUrl ,(getenv "TEST_MODEL_URL")))))
    """,
    attached="(and (eglot-current-server) eglot--managed-mode t)",
    process="(jsonrpc--process (eglot-current-server))",
    send="""
    (jsonrpc-async-request (eglot-current-server) :workspace/executeCommand
      (list :command command :arguments (vector argument))
      :success-fn (lambda (result) (probe-answer id 'result result))
      :error-fn (lambda (failure) (probe-answer id 'failure failure))
      :timeout nil)
    """,
)

LSP_MODE = Client(
    heading="lsp-mode",
    code_action="lsp-execute-code-action",
    settings="""
    (setf (lsp--client-initialization-options (gethash 'dsh lsp-clients))
          `(:model (:baseUrl ,(getenv "TEST_MODEL_URL"))))
    (setq lsp-session-file (expand-file-name "lsp-session" (getenv "HOME")))
    (lsp-workspace-folders-add (getenv "TEST_ROOT"))
    """,
    attached="(and (bound-and-true-p lsp-mode) (lsp-find-workspace 'dsh nil)"
    " (eq (lsp--workspace-status (lsp-find-workspace 'dsh nil)) 'initialized) t)",
    process="(lsp--workspace-cmd-proc (lsp-find-workspace 'dsh nil))",
    send="""
    (with-lsp-workspace (lsp-find-workspace 'dsh nil)
      (lsp-request-async "workspace/executeCommand" (list :command command :arguments (vector argument))
        (lambda (result) (probe-answer id 'result result))
        :error-handler (lambda (failure) (probe-answer id 'failure failure))
        :mode 'detached))
    """,
)


# What lsp-mode says when a key has overtaken an edit; it is sent again.
LSP_MODE_REFUSED = "Failed to apply edits with message Document changes cannot be applied"


class EmacsError(Exception):
    """A form failed in Emacs."""


class Emacs:
    """One editor in a terminal."""

    def __init__(self, arguments: list[str], *, env: Mapping[str, str], folder: Path, door: Path) -> None:
        assert PROGRAM is not None, "Emacs is not installed (Debian: emacs-nox elpa-eglot emacs-el elpa-lsp-mode)"
        self._terminal, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", ON_ITS_TERMINAL, PROGRAM, "-nw", "-l", str(PROBES), *arguments],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**env, "TERM": "vt100", "TEST_DOOR": str(door)},
            cwd=folder,
            start_new_session=True,
        )
        os.close(terminal)
        self.servers: list[int] = []
        self._drawn = bytearray()
        self._reader = threading.Thread(target=self._read, name="emacs-reader", daemon=True)
        self._reader.start()
        self._door = socket.socket(socket.AF_UNIX)
        self._rest = b""
        self._enter(door)

    def _enter(self, door: Path) -> None:
        self._door.settimeout(WAIT_S)

        def opened() -> bool:
            if self.process.poll() is not None:
                raise EmacsError(f"Emacs has ended:\n{self.drawn}")
            with suppress(FileNotFoundError, ConnectionRefusedError):
                self._door.connect(str(door))
                return True
            return False

        wait_for(opened, "Emacs has started")

    def _read(self) -> None:
        with suppress(OSError):  # the terminal is gone when Emacs has ended
            while data := os.read(self._terminal, 2**16):
                self._drawn += data
                del self._drawn[:-20_000]

    @property
    def drawn(self) -> str:
        """The last of what Emacs drew on its terminal."""
        return self._drawn.decode(errors="replace")

    # -- looking ---------------------------------------------------------------------------------------------

    def value(self, form: str) -> Any:
        """Evaluate a form in the buffer that the user works in.

        Raises:
            EmacsError: it failed.
            TimeoutError: Emacs did not answer.
        """
        self._door.sendall(json.dumps(form).encode() + b"\n")
        while b"\n" not in self._rest:
            data = self._door.recv(2**16)
            if not data:
                raise EmacsError(f"Emacs has ended:\n{self.drawn}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        reply = json.loads(line)
        if "error" in reply:
            raise EmacsError(f"{form}: {reply['error']}")
        return reply["value"]

    def text(self, buffer: str | None = None) -> str:
        """The text of a buffer, or of the current one."""
        return str(self.value(f"(probe-text {lisp(buffer)})"))

    @property
    def modified(self) -> bool:
        """Whether the current buffer is unsaved."""
        return bool(self.value("(buffer-modified-p)"))

    def files(self) -> list[str]:
        """The files of all buffers."""
        return list(self.value("(vconcat (delq nil (mapcar #'buffer-file-name (buffer-list))))"))

    def messages(self) -> str:
        """What the user was told so far."""
        return self.text("*Messages*")

    @property
    def prompt(self) -> str | None:
        """What the minibuffer asks at the moment."""
        found: str | None = self.value(
            "(and (active-minibuffer-window) (with-current-buffer (window-buffer (active-minibuffer-window))"
            " (minibuffer-prompt)))"
        )
        return found

    def prompts(self) -> list[str]:
        """Everything that asked the user something so far."""
        return list(self.value("(vconcat (reverse probe-prompts))"))

    # -- keys ------------------------------------------------------------------------------------------------

    def keys(self, keys: str) -> None:
        """Press keys, as a terminal sends them: ESC for Meta, control characters, CR for Return."""
        os.write(self._terminal, keys.encode())

    def type(self, text: str, *, pause_s: Callable[[int], float]) -> str:
        """Type characters one by one into the text, with a pause after each; nothing may ask meanwhile."""
        for number, character in enumerate(text):
            self.keys(character)
            time.sleep(pause_s(number))
            assert (asked := self.prompt) is None, f"{asked} after {text[: number + 1]!r}"
        return text

    def answer_prompt(self, opening: str, written: str) -> None:
        """Press keys that make the minibuffer ask, and write the answer; it asks no longer when this returns."""
        asked = len(self.prompts())
        self.keys(f"{opening}{written}\r")
        wait_for(lambda: len(self.prompts()) > asked and self.prompt is None, f"{written} is answered")

    def run_command(self, name: str, answer: str | None = None) -> None:
        """Type `M-x NAME`, and the answer to what it asks."""
        for opening, written in (("\x1bx", name), ("\r", answer)):
            if written is None:
                break
            asked = len(self.prompts())
            self.keys(opening)
            wait_for(lambda asked=asked: len(self.prompts()) > asked, f"a question before {written}")  # type: ignore[misc]
            self.keys(written)
        self.keys("\r")
        wait_for(lambda: self.prompt is None, f"{name} has its answer")

    # -- life and death --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Quit without saving, by force if it does not; the servers that it started must end with it."""
        with suppress(OSError):
            self._door.sendall(json.dumps("(let ((kill-emacs-hook nil)) (kill-emacs))").encode() + b"\n")
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(3)
        self._door.close()
        self._reader.join(3)
        os.close(self._terminal)
        check_that_they_end(self.servers)


class EmacsDesk(EditorDesk):
    """A user at work in Emacs."""

    def __init__(self, emacs: Emacs, client: Client, model: FakeModelServer, root: Path) -> None:
        super().__init__(model, root)
        self.emacs = emacs
        self.client = client
        self._requests = 0

    @classmethod
    @contextmanager
    def set_up(
        cls, folder: Path, files: Mapping[str, str], *, client: Client, key: str | None = "sk-test", more: str = ""
    ) -> Iterator[Self]:
        """Open the first of the files in a new editor; `more` is configuration of the test's own user."""
        home = folder / "home"
        configuration = home / ".emacs.d"
        configuration.mkdir(parents=True)
        (configuration / "init.el").write_text(
            ";; -*- lexical-binding: t -*-\n"
            + HABITS
            + block_of("emacs.md", client.heading, "elisp")
            + client.settings
            + more
        )
        with tempfile.TemporaryDirectory(prefix="e", dir="/tmp") as short, FakeModelServer() as model:
            root = Path(short) / "project"
            root.mkdir()
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            env = environment(home, key) | {"TEST_ROOT": str(root), "TEST_MODEL_URL": model.url}
            emacs = Emacs([next(iter(files))], env=env, folder=root, door=Path(short) / "door")
            try:
                wait_for(lambda: emacs.value(client.attached), "the server is attached")
                emacs.servers = [emacs.value(f"(process-id {client.process})")]
                desk = cls(emacs, client, model, root)
                yield desk
                desk.check_that_nothing_went_wrong()
            finally:
                emacs.stop()
                print_logs(home)

    def check_that_nothing_went_wrong(self) -> None:
        """Nothing asks, and nothing failed inside Emacs."""
        assert self.emacs.prompt is None
        messages = self.emacs.messages().replace(LSP_MODE_REFUSED, "")
        assert not any(word in messages.lower() for word in ("error", "wrong type", "failed", "void")), messages

    # -- commands --------------------------------------------------------------------------------------------

    def send(self, command: str, **argument: Any) -> int:
        """Send a command through the stock client and go on; `answer` has what becomes of it."""
        self._requests += 1
        written = json.dumps(argument)
        self.emacs.value(
            f"(let ((id {self._requests}) (command {lisp(command)})"
            f" (argument (json-parse-string {lisp(written)} :null-object nil :false-object :json-false)))"
            f" {self.client.send} t)"
        )
        return self._requests

    def open_review(self, reply: Reply = MEND, hunks: int = 1) -> None:
        """Have the model propose something, and wait until it waits for its review."""
        self.model.script(reply, DONE)
        self.run("dsh.followup", text="Mend it.")
        self.wait_for_review(hunks)

    def act(self, title: str) -> None:
        """Choose a code action at the cursor by its title."""
        self.emacs.run_command(self.client.code_action, title)

    def go_to_hunk(self) -> None:
        """Put the cursor where the edit of the story waits."""
        self.emacs.keys(TO_HUNK)
        at_return = '(save-excursion (goto-char (window-point)) (looking-back "return.*" (line-beginning-position)))'
        wait_for(lambda: self.emacs.value(at_return), "the cursor is there")

    def at_rest(self) -> bool:
        """Whether no turn runs."""
        return bool(self.run("dsh.status")["state"] == "idle")

    def answer(self, request: int) -> dict[str, Any]:
        """Wait for a command's answer: its `result`, or the `failure`."""
        return wait_for(lambda: self.emacs.value(f"(gethash {request} probe-answers)"), "an answer")


def lisp(text: str | None) -> str:
    """A text as a Lisp string, or nil."""
    if text is None:
        return "nil"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
