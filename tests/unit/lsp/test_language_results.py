"""Language results: every shape that LSP allows is read, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.decisions import Position, Range
from dsh_lsp.lsp.language_results import edits_of, hover_of, locations_of, problems_of, symbols_of
from dsh_lsp.workspace.language import Problem


def span(line: int, start: int = 0, end: int = 1) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def read(line: int, start: int = 0, end: int = 1) -> Range:
    return Range(start=Position(line=line, character=start), end=Position(line=line, character=end))


LOCATION = {"uri": "file:///a.py", "range": span(1)}
LINK = {"targetUri": "file:///b.py", "targetRange": span(0, 0, 9), "targetSelectionRange": span(2)}


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (None, []),
        ([], []),
        (LOCATION, [("file:///a.py", read(1))]),
        ([LOCATION, LOCATION], [("file:///a.py", read(1))]),
        ([LINK], [("file:///b.py", read(2))]),
    ],
)
def test_a_location_locations_and_links_are_places(result: Any, found: Any) -> None:
    assert locations_of(result) == found


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        ("plain", "plain"),
        ({"kind": "markdown", "value": "**x**"}, "**x**"),
        ({"language": "python", "value": "x: int"}, "```python\nx: int\n```"),
        (["a", {"language": "c", "value": "b"}, ""], "a\n\n```c\nb\n```"),
        ([], ""),
    ],
)
def test_a_hover_in_any_form_is_one_text(contents: Any, text: str) -> None:
    assert hover_of({"contents": contents}) == text


def test_no_hover_is_nothing() -> None:
    assert hover_of(None) == ""


def test_problems_come_by_line_and_ours_are_left_out() -> None:
    items = [
        {"range": span(4), "severity": 2, "message": "later", "source": "ruff", "code": 401},
        {"range": span(0), "message": "first"},
        {"range": span(1), "severity": 3, "message": "DSH proposes", "source": "dsh"},
    ]
    assert problems_of(items) == (
        Problem(line=1, severity="error", message="first"),
        Problem(line=5, severity="warning", message="later", source="ruff", code="401"),
    )


def test_symbols_of_both_kinds_are_read_with_their_depth() -> None:
    inner = {"name": "f", "kind": 6, "range": span(2), "selectionRange": span(3)}
    outer = {"name": "C", "kind": 5, "range": span(1), "selectionRange": span(1), "children": [inner]}
    flat = {"name": "g", "kind": 12, "location": {"uri": "file:///b.py", "range": span(7)}}
    alone = {"name": "h", "kind": 99, "location": {"uri": "file:///c.py"}}
    assert symbols_of([outer], "file:///a.py") == [
        ("C", "class", "file:///a.py", 2, 0),
        ("f", "method", "file:///a.py", 4, 1),
    ]
    assert symbols_of([flat, alone]) == [
        ("g", "function", "file:///b.py", 8, 0),
        ("h", "symbol", "file:///c.py", 1, 0),
    ]


def test_edits_are_read_from_both_forms_and_files_are_never_moved_by_a_rename() -> None:
    edit = {"range": span(0), "newText": "x"}
    document = {"textDocument": {"uri": "file:///a.py", "version": 3}, "edits": [edit]}
    (versioned,) = edits_of({"documentChanges": [document]})
    assert (versioned.uri, versioned.version, versioned.edits) == ("file:///a.py", 3, ((read(0), "x"),))
    (plain,) = edits_of({"changes": {"file:///a.py": [edit], "file:///b.py": []}})
    assert (plain.uri, plain.version) == ("file:///a.py", None)
    with pytest.raises(ValueError, match="rename a file"):
        edits_of({"documentChanges": [document, {"kind": "rename", "oldUri": "a", "newUri": "b"}]})


KEYS = (
    "uri",
    "range",
    "start",
    "line",
    "character",
    "items",
    "name",
    "kind",
    "children",
    "edits",
    "contents",
    "value",
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_anything_else_is_refused_and_nothing_else_happens(value: Any) -> None:
    for reader in (problems_of, locations_of, hover_of, symbols_of, edits_of):
        try:
            reader(value)
        except (ValueError, KeyError, TypeError):
            continue
