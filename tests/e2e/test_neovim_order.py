"""The Neovim client when answers come late: what was asked before counts for nothing that came after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import environment, wait_for
from tests.e2e.neovim import CLIENT_FOLDER, PROBES, Neovim
from tests.e2e.story import CALC

# A server in this process that answers a command when the test says so.
SERVER = """
asked = {}
vim.lsp.config('dsh_lsp', { cmd = function(dispatchers)
  local token, has_ended
  local function finish(signal)
    has_ended = true
    dispatchers.on_exit(0, signal or 0)
  end
  die = finish
  tell = function(value) dispatchers.notification('$/progress', { token = token, value = value }) end
  return {
    request = function(method, params, callback)
      if method == 'workspace/executeCommand' then
        table.insert(asked, { command = params.command, argument = params.arguments[1], callback = callback })
      elseif method == 'initialize' then
        token = params.initializationOptions.eventToken
        local commands = vim.tbl_values(require('dsh.protocol').COMMANDS)
        callback(nil, { capabilities = { executeCommandProvider = { commands = commands } } })
      else
        callback(nil, nil)
      end
      return true, 1
    end,
    notify = function() return true end,
    is_closing = function() return has_ended == true end,
    terminate = function()
      if not hangs then finish() end
    end,
  }
end })
require('dsh.review')
"""
ASKED = "return vim.tbl_map(function(one) return { one.command, one.argument } end, asked)"
ANSWER = "local number, result = ... asked[number].callback(nil, result)"


class Room:
    """An editor with a file open, whose server the test plays."""

    def __init__(self, neovim: Neovim, root: Path) -> None:
        self.neovim = neovim
        self.root = root
        self.uri = (root / "calc.py").as_uri()

    def begin_session(self, session: str) -> None:
        """Make a session the current one."""
        number = len(self.asked()) + 1
        self.neovim.lua("require('dsh.client').run('dsh.session.new')")
        assert self.wait_for_question(number)[0] == "dsh.session.new"
        self.answer(number, {"session": session})

    def go_on_with(self, session: str) -> None:
        """Answer the next server's client, which opens the session again."""
        opening = ("dsh.session.open", {"session": session, "after": -1})
        wait_for(lambda: opening in self.asked(), "the session is opened again")
        self.answer(self.asked().index(opening) + 1, {"summary": {"session": session}})

    def asked(self) -> list[tuple[str, dict[str, Any]]]:
        return [(str(command), argument or {}) for command, argument in self.neovim.lua(ASKED)]

    def wait_for_question(self, number: int) -> tuple[str, dict[str, Any]]:
        """Wait for the command of this number, from 1."""
        return wait_for(lambda: asked[number - 1] if len(asked := self.asked()) >= number else None, "a command") or (
            "",
            {},
        )

    def answer(self, number: int, result: Any) -> None:
        """Answer the command of this number."""
        self.neovim.lua(ANSWER, number, result)

    def waiting(self, line: int) -> dict[str, Any]:
        """One hunk that waits, as `dsh.review.list` has it."""
        where = {"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}}
        hunk = {"id": f"h{line}", "range": where, "oldText": f"{CALC.splitlines()[line]}\n", "newText": "# new\n"}
        return {"files": [{"proposal": "p", "uri": self.uri, "kind": "edit", "hunks": [hunk]}]}

    def shown(self) -> int:
        """How many hunks the client knows of."""
        return int(
            self.neovim.lua(
                "local n = 0 for _, f in ipairs(require('dsh.review').files()) do n = n + f.hunks end return n"
            )
        )

    def tell(self, session: str, seq: int, title: str) -> None:
        """An event of a session."""
        value = {
            "dsh": 1,
            "session": session,
            "seq": seq,
            "time": 0,
            "type": "session/title",
            "data": {"title": title},
        }
        self.neovim.lua("tell(...)", value)

    def start_turn(self, session: str, seq: int, turn: int) -> None:
        """A turn of a session."""
        value = {"dsh": 1, "session": session, "seq": seq, "time": 0, "type": "turn/start", "data": {"turn": turn}}
        self.neovim.lua("tell(...)", value)

    def session(self) -> str | None:
        found: str | None = self.neovim.lua("return require('dsh.feed').state.session")
        return found


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    home, root = tmp_path / "home", tmp_path / "root"
    home.mkdir()
    root.mkdir()
    (root / "calc.py").write_text(CALC)
    arguments = ["--clean", "--cmd", "set noswapfile", "--cmd", f"set rtp^={CLIENT_FOLDER}", "calc.py"]
    neovim = Neovim(arguments, env=environment(home, None), folder=root)
    neovim.attach_screen()
    neovim.lua(PROBES)
    neovim.lua(SERVER)
    yield Room(neovim, root)
    assert neovim.lua("return vim.v.errmsg") == ""
    neovim.stop()


def test_who_asks_for_the_review_is_answered_by_what_waits_then_and_not_by_an_older_answer(room: Room) -> None:
    room.begin_session("one")
    assert room.wait_for_question(2) == ("dsh.review.list", {"session": "one"})
    room.neovim.command("Dsh review")
    room.answer(2, {"files": []})  # as it was before
    assert room.wait_for_question(3)[0] == "dsh.review.list"
    assert "nothing waits" not in room.neovim.messages()
    room.answer(3, room.waiting(5))
    wait_for(lambda: room.neovim.lua("return vim.fn.line('.')") == 6, "the hunk is gone to")
    assert "nothing waits" not in room.neovim.messages()


def test_what_waits_in_a_session_that_was_left_is_not_shown_in_the_one_that_was_gone_to(room: Room) -> None:
    room.begin_session("one")
    room.wait_for_question(2)
    room.neovim.lua("require('dsh.client').run('dsh.session.new')")
    room.wait_for_question(3)
    room.answer(3, {"session": "two"})
    room.answer(2, room.waiting(1))
    assert room.wait_for_question(4) == ("dsh.review.list", {"session": "two"})
    assert room.shown() == 0
    room.answer(4, room.waiting(5))
    wait_for(lambda: room.shown() == 1, "what waits here is shown")


def test_keys_that_lead_to_a_hunk_that_does_not_show_yet_change_no_character(room: Room) -> None:
    neovim = room.neovim
    other = room.root / "other.py"
    other.write_text("typed since = 1\n")
    room.begin_session("one")
    waiting = room.waiting(5)
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}
    hunk = {"id": "elsewhere", "range": where, "oldText": "as the server knows it\n", "newText": "# new\n"}
    waiting["files"].append({"proposal": "p", "uri": other.as_uri(), "kind": "edit", "hunks": [hunk]})
    room.wait_for_question(2)
    room.answer(2, waiting)
    wait_for(lambda: neovim.lua("return vim.fn.maparg('gha', 'n') ~= ''"), "the keys are there")
    neovim.keys("G]hgha")
    wait_for(lambda: "no proposed hunk is under the cursor" in neovim.messages(), "it is told")
    assert neovim.text() == "typed since = 1\n"
    assert "dsh.review.accept" not in [command for command, _ in room.asked()]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_server_that_does_not_end_when_it_is_asked_to_stands_in_nobody_s_way(room: Room, hangs: bool) -> None:
    room.begin_session("one")
    room.wait_for_question(2)
    room.neovim.lua("hangs = ...", hangs)  # not even a signal ends it
    room.neovim.command("Dsh restart")
    room.neovim.command("Dsh cancel")
    room.go_on_with("one")
    wait_for(lambda: ("dsh.cancel", {"session": "one"}) in room.asked(), "the other one is asked")


def test_what_is_said_in_the_moment_in_which_the_server_ends_is_said_to_the_next_one(room: Room) -> None:
    room.begin_session("one")
    room.wait_for_question(2)
    room.neovim.lua("die(); require('dsh.client').run('dsh.cancel', { session = 'one' })")
    room.go_on_with("one")
    wait_for(lambda: ("dsh.cancel", {"session": "one"}) in room.asked(), "the other one is asked")


def test_without_a_session_it_is_said_that_nothing_waits(room: Room) -> None:
    room.neovim.lua("require('dsh.client').with(function() ready = true end)")
    wait_for(lambda: room.neovim.lua("return ready or false"), "the server runs")
    room.neovim.command("Dsh review")
    wait_for(lambda: "nothing waits for a review" in room.neovim.messages(), "it is told")


def test_a_session_in_the_background_does_not_take_the_place_of_one_that_is_thrown_away(room: Room) -> None:
    room.begin_session("background")
    room.tell("background", 0, "Behind")
    room.neovim.lua("require('dsh.client').run('dsh.session.new')")
    number = next(n for n, (command, _) in enumerate(room.asked(), 1) if n > 1 and command == "dsh.session.new")
    room.answer(number, {"session": "shown"})
    room.tell("shown", 0, "Shown")
    room.neovim.lua("require('dsh.feed').forget('shown')")  # as `:Dsh delete` does
    room.tell("background", 1, "Still behind")
    room.neovim.lua("require('dsh.feed').take_status(...)", {"session": "background", "state": "running"})
    wait_for(
        lambda: room.neovim.lua("return require('dsh.feed').view('background').title") == "Still behind",
        "it is heard",
    )
    assert room.session() is None
    room.tell("new", 0, "A new one")
    wait_for(lambda: room.session() == "new", "a new one is shown")


def test_what_a_session_says_while_its_replay_is_on_its_way_is_shown_once_in_its_place(room: Room) -> None:
    room.begin_session("one")
    room.neovim.lua("require('dsh.client').run('dsh.session.open', { session = 'fork' })")
    number = next(n for n, (command, _) in enumerate(room.asked(), 1) if command == "dsh.session.open")
    room.start_turn("fork", 7, 2)
    for seq, turn in ((3, 1), (7, 2), (9, 3)):
        room.start_turn("fork", seq, turn)
    room.answer(number, {"summary": {"session": "fork"}, "lastSeq": 9})
    wait_for(lambda: room.session() == "fork", "it is shown")
    turns = "return vim.tbl_map(function(one) return one.turn end, require('dsh.feed').view().turns)"
    assert room.neovim.lua(turns) == [1, 2, 3]


def test_words_that_were_not_taken_come_back_to_an_input_area_that_was_wiped_out(room: Room) -> None:
    room.begin_session("one")
    room.neovim.keys(":Dsh ask<CR>")
    wait_for(lambda: room.neovim.mode()["mode"] == "i", "one can write")
    room.neovim.keys("Precious words.<CR>")
    wait_for(lambda: room.asked()[-1][0] == "dsh.followup", "it is sent")
    room.neovim.lua("vim.cmd('bwipeout! ' .. require('dsh.input').buffer())")
    room.neovim.lua("asked[#asked].callback({ code = 1, message = 'not now' })")
    wait_for(lambda: "not now" in room.neovim.messages(), "it is told")
    room.neovim.keys("<Esc>:Dsh<CR>")
    wait_for(lambda: "Precious words." in room.neovim.text(), "they are there")
    room.neovim.keys("<Esc>")


def test_what_a_server_told_that_died_gives_way_to_what_is_in_its_log(room: Room) -> None:
    turns = "return vim.tbl_map(function(one) return one.turn end, require('dsh.feed').view(...).turns)"
    room.begin_session("one")
    for session in ("one", "background"):
        for seq, turn in ((3, 1), (7, 2), (9, 3)):  # the last two have come into no log
            room.start_turn(session, seq, turn)
    room.neovim.lua("die(9)")
    wait_for(lambda: room.neovim.mode()["blocking"], "Neovim tells of the end too")
    room.neovim.keys("<CR>")
    room.neovim.command("Dsh restart")
    assert room.neovim.lua(turns) == [1, 2, 3], "it can be read until then"
    opening = ("dsh.session.open", {"session": "one", "after": -1})
    wait_for(lambda: opening in room.asked(), "all is asked for")
    for seq, turn in ((3, 1), (7, 4)):
        room.start_turn("one", seq, turn)
    room.answer(room.asked().index(opening) + 1, {"summary": {"session": "one"}, "lastSeq": 7})
    room.start_turn("one", 8, 5)
    wait_for(lambda: room.neovim.lua(turns) == [1, 4, 5], "what the log has is shown, and what follows it")
    assert room.neovim.lua(turns, "background") == [], "it is told when it is opened next"
    room.neovim.lua("vim.v.errmsg = ''")  # the end of the server is told as an error
