"""The Neovim client's `workspace/applyEdit`: whole and as it was meant, or not at all, and truly reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import ended_within, environment, wait_for
from tests.e2e.neovim import CLIENT_FOLDER, PROBES, Neovim
from tests.e2e.story import CALC

APPLY = """
local edit, attach = vim.json.decode((...), { luanil = { object = true } }), select(2, ...)
return require('dsh.edit').apply({ edit = edit }, 'utf-16')
"""

# The version of a document is what `vim.lsp` tells servers; a server of our own in this process makes it count.
SERVER = """
vim.lsp.start({ name = 'counts', cmd = function(dispatchers)
  return {
    request = function(method, _, callback)
      callback(nil, method == 'initialize' and { capabilities = { textDocumentSync = 1 } } or nil)
      return true, 1
    end,
    notify = function() return true end,
    is_closing = function() return false end,
    terminate = function() end,
  }
end })
"""


class Room:
    """An editor with a file open, and the guard."""

    def __init__(self, neovim: Neovim, root: Path) -> None:
        self.neovim = neovim
        self.root = root

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    def version(self) -> int:
        return int(self.neovim.lua("return vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]"))

    def edit(self, name: str, *edits: Any, version: int | None) -> dict[str, Any]:
        return {"textDocument": {"uri": self.uri(name), "version": version}, "edits": list(edits)}

    def apply(self, *changes: dict[str, Any], **more: Any) -> dict[str, Any]:
        import json

        found: dict[str, Any] = self.neovim.lua(APPLY, json.dumps({"documentChanges": list(changes), **more}))
        return found

    def on_disk(self, name: str) -> str:
        return (self.root / name).read_text()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    home, root = tmp_path / "home", tmp_path / "root"
    home.mkdir()
    root.mkdir()
    (root / "calc.py").write_text(CALC)
    (root / "other.py").write_text("x = 1\n")
    env = environment(home, None)
    arguments = ["--clean", "--cmd", "set noswapfile", "--cmd", f"set rtp^={CLIENT_FOLDER}", "calc.py"]
    neovim = Neovim(arguments, env=env, folder=root)
    neovim.attach_screen()
    neovim.lua(PROBES)
    neovim.lua(SERVER)
    neovim.keys("Go# mine<Esc>")
    room = Room(neovim, root)
    assert neovim.text() == CALC + "# mine\n"
    yield room
    assert not neovim.mode()["blocking"], f"\n{neovim.screen}"
    assert neovim.prompts() == []
    assert neovim.lua("return vim.v.errmsg") == ""
    neovim.stop()
    assert ended_within(neovim.process.pid, 5)


def at(line: int, start: int, end: int, text: str, **more: Any) -> dict[str, Any]:
    place = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
    return {"range": place, "newText": text, **more}


MEND = at(1, 13, 14, "+")
UNTOUCHED = CALC + "# mine\n"


def test_an_edit_for_the_version_that_the_buffer_has_is_applied_as_one_step_of_undo(room: Room) -> None:
    assert room.apply(room.edit("calc.py", MEND, at(0, 0, 0, "# top\n"), version=room.version())) == {"applied": True}
    assert room.neovim.text() == "# top\n" + UNTOUCHED.replace("a - b", "a + b")
    assert room.on_disk("calc.py") == CALC
    room.neovim.keys("u")
    assert room.neovim.text() == UNTOUCHED


@pytest.mark.parametrize("off", [-1, 1, 50])
def test_an_edit_for_another_version_is_refused_and_says_so(room: Room, off: int) -> None:
    answer = room.apply(room.edit("calc.py", MEND, version=room.version() + off))
    assert answer["applied"] is False
    assert f"is at version {room.version()}, the edit is for {room.version() + off}" in answer["failureReason"]
    assert answer["failedChange"] == 0
    assert room.neovim.text() == UNTOUCHED


def test_one_stale_change_refuses_the_good_ones_beside_it(room: Room) -> None:
    good = {"kind": "create", "uri": room.uri("new.py")}
    answer = room.apply(good, room.edit("calc.py", MEND, version=room.version() - 1))
    assert (answer["applied"], answer["failedChange"]) == (False, 1)
    assert not (room.root / "new.py").exists()
    assert room.neovim.text() == UNTOUCHED


def test_a_second_document_is_checked_as_the_first_one_is(room: Room) -> None:
    room.neovim.command("split other.py")
    room.neovim.lua(SERVER.replace("'counts'", "'counts'"))
    stale = room.edit("other.py", at(0, 0, 1, "y"), version=room.version() - 1)
    room.neovim.command("wincmd w")
    answer = room.apply(room.edit("calc.py", MEND, version=room.version()), stale)
    assert (answer["applied"], answer["failedChange"]) == (False, 1)
    assert room.neovim.text() == UNTOUCHED


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([at(1, 4, 10, "x"), at(1, 8, 12, "y")], "ranges overlap"),
        ([at(1, 9, 4, "x")], "a range ends before it begins"),
        ([{**MEND, "annotationId": "a"}], "ask for a confirmation"),
    ],
)
def test_edits_that_make_no_sense_or_ask_for_a_confirmation_are_refused(
    room: Room, edits: list[Any], reason: str
) -> None:
    answer = room.apply(room.edit("calc.py", *edits, version=room.version()))
    assert answer["applied"] is False
    assert reason in answer["failureReason"]
    assert room.neovim.text() == UNTOUCHED


def test_an_annotation_that_needs_a_confirmation_is_refused(room: Room) -> None:
    annotations = {"a": {"label": "Risky", "needsConfirmation": True}}
    answer = room.apply(room.edit("calc.py", MEND, version=room.version()), changeAnnotations=annotations)
    assert answer["applied"] is False
    assert room.neovim.text() == UNTOUCHED


def test_edits_without_a_version_are_refused_for_an_open_document(room: Room) -> None:
    answer = room.apply(room.edit("calc.py", MEND, version=None))
    assert (answer["applied"], room.neovim.text()) == (False, UNTOUCHED)
    answer = room.apply(changes={room.uri("calc.py"): [MEND]})
    assert (answer["applied"], room.neovim.text()) == (False, UNTOUCHED)


def test_a_file_that_is_not_open_is_edited_in_a_buffer_and_not_saved(room: Room) -> None:
    assert room.apply(room.edit("other.py", at(0, 4, 5, "2"), version=None)) == {"applied": True}
    assert room.on_disk("other.py") == "x = 1\n"
    room.neovim.command("hide edit other.py")
    assert room.neovim.text() == "x = 2\n"
    assert room.neovim.modified


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"overwrite": True, "ignoreIfExists": False}])
def test_no_existing_file_is_truncated(room: Room, options: dict[str, bool]) -> None:
    answer = room.apply({"kind": "create", "uri": room.uri("other.py"), "options": options})
    assert answer["applied"] is False
    assert "no file is overwritten" in answer["failureReason"]
    assert room.on_disk("other.py") == "x = 1\n"


def test_a_create_that_may_be_ignored_leaves_the_file_alone(room: Room) -> None:
    create = {"kind": "create", "uri": room.uri("other.py"), "options": {"ignoreIfExists": True}}
    assert room.apply(create) == {"applied": True}
    assert room.on_disk("other.py") == "x = 1\n"
    assert room.apply({"kind": "create", "uri": room.uri("deep/new.py")}) == {"applied": True}
    assert room.on_disk("deep/new.py") == ""


def test_no_rename_overwrites_a_file_or_saves_unsaved_text(room: Room) -> None:
    rename = {"kind": "rename", "oldUri": room.uri("other.py"), "newUri": room.uri("calc.py")}
    assert "no file is overwritten" in room.apply(rename)["failureReason"]
    rename = {"kind": "rename", "oldUri": room.uri("calc.py"), "newUri": room.uri("sums.py")}
    assert "has unsaved text" in room.apply(rename)["failureReason"]
    assert room.on_disk("calc.py") == CALC
    rename = {"kind": "rename", "oldUri": room.uri("other.py"), "newUri": room.uri("renamed.py")}
    assert room.apply(rename) == {"applied": True}
    assert room.on_disk("renamed.py") == "x = 1\n"


def test_a_delete_needs_its_file_and_spares_unsaved_text(room: Room) -> None:
    assert "does not exist" in room.apply({"kind": "delete", "uri": room.uri("missing.py")})["failureReason"]
    assert "has unsaved text" in room.apply({"kind": "delete", "uri": room.uri("calc.py")})["failureReason"]
    assert room.on_disk("calc.py") == CALC
    assert room.apply({"kind": "delete", "uri": room.uri("other.py")}) == {"applied": True}
    assert not (room.root / "other.py").exists()


def test_a_buffer_that_cannot_be_changed_is_not_said_to_be(room: Room) -> None:
    room.neovim.command("set nomodifiable")
    answer = room.apply(room.edit("calc.py", MEND, version=room.version()))
    assert answer["applied"] is False
    assert "not modifiable" in answer["failureReason"]


# -- saving


def save(room: Room, name: str) -> dict[str, Any]:
    found: dict[str, Any] = room.neovim.lua("return require('dsh.save').save({ uris = { ... } })", room.uri(name))
    return found


def test_a_buffer_is_saved_without_a_word(room: Room) -> None:
    room.neovim.command("autocmd BufWritePre * let g:formatted = 1")
    assert save(room, "calc.py")["saved"] == [room.uri("calc.py")]
    assert room.on_disk("calc.py") == UNTOUCHED
    assert room.neovim.lua("return vim.g.formatted") == 1


def test_a_buffer_that_was_typed_into_since_is_left_to_its_user_without_a_word(room: Room) -> None:
    uri, version = room.uri("calc.py"), room.version()
    room.neovim.keys("ix<Esc>")
    wait_for(lambda: room.version() != version, "the key is in the buffer")
    saved = "return require('dsh.save').save(...)"
    answer = room.neovim.lua(saved, {"uris": [uri], "versions": {uri: version}})
    assert (answer["saved"], answer["failed"]) == ([], [uri])
    assert room.on_disk("calc.py") == CALC
    assert "not saved" not in room.neovim.lua("return vim.fn.execute('messages')")
    answer = room.neovim.lua(saved, {"uris": [uri], "versions": {uri: room.version()}})
    assert answer["saved"] == [uri]


def test_a_file_that_another_program_changed_is_not_overwritten_and_nothing_asks(room: Room) -> None:
    import os

    (room.root / "calc.py").write_text("theirs\n")
    os.utime(room.root / "calc.py", (2_000_000_000, 2_000_000_000))
    answer = save(room, "calc.py")
    assert not answer["saved"]
    assert answer["failed"] == [room.uri("calc.py")]
    assert room.on_disk("calc.py") == "theirs\n"
    assert room.neovim.text() == UNTOUCHED


def test_what_is_not_open_or_read_only_is_said_not_to_be_saved(room: Room) -> None:
    assert save(room, "other.py")["failed"] == [room.uri("other.py")]
    room.neovim.command("set readonly")
    assert save(room, "calc.py")["failed"] == [room.uri("calc.py")]
    assert room.on_disk("calc.py") == CALC
