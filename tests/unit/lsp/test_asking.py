"""Asking: what can be asked about a place is offered where a user looks for it, and never follows the cursor."""

from __future__ import annotations

from typing import Any

import pytest
from lsprotocol import types

from dsh_lsp.lsp.asking import ask_actions, of_kinds, transcript_action

CURSOR = types.Range(types.Position(3, 5), types.Position(3, 5))
WARNING = types.Diagnostic(
    range=types.Range(types.Position(2, 4), types.Position(2, 9)),
    message="'x' is not\ndefined",
    source="pyflakes",
    code="F821",
)
OURS = types.Diagnostic(range=CURSOR, message="DSH proposes:", source="dsh")


def ask(*diagnostics: types.Diagnostic, where: types.Range = CURSOR, **how: Any) -> list[types.CodeAction]:
    params = types.CodeActionParams(
        text_document=types.TextDocumentIdentifier("file:///a.py"),
        range=where,
        context=types.CodeActionContext(diagnostics=list(diagnostics)),
    )
    return ask_actions(params, **{"by_hand": True, "asks_itself": False, **how})


def titles(actions: list[types.CodeAction]) -> list[str]:
    return [action.title for action in actions]


def argument(action: types.CodeAction) -> Any:
    assert action.command is not None
    assert action.command.command == "dsh.followup"
    assert action.command.arguments is not None
    return action.command.arguments[0]


def test_by_hand_a_place_can_be_explained_and_asked_about() -> None:
    actions = ask()
    assert titles(actions) == ["DSH: Explain this", "DSH: Ask about this"]
    for action in actions:
        assert argument(action)["context"] == [
            {
                "uri": "file:///a.py",
                "range": {"start": {"line": 3, "character": 0}, "end": {"line": 4, "character": 0}},
            }
        ]


def test_as_the_cursor_moves_only_a_diagnostic_can_be_mended() -> None:
    assert ask(by_hand=False) == []
    assert titles(ask(WARNING, by_hand=False)) == ["DSH: Fix this: 'x' is not defined"]


def test_a_diagnostic_is_told_with_its_source_and_its_lines() -> None:
    [fix, *_] = ask(WARNING)
    assert fix.kind == types.CodeActionKind.QuickFix
    assert fix.diagnostics == [WARNING]
    assert argument(fix)["text"] == "Fix this problem: 'x' is not\ndefined (pyflakes, F821)"
    assert argument(fix)["context"][0]["range"]["start"] == {"line": 2, "character": 0}


def test_our_own_diagnostics_are_hunks_and_not_problems() -> None:
    assert ask(OURS, by_hand=False) == []


def test_a_long_message_makes_a_short_title() -> None:
    long = types.Diagnostic(range=CURSOR, message="word " * 100)
    [fix, *_] = ask(long)
    assert len(fix.title) < 90
    assert argument(fix)["text"].count("word") == 100


def test_a_client_with_a_question_box_of_its_own_is_offered_no_question_without_words() -> None:
    assert titles(ask(asks_itself=True)) == ["DSH: Explain this"]


@pytest.mark.parametrize(
    ("end", "last"), [((5, 0), 5), ((5, 1), 6), ((3, 9), 4)], ids=["before a line", "in a line", "in its own"]
)
def test_a_selection_is_asked_about_in_whole_lines(end, last) -> None:
    selection = types.Range(types.Position(3, 5), types.Position(*end))
    assert argument(ask(where=selection)[0])["context"][0]["range"]["end"] == {"line": last, "character": 0}


@pytest.mark.parametrize(
    ("only", "left"),
    [
        (None, 4),
        ([], 0),
        ([""], 4),
        (["quickfix"], 1),
        (["quick"], 0),
        (["source.organizeImports"], 0),
        ([types.CodeActionKind.QuickFix], 1),
        (["refactor", "quickfix"], 1),
    ],
)
def test_a_client_that_wants_some_kinds_gets_those(only, left) -> None:
    assert len(of_kinds([*ask(WARNING), transcript_action("s1")], only)) == left
