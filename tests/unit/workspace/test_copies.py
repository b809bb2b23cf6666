"""Copies: bytes are kept for their owner alone and read by their own names."""

from __future__ import annotations

import pytest

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.copies import Copies


def test_what_is_kept_is_read_back_and_nobody_else_may_read_it(tmp_path) -> None:
    copies = Copies(tmp_path / "copies")
    assert copies.keep("h1", b"\xff data") == "h1"
    assert copies.read("h1") == b"\xff data"
    assert (tmp_path / "copies" / "h1").stat().st_mode & 0o077 == 0
    assert (tmp_path / "copies").stat().st_mode & 0o077 == 0


def test_the_mode_of_what_went_is_known_by_the_name_of_its_copy(tmp_path) -> None:
    copies = Copies(tmp_path / "copies")
    name = copies.keep("h1", b"data", 0o100755)
    assert copies.read(name) == b"data"
    assert copies.mode_of(name) == 0o755
    assert copies.mode_of(copies.keep("h2", b"data")) is None
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "copies").iterdir()] == [0o600] * 2


def test_a_fork_holds_the_copies_of_its_parent_and_its_own_alone(tmp_path) -> None:
    parent, fork = Copies(tmp_path / "parent"), Copies(tmp_path / "fork")
    fork.take_over(parent)
    assert not (tmp_path / "fork").exists(), "there was nothing"
    parent.keep("h1", b"data")
    fork.take_over(parent)
    fork.keep("h2", b"other")
    (tmp_path / "parent" / "h1").unlink()
    assert (fork.read("h1"), fork.read("h2")) == (b"data", b"other")
    with pytest.raises(ToolError, match="its copy is gone"):
        parent.read("h2")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", ".", "h2"])
def test_no_other_file_is_read(tmp_path, name: str) -> None:
    (tmp_path / "secret").write_text("x")
    copies = Copies(tmp_path / "copies")
    copies.keep("h1", b"data")
    with pytest.raises(ToolError, match="its copy is gone"):
        copies.read(name)


def test_what_cannot_be_kept_is_an_error(tmp_path) -> None:
    (tmp_path / "copies").write_text("a file is in the way")
    with pytest.raises(ToolError) as caught:
        Copies(tmp_path / "copies").keep("h1", b"data")
    assert caught.value.code == "NOT_WRITABLE"
