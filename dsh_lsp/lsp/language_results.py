"""Language results: what language servers answer, in any of the shapes that LSP allows, as plain values.

Rules: an answer of another shape is a `ValueError`, never a guess; positions stay in the client's encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from dsh_lsp.decisions import Range
from dsh_lsp.wire import JsonObject, decode
from dsh_lsp.workspace.language import Problem, Severity

SEVERITIES: Final[dict[Any, Severity]] = {1: "error", 2: "warning", 3: "information", 4: "hint"}

# LSP's SymbolKind, from 1.
KINDS: Final = (
    *("file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum"),
    *("interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key"),
    *("null", "enum-member", "struct", "event", "operator", "type-parameter"),
)

OURS: Final = "dsh"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdits:
    """The changes of one document; `version` is the one that they are about, where the server says it."""

    uri: str
    version: int | None
    edits: tuple[tuple[Range, str], ...]


def problems_of(items: Any) -> tuple[Problem, ...]:
    """Diagnostics, in the order of their lines; our own are left out."""
    found = [
        Problem(
            line=_range(item["range"]).start.line + 1,
            severity=SEVERITIES.get(item.get("severity"), "error"),
            message=_text(item["message"]),
            source=str(item.get("source") or ""),
            code="" if item.get("code") is None else str(item["code"]),
        )
        for item in _list(items)
        if _object(item).get("source") != OURS
    ]
    return tuple(sorted(found, key=lambda problem: problem.line))


def locations_of(result: Any) -> list[tuple[str, Range]]:
    """A location, locations, or links to them."""
    found = []
    for item in _list([result] if isinstance(result, dict) else result or []):
        place = _object(item)
        if "targetUri" in place:
            found.append(
                (_text(place["targetUri"]), _range(place.get("targetSelectionRange") or place["targetRange"]))
            )
        else:
            found.append((_text(place["uri"]), _range(place["range"])))
    return list(dict.fromkeys(found))


def hover_of(result: Any) -> str:
    """A hover's contents as one text."""
    contents = _object(result).get("contents") if result is not None else None
    parts = contents if isinstance(contents, list) else [contents] if contents is not None else []
    return "\n\n".join(text for part in parts if (text := _marked(part).strip()))


def symbols_of(result: Any, uri: str = "") -> list[tuple[str, str, str, int, int]]:
    """Symbols as (name, kind, uri, line from 1, depth), in order; `uri` is that of a document's own symbols."""
    return list(_symbols(_list(result or []), uri, 0))


def edits_of(result: Any) -> list[TextEdits]:
    """The text edits of a workspace edit.

    Raises:
        ValueError: it also creates, renames or deletes files.
    """
    edit = _object(result)
    found = []
    for change in _list(edit.get("documentChanges") or []):
        document = _object(change)
        if "kind" in document:
            raise ValueError(f"it would also {document['kind']} a file")
        target = _object(document["textDocument"])
        found.append(TextEdits(uri=target["uri"], version=target.get("version"), edits=_edits(document["edits"])))
    if not found:
        changes = _object(edit.get("changes") or {})
        found = [TextEdits(uri=uri, version=None, edits=_edits(edits)) for uri, edits in changes.items()]
    return [one for one in found if one.edits]


def _symbols(items: list[Any], uri: str, depth: int) -> Iterator[tuple[str, str, str, int, int]]:
    for item in items:
        symbol = _object(item)
        kind = symbol.get("kind")
        name = KINDS[kind - 1] if isinstance(kind, int) and 0 < kind <= len(KINDS) else "symbol"
        location = _object(symbol.get("location") or {})
        place = symbol.get("selectionRange") or symbol.get("range") or location.get("range")
        line = _range(place).start.line + 1 if place else 1  # a workspace symbol may name its file alone
        yield _text(symbol["name"]), name, str(location.get("uri") or uri), line, depth
        yield from _symbols(_list(symbol.get("children") or []), uri, depth + 1)


def _edits(items: Any) -> tuple[tuple[Range, str], ...]:
    return tuple((_range(_object(item)["range"]), _text(item["newText"])) for item in _list(items))


def _marked(part: Any) -> str:
    if isinstance(part, str):
        return part
    marked = _object(part)
    value = _text(marked["value"])
    return f"```{marked['language']}\n{value}\n```" if "language" in marked else value


def _range(value: Any) -> Range:
    return decode(Range, _object(value))


def _object(value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise ValueError(f"an object was expected, not {type(value).__name__}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a list was expected, not {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text was expected, not {type(value).__name__}")
    return value
