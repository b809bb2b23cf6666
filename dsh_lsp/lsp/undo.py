"""Undo: takes landed edits back, through the door by which they came, on the user's own word.

Rules: the last proposal first; what was taken back is logged as a review whose hunks name those that they undo; what
cannot be is left alone, and told with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import anyio
import anyio.to_thread

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import EditLanded
from dsh_lsp.errors import ToolError
from dsh_lsp.lsp.landed import LandedEdits, TakeBack
from dsh_lsp.lsp.proposal import FileUnderReview, Item, Proposal
from dsh_lsp.workspace.edits import Hunk, HunkOutcome, ended, standing
from dsh_lsp.workspace.places import around
from dsh_lsp.workspace.text import line_end_of, split_lines

CANCELLED = "cancelled before its turn came"
REFUSED = "the editor did not apply it"
REASONS = {
    "conflict": "its lines were changed meanwhile",
    "notLanded": "it could not be written",
    "unconfirmed": "the editor has not shown it yet",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What became of the wish to take an edit back; without a reason it was."""

    edit: EditLanded
    reason: str | None = None


class Undo:
    """Takes edits of one session back; `open_review`, `land` and `settle` are those of its reviews."""

    def __init__(
        self,
        *,
        landed: LandedEdits,
        new_id: Callable[[], str],
        open_review: Callable[[Proposal], None],
        land: Callable[[str], Coroutine[Any, Any, None]],
        settle: Callable[[Iterable[tuple[Item, HunkOutcome]]], None],
    ) -> None:
        self._landed = landed
        self._new_id = new_id
        self._open_review = open_review
        self._land = land
        self._settle = settle
        self._one_at_a_time = anyio.Lock()

    async def take_back(
        self, edits: Sequence[EditLanded], *, signal: AbortSignal, comment: str | None = None
    ) -> list[Undone]:
        """Take edits back, in the order given: the last first. A cancel leaves what has not begun."""
        done: list[Undone] = []
        async with self._one_at_a_time:
            for _, group in groupby(edits, key=lambda edit: edit.proposal):
                here = list(group)
                while here and not signal.aborted:
                    tried, here = await self._together(here, comment)
                    done += tried
                done += [Undone(edit=edit, reason=CANCELLED) for edit in here]
        return done

    async def _together(
        self, edits: Sequence[EditLanded], comment: str | None
    ) -> tuple[list[Undone], list[EditLanded]]:
        """Take the edits of one proposal back, as many as can be at once: what was tried, and what is left to try.

        They may have landed one by one: what has no place now may have one when those that came after it are gone.
        """
        plans: list[TakeBack] = []
        lost: list[Undone] = []
        left: list[EditLanded] = []
        for number, edit in enumerate(edits):
            try:
                plans.append(await anyio.to_thread.run_sync(self._landed.plan, edit))
            except ToolError as error:
                if plans:
                    left = list(edits[number:])
                    break
                lost.append(Undone(edit=edit, reason=str(error)))
        plans, same = _apart(plans)
        left = [plan.edit for plan in same] + left
        if not plans:
            return lost, left
        proposal = Proposal(self._new_id())
        proposal.files = [self._file(proposal.id, list(group)) for group in _by_file(plans)]
        for item in proposal.items:
            item.comment = comment
        self._open_review(proposal)
        async with anyio.create_task_group() as group:
            for key in {file.key for file in proposal.files}:
                group.start_soon(self._land, key)
        stuck = [item for item in proposal.items if item.outcome is None]
        self._settle((item, item.as_outcome("notLanded", note=REFUSED)) for item in stuck)
        by_hunk = {plan.edit.hunk: plan.edit for plan in plans}
        tried = [Undone(edit=by_hunk[item.undoes or ""], reason=_reason(item.outcome)) for item in proposal.items]
        return lost + tried, left

    def _file(self, proposal: str, plans: Sequence[TakeBack]) -> FileUnderReview:
        first = plans[0]
        file = FileUnderReview(proposal, first.prepared, first.uri, first.text)
        for plan in sorted(plans, key=lambda plan: plan.span.start):
            hunk = Hunk(id=self._new_id(), span=plan.span, old=plan.edit.after, new=plan.edit.before)
            if plan.edit.kind == "edit":
                there = hunk if _has_its_ends(plan) else standing(hunk, plan.text, plan.span)
                hunk = ended(there, plan.text)
            file.items.append(Item(hunk, file, state="accepted", undoes=plan.edit.hunk))
        return file


def _has_its_ends(plan: TakeBack) -> bool:
    """Whether the lines at an edit's place end as they did; else somebody has changed how the text's lines end."""
    above, below = around(plan.text, plan.span)
    ends = line_end_of(above), _first_end(below)
    logged = line_end_of(plan.edit.above or ""), _first_end(plan.edit.below or "")
    return plan.text[plan.span.start : plan.span.end] == plan.edit.after and ends == logged


def _first_end(text: str) -> str:
    return line_end_of("".join(split_lines(text)[:1]))


def _by_file(plans: Sequence[TakeBack]) -> list[list[TakeBack]]:
    """Changes of one text together, each whole file by itself."""
    files: dict[tuple[str, str], list[TakeBack]] = {}
    for plan in plans:
        alone = plan.edit.hunk if plan.edit.kind != "edit" else ""
        files.setdefault((str(plan.prepared.path), alone), []).append(plan)
    return list(files.values())


def _apart(plans: Sequence[TakeBack]) -> tuple[list[TakeBack], list[TakeBack]]:
    """The plans whose places in a text do not overlap, and the others."""
    good: list[TakeBack] = [plan for plan in plans if plan.edit.kind != "edit"]
    bad: list[TakeBack] = []
    edits = sorted((p for p in plans if p.edit.kind == "edit"), key=lambda p: (str(p.prepared.path), p.span.start))
    good += edits[:1]
    for before, plan in pairwise(edits):
        meets = plan.prepared.path == before.prepared.path and (
            plan.span.start < before.span.end or plan.span == before.span
        )
        (bad if meets else good).append(plan)
    return good, bad


def _reason(outcome: HunkOutcome | None) -> str | None:
    if outcome is None:
        return REFUSED
    return None if outcome.outcome == "landed" else outcome.note or REASONS.get(outcome.outcome, outcome.outcome)
