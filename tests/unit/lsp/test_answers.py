"""Answers: their first words are what a message can hold."""

from __future__ import annotations

import pytest

from dsh_lsp.lsp.answers import first_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("\n \n", ""),
        ("It adds.", "It adds."),
        ("\n## What it does\n\nIt adds.", "What it does"),
        ("x" * 121, "x" * 120 + "…"),
        ("One.\nTwo.", "One."),
    ],
)
def test_an_answer_is_told_by_its_first_line(text, words) -> None:
    assert first_words(text) == words
