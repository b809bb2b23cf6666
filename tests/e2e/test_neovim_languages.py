"""Neovim with a real language server beside ours: what an edit breaks comes back to the model in its words."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.neovim import USER_CONFIGURATION, Desk, wait_for
from tests.e2e.neovim_client import CONFIGURATION as CLIENT_CONFIGURATION
from tests.e2e.neovim_client import ClientDesk
from tests.support.model_server import answer

RUFF = Path(sys.executable).with_name("ruff")
# It has said what it thinks of a file once it is there: else it may still be starting when the edit is made.
HEARD = """
vim.api.nvim_create_autocmd('DiagnosticChanged', { callback = function()
  for name in pairs(vim.api.nvim_get_namespaces()) do
    heard = heard or name:find('ruff', 1, true) ~= nil
  end
end })
"""

CALC = "def add(a, b):\n    return a - b\n"
BREAK = answer(
    "I mend it.", calls=[("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + nothing"})]
)
DONE = answer("Done.")

# A client that lends what its language servers say, as ours does, in as few lines as that takes.
LENDING = f"""
vim.lsp.config('ruff', {{ cmd = {{ '{RUFF}', 'server' }}, filetypes = {{ 'python' }}, root_dir = vim.env.TEST_ROOT }})
vim.lsp.enable('ruff')

local function theirs(bufnr)
  local found = {{}}
  for _, item in ipairs(vim.diagnostic.get(bufnr)) do
    if item.source ~= 'dsh' then
      table.insert(found, {{
        range = {{
          start = {{ line = item.lnum, character = item.col }},
          ['end'] = {{ line = item.end_lnum, character = item.end_col }},
        }},
        severity = item.severity,
        message = item.message,
        source = item.source,
        code = item.code,
      }})
    end
  end
  return found
end

vim.lsp.config('dsh', {{
  capabilities = {{ experimental = {{ dsh = {{ version = 1, diagnostics = true }} }} }},
  handlers = {{
    ['window/showMessage'] = function() end,
    ['dsh/diagnostics'] = function(_, params)
      local bufnr = vim.uri_to_bufnr(params.uri)
      if not params.after then
        return {{ items = theirs(bufnr), fresh = false }}
      end
      local waiting, running = true, coroutine.running()
      local function go_on()
        if waiting then
          waiting = false
          coroutine.resume(running)
        end
      end
      local heard = vim.api.nvim_create_autocmd('DiagnosticChanged', {{
        buffer = bufnr,
        callback = function()
          if #theirs(bufnr) > 0 then
            vim.schedule(go_on)
          end
        end,
      }})
      vim.defer_fn(go_on, 2000)
      coroutine.yield()
      vim.api.nvim_del_autocmd(heard)
      local items = theirs(bufnr)
      return {{ items = items, fresh = #items > 0 }}
    end,
  }},
}})
"""


# A server in this process that knows where everything is defined: in the second line.
KNOWS = """
vim.lsp.start({ name = 'knows', cmd = function(dispatchers)
  return {
    request = function(method, params, callback)
      local there = { start = { line = 1, character = 4 }, ['end'] = { line = 1, character = 10 } }
      callback(nil, method == 'initialize' and { capabilities = { definitionProvider = true } }
        or method == 'textDocument/definition' and { uri = params.textDocument.uri, range = there } or nil)
      return true, 1
    end,
    notify = function() return true end,
    is_closing = function() return false end,
    terminate = function() dispatchers.on_exit(0, 0) end,
  }
end })
"""


class LendingDesk(Desk):
    """The stock client, with a language server that it lends."""

    CONFIGURATION = f"{HEARD}\n{USER_CONFIGURATION}{LENDING}"


def test_an_edit_that_breaks_a_file_brings_a_real_server_s_diagnostic_back_to_the_model(tmp_path: Path) -> None:
    with LendingDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        wait_for(lambda: desk.neovim.lua("return heard or false"), "ruff has looked at the file")
        desk.model.script(BREAK, DONE)
        desk.run("dsh.followup", text="Mend add.")
        desk.wait_for_review()
        desk.run("dsh.review.accept", hunks="all")
        result = desk.tool_result(2)
        assert "calc.py: the edit was accepted and is in the document, line 2" in result
        # A slow editor may not say in time what it knew before.
        assert "calc.py: new problems after this edit:" in result or "calc.py: problems now:" in result
        assert "line 2: error: Undefined name `nothing` (Ruff F821)" in result
        assert desk.wait_for_turns(1) == "done"


class ClientLendingDesk(ClientDesk):
    """Our client, beside a language server that nobody told it of."""

    CONFIGURATION = (
        CLIENT_CONFIGURATION
        + f"""
{HEARD}
vim.lsp.config('ruff', {{ cmd = {{ '{RUFF}', 'server' }}, filetypes = {{ 'python' }} }})
vim.lsp.enable('ruff')
"""
    )

    def begin(self) -> None:
        wait_for(lambda: self.neovim.lua("return heard or false"), "ruff has looked at the file")


def test_our_client_lends_what_the_user_s_language_servers_say_and_know(tmp_path: Path) -> None:
    with ClientLendingDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        desk.neovim.lua(KNOWS)
        where = {"operation": "definition", "path": "calc.py", "symbol": "add", "line": 1}
        desk.model.script(BREAK, answer("Where?", calls=[("language", where)]), DONE)
        desk.dsh("ask Mend add.")
        desk.wait_for_proposal("calc.py")
        desk.dsh("accept all")
        assert "line 2: error: Undefined name `nothing` (Ruff F821)" in desk.tool_result(2)
        assert "calc.py:2" in desk.tool_result(3)
        assert desk.wait_for_turns(1) == "completed"
