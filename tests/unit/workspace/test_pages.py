"""Pages: the same lines as the whole text has, and no more of the file than leads to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.pages import LARGE_BYTES, MAX_LINE_CHARS, is_large, read_page
from dsh_lsp.workspace.text import split_lines


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pages") / "file.txt"


@given(
    text=st.text(alphabet="ab\r\né😀\u2028", min_size=1, max_size=60),
    first=st.integers(1, 8),
    limit=st.integers(1, 5),
)
def test_a_page_is_what_the_whole_text_has_there(file: Path, text: str, first: int, limit: int) -> None:
    file.write_bytes(text.encode())
    lines = [line.rstrip("\r\n") for line in split_lines(text)]
    if first > len(lines):
        with pytest.raises(ToolError, match=f"has only {len(lines)} lines"):
            read_page(file, "file.txt", first=first, limit=limit)
        return
    page = read_page(file, "file.txt", first=first, limit=limit)
    assert list(page.lines) == lines[first - 1 : first - 1 + limit]
    assert page.more == (first - 1 + limit < len(lines))
    assert page.total in (None, len(lines))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("extra", range(-2, 3))
def test_a_line_that_is_cut_counts_once_wherever_its_end_falls(file: Path, end: str, extra: int) -> None:
    file.write_bytes(("x" * (MAX_LINE_CHARS + extra) + end + "second" + end).encode())
    page = read_page(file, "file.txt", first=1, limit=9)
    assert len(page.lines) == 2
    assert page.lines[1] == "second"
    assert read_page(file, "file.txt", first=2, limit=1).lines == ("second",)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_mark_says_the_encoding_and_is_no_text(file: Path, encoding: str) -> None:
    file.write_bytes("ä\nb\n".encode(encoding))
    assert read_page(file, "file.txt", first=1, limit=1).lines == ("ä",)


def test_what_is_no_text_is_refused_where_it_is_read(file: Path) -> None:
    file.write_bytes(b"good\n" * 100_000 + b"\xff\n")
    assert read_page(file, "file.txt", first=1, limit=1).lines == ("good",)
    with pytest.raises(ToolError, match="UTF-8"):
        read_page(file, "file.txt", first=100_001, limit=1)
    file.write_bytes(b"a\0b")
    with pytest.raises(ToolError, match="binary"):
        read_page(file, "file.txt", first=1, limit=1)


def test_only_a_large_file_is_read_by_pages(file: Path) -> None:
    file.write_bytes(b"x" * LARGE_BYTES)
    assert not is_large(file)
    file.write_bytes(b"x" * (LARGE_BYTES + 1))
    assert is_large(file)
    assert not is_large(file.parent)
    assert not is_large(file / "nothing")


def test_a_page_of_a_hundred_megabytes_is_read_without_the_rest(file: Path) -> None:
    with file.open("wb") as large:
        large.write(b"some text\n" * 20_000)
        large.seek(100 << 20)
        large.write(b"\xff" * 1_000)  # no text at all: whoever reads it would fail
    page = read_page(file, "file.txt", first=101, limit=2)
    assert (page.lines, page.more, page.total) == (("some text", "some text"), True, None)
