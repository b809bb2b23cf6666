"""Report: only what was seen is called done."""

from __future__ import annotations

import typing

import pytest

from dsh_lsp.decisions import Outcome
from dsh_lsp.workspace.edits import Hunk, HunkOutcome
from dsh_lsp.workspace.report import describe_outcomes, is_failure
from dsh_lsp.workspace.text import Span

HUNK = Hunk(id="h", span=Span(0, 1), old="a", new="b")


def outcome(kind: str, **more) -> HunkOutcome:
    return HunkOutcome(hunk=HUNK, path="x.py", outcome=kind, **more)


@pytest.mark.parametrize("kind", typing.get_args(Outcome))
def test_every_outcome_has_a_sentence_and_only_a_landed_one_claims_the_edit(kind: str) -> None:
    text = describe_outcomes([outcome(kind)])
    assert text.startswith("x.py: ")
    assert ("is in the document" in text) == (kind == "landed")


def test_lines_notes_and_comments_are_told() -> None:
    text = describe_outcomes(
        [outcome("landed", lines=(3, 5), note="saved"), outcome("rejected", comment="Too long.")]
    )
    assert "lines 3-5 (saved)" in text
    assert "They said: Too long." in text
    assert not is_failure([outcome("landed"), outcome("rejected"), outcome("cancelled")])


def test_the_text_of_a_conflict_is_shown_once_and_clipped() -> None:
    text = describe_outcomes([outcome("conflict", current="x" * 9_000)] * 2)
    assert text.count("now reads") == 1
    assert len(text) < 5_000
    assert is_failure([outcome("conflict")])
