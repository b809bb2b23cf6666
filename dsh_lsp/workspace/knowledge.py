"""Knowledge: which text of a file the model knows, as a digest that a log can keep.

Rules: pure; what landed is taken from the outcomes, so that a user's own change beside it is not counted as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.edits import FileEdit, HunkOutcome, applied, plan_hunks
from dsh_lsp.workspace.rope import Rope


def edit_meta(edits: Sequence[FileEdit], outcomes: Sequence[HunkOutcome]) -> JsonObject:
    """The `meta` of an edit tool's result: the files in which something landed, with their digests around it.

    `before` is missing for a new file.
    """
    files = []
    for edit in edits:
        own = [outcome for outcome in outcomes if outcome.path == edit.path]
        if not any(outcome.outcome == "landed" for outcome in own):
            continue
        entry: JsonObject = {"path": edit.path, "after": _expected(edit, own).digest}
        if edit.base is not None:
            entry["before"] = edit.base.rope.digest
        files.append(entry)
    return {"files": files}


def gone_meta(path: str, outcomes: Sequence[HunkOutcome], *, new_path: str | None = None) -> JsonObject:
    """The `meta` of a result after which a file is no more, or has another name."""
    if not any(outcome.outcome == "landed" for outcome in outcomes):
        return {"files": []}
    gone: list[JsonObject] = [{"path": path, "gone": True}]
    return {"files": [{"path": new_path, "movedFrom": path}, *gone] if new_path is not None else gone}


def _expected(edit: FileEdit, outcomes: Sequence[HunkOutcome]) -> Rope:
    """The text that a file has after its hunks landed, if nobody else changed it; outcomes are in its order."""
    ids = count()
    planned = plan_hunks(edit, lambda: str(next(ids)))
    if len(planned) != len(outcomes):  # a plan that differs cannot be replayed: the model reads the file again
        return Rope.of("")
    landed = [
        replace(hunk, new=outcome.hunk.new)
        for hunk, outcome in zip(planned, outcomes, strict=True)
        if outcome.outcome == "landed"
    ]
    return applied(edit.base.rope if edit.base is not None else Rope.of(""), landed)
