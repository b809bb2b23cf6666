"""Report: what the model reads of a review, hunk by hunk.

Rules: only what the document was seen to hold is called done; a person's refusal is a fact, not a failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsh_lsp.decisions import FileKind
from dsh_lsp.workspace.edits import HunkOutcome

_WORDS: dict[FileKind, str] = {"edit": "edit", "create": "new file", "rename": "rename", "delete": "deletion"}
_FAILURES = frozenset({"unconfirmed", "conflict", "notLanded"})
_MAX_CURRENT_CHARS = 4_000


def is_failure(outcomes: Sequence[HunkOutcome]) -> bool:
    """Whether the model has something to mend."""
    return any(outcome.outcome in _FAILURES for outcome in outcomes)


def describe_outcomes(outcomes: Sequence[HunkOutcome]) -> str:
    """Tell the model what became of each hunk; the text that they meet in a file is shown once."""
    lines: list[str] = []
    shown: set[str] = set()
    for outcome in outcomes:
        lines.append(_sentence(outcome))
        if outcome.current is not None and outcome.path not in shown:
            shown.add(outcome.path)
            lines.append(f"{outcome.path} now reads:\n{_clip(outcome.current)}")
    return "\n".join(lines)


def _sentence(outcome: HunkOutcome) -> str:
    path, note = outcome.path, f" ({outcome.note})" if outcome.note else ""
    what = _WORDS[outcome.kind]
    match outcome.outcome:
        case "landed" if outcome.kind == "rename":
            return f"{path}: the rename was accepted; the file is {outcome.new_path} now{note}."
        case "landed" if outcome.kind == "delete":
            return f"{path}: the deletion was accepted; the file is gone{note}."
        case "landed":
            first, last = outcome.lines or (1, 1)
            where = f"line {first}" if first == last else f"lines {first}-{last}"
            if outcome.edited:
                theirs = _clip(outcome.hunk.new) or "(nothing)"
                return f"{path}: the user accepted other text, which is in the document, {where}{note}:\n{theirs}"
            return f"{path}: the edit was accepted and is in the document, {where}{note}."
        case "rejected":
            words = f" They said: {outcome.comment}" if outcome.comment else ""
            return f"{path}: the user rejected the {what}; the document is unchanged.{words}"
        case "unconfirmed":
            why = outcome.note or f"the user accepted the {what} and it was sent to the editor, but nothing shows it"
            caution = "Do not assume that it is there: read the file before you go on."
            return f"{path}: NOT CONFIRMED: {why}. {caution}"
        case "conflict":
            return f"{path}: these lines were changed meanwhile; the {what} was not applied."
        case "notLanded":
            return f"{path}: the {what} was not applied{note}."
        case "cancelled":
            return f"{path}: the review was cancelled before a decision; the {what} was not applied."


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_CURRENT_CHARS else text[:_MAX_CURRENT_CHARS] + "\n[... more; read the file]"
