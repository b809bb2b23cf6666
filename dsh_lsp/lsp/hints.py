"""Hints: what waits for review as diagnostics, which every editor can show beside the lines."""

from __future__ import annotations

from dsh_lsp.lsp.documents import Document
from dsh_lsp.lsp.proposal import Item
from dsh_lsp.wire import JsonObject, encode
from dsh_lsp.workspace.text import bare_lines

SOURCE = "dsh"
INFORMATION = 3
MAX_LINES = 40


def hint(document: Document, item: Item) -> JsonObject:
    """A hunk as a diagnostic whose message is its diff."""
    removed = [f"- {line}" for line in bare_lines(item.hunk.old)]
    added = [f"+ {line}" for line in bare_lines(item.hunk.new)]
    lines = removed + added
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES} more lines"]
    return {
        "range": encode(document.range_of(item.hunk.span)),
        "severity": INFORMATION,
        "source": SOURCE,
        "code": item.hunk.id,
        "message": "\n".join(["DSH proposes:", *lines]),
    }
