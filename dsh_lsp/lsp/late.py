"""Late: edits that an editor was sent and did not show in time, until they are seen or can come no more.

Rules: whenever one is seen it is told, outside a turn too; what an editor has answered for comes soon or never, so
that what looks like it later is the user's own; a document that was closed gets nothing more, but may have been saved
with it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dsh_lsp.abort import Disposer
from dsh_lsp.lsp.documents import Document, DocumentChanged, Documents
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.landing import SETTLE_S, judge_shown
from dsh_lsp.lsp.proposal import FileUnderReview
from dsh_lsp.workspace.disk import text_on_disk
from dsh_lsp.workspace.edits import Hunk
from dsh_lsp.workspace.passage import Absent, Landed, Touched, Verdict
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Span

LATE_S = 30.0  # after it was given up; an edit that was answered for has come by then

Sent = tuple[FileUnderReview, Hunk]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Late:
    """Edits of `before` that may still come, until some time; `gone` says that their document was closed."""

    key: str
    before: Rope
    sent: tuple[Sent, ...]
    unwatch: Disposer
    until: float
    gone: bool = False


class LateEdits:
    """The late edits of one session; `seen` is told of each that comes."""

    def __init__(
        self, documents: Documents, editor: Editor, seen: Callable[[FileUnderReview, Document, Hunk, Span], object]
    ) -> None:
        self._documents = documents
        self._editor = editor
        self._seen = seen
        self._late: list[_Late] = []
        self._disposers = [
            documents.changed.listen(self._on_change),
            documents.opened.listen(self._on_open),
            documents.closed.listen(self._on_close),
        ]

    def close(self) -> None:
        """Look for them no longer."""
        for dispose in self._disposers:
            dispose()
        for late in list(self._late):
            self._replace(late, [])

    def may_come(self, key: str) -> bool:
        """Whether an edit of a document was sent, given up, and may still arrive."""
        return any(not late.gone for late in self._of(key))

    def wait_for(self, key: str, before: Rope, sent: Sequence[Sent], *, answered: bool = False) -> None:
        """Look for edits from now on; `answered` says that the editor claims to have made them."""
        until = _now() + LATE_S if answered else math.inf
        unwatch = self._documents.watch(key)
        self._late.append(_Late(key=key, before=before, sent=tuple(sent), unwatch=unwatch, until=until))

    def forget(self, document: Document, hunks: Sequence[Hunk]) -> None:
        """Give up on edits that are sent again, in another proposal: what is seen then is the later one."""
        again = {(hunk.span, hunk.old, hunk.new) for hunk in hunks}
        for late in self._of(document.key):
            verdicts = self._judge(late, document)
            places = {key: verdict.hunk.span for key, verdict in verdicts.items() if isinstance(verdict, Absent)}
            left = [(f, hunk) for f, hunk in late.sent if (places.get(hunk.id), hunk.old, hunk.new) not in again]
            self._replace(late, left)

    def _of(self, key: str) -> list[_Late]:
        for late in [late for late in self._late if late.until <= _now()]:
            self._replace(late, [])
        return [late for late in self._late if late.key == key]

    def _on_change(self, event: DocumentChanged) -> None:
        for late in self._of(event.document.key):
            until = late.until if late.until == math.inf else min(late.until, _now() + SETTLE_S)
            missing = self._see(late, event.document)
            self._replace(late, missing, before=event.document.rope, until=until)  # the next step is a short one

    def _on_open(self, document: Document) -> None:
        for late in self._of(document.key):
            missing = self._see(late, document)
            self._replace(late, [] if late.gone else missing, before=document.rope)

    def _on_close(self, document: Document) -> None:
        for late in self._of(document.key):
            until = min(late.until, _now() + LATE_S)
            text = text_on_disk(Path(document.key))
            if text is None:
                self._replace(late, late.sent, gone=True, until=until)
                continue
            saved = Document(document.uri, None, Rope.of(text), document.encoding)
            self._replace(late, self._see(late, saved), before=saved.rope, gone=True, until=until)

    def _judge(self, late: _Late, document: Document) -> dict[str, Verdict]:
        hunks = [hunk for _, hunk in late.sent]
        return judge_shown(late.before, hunks, document.rope, self._editor.profile.manners)

    def _see(self, late: _Late, document: Document) -> list[Sent]:
        """Tell of what a text shows; what may still come, where it would go in it."""
        verdicts = self._judge(late, document)
        missing: list[Sent] = []
        for file, hunk in late.sent:
            match verdicts[hunk.id]:
                case Landed(span):
                    self._seen(file, document, hunk, span)
                case Absent(there):
                    missing.append((file, there))
                case Touched():
                    pass
        return missing

    def _replace(self, late: _Late, sent: Sequence[Sent], **more: Any) -> None:
        self._late.remove(late)
        if sent:
            self._late.append(replace(late, sent=tuple(sent), **more))
        else:
            late.unwatch()


def _now() -> float:
    return asyncio.get_running_loop().time()  # documents change in callbacks too, which are in no task
