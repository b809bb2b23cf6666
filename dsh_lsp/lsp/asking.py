"""Asking: questions about a place of a document as code actions, which every LSP client has.

Rules: what the client asks for by itself as the cursor moves is answered only with what concerns a diagnostic, so
that no light follows the cursor; our own diagnostics are hunks, which are decided and not asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lsprotocol import types

from dsh_lsp.lsp.hints import SOURCE
from dsh_lsp.lsp.virtual import transcript_uri
from dsh_lsp.wire import JsonObject

FOLLOWUP, TEXT = "dsh.followup", "dsh.text"
MAX_TITLE_CHARS = 60

EXPLAIN = "Explain this: what it does, why it is written like that, and what to watch out for. Change nothing."
# No request of LSP asks a user for a line of text, so what they point at may hold the question itself.
ASK = (
    "The user points at this. If it holds a question or a request, in a comment say, see to that. "
    "Else say what you would look at or change here, and why; change nothing yet."
)


def ask_actions(params: types.CodeActionParams, *, by_hand: bool, asks_itself: bool) -> list[types.CodeAction]:
    """What can be asked about the range; `asks_itself` says that the client has a way of its own to ask."""
    uri = params.text_document.uri
    actions = [_fix(uri, found) for found in params.context.diagnostics if found.source != SOURCE]
    if by_hand:
        where = [{"uri": uri, "range": _range(_whole_lines(params.range))}]
        kinds = (("Explain this", EXPLAIN),) if asks_itself else (("Explain this", EXPLAIN), ("Ask about this", ASK))
        actions += [_action(f"DSH: {title}", FOLLOWUP, {"text": text, "context": where}) for title, text in kinds]
    return actions


def transcript_action(session: str) -> types.CodeAction:
    """Read the conversation."""
    return _action("DSH: Show the conversation", TEXT, {"uri": transcript_uri(session), "show": True})


def of_kinds(actions: Sequence[types.CodeAction], only: Sequence[str] | None) -> list[types.CodeAction]:
    """The actions of the kinds that the client asks for; a kind holds those below it, and the empty one all."""
    if only is None:
        return list(actions)
    return [action for action in actions if any(_is_of(_name(action.kind), _name(kind)) for kind in only)]


def _is_of(kind: str, wanted: str) -> bool:
    return not wanted or kind == wanted or kind.startswith(f"{wanted}.")


def _name(kind: str | None) -> str:
    """A kind as it is on the wire; an unknown one is a plain text."""
    return kind.value if isinstance(kind, types.CodeActionKind) else kind or ""


def _fix(uri: str, diagnostic: types.Diagnostic) -> types.CodeAction:
    message = " ".join(diagnostic.message.split())
    title = message if len(message) <= MAX_TITLE_CHARS else f"{message[:MAX_TITLE_CHARS]}…"
    names = [str(name) for name in (diagnostic.source, diagnostic.code) if name is not None]
    reported = f"{diagnostic.message} ({', '.join(names)})" if names else diagnostic.message
    where = [{"uri": uri, "range": _range(_whole_lines(diagnostic.range))}]
    action = _action(f"DSH: Fix this: {title}", FOLLOWUP, {"text": f"Fix this problem: {reported}", "context": where})
    action.kind = types.CodeActionKind.QuickFix
    action.diagnostics = [diagnostic]
    return action


def _whole_lines(span: types.Range) -> types.Range:
    """The lines that a range touches: what a cursor stands in is little to ask about."""
    last = span.end.line + 1
    if span.end.character == 0 and span.end.line > span.start.line:
        last = span.end.line
    return types.Range(types.Position(span.start.line, 0), types.Position(last, 0))


def _range(span: types.Range) -> JsonObject:
    start, end = span.start, span.end
    return {
        "start": {"line": start.line, "character": start.character},
        "end": {"line": end.line, "character": end.character},
    }


def _action(title: str, command: str, argument: dict[str, Any]) -> types.CodeAction:
    return types.CodeAction(
        title=title,
        kind=types.CodeActionKind.Empty,
        command=types.Command(title=title, command=command, arguments=[argument]),
    )
