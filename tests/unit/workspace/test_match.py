"""Match: what a model means is found in one place or not at all, and the document's white space wins."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.match import find_match
from dsh_lsp.workspace.rope import Rope

DOC = "class A:\n\tdef one(self):\n\t\tif x:\n\t\t\treturn 1\n\n\tdef two(self):\n\t\treturn 2\n"
SPACED = "def f():  \n    a = 1\n    b = 2\t\nend\n"


def replaced(text: str, old: str, new: str) -> tuple[str, str]:
    match = find_match(Rope.of(text), old, new, name="doc.py")
    return match.change.apply(text), match.reading


@pytest.mark.parametrize(
    ("text", "old", "new", "after", "reading"),
    [
        ("a b c", "b", "x", "a x c", "exact"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n", "exact"),
        (
            SPACED,
            "def f():\n    a = 1\n    b = 2\n",
            "def g():\n    a = 2\n",
            "def g():\n    a = 2\nend\n",
            "trailing space ignored",
        ),
        (SPACED, "    b = 2", "    b = 3", "def f():  \n    a = 1\n    b = 3\t\nend\n", "exact"),
        ("x  \r\ny\r\n", "x\ny", "z", "z\r\n", "trailing space ignored"),
        (
            DOC,
            "    if x:\n        return 1\n",
            "    if y:\n        return 3\n    else:\n        return 4\n",
            DOC.replace("\t\tif x:\n\t\t\treturn 1\n", "\t\tif y:\n\t\t\treturn 3\n\t\telse:\n\t\t\treturn 4\n"),
            "indentation adapted",
        ),
        (
            DOC,
            "def two(self):\n    return 2",
            "def two(self):\n    if z:\n        return 3\n    return 2",
            DOC.replace("\t\treturn 2\n", "\t\tif z:\n\t\t\treturn 3\n\t\treturn 2\n"),
            "indentation adapted",
        ),
        (
            "if a:\n    b\n",
            "    if a:\n        b\n",
            "    if a:\n        c\n",
            "if a:\n    c\n",
            "indentation adapted",
        ),
    ],
    ids=["exact", "line ends", "trailing", "inside a line", "trailing crlf", "tabs", "deeper than known", "too deep"],
)
def test_what_is_meant_is_found_and_replaced_in_the_documents_own_style(text, old, new, after, reading) -> None:
    assert replaced(text, old, new) == (after, reading)


@pytest.mark.parametrize(
    ("text", "old", "code", "words"),
    [
        ("a a", "a", "AMBIGUOUS", "2 times in doc.py, at lines 1, 1"),
        ("aaa", "aa", "AMBIGUOUS", "2 times"),
        ("x \nx  \n", "x\n", "AMBIGUOUS", "lines 1, 2"),
        ("if a:\n    b\nelse:\n  if a:\n      b\n", "\tif a:\n\t\tb\n", "AMBIGUOUS", "lines 1, 4"),
        ("text", " \n", "EMPTY_MATCH", "white space"),
        ("", "x", "NO_MATCH", "nor anything like it"),
        ("one\ntwo\nthree\nfour\n", "one\ntwo\nthere\nfour\n", "NO_MATCH", "3\tthree"),
        ("def total(items):\n    return sum(items)\n", "def total(elements):", "NO_MATCH", "1\tdef total(items):"),
    ],
)
def test_what_is_not_one_place_is_an_error_that_helps(text, old, code, words) -> None:
    with pytest.raises(ToolError) as error:
        find_match(Rope.of(text), old, "new", name="doc.py")
    assert error.value.code == code
    assert words in str(error.value)


def test_indentation_that_is_not_one_and_the_same_is_no_match() -> None:
    with pytest.raises(ToolError) as error:
        find_match(Rope.of("  a\n   b\n"), "a\nb\n", "c\n", name="doc.py")
    assert error.value.code == "NO_MATCH"


def test_a_last_line_without_its_end_keeps_it_that_way() -> None:
    assert replaced("a\nb  ", "a\nb\n", "a\nc\n") == ("a\nc", "trailing space ignored")


docs = st.lists(st.sampled_from(["a", "b", "  a", "\tb", "c ", "", "d"]), min_size=1, max_size=12)


@given(docs, st.data())
def test_a_piece_that_stands_there_once_is_replaced_there_and_nothing_else_changes(lines, data) -> None:
    text = "\n".join(lines)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    old = text[start:end]
    assume(old.strip() and text.count(old) == 1 and text.find(old, text.find(old) + 1) == -1)
    assert replaced(text, old, "NEW") == (text[:start] + "NEW" + text[end:], "exact")


@given(docs, docs)
def test_a_match_is_never_empty_and_only_its_span_changes(lines, wanted) -> None:
    text, old = "\n".join(lines), "\n".join(wanted)
    try:
        match = find_match(Rope.of(text), old, "NEW", name="doc.py")
    except ToolError:
        return
    assert match.change.span.end > match.change.span.start
    found = text[match.change.span.start : match.change.span.end]
    assert "".join(found.split()) == "".join(old.split())


def test_the_nearest_place_of_a_long_document_is_found() -> None:
    lines = [f"line {number} of many\n" for number in range(100_000)]
    lines[70_000:70_003] = ["def target(a, b):\n", "    total = a + b\n", "    return total\n"]
    with pytest.raises(ToolError, match="70002\t    total = a"):
        find_match(
            Rope.of("".join(lines)), "def target(a, b):\n    total = a - b\n    return total\n", "", name="doc.py"
        )


LONG = [f"    line_{number} = {number} * {number % 7}\n" for number in range(2_000)]
WIDE = "x" * 100_000


@pytest.mark.parametrize(
    ("text", "old", "words"),
    [
        ("".join(LONG), "".join([*LONG[10:300], "    other = 1\n", *LONG[301:1_000]]), "301\t    line_300 = 300"),
        ("a = 1\n" * 2_000, "a = 1\n" * 1_000 + "b = 1\n", "come near"),
        (f"{WIDE} a b c\n" * 20, f"{WIDE} a b d", "come near"),
        ("x\n" * 50_000, "x", "more than 1000 times in doc.py, at lines 1, 2"),
        (" x\n" * 50_000, "  x\n  x\n", "more than 1000 times"),
    ],
)
def test_what_is_told_of_a_miss_is_short_however_long_the_text_is(text: str, old: str, words: str) -> None:
    with pytest.raises(ToolError) as error:
        find_match(Rope.of(text), old, "new", name="doc.py")
    assert words in str(error.value)
    assert len(str(error.value)) < 9_000
