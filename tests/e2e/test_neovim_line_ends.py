r"""Neovim and the ends of lines: what it makes of an edit at the end of a text, of empty texts and of odd line ends.

With the stock client and with ours; what counts are the bytes that are saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import saved, wait_for
from tests.e2e.neovim import Desk
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import DONE
from tests.support.model_server import answer

DESKS = {"stock": Desk, "ours": ClientDesk}


@pytest.fixture(params=DESKS)
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    with DESKS[request.param].set_up(tmp_path, {"calc.py": "x = 1\n"}) as desk:
        yield desk


def edit(desk: Desk, data: bytes | None, tool: str, **arguments: str) -> str:
    """Have the agent edit a file that is open, accept that, save it if the editor leaves that to its user."""
    if data is not None:
        (desk.root / "new.py").write_bytes(data)
    desk.neovim.command("edit new.py")
    wait_for(lambda: desk.neovim.lua("return #vim.lsp.get_clients({ bufnr = 0 })") or is_ours(desk), "it is attached")
    desk.model.script(answer("", calls=[(tool, {"path": "new.py", **arguments})]), DONE)
    desk.run("dsh.followup", text="Mend.")
    desk.wait_for_review()
    desk.run("dsh.review.accept", hunks="all")
    desk.wait_for_turns(1)
    if not is_ours(desk):
        desk.neovim.command("silent write")
    return desk.tool_result(2)


def is_ours(desk: Desk) -> bool:
    return isinstance(desk, ClientDesk)


def on_disk(desk: Desk) -> bytes:
    return saved(desk.root / "new.py")


def rewind(desk: Desk, before: bytes) -> None:
    """Take the edit back; the bytes are the old ones."""
    desk.run("dsh.rewind", turn=1)
    text = before.decode().replace("\r\n", "\n")
    wait_for(lambda: desk.neovim.text() == text, "the edit is taken back")
    if not is_ours(desk):
        desk.neovim.command("silent write")
    wait_for(lambda: on_disk(desk) == before, "that is saved")


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "dos"])
def test_lines_at_the_end_of_a_file_get_no_empty_line_behind_them(desk: Desk, end: str) -> None:
    before = f"a{end}b{end}".encode()
    told = edit(desk, before, "write_file", content="a\nb\nc\n")
    assert "conflict" not in told
    assert on_disk(desk) == before + f"c{end}".encode()
    rewind(desk, before)


def test_a_file_that_is_emptied_is_empty_and_its_lines_come_back(desk: Desk) -> None:
    told = edit(desk, b"a\nb\n", "write_file", content="")
    assert "conflict" not in told
    assert on_disk(desk) == b""
    rewind(desk, b"a\nb\n")


def test_an_empty_file_gets_its_text_and_is_saved(desk: Desk) -> None:
    told = edit(desk, b"", "write_file", content="a\nb\n")
    assert "differed" not in told
    assert on_disk(desk) == b"a\nb\n"


def test_a_buffer_without_a_file_gets_its_text_and_is_written(desk: Desk) -> None:
    told = edit(desk, None, "write_file", content="a\nb\n")
    assert "differed" not in told
    assert on_disk(desk) == b"a\nb\n"


def test_an_edit_among_mixed_line_ends_is_known_to_stand(desk: Desk) -> None:
    before = b"a = 1\r\nb = 2\r\nc = 3\n"
    told = edit(desk, before, "edit_file", old_text="b = 2", new_text="b = 3\nb2 = 4")
    assert "conflict" not in told
    assert desk.neovim.text().replace("\r", "") == "a = 1\nb = 3\nb2 = 4\nc = 3\n"
    assert on_disk(desk) == b"a = 1\r\nb = 3\nb2 = 4\r\nc = 3\n"  # Neovim takes `\r` out of what it puts in
    assert not is_ours(desk) or "(saved)" in told


def test_no_edit_is_sent_where_a_return_alone_ends_a_line(desk: Desk) -> None:
    before = b"a = 1\rb = 2\rc = 3\r"
    told = edit(desk, before, "edit_file", old_text="b = 2", new_text="b = 3\nb2 = 4")
    assert "not take for the end of a line" in told
    assert b"b = 2" in on_disk(desk)
    assert b"b2" not in on_disk(desk)


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\nend", "a\nend\nmore\n", b"a\nend\nmore\n"),
        (b"a\nend", "a\nEND", b"a\nEND\n"),
        (b"a\nend", "a\n", b"a\n"),
        (b"a\nb\n", "a\nB", b"a\nB\n"),
        (b"a\nb\n", "a\nb\nc", b"a\nb\nc\n"),
    ],
)
def test_the_last_line_ends_as_neovim_writes_it_and_the_edit_is_known_to_stand(
    desk: Desk, before: bytes, content: str, after: bytes
) -> None:
    told = edit(desk, before, "write_file", content=content)
    assert "the edit was accepted and is in the document" in told
    assert "(saved)" in told or not is_ours(desk)
    assert on_disk(desk) == after


def test_a_last_line_end_that_neovim_keeps_is_said_to_be_kept(desk: Desk) -> None:
    told = edit(desk, b"a\nb\n", "write_file", content="a\nb")
    assert "how the last line ends is up to this editor" in told
    assert on_disk(desk) == b"a\nb\n"


def test_what_stands_below_a_return_alone_is_followed_as_the_buffer_has_it(desk: Desk) -> None:
    (desk.root / "new.py").write_bytes(b"a = 1\rb = 2\nc = 3\nd = 4\n")
    desk.neovim.command("edit new.py")
    desk.neovim.keys("2GA # mine<Esc>")
    desk.neovim.command(r"%s/\r/\r/")
    desk.neovim.command("split | only")
    desk.model.script(
        answer("", calls=[("edit_file", {"path": "new.py", "old_text": "d = 4", "new_text": "d = 5"})]), DONE
    )
    desk.run("dsh.followup", text="Mend.")
    desk.wait_for_review()
    desk.run("dsh.review.accept", hunks="all")
    desk.wait_for_turns(1)
    assert "is in the document, line 4" in desk.tool_result(2)
    desk.neovim.command("silent write")
    assert on_disk(desk) == b"a = 1\nb = 2\nc = 3 # mine\nd = 5\n"
