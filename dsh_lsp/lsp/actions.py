"""Actions: the decisions of a review as code actions and code lenses, which every LSP client has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lsprotocol import types

from dsh_lsp.decisions import ApprovalAsked, QuestionAsked
from dsh_lsp.lsp.documents import Document
from dsh_lsp.lsp.proposal import Item

APPROVE, ANSWER = "dsh.approve", "dsh.answer"
ACCEPT, REJECT = "dsh.review.accept", "dsh.review.reject"


def code_actions(
    document: Document, items: Sequence[Item], params: types.CodeActionParams, *, session: str
) -> list[types.CodeAction]:
    """Accept or reject the hunks in the range; all of the document's when the user asked by hand."""
    first, last = params.range.start.line, params.range.end.line
    here = [item for item in items if _overlaps(document, item, first, last)]
    actions = [
        _action(f"DSH: {verb} this edit", command, {"session": session, "hunks": [item.hunk.id]})
        for item in here
        for verb, command in (("Accept", ACCEPT), ("Reject", REJECT))
    ]
    invoked = params.context.trigger_kind != types.CodeActionTriggerKind.Automatic
    if items and (len(items) > 1 or not here) and (here or invoked):
        noun = "the edit" if len(items) == 1 else f"all {len(items)} edits"
        actions += [
            _action(
                f"DSH: {verb} {noun} of this file", command, {"session": session, "hunks": "all", "uri": document.uri}
            )
            for verb, command in (("Accept", ACCEPT), ("Reject", REJECT))
        ]
    return actions


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


def code_lenses(document: Document, items: Sequence[Item], *, session: str) -> list[types.CodeLens]:
    """Accept and Reject above each hunk."""
    lenses = []
    for item in items:
        line = document.position_at(item.hunk.span.start).line
        where = types.Range(types.Position(line, 0), types.Position(line, 0))
        for verb, command in (("Accept", ACCEPT), ("Reject", REJECT)):
            argument = {"session": session, "hunks": [item.hunk.id]}
            lenses.append(types.CodeLens(where, command=_command(f"DSH: {verb}", command, argument)))
    return lenses


def _overlaps(document: Document, item: Item, first: int, last: int) -> bool:
    span = document.range_of(item.hunk.span)
    start, end = span.start.line, span.end.line
    if span.end.character == 0 and end > start:
        end -= 1  # a hunk of whole lines ends before the next one
    return start <= last and first <= max(start, end)


def _action(title: str, command: str, argument: dict[str, Any]) -> types.CodeAction:
    return types.CodeAction(
        title=title, kind=types.CodeActionKind.QuickFix, command=_command(title, command, argument)
    )


def _command(title: str, command: str, argument: dict[str, Any]) -> types.Command:
    return types.Command(title=title, command=command, arguments=[argument])
