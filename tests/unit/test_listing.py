"""Listing: what was used last stands first, and a line says enough to find the session again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsh_lsp.listing import as_lines, list_sessions
from dsh_lsp.session.catalog import Catalog
from dsh_lsp.session.summary import Summary


def summary(session: str, **more) -> Summary:
    values = {"title": "Mend the parser.", "root": "/w", "created_at": 0, "updated_at": 0, "turns": 1}
    return Summary(session=session, **{**values, **more})


def test_a_line_has_the_time_the_turns_the_id_the_title_and_the_workspace() -> None:
    (line,) = as_lines([summary("0123456789abcdef", root=str(Path.home() / "x"))])
    assert line.endswith("   1 turn   0123456789ab  Mend the parser.  ~/x")
    assert "2 turns" in as_lines([summary("a", turns=2)])[0]
    assert "(nothing said yet)" in as_lines([summary("a", title="")])[0]
    assert "\x1b" not in as_lines([summary("a", title="\x1b[31mred")])[0]


@pytest.mark.parametrize("as_json", [False, True])
def test_the_sessions_of_a_folder_are_printed(tmp_path: Path, capsys, as_json: bool) -> None:
    assert list_sessions(sessions=tmp_path) == 0
    assert "No sessions in" in capsys.readouterr().out
    for session, root in (("aaa", str(tmp_path)), ("bbb", "/elsewhere")):
        (tmp_path / f"{session}.jsonl").write_text("not read while its summary is newer")
        Catalog(tmp_path, lambda _: pytest.fail("it was read")).keep(summary(session, root=root))
    assert list_sessions(sessions=tmp_path, root=tmp_path, as_json=as_json) == 0
    out = capsys.readouterr().out
    assert "aaa" in out
    assert "bbb" not in out
    if as_json:
        assert json.loads(out)["session"] == "aaa"
