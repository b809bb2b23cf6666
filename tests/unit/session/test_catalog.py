"""Catalogue: sessions are listed from small files that can always be made anew, and thrown away with care."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsh_lsp.errors import SessionError
from dsh_lsp.events import TurnStart
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage, UserSource
from dsh_lsp.notes import SessionTitle
from dsh_lsp.session.catalog import Catalog
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.summary import MAX_TITLE_CHARS, Summary, SummaryFold, title_of


def said(text: str, source=None) -> UserMessage:
    return UserMessage(id=f"m{text}", content=(TextBlock(text=text),), source=source or UserSource())


def fold_of(*data, clock: int = 50) -> Summary:
    log = SessionLog(SessionHeader(id="s", created_at=10, cwd="/w"), clock=lambda: clock)
    fold = SummaryFold(log)
    log.appended.listen(fold.add)
    for item in data:
        log.append(item)
    summary = fold.take()
    assert SummaryFold(log).take() == summary, "whoever comes later sees the same"
    return summary


def test_a_session_is_called_by_its_first_words_until_it_is_renamed() -> None:
    context = said("AGENTS.md", PluginSource(plugin="instructions"))
    assert fold_of(context, said("Mend the parser."), said("And this.")).title == "Mend the parser."
    assert fold_of(said("Mend it."), SessionTitle(title="Parser")).title == "Parser"
    assert fold_of(TurnStart(turn=1)).turns == 1
    assert fold_of().updated_at == 10


@pytest.mark.parametrize(
    ("text", "title"),
    [("a\n b", "a b"), ("first\n\nsecond", "first"), ("", ""), ("word " * 40, "word " * 11 + "word…")],
)
def test_a_title_is_one_short_line(text: str, title: str) -> None:
    assert title_of(text) == title
    assert len(title_of("x" * 500)) == MAX_TITLE_CHARS + 1


class Sessions:
    """A folder of sessions whose logs hold nothing but their summary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[str] = []
        self.catalog = Catalog(folder, self.summarize)

    def add(self, session: str, *, at: int, root: str = "/w") -> Path:
        path = self.folder / f"{session}.jsonl"
        path.write_text(f"{at} {root}")
        return path

    def summarize(self, path: Path) -> Summary:
        self.read.append(path.stem)
        try:
            at, root = path.read_text().split()
        except ValueError as error:
            raise SessionError(f"{path} is damaged", code="LOG_NOT_READABLE") from error
        return Summary(session=path.stem, title="t", root=root, created_at=0, updated_at=int(at))


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def test_the_newest_come_first_and_a_bad_log_hides_no_other(sessions: Sessions, tmp_path: Path) -> None:
    sessions.add("old", at=1)
    sessions.add("new", at=9, root=str(tmp_path))
    sessions.add("bad", at=5).write_text("oops")
    assert [summary.session for summary in sessions.catalog.list()] == ["new", "old"]
    assert [summary.session for summary in sessions.catalog.list(limit=1)] == ["new"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert [s.session for s in sessions.catalog.list(root=str(tmp_path / "link"))] == ["new"]
    assert Catalog(tmp_path / "none", sessions.summarize).list() == []


def test_a_log_is_read_once_and_again_only_when_it_has_grown_or_its_side_file_is_damaged(sessions: Sessions) -> None:
    path = sessions.add("a", at=1)
    for _ in range(3):
        sessions.catalog.list()
    assert sessions.read == ["a"]
    (sessions.folder / "a.summary.json").write_text('{"session": "b"}')
    sessions.catalog.list()
    (sessions.folder / "a.summary.json").write_text("{")
    sessions.catalog.list()
    later = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(later, later))
    sessions.catalog.list()
    assert len(sessions.read) == 4


def test_a_session_is_found_by_the_beginning_of_its_id(sessions: Sessions) -> None:
    sessions.add("abc1", at=1)
    sessions.add("abc2", at=2)
    sessions.add("x", at=0)
    assert sessions.catalog.find("abc1") == "abc1"
    assert sessions.catalog.find("x") == "x"
    assert sessions.catalog.find("last") == "abc2"
    for prefix, words in (("abc", "2 sessions"), ("nope", "no session")):
        with pytest.raises(SessionError, match=words):
            sessions.catalog.find(prefix)


@pytest.mark.parametrize("session", ["../x", "", ".hidden", "a/b", "none"])
def test_what_is_no_session_of_the_folder_is_refused(sessions: Sessions, session: str) -> None:
    (sessions.folder.parent / "x.jsonl").write_text("")
    with pytest.raises(SessionError) as error:
        sessions.catalog.path_of(session)
    assert error.value.code == "UNKNOWN_SESSION"


def test_what_is_deleted_lies_in_the_trash_and_replaces_nothing_there(sessions: Sessions) -> None:
    for number in range(2):
        sessions.add("a", at=number)
        (sessions.folder / "a.outputs").mkdir()
        (sessions.folder / "a.outputs" / "output-1.txt").write_text("kept")
        sessions.catalog.list()
        sessions.catalog.delete("a")
        assert sessions.catalog.list() == []
    trash = sorted(path.name for path in (sessions.folder / "trash").iterdir())
    assert len([name for name in trash if name.endswith(".jsonl")]) == 2
    assert len([name for name in trash if "outputs" in name]) == 2
    with pytest.raises(SessionError):
        sessions.catalog.delete("a")
