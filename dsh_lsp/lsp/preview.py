"""Preview: an editor's own view of a proposal, in which it asks and applies by itself.

Rules: one at a time; only of texts that the editor holds; what counts as accepted is what the documents show
afterwards, never what the editor says; what it leaves out waits on.
Source: VS Code's Refactor Preview, which answers `applied: true` although edits were left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.lsp import landing
from dsh_lsp.lsp.applier import Applier
from dsh_lsp.lsp.documents import DocumentChanged, Documents
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.proposal import Item, Proposal
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.edits import ended
from dsh_lsp.workspace.passage import Absent, Landed, Touched, judge

NOTE = "dsh"
ANNOTATION = {"label": "DSH", "description": "proposed by the agent", "needsConfirmation": True}


class Preview:
    """Shows proposals in the editor's own preview."""

    def __init__(
        self,
        *,
        documents: Documents,
        editor: Editor,
        applier: Applier,
        tasks: TaskGroup,
        conflict: Callable[[Item], None],
    ) -> None:
        self._documents = documents
        self._editor = editor
        self._applier = applier
        self._tasks = tasks
        self._conflict = conflict
        self._busy = False

    def can_show(self, proposal: Proposal) -> bool:
        """Whether the editor has a preview that is free, and holds all that is proposed."""
        profile = self._editor.profile
        return (
            profile.previews_edits
            and profile.may_be_edited
            and not self._busy
            and all(file.changes_text and self._documents.at(file.path) for file in proposal.files)
        )

    async def show(self, proposal: Proposal) -> None:
        """Let the editor ask and apply; what it leaves out stays pending.

        A preview takes the focus (seen in VS Code 1.139), and with it the keys of somebody who types.
        """
        self._busy = True
        try:
            await self._show(proposal)
        finally:
            self._busy = False

    async def _show(self, proposal: Proposal) -> None:
        await self._documents.wait_until_nobody_types()
        edits: list[JsonObject] = []
        shown: list[Item] = []
        for file in proposal.files:
            document = self._documents.at(file.path)
            items = [item for item in file.items if item.state == "pending"]
            if document is not None and items:
                hunks = [item.hunk for item in items]
                edits.append(landing.to_lsp_edits(document, hunks, self._editor.profile.manners, NOTE))
                shown += items
        if not shown:
            return
        for item in shown:
            item.previewed = True
        edit = {"documentChanges": edits, "changeAnnotations": {NOTE: ANNOTATION}}
        await self._editor.apply_edit("DSH: proposed edit", edit, timeout_s=None)
        with anyio.move_on_after(landing.SETTLE_S):  # an editor may answer before it tells of the change
            await proposal.done.wait()
        for item in shown:
            item.previewed = False
        if any(item.state == "pending" for item in shown):
            self._editor.tell("DSH: edits still wait; accept or reject them by code action")

    def take(self, items: Sequence[Item], event: DocumentChanged) -> None:
        """See what the preview applied: hunks that stand in the document were accepted in it."""
        verdicts = judge(event.before, [item.hunk for item in items], event.after)
        landed: list[Item] = []
        for item in items:
            match verdicts[item.hunk.id]:
                case Landed(span):
                    item.state = "sent"
                    self._applier.see(item, event.document, span)
                    landed.append(item)
                case Absent(hunk):
                    item.hunk = ended(hunk, event.after)
                case Touched() if (there := event.passage.leaves_out(item.hunk)) is not None:
                    item.hunk = ended(there, event.after)
                case Touched():
                    self._conflict(item)
        if landed:

            async def finish() -> None:
                await self._applier.finish_preview(event.document, landed, before=event.before)

            self._tasks.start_soon(finish)
