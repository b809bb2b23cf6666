"""Whole files: creates, renames and deletes what a person has accepted, and looks whether the disk shows it.

Rules: a document that the editor holds is renamed or deleted by the editor where it can, anything else directly; one
that holds the user's unsaved text is left alone, for editors save or lose that text on the way; what an editor does
after it was given up, as when it asks its user first, is told whenever it is seen.
Source: what real editors were seen to do: some save a buffer when they rename it, some ignore file operations and
answer `applied: true`, and some empty the file that they are asked to create.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from dsh_lsp.decisions import Outcome
from dsh_lsp.errors import ToolError
from dsh_lsp.lsp.documents import Document, Documents, spelled_path_of, uri_of
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.proposal import Item
from dsh_lsp.session.log import SessionLog
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.changes import Prepared, carry_out, check_as_proposed, copy_of, is_done, shown_text
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.disk import missing_folders, remove_folders, text_on_disk
from dsh_lsp.workspace.edits import FileDelete, FileRename, FileRestore, HunkOutcome
from dsh_lsp.workspace.files import landed_on_disk

LABEL = "DSH"
LOOK_S = (0.0, 0.05, 0.2, 0.75)  # when to look at the disk after the editor has answered
LATE_LOOKS, LATE_LOOK_S = 120, 0.5  # how often to look on after it was given up


class WholeFiles:
    """Carries out what is done to whole files."""

    def __init__(
        self,
        *,
        log: SessionLog,
        documents: Documents,
        editor: Editor,
        copies: Copies,
        tasks: TaskGroup,
        settle: Callable[[Iterable[tuple[Item, HunkOutcome]]], None],
    ) -> None:
        self._log = log
        self._documents = documents
        self._editor = editor
        self._copies = copies
        self._tasks = tasks
        self._settle = settle
        self._late: dict[Path, anyio.CancelScope] = {}

    def close(self) -> None:
        """Look for what was given up no longer."""
        for scope in self._late.values():
            scope.cancel()

    async def carry_out(self, item: Item) -> None:
        """Do it, log it if the disk shows it, and settle the item."""
        item.state = "sent"
        prepared = item.file.prepared
        if (late := self._late.get(prepared.path)) is not None:
            late.cancel()  # what is seen from now on is this
        made = await anyio.to_thread.run_sync(missing_folders, prepared.lands_at)
        try:
            copy, outcome = await self._act(prepared, item)
        except ToolError as error:
            self._settle([(item, item.as_outcome("notLanded", note=str(error)))])
            return
        if outcome == "landed":
            self._log_landed(item, copy, made)
        else:
            self._tasks.start_soon(self._look_on, item, copy, made)
        self._settle([(item, item.as_outcome(outcome))])
        if outcome == "landed":
            await anyio.to_thread.run_sync(remove_folders, prepared.path, prepared.made)

    def _log_landed(self, item: Item, copy: str | None, made: int) -> None:
        view = Document(item.file.uri, None, item.file.text)
        described = replace(item.file.describe(view, items=[], version=None), uri=uri_of(item.file.path))
        self._log.append(landed_on_disk(item.file.proposal, item.hunk, described, copy=copy, made=made))

    async def _look_on(self, item: Item, copy: str | None, made: int) -> None:
        path = item.file.path
        with anyio.CancelScope() as scope:
            self._late[path] = scope
            for _ in range(LATE_LOOKS):
                await anyio.sleep(LATE_LOOK_S)
                if await anyio.to_thread.run_sync(is_done, item.file.prepared):
                    self._log_landed(item, copy, made)
                    break
        if self._late.get(path) is scope:
            del self._late[path]

    async def _act(self, prepared: Prepared, item: Item) -> tuple[str | None, Outcome]:
        """Keep a copy of what goes, unless that takes something back, then act.

        Raises:
            ToolError: nothing was done.
        """
        document = self._documents.at(prepared.path)
        if document is not None and await self._differs(document, prepared):
            raise ToolError("the editor holds text of it that is not saved", code="DIRTY")
        there = self._documents.at(prepared.new_path) if prepared.new_path is not None else None
        if there is not None and await self._differs(there, prepared):  # a buffer that kept its name may stay
            raise ToolError("the editor holds another text under the new name", code="EXISTS")
        await anyio.to_thread.run_sync(prepared.check)
        copy = None
        if item.undoes is None:
            copy = await anyio.to_thread.run_sync(copy_of, prepared, item.hunk.id, self._copies)
        operation = self._operation(prepared, document)
        if operation is None:
            await anyio.to_thread.run_sync(carry_out, prepared)
            return copy, "landed"
        await anyio.sleep(self._editor.profile.manners.tells_within_s)  # a key may have fallen that is not told yet
        if document is None or self._documents.at(prepared.path) is not document:
            raise ToolError("the editor has closed or opened it meanwhile", code="CHANGED")
        if await self._differs(document, prepared):
            raise ToolError("the editor holds text of it that is not saved", code="DIRTY")
        await anyio.to_thread.run_sync(check_as_proposed, prepared)
        reply = await self._editor.apply_edit(LABEL, {"documentChanges": [operation]})
        for pause_s in LOOK_S:
            await anyio.sleep(pause_s)
            if await anyio.to_thread.run_sync(is_done, prepared):
                return copy, "landed"
        if reply.kind != "applied":
            raise ToolError(f"the editor did not do it: {reply.reason or 'it gave no reason'}", code="REFUSED")
        return copy, "unconfirmed"

    async def _differs(self, document: Document, prepared: Prepared) -> bool:
        if isinstance(prepared.change, FileRestore):  # a buffer may have kept what comes back
            saved: str | None = shown_text(prepared.change.data)
        else:
            saved = await anyio.to_thread.run_sync(text_on_disk, prepared.path)
        return not self._documents.is_saved(document.rope, saved)

    def _operation(self, prepared: Prepared, document: Document | None) -> JsonObject | None:
        """What to ask of the editor; None where it does not hold the document by its real name or cannot do it."""
        kind = prepared.change.kind
        if document is None or kind not in self._editor.profile.resource_operations:
            return None
        if spelled_path_of(document.uri) != prepared.path:  # the editor would take the link for the file
            return None
        match prepared.change:
            case FileRename() if prepared.new_path is not None:
                return {"kind": "rename", "oldUri": document.uri, "newUri": uri_of(prepared.new_path)}
            case FileDelete():
                return {"kind": "delete", "uri": document.uri}
            case _:
                return None
