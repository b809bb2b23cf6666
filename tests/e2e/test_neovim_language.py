"""The Neovim client lends the user's own language servers, in whatever encoding they count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import environment, wait_for
from tests.e2e.neovim import CLIENT_FOLDER, PROBES, Neovim
from tests.e2e.story import CALC

# A language server in this process, which counts bytes and knows one symbol.
SERVER = """
local encoding, delay = ...
vim.lsp.start({ name = 'knows', cmd = function(dispatchers)
  local function at(line, start, stop)
    return { start = { line = line, character = start }, ['end'] = { line = line, character = stop } }
  end
  return {
    request = function(method, params, callback)
      local uri = params.textDocument and params.textDocument.uri
      asked = { method = method, position = params.position, query = params.query }
      local answers = {
        initialize = { capabilities = {
          positionEncoding = encoding, textDocumentSync = 1, definitionProvider = true, referencesProvider = true,
          renameProvider = true, hoverProvider = true,
        } },
        ['textDocument/definition'] = { uri = uri, range = at(0, 6, 9) },
        ['textDocument/references'] = {},
        ['textDocument/rename'] = { changes = {
          [uri or ''] = { { range = at(0, 6, 9), newText = params.newName } },
        } },
      }
      vim.defer_fn(function() callback(nil, answers[method]) end, method == 'initialize' and 0 or delay)
      return true, 1
    end,
    notify = function(method, params)
      if method == 'textDocument/didChange' then
        dispatchers.notification('textDocument/publishDiagnostics', { uri = params.textDocument.uri, diagnostics = {
          { range = at(0, 6, 9), message = 'unused', severity = 2, source = 'knows', code = 'U1' },
        } })
      end
      return true
    end,
    is_closing = function() return false end,
    terminate = function() end,
  }
end })
"""

ANSWER = """
local what, params = ...
answer = nil
coroutine.wrap(function()
  answer = require('dsh.language')[what](params)
end)()
"""

LINE = "ä🐍 = sum  # two bytes, four bytes"


class Room:
    def __init__(self, neovim: Neovim, root: Path) -> None:
        self.neovim = neovim
        self.uri = (root / "calc.py").as_uri()

    def ask(self, what: str, **params: Any) -> Any:
        """Ask as the server does; the answer comes when it comes, and holds nothing up."""
        self.neovim.lua(ANSWER, what, {"uri": self.uri, **params})
        assert not self.neovim.mode()["blocking"]
        wait_for(lambda: self.neovim.lua("return answer ~= nil"), "an answer")
        return self.neovim.lua("return answer")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    home, root = tmp_path / "home", tmp_path / "root"
    home.mkdir()
    root.mkdir()
    (root / "calc.py").write_text(f"{LINE}\n{CALC}")
    env = environment(home, None)
    arguments = ["--clean", "--cmd", "set noswapfile", "--cmd", f"set rtp^={CLIENT_FOLDER}", "calc.py"]
    neovim = Neovim(arguments, env=env, folder=root)
    neovim.attach_screen()
    neovim.lua(PROBES)
    neovim.lua("require('dsh.language').watch()")
    yield Room(neovim, root)
    assert neovim.lua("return vim.v.errmsg") == ""
    neovim.stop()


def serve(room: Room, encoding: str, delay_ms: int = 50) -> None:
    room.neovim.lua(SERVER, encoding, delay_ms)
    wait_for(lambda: room.neovim.lua("local c = vim.lsp.get_clients()[1] return c and c.initialized"), "it is ready")


def span(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


# "ä🐍" is three UTF-16 units, two UTF-32 units, and six bytes.
@pytest.mark.parametrize(("encoding", "theirs"), [("utf-8", 6), ("utf-16", 3), ("utf-32", 2)])
def test_positions_are_counted_as_each_side_counts(room: Room, encoding: str, theirs: int) -> None:
    serve(room, encoding)
    found = room.ask("navigate", kind="definition", position={"line": 0, "character": 3})
    assert room.neovim.lua("return asked.position") == {"line": 0, "character": theirs}
    if encoding == "utf-8":  # bytes 6 to 9 are " = "
        assert found == {"uri": room.uri, "range": span(0, 3, 6)}


def test_a_rename_comes_as_an_edit_that_nobody_has_applied(room: Room) -> None:
    serve(room, "utf-8")
    found = room.ask("navigate", kind="rename", position={"line": 0, "character": 0}, newName="snake")
    assert found == {"changes": {room.uri: [{"range": span(0, 3, 6), "newText": "snake"}]}}
    assert room.neovim.text() == f"{LINE}\n{CALC}"


@pytest.mark.parametrize("kind", ["implementation", "hover", "references", "nonsense"])
def test_what_no_server_offers_or_knows_is_null(room: Room, kind: str) -> None:
    serve(room, "utf-16")
    room.neovim.lua(ANSWER, "navigate", {"uri": room.uri, "kind": kind, "position": {"line": 0, "character": 0}})
    assert wait_for(lambda: room.neovim.lua("return answer == vim.NIL"), "null")


def test_diagnostics_of_others_are_told_and_waited_for(room: Room) -> None:
    serve(room, "utf-8")
    room.neovim.keys("Go# more<Esc>")
    version = room.neovim.lua("return vim.lsp.util.buf_versions[1]")
    found = room.ask("diagnostics", after=version)
    assert found["fresh"] is True
    (item,) = found["items"]
    assert item == {"range": span(0, 3, 6), "message": "unused", "severity": 2, "source": "knows", "code": "U1"}
    assert room.ask("diagnostics", after=version)["fresh"] is True, "what came before it was asked for counts"
    assert room.ask("diagnostics", after=version + 100)["fresh"] is False


def test_nobody_who_knows_of_diagnostics_is_null(room: Room) -> None:
    room.neovim.lua(ANSWER, "diagnostics", {"uri": room.uri})
    assert wait_for(lambda: room.neovim.lua("return answer == vim.NIL"), "null")


@pytest.mark.parametrize("what", ["diagnostics", "navigate"])
def test_a_file_that_is_not_there_gets_no_buffer(room: Room, what: str) -> None:
    serve(room, "utf-8")
    uri = room.uri.replace("calc.py", "missing.py")
    room.neovim.lua(ANSWER, what, {"uri": uri, "kind": "definition", "position": {"line": 0, "character": 0}})
    assert wait_for(lambda: room.neovim.lua("return answer == vim.NIL"), "null")
    assert not [name for name in room.neovim.buffers() if "missing" in name]
