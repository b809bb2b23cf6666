"""The desk of a user who has the Neovim client, with nothing configured but the server.

Rules: what tests do is what a user does: commands, keys, buffers; a probe only notes what is announced.
"""

from __future__ import annotations

import os
import time
from typing import Any

from tests.e2e.desk import wait_for
from tests.e2e.neovim import CLIENT_FOLDER, Desk
from tests.e2e.story import DONE, MEND
from tests.support.model_server import Reply

READ_S = 0.6  # as long as a person looks at what is asked for, at least; a faster key decides nothing

CONFIGURATION = f"""
vim.opt.swapfile = false
vim.opt.packpath:append(vim.env.HOME)
vim.opt.rtp:prepend('{CLIENT_FOLDER}')
vim.g.dsh = {{
  settings = {{
    model = {{ baseUrl = vim.env.TEST_MODEL_URL }},
    sessions = vim.env.TEST_SESSIONS and {{ directory = vim.env.TEST_SESSIONS }} or nil,
  }},
}}
announced = {{}}
vim.api.nvim_create_autocmd('User', {{ pattern = 'Dsh*', callback = function(event)
  table.insert(announced, {{ event.match, event.data or false }})
end }})
"""

WINDOW = """
local filetype = ...
for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
  if vim.bo[vim.api.nvim_win_get_buf(win)].filetype == filetype then
    return win
  end
end
return 0
"""

MARKS = """
local bufnr = vim.fn.bufnr(...)
local found = {}
local ns = vim.api.nvim_get_namespaces()['dsh.review']
for _, mark in ipairs(ns and vim.api.nvim_buf_get_extmarks(bufnr, ns, 0, -1, { details = true }) or {}) do
  local details, text = mark[4], {}
  for _, line in ipairs(details.virt_lines or {}) do
    local words = {}
    for _, chunk in ipairs(line) do table.insert(words, chunk[1]) end
    table.insert(text, (table.concat(words):gsub('%s+$', '')))
  end
  table.insert(found, { row = mark[2], virtual = text, group = details.line_hl_group or details.hl_group or '' })
end
return found
"""

RUN = """
local id, command, argument = ...
require('dsh.client').run(command, argument, function(result)
  seen.answers[id] = { result = result }
end, function(failure)
  seen.answers[id] = { failure = failure }
end)
"""


class ClientDesk(Desk):
    """A user with the client."""

    CONFIGURATION = CONFIGURATION
    SIZE = (120, 36)

    def begin(self) -> None:
        """Nothing runs before the first command."""
        assert self.neovim.lua("return #vim.lsp.get_clients()") == 0

    def check_that_nothing_went_wrong(self) -> None:
        self.note_servers()
        super().check_that_nothing_went_wrong()

    def send(self, command: str, **argument: Any) -> int:
        self._requests += 1
        self.neovim.lua(RUN, self._requests, command, argument)
        return self._requests

    def dsh(self, line: str) -> None:
        """Type a `:Dsh` command."""
        self.neovim.keys(f"<C-\\><C-n>:Dsh {line}<CR>")

    # -- windows ---------------------------------------------------------------------------------------------

    def window(self, filetype: str) -> int:
        """The window of the conversation (`dsh`), the input area (`dsh-input`) or the queue; 0 when closed."""
        return int(self.neovim.lua(WINDOW, filetype))

    def go_to(self, filetype: str) -> None:
        """Put the cursor into a window."""
        window = wait_for(lambda: self.window(filetype), f"a window of {filetype}")
        self.neovim.keys("<C-\\><C-n>")
        self.neovim.request("nvim_set_current_win", window)

    def go_to_file(self, name: str) -> None:
        """Put the cursor into the window of a file."""
        self.neovim.keys("<C-\\><C-n>")
        self.neovim.lua("vim.fn.win_gotoid(vim.fn.bufwinid(...))", name)

    def chat(self) -> str:
        """The conversation as it stands in its buffer."""
        return "\n".join(
            self.neovim.lua("return vim.api.nvim_buf_get_lines(require('dsh.chat').buffer(), 0, -1, false)")
        )

    def wait_for_chat(self, text: str) -> str:
        """Wait until the conversation holds a text."""
        try:
            return wait_for(lambda: chat if text in (chat := self.chat()) else "", f"the chat says {text!r}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.neovim.screen}") from None

    def wait_for_screen(self, text: str) -> str:
        """Wait until the screen shows a text."""
        try:
            return wait_for(lambda: screen if text in (screen := str(self.neovim.screen)) else "", f"{text!r} shows")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.neovim.screen}") from None

    def wait_for_permission(self) -> None:
        """Wait until a permission is asked for in the conversation, and look at it."""
        wait_for(lambda: self.announced("DshWaiting"), "the agent waits")
        self.wait_for_chat("waits for your permission")
        self.read("ghn refuse")

    def read(self, text: str) -> None:
        """Wait until the screen shows a text, and look at it as long as a person does."""
        self.wait_for_screen(text)
        self.status()  # what follows from what shows is done by the time that this is answered
        time.sleep(READ_S)

    # -- what is known ---------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What the status line says."""
        found: dict[str, Any] = self.neovim.lua("return require('dsh').status()")
        return found

    def wait_for_line(self, line: int) -> None:
        """Wait until the cursor is on a line."""
        wait_for(lambda: self.neovim.lua("return vim.fn.line('.')") == line, f"the cursor is on line {line}")

    def announced(self, name: str) -> list[Any]:
        """The data of the `User` events of a name so far."""
        return [data for found, data in self.neovim.lua("return announced") if found == name]

    def wait_for_turns(self, count: int) -> str:
        """Wait until so many turns have ended; how the last of them did."""
        ends = wait_for(
            lambda: ends if len(ends := self.announced("DshTurnEnd")) >= count else [], f"{count} turns have ended"
        )
        return str(ends[count - 1]["reason"]["kind"])

    def marks(self, name: str) -> list[dict[str, Any]]:
        """What the review draws in the buffer of a file."""
        found: list[dict[str, Any]] = self.neovim.lua(MARKS, name)
        return found

    def proposed(self, name: str) -> list[str]:
        """The virtual lines in a file's buffer."""
        return [line for mark in self.marks(name) for line in mark["virtual"]]

    def wait_for_proposal(self, name: str) -> list[str]:
        """Wait until hunks show in a buffer."""
        return wait_for(lambda: self.proposed(name), f"a hunk shows in {name}")

    def open_review(self, reply: Reply = MEND) -> list[str]:
        """Have the model propose something for the first file, and wait until the hunks show there."""
        self.model.script(reply, DONE)
        self.dsh("ask Mend it.")
        return self.wait_for_proposal("calc.py")

    def server_pid(self) -> int:
        """The process of the server."""
        self.note_servers()
        (pid,) = (pid for pid in self.neovim.servers if _is_server(pid))
        return int(pid)


def _is_server(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - no file of a folder
            return b"dsh-lsp" in file.read()
    except OSError:
        return False


def kill(pid: int) -> None:
    """End a process at once."""
    os.kill(pid, 9)
