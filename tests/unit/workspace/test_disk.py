"""Disk: bytes that were not edited stay, and nothing is written over what was not read."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.disk import (
    MAX_FILE_BYTES,
    create_file,
    decode_bytes,
    is_respelled,
    move_file,
    read_file,
    replace_file,
)


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff")),
    st.sampled_from([(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le")]),
)
def test_a_text_is_written_back_as_it_was_spelled(text: str, spelling) -> None:
    mark, encoding = spelling
    raw = mark + text.encode(encoding)
    found = decode_bytes(raw, "x")
    if mark or not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        assert found.text == text
        assert found.encode(found.text) == raw


@pytest.mark.parametrize("raw", [b"\xff\xfa", b"a\0b", b"\x89PNG\r\n\x1a\n\0\0", codecs.BOM_UTF16_LE + b"a"])
def test_what_does_not_decode_is_no_text(raw: bytes) -> None:
    with pytest.raises(ToolError) as error:
        decode_bytes(raw, "x")
    assert error.value.code == "NOT_TEXT"


@pytest.mark.parametrize(
    "text", ["a\0b", "\ufeffa", "\ud800", "a" * (MAX_FILE_BYTES + 1)], ids=["NUL", "mark", "half", "long"]
)
def test_what_would_not_be_read_as_it_was_written_is_not_written(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a"
    path.write_text("one\n")
    with pytest.raises(ToolError) as error:
        replace_file(path, read_file(path, "a"), text, "a")
    assert error.value.code == "NOT_TEXT"
    assert path.read_text() == "one\n"


def test_a_replaced_file_keeps_its_mode_its_link_and_its_other_names(tmp_path: Path) -> None:
    target, link, twin = tmp_path / "target", tmp_path / "link", tmp_path / "twin"
    target.write_text("old")
    target.chmod(0o751)
    link.symlink_to(target)
    replace_file(link, read_file(link, "x"), "new", "x")
    assert target.read_text() == "new"
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o751
    os.link(target, twin)
    replace_file(target, read_file(target, "x"), "newer", "x")
    assert twin.read_text() == "newer"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target", "twin"]


def test_a_file_that_changed_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("read")
    before = read_file(path, "a")
    path.write_text("changed")
    with pytest.raises(ToolError) as error:
        replace_file(path, before, "mine", "a")
    assert error.value.code == "CHANGED"
    assert path.read_text() == "changed"


def test_a_new_file_never_replaces_one(tmp_path: Path) -> None:
    create_file(tmp_path / "deep" / "a", "text", "a")
    with pytest.raises(ToolError) as error:
        create_file(tmp_path / "deep" / "a", "other", "a")
    assert error.value.code == "EXISTS"
    assert (tmp_path / "deep" / "a").read_text() == "text"
    with pytest.raises(ToolError):
        create_file(tmp_path / "half", "\ud800", "half")
    assert not (tmp_path / "half").exists()


def test_another_name_of_the_same_file_is_not_free(tmp_path: Path) -> None:
    path, twin = tmp_path / "a", tmp_path / "A"
    path.write_text("text")
    assert not is_respelled(path, twin), "it is not there"
    os.link(path, twin)
    assert not is_respelled(path, twin)
    with pytest.raises(ToolError) as error:
        move_file(path, twin, "A")
    assert error.value.code == "EXISTS"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A", "a"]


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, code in (("pipe", "NOT_A_FILE"), (".", "NOT_A_FILE"), ("none", "NOT_FOUND")):
        with pytest.raises(ToolError) as error:
            read_file(tmp_path / name, name)
        assert error.value.code == code


@pytest.mark.parametrize("mode", [0o444, 0o555])
def test_a_read_only_file_is_not_replaced(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(mode)
    with pytest.raises(ToolError, match="a is read-only") as error:
        replace_file(path, read_file(path, "a"), "new", "a")
    assert error.value.code == "NOT_WRITABLE"
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_replaced_file_keeps_its_extended_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    try:
        os.setxattr(path, "user.origin", b"here")
    except (AttributeError, OSError):
        pytest.skip("this file system has no extended attributes")
    replace_file(path, read_file(path, "a"), "new", "a")
    assert (path.read_text(), os.getxattr(path, "user.origin")) == ("new", b"here")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_replaced_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    os.chown(path, 1234, 4321)
    path.chmod(0o640)
    replace_file(path, read_file(path, "a"), "new", "a")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 4321, 0o640)


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of a file's size")
def test_a_file_that_must_stay_the_same_one_is_whole_after_a_write_that_failed(tmp_path: Path) -> None:
    """In a process of its own, whose files may not grow."""
    path = tmp_path / "a.txt"
    path.write_text("precious\n" * 1_000)
    os.link(path, tmp_path / "other")
    script = """
import resource, signal, sys
from pathlib import Path
from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.disk import read_file, replace_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
before = read_file(path, "a.txt")
resource.setrlimit(resource.RLIMIT_FSIZE, (9_500, 9_500))
try:
    replace_file(path, before, "other\\n" * 4_000, "a.txt")
except ToolError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert "a.txt cannot be written" in done.stdout
    assert path.read_text() == "precious\n" * 1_000


@pytest.mark.parametrize("name", ["new/deep/" + "x" * 300, "new/" + "x" * 300 + "/a"])
def test_what_cannot_come_there_leaves_no_folder_behind(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a"
    path.write_text("text")
    for act in (lambda: create_file(tmp_path / name, "", "a"), lambda: move_file(path, tmp_path / name, "a")):
        with pytest.raises(ToolError) as error:
            act()
        assert error.value.code == "NOT_WRITABLE"
        assert [one.name for one in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "text"


@pytest.mark.skipif(sys.platform == "win32", reason="a folder there does not keep its files by its mode")
def test_a_file_that_may_not_leave_its_folder_comes_to_no_other_one(tmp_path: Path) -> None:
    """In a process of its own, for nothing is forbidden to root."""
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "a").write_text("text")
    if os.geteuid() == 0:
        for path in (tmp_path, folder, folder / "a"):
            os.chown(path, 65_534, 65_534)
    folder.chmod(0o555)
    script = """
import os
from pathlib import Path
from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.disk import move_file
if os.geteuid() == 0:
    os.seteuid(65_534)
try:
    move_file(Path("kept/a"), Path("new/b"), "b")
except ToolError as error:
    print(error)
"""
    source = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
    )
    folder.chmod(0o755)
    assert done.stdout == "the file cannot be moved: Permission denied\n"
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["a", "kept"]
