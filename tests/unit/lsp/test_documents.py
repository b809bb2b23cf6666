"""Documents: the mirror equals the editor's text after any edits, in every encoding."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lsp.decisions import Position
from dsh_lsp.errors import ToolError
from dsh_lsp.lsp.documents import Document, Documents, identity, path_of, uri_of
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import split_lines

ALPHABET = "ab\n\r\x0c\u2028é漢\U0001f600"
texts = st.text(ALPHABET, max_size=30)
ENCODERS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
WIDTH = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


def units(text: str, encoding: str) -> int:
    return len(text.encode(ENCODERS[encoding])) // WIDTH[encoding]


def split_at_newlines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def reference_offset(text: str, line: int, character: int, encoding: str, *, at_return: bool) -> int:
    """Code points before a position, the slow and plain way."""
    lines = split_lines(text) if at_return else split_at_newlines(text)
    if line >= len(lines):
        return len(text)
    offset = sum(map(len, lines[:line]))
    body = lines[line].rstrip("\r\n" if at_return else "\n")
    column = 0
    while column < len(body) and units(body[: column + 1], encoding) <= character:
        column += 1
    return offset + column


positions = st.tuples(st.integers(0, 8), st.integers(0, 12))
edits = st.tuples(positions, positions, st.text(ALPHABET, max_size=6))


@settings(max_examples=300)
@given(texts, st.lists(edits, max_size=6), st.sampled_from(list(ENCODERS)), st.booleans())
def test_the_mirror_equals_the_editor_after_any_edits(text, changes, encoding, at_return) -> None:
    r"""Of one that splits lines as LSP says, and of one that does at `\n` alone, as Neovim."""
    document = Document("file:///a", 1, Rope.of(text), encoding, splits_at_return=at_return)
    for version, (a, b, new) in enumerate(changes, 2):
        start, end = sorted((a, b))
        first, last = (reference_offset(text, *p, encoding, at_return=at_return) for p in (start, end))
        text = text[:first] + new + text[last:]
        span = {
            "start": {"line": start[0], "character": start[1]},
            "end": {"line": end[0], "character": end[1]},
        }
        before, trace = document.text, []
        document.apply(version, [{"range": span, "text": new}], trace)
        assert trace[0].apply(before) == text
        assert document.text == text
        assert list(document.rope.lines()) == split_lines(text)
    assert document.version == len(changes) + 1


@given(texts, st.sampled_from(list(ENCODERS)), st.booleans())
def test_every_offset_has_a_position_that_leads_back(text, encoding, at_return) -> None:
    document = Document("file:///a", 1, Rope.of(text), encoding, splits_at_return=at_return)
    for offset in range(len(text) + 1):
        position = document.position_at(offset)
        back = document.offset_at(position)
        # Between the halves of a line end there is no position; the line's end stands for it.
        assert back == offset or (at_return and text[offset - 1 : offset + 1] == "\r\n")


def test_a_whole_text_replaces_all() -> None:
    document = Document("file:///a", 1, Rope.of("old"))
    document.apply(2, [{"text": "new\n"}])
    assert (document.text, document.version) == ("new\n", 2)


def test_columns_count_in_the_encoding_of_the_connection() -> None:
    line = Rope.of("x\U0001f600y")
    assert [Document("a:b", 1, line, e).position_at(2).character for e in ("utf-8", "utf-16", "utf-32")] == [5, 3, 2]
    assert Document("a:b", 1, line, "utf-16").position_at(3, "utf-32").character == 3
    assert Document("a:b", 1, line).offset_at(Position(line=0, character=99)) == 3


def test_a_file_is_one_document_whatever_the_spelling(tmp_path: Path) -> None:
    real = tmp_path / "a b.py"
    real.write_text("x")
    link = tmp_path / "link.py"
    link.symlink_to(real)
    documents = Documents()
    documents.open(uri_of(link), 1, "text")
    on_this_machine = real.as_uri().replace("file://", "file://localhost")
    for uri in (uri_of(real), uri_of(real).replace("%20", " "), real.as_uri(), on_this_machine, "FILE:" + str(real)):
        assert documents.get(uri) is documents.at(real)
        assert documents.get(uri).uri == uri_of(link), "answers come in the client's own spelling"
    documents.close(uri_of(real))
    assert documents.at(real) is None


@pytest.mark.parametrize(
    "name", ["a;b#c?d%e.py", "a%41.py", "\ufffd.py", "caf\udce9.py", "cafe\u0301.py", "a\\b\n.py"]
)
def test_a_path_has_a_uri_that_leads_back_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert path_of(uri_of(path)) == path
    assert uri_of(path).isascii()
    assert len({identity(uri_of(path.with_name(one))) for one in (name, "caf\udce8.py", "caf\udcea.py")}) == 3


def test_a_drive_is_one_whatever_the_spelling() -> None:
    spellings = ["file:///C:/a b/x.py", "file:///c:/a%20b/x.py", "file:///c%3A/a%20b/x.py", "file:///C%3a/a b/x.py"]
    assert len({identity(uri) for uri in spellings}) == 1


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "dsh:/session/1", "untitled:/x/y"])
def test_what_is_no_file_has_no_path(uri: str) -> None:
    assert path_of(uri) is None
    assert identity(uri) == uri


def test_a_change_of_a_document_that_was_never_opened_is_dropped() -> None:
    documents = Documents()
    documents.change("file:///nowhere", 2, [{"text": "x"}])
    assert list(documents) == []


def test_only_watched_documents_tell_of_their_changes() -> None:
    documents = Documents()
    seen = []
    documents.changed.listen(
        lambda event: seen.append((str(event.before), str(event.after), event.passage.changes[0].text))
    )
    documents.open("untitled:1", 1, "a")
    documents.change("untitled:1", 2, [{"text": "b"}])
    dispose = documents.watch("untitled:1")
    documents.change("untitled:1", 3, [{"text": "c"}])
    dispose()
    documents.change("untitled:1", 4, [{"text": "d"}])
    assert seen == [("b", "c", "c")]


# -- several names of one file -------------------------------------------------------------------------------


def state(documents: Documents) -> list[tuple[str, int | None, str]]:
    return [(document.uri, document.version, document.text) for document in documents]


def test_a_document_stays_the_one_that_was_opened_when_a_link_on_its_way_leads_elsewhere(tmp_path: Path) -> None:
    for folder in ("v1", "v2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("x")
    link = tmp_path / "cur"
    link.symlink_to("v1")
    uri = (link / "a.py").as_uri()
    documents = Documents()
    documents.open(uri, 1, "x")
    link.unlink()
    link.symlink_to("v2")
    documents.change(uri, 2, [{"text": "typed"}])
    assert state(documents) == [(uri, 2, "typed")]
    for path in (tmp_path / "v1/a.py", tmp_path / "v2/a.py"):
        with pytest.raises(ToolError, match="leads elsewhere by now"):
            documents.check_certain(path)
    documents.open(uri, 1, "opened again")
    assert documents.at(tmp_path / "v1/a.py") is None
    documents.check_certain(tmp_path / "v2/a.py")
    documents.close(uri)
    assert state(documents) == []


def test_two_documents_of_one_file_keep_their_own_texts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "l.py").symlink_to("a.py")
    link, real = (tmp_path / "l.py").as_uri(), (tmp_path / "a.py").as_uri()
    documents = Documents()
    told: list[tuple[str, str]] = []
    documents.changed.listen(lambda event: told.append(("changed", event.document.uri)))
    documents.opened.listen(lambda document: told.append(("opened", document.uri)))
    documents.closed.listen(lambda document: told.append(("closed", document.uri)))
    documents.watch(str(tmp_path / "a.py"))
    documents.open(link, 1, "x\n")
    documents.open(real, 1, "x\n")
    documents.check_certain(tmp_path / "a.py")
    assert documents.followed(real) is documents.at(tmp_path / "a.py") is documents.get(link)
    documents.change(link, 2, [{"text": "one\ntwo\n"}])
    where = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 3}}
    documents.change(link, 3, [{"range": where, "text": "TWO"}])
    documents.change(real, 2, [{"text": "other\n"}])
    assert [document.text for uri in (link, real) if (document := documents.get(uri))] == ["one\nTWO\n", "other\n"]
    assert documents.followed(real) is None
    with pytest.raises(ToolError, match="under several names, with different texts"):
        documents.check_certain(tmp_path / "a.py")
    documents.close(link)
    assert state(documents) == [(real, 2, "other\n")]
    documents.check_certain(tmp_path / "a.py")
    documents.close(real)
    assert state(documents) == []
    assert told == [
        ("opened", link), ("changed", link), ("changed", link), ("closed", link), ("opened", real), ("closed", real)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "uri", ["untitled:Untitled-1", "untitled:///tmp/x.py", "untitled://x//y.py", "vscode-vfs://a/b"]
)
def test_a_document_without_a_file_is_found_by_its_uri_and_by_its_identity(uri: str) -> None:
    documents = Documents()
    documents.open(uri, 1, "text")
    document = documents.get(uri)
    assert document is not None
    assert documents.at(Path(document.key)) is document
    assert document.uri == uri
