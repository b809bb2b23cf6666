"""Context: what the user points at, put into words for the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dsh_lsp.decisions import Position
from dsh_lsp.errors import ToolError
from dsh_lsp.lsp.arguments import ContextItem, LspRange
from dsh_lsp.lsp.documents import Document, Documents, path_of
from dsh_lsp.secrets import Keys
from dsh_lsp.workspace.disk import read_file
from dsh_lsp.workspace.paths import shown
from dsh_lsp.workspace.rope import Rope

MAX_EMBEDDED_BYTES = 32_000


def with_context(text: str, items: Sequence[ContextItem], documents: Documents, root: Path, keys: Keys) -> str:
    """The user's words, then what they point at: whole files by their path, parts with their text, without keys."""
    parts = [keys.hide(_describe(item, documents, root)) for item in items]
    return "\n\n".join([text, *parts])


def _describe(item: ContextItem, documents: Documents, root: Path) -> str:
    name = _name(item.uri, root)
    if item.text is None and item.range is None:
        return f"See {name}"
    where = f"{name}, lines {item.range.start.line + 1}-{_last_line(item.range)}" if item.range else name
    text = item.text if item.text is not None else _part(item, documents, name)
    if text is None:
        return f"See {where}"
    data = text.encode(errors="replace")
    if len(data) > MAX_EMBEDDED_BYTES:
        text = data[:MAX_EMBEDDED_BYTES].decode(errors="ignore") + "\n[... cut; read the file for the rest]"
    fence = "```"
    while fence in text:
        fence += "`"
    return f"From {where}:\n{fence}\n{text}\n{fence}"


def _last_line(span: LspRange) -> int:
    """The last line that a range holds something of, from 1: one that ends before a line does not hold it."""
    return span.end.line + (span.end.character > 0 or span.end.line == span.start.line)


def _part(item: ContextItem, documents: Documents, name: str) -> str | None:
    document = documents.get(item.uri)
    if document is None:
        path = path_of(item.uri)
        try:
            rope = Rope.of(read_file(path, name).text) if path else None
        except ToolError:
            return None
        document = Document(item.uri, None, rope, documents.encoding) if rope else None
    if document is None or item.range is None:
        return None
    start, end = (
        document.offset_at(Position(line=p.line, character=p.character)) for p in (item.range.start, item.range.end)
    )
    return document.rope[start:end]


def _name(uri: str, root: Path) -> str:
    path = path_of(uri)
    if path is None:
        return uri
    return shown(root, path)
