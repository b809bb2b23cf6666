"""Unopened: edits of files that the editor has not opened, by a client of ours, which makes them in a buffer.

Rules: what counts is the document, once the editor tells of it, else the file, after the client was asked to save it;
never what the editor says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from dsh_lsp.lsp import landing
from dsh_lsp.lsp.documents import Document, Documents
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.workspace.disk import text_on_disk
from dsh_lsp.workspace.edits import Hunk
from dsh_lsp.workspace.passage import Landed, Verdict
from dsh_lsp.workspace.rope import Rope

POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one request did: where the hunks stand, in `document` or, if the editor did not open it, in the file."""

    verdicts: dict[str, Verdict]
    text: Rope
    document: Document | None
    final: Literal["landed", "refused", "silent"]
    reason: str = ""  # the editor's own, for a no


async def attempt_unopened(
    documents: Documents,
    editor: Editor,
    file: Document,
    path: Path,
    hunks: Sequence[Hunk],
    *,
    label: str,
    saves: bool,
) -> Seen:
    """Send hunks of a file as it is on disk now, and look for them until they are seen or never will be."""
    before = file.rope
    edit = {"documentChanges": [landing.to_lsp_edits(file, hunks, editor.profile.manners)]}
    reply = await editor.apply_edit(label, edit)
    if reply.kind != "applied":
        await anyio.sleep(landing.SETTLE_S)  # it may have opened and changed the file all the same, or its user has
        document = documents.at(path)
        text = document.rope if document is not None else before
        verdicts = landing.judge_shown(before, hunks, text, editor.profile.manners)
        return Seen(verdicts=verdicts, text=text, document=document, final="refused", reason=reply.reason)
    deadline = anyio.current_time() + landing.CONFIRM_S
    while True:
        document = documents.at(path)
        shown = document.rope if document is not None else await _saved(editor, file.uri, path, saves=saves)
        text = before if shown is None else shown  # which may be empty
        verdicts = landing.judge_shown(before, hunks, text, editor.profile.manners)
        if all(isinstance(verdict, Landed) for verdict in verdicts.values()):
            return Seen(verdicts=verdicts, text=text, document=document, final="landed")
        if anyio.current_time() >= deadline:
            return Seen(verdicts=verdicts, text=text, document=document, final="silent")
        await anyio.sleep(POLL_S)


async def _saved(editor: Editor, uri: str, path: Path, *, saves: bool) -> Rope | None:
    """The file after the client was asked to save it; None if it was not."""
    if not saves or not await editor.save(uri):
        return None
    text = await anyio.to_thread.run_sync(text_on_disk, path)
    return Rope.of(text) if text is not None else None
