"""Decisions: the events in which a person is asked and answers: reviews, approvals, questions, mode and model.

Rules: frozen values; what was asked and what was decided come as a pair; each pair has a closer, which decides what
was still open when the process died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsh_lsp.wire import Wire

# -- reviews -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Position(Wire):
    """A place in a document: zero-based line, zero-based character in UTF-16 units."""

    line: int
    character: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(Wire):
    """A span of a document; the end is exclusive."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewHunk(Wire):
    """One change that a person decides on; `range` is in the version that the proposal names.

    `undoes` names the hunk that it takes back: the person decided on that already, and nothing waits.
    """

    id: str
    range: Range
    old_text: str
    new_text: str
    undoes: str | None = None


FileKind = Literal["edit", "create", "rename", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFile(Wire):
    """The hunks of one file; `version` is the editor's, absent for a file that is not open.

    A file that is created, renamed (to `new_uri`) or deleted has one hunk.
    """

    uri: str
    kind: FileKind
    hunks: tuple[ReviewHunk, ...]
    version: int | None = None
    new_uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOpened(Wire):
    """Edits wait for a person's decision."""

    proposal: str
    files: tuple[ReviewFile, ...]


Outcome = Literal["landed", "notLanded", "unconfirmed", "conflict", "rejected", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HunkDecided(Wire):
    """What became of one hunk; `text` is what landed where it differs from what was proposed."""

    id: str
    outcome: Outcome
    text: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDecided(Wire):
    """Some or all hunks of a proposal are decided."""

    proposal: str
    hunks: tuple[HunkDecided, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditLanded(Wire):
    """An edit was seen in the document; `range` is where `after` stands now.

    `above` and `below` are the lines beside it, by which it is found again in a later life. `copy` names the bytes of
    a file that was deleted or renamed, kept beside the log. `made` is how many folders were made for it.
    """

    proposal: str
    hunk: str
    uri: str
    range: Range
    before: str
    after: str
    version: int | None = None
    kind: FileKind = "edit"
    new_uri: str | None = None
    copy: str | None = None
    made: int | None = None
    above: str | None = None
    below: str | None = None


# -- approvals -----------------------------------------------------------------------------------------------

EffectKind = Literal["read", "edit", "command", "outside", "rights", "network"]
GrantKey: TypeAlias = str  # names one effect on one thing; a permission covers the keys that it names, and no others


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(Wire):
    """What a call would touch; `detail` is for a person, `grant_key` names what a grant would cover."""

    kind: EffectKind
    detail: str
    grant_key: GrantKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(Wire):
    """A tool call waits for a person's permission; `unsaved` are the URIs whose unsaved text it would pass by."""

    id: str
    tool_name: str
    call_id: str
    effects: tuple[Effect, ...]
    reason: str | None = None
    unsaved: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed(Wire):
    """The call may run: this once, or with all calls of the session that its `grant_keys` cover."""

    kind: Literal["allowedOnce", "allowedSession"]
    grant_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Wire):
    """The call may not run; the model reads the comment."""

    kind: Literal["rejected", "cancelled", "unavailable"]
    comment: str | None = None


ApprovalOutcome: TypeAlias = Annotated[Allowed | Refused, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided(Wire):
    """The permission was given or not; always the pair of an `ApprovalAsked`."""

    id: str
    outcome: ApprovalOutcome


# -- questions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked(Wire):
    """The agent asks a person; they choose one of `options`, or answer in their own words where `free_text` says so.

    Without options the answer is always in their own words.
    """

    id: str
    text: str
    options: tuple[str, ...] | None = None
    free_text: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered(Wire):
    """What the person said, or that nobody will; always the pair of a `QuestionAsked`."""

    id: str
    answer: str | None = None
    cancelled: bool | None = None


# -- the mode --------------------------------------------------------------------------------------------------

Mode = Literal["read-only", "ask", "auto-edit", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionPreset(Wire):
    """The mode from here on."""

    preset: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSelected(Wire):
    """The model from the next request on."""

    provider: str
    name: str


# -- what a crash left open ------------------------------------------------------------------------------------


def close_approvals(facts: Iterable[object]) -> list[ApprovalDecided]:
    """Decide the approvals that nobody answered as cancelled."""
    waiting: dict[str, None] = {}
    for fact in facts:
        match fact:
            case ApprovalAsked(id=asked):
                waiting[asked] = None
            case ApprovalDecided(id=asked):
                waiting.pop(asked, None)
            case _:
                pass
    return [ApprovalDecided(id=asked, outcome=Refused(kind="cancelled")) for asked in waiting]


def close_reviews(facts: Iterable[object]) -> list[ReviewDecided]:
    """Decide the hunks that nobody decided as cancelled, but for those that were seen in their document."""
    waiting: dict[str, dict[str, Outcome]] = {}
    for fact in facts:
        match fact:
            case ReviewOpened(proposal=proposal, files=files):
                waiting[proposal] = {hunk.id: "cancelled" for file in files for hunk in file.hunks}
            case EditLanded(proposal=proposal, hunk=hunk_id) if hunk_id in waiting.get(proposal, ()):
                waiting[proposal][hunk_id] = "landed"
            case ReviewDecided(proposal=proposal, hunks=decided):
                for hunk in decided:
                    waiting.get(proposal, {}).pop(hunk.id, None)
            case _:
                pass
    return [
        ReviewDecided(proposal=proposal, hunks=tuple(HunkDecided(id=i, outcome=o) for i, o in hunks.items()))
        for proposal, hunks in waiting.items()
        if hunks
    ]


def close_questions(facts: Iterable[object]) -> list[QuestionAnswered]:
    """End the questions that nobody answered as cancelled."""
    waiting: dict[str, None] = {}
    for fact in facts:
        match fact:
            case QuestionAsked(id=asked):
                waiting[asked] = None
            case QuestionAnswered(id=asked):
                waiting.pop(asked, None)
            case _:
                pass
    return [QuestionAnswered(id=asked, cancelled=True) for asked in waiting]


Closer: TypeAlias = Callable[[Iterable[object]], list[ApprovalDecided] | list[ReviewDecided] | list[QuestionAnswered]]

CLOSERS: tuple[Closer, ...] = (
    close_approvals,
    close_reviews,
    close_questions,
)  # each takes the data of a log's events
