"""Actions: the decisions of a review as code actions and code lenses, which every LSP client has.

Rules: what an editor asks for by itself, for its lightbulb, gets what concerns the lines alone; all else is offered
to whoever asks by hand. Lenses and actions stand where their hunks stand now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from lsprotocol import types

from dsh_lsp.decisions import ApprovalAsked, EditLanded, QuestionAsked, Range
from dsh_lsp.lsp.documents import Document
from dsh_lsp.lsp.proposal import words_of
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.workspace.edits import Hunk
from dsh_lsp.workspace.text import Span

APPROVE, ANSWER = "dsh.approve", "dsh.answer"
ACCEPT, REJECT = "dsh.review.accept", "dsh.review.reject"

DECIDE = (("Accept", ACCEPT), ("Reject", REJECT))
AFTERWARDS = (("Keep", ACCEPT), ("Undo", REJECT))  # of what landed without having been asked for


def review_actions(
    document: Document, reviews: Reviews, params: types.CodeActionParams, *, session: str
) -> list[types.CodeAction]:
    """Decide on the hunks at a place; whoever asks by hand may also decide on a file, and on what waits elsewhere."""
    by_hand = params.context.trigger_kind != types.CodeActionTriggerKind.Automatic
    lines = (params.range.start.line, params.range.end.line)
    waiting, landed = reviews.pending_at(document.key), reviews.landed.at(document.key)
    here = [item for item in waiting if _meets(document, item.hunk.span, lines)]
    mine = [mark for mark in landed if _meets(document, mark.hunk.span, lines)]
    actions = _decide("this edit", _choices(reviews), [[item.hunk.id] for item in here], session)
    ids = [mark.hunk.id for mark in mine] if by_hand else []
    actions += _decide("this edit", _verbs(reviews, ids), [[hunk] for hunk in ids], session)
    if waiting and (len(waiting) > 1 or not here) and (here or by_hand):
        noun = "the edit" if len(waiting) == 1 else f"all {len(waiting)} edits"
        actions += _decide(f"{noun} of this file", _choices(reviews), [[item.hunk.id for item in waiting]], session)
    if by_hand:
        if len(landed) > 1:
            ids = [mark.hunk.id for mark in reversed(landed)]
            actions += _decide(f"all {len(ids)} edits of this file", _verbs(reviews, ids), [ids], session)
        actions += _elsewhere(document, reviews, session)
        actions += _everything(reviews, session)
        actions += _landed_elsewhere(document, reviews, session)
    return actions


def _everything(reviews: Reviews, session: str) -> list[types.CodeAction]:
    """Decide on all that waits, where that is more than one file."""
    items = reviews.pending()
    if len({item.file.key for item in items}) < 2:
        return []
    return _decide(
        f"all {len(items)} edits of all files", _choices(reviews), [[item.hunk.id for item in items]], session
    )


def _landed_elsewhere(document: Document, reviews: Reviews, session: str) -> list[types.CodeAction]:
    """Keep or take back what landed in other files, which may not be open, or not be there any more."""
    groups = reviews.landed.elsewhere(document.key)
    actions: list[types.CodeAction] = []
    for edits in groups:
        verbs = _verbs(reviews, (edit.hunk for edit in edits))
        actions += _decide(_landed_words(edits), verbs, [[edit.hunk for edit in edits]], session)
    everything = [edit.hunk for edit in reviews.landed.unasked()]
    if groups and len(everything) > 1:
        actions += _decide(f"all {len(everything)} edits of all files", AFTERWARDS, [everything], session)
    return actions


def _landed_words(edits: Sequence[EditLanded]) -> str:
    name = _name(edits[0].uri)
    match edits[0].kind:
        case "edit":
            return f"the edit of {name}" if len(edits) == 1 else f"all {len(edits)} edits of {name}"
        case "create":
            return f"the new file {name}"
        case "rename":
            return f"the new name of {name}, {_name(edits[0].new_uri or '')}"
        case "delete":
            return f"the deletion of {name}"


def _name(uri: str) -> str:
    return unquote(uri.rsplit("/", 1)[-1])


def _elsewhere(document: Document, reviews: Reviews, session: str) -> list[types.CodeAction]:
    """Decide on what waits in other files, which may not be open, or not be there yet."""
    items = [item for item in reviews.pending() if item.file.key != document.key]
    actions: list[types.CodeAction] = []
    for _, group in groupby(items, key=lambda item: item.file):
        these = list(group)
        actions += _decide(words_of(these[0].file), _choices(reviews), [[item.hunk.id for item in these]], session)
    return actions


def _choices(reviews: Reviews) -> Sequence[tuple[str, str]]:
    """Nobody is offered to accept what cannot be applied."""
    return DECIDE if reviews.can_apply else DECIDE[1:]


def _verbs(reviews: Reviews, hunks: Iterable[str]) -> Sequence[tuple[str, str]]:
    """Nobody has to keep what they have accepted."""
    return AFTERWARDS if any(map(reviews.landed.was_unasked, hunks)) else AFTERWARDS[1:]


def _decide(
    what: str, verbs: Sequence[tuple[str, str]], choices: Sequence[list[str]], session: str
) -> list[types.CodeAction]:
    return [
        _action(f"DSH: {verb} {what}", command, {"session": session, "hunks": hunks})
        for hunks in choices
        for verb, command in verbs
    ]


def approval_actions(
    pending: Sequence[ApprovalAsked], params: types.CodeActionParams, *, session: str
) -> list[types.CodeAction]:
    """Decide on what waits for a permission, wherever the user asks by hand."""
    if params.context.trigger_kind == types.CodeActionTriggerKind.Automatic:
        return []
    return [
        _action(
            f"DSH: {verb}: {asked.tool_name}, {', '.join(effect.detail for effect in asked.effects)}",
            APPROVE,
            {"session": session, "approval": asked.id, "decision": decision},
        )
        for asked in pending
        for verb, decision in (("Reject", "reject"), ("Allow once", "allowOnce"))
    ]


def question_actions(
    pending: Sequence[QuestionAsked], params: types.CodeActionParams, *, session: str
) -> list[types.CodeAction]:
    """Choose an answer to what the agent asks, wherever the user asks by hand."""
    if params.context.trigger_kind == types.CodeActionTriggerKind.Automatic:
        return []
    return [
        _action(f"DSH: Answer: {option}", ANSWER, {"session": session, "question": asked.id, "answer": option})
        for asked in pending
        for option in asked.options or ()
    ]


def code_lenses(document: Document, reviews: Reviews, *, session: str) -> list[types.CodeLens]:
    """Accept and Reject above each hunk that waits, Keep and Undo above each that landed unasked, and above all."""
    lenses = []
    unasked = [mark for mark in reviews.landed.at(document.key) if reviews.landed.was_unasked(mark.hunk.id)]
    for verbs, hunks in (
        (_choices(reviews), [item.hunk for item in reviews.pending_at(document.key)]),
        (AFTERWARDS, [mark.hunk for mark in unasked]),
    ):
        if len(hunks) > 1:
            lenses += _lenses(0, f" all {len(hunks)} edits of this file", verbs, hunks, session)
        for hunk in hunks:
            lenses += _lenses(document.position_at(hunk.span.start).line, "", verbs, [hunk], session)
    return lenses


def _lenses(
    line: int, what: str, verbs: Sequence[tuple[str, str]], hunks: Sequence[Hunk], session: str
) -> list[types.CodeLens]:
    where = types.Range(types.Position(line, 0), types.Position(line, 0))
    argument = {"session": session, "hunks": [hunk.id for hunk in hunks]}
    return [
        types.CodeLens(where, command=_command(f"DSH: {verb}{what}", command, argument)) for verb, command in verbs
    ]


def _meets(document: Document, span: Span, lines: tuple[int, int]) -> bool:
    """Whether a hunk stands on one of the lines; one of whole lines ends before the next one."""
    place: Range = document.range_of(span)
    start, end = place.start.line, place.end.line
    if place.end.character == 0 and end > start:
        end -= 1
    return start <= lines[1] and lines[0] <= max(start, end)


def _action(title: str, command: str, argument: dict[str, Any]) -> types.CodeAction:
    return types.CodeAction(
        title=title, kind=types.CodeActionKind.QuickFix, command=_command(title, command, argument)
    )


def _command(title: str, command: str, argument: dict[str, Any]) -> types.Command:
    return types.Command(title=title, command=command, arguments=[argument])
