"""Match: what a model means is found in one place or not at all, and the document's white space wins."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.match import ended_like, find_match
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
        ("a=1\ntotal+=price*qty\n", "total+=price*quantity", "NO_MATCH", "2\ttotal+=price*qty"),
        ("x\ncafe\u0301()\n", "caf\u00e9()", "NO_MATCH", "2\tcafe\u0301()"),
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


# -- what is not changed stays as it was ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "old", "new", "after", "reading"),
    [
        ("a\r\nb\r\nc\r\nx\ny\nz\n", "x\ny\n", "x\nY\n", "a\r\nb\r\nc\r\nx\nY\nz\n", "exact"),
        ("a\r\nb\nc\nd\n", "a\r\nb\n", "a\r\nB\n", "a\r\nB\nc\nd\n", "exact"),
        ("a\r\nb\nc\r\n", "a\nb\n", "a\nB\n", "a\r\nB\nc\r\n", "trailing space ignored"),
        ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nb\nnew\nc\n", "a\r\nb\nnew\nc\r\n", "trailing space ignored"),
        (
            "foo(   \n  bar)\nbaz\n",
            "foo(\n  bar)\n",
            "foo(\n  BAR)\n",
            "foo(   \n  BAR)\nbaz\n",
            "trailing space ignored",
        ),
        ("a  \nb", "a\nb\n", "a\nb\nc\n", "a  \nb\nc", "trailing space ignored"),
        ("    a\n    \n    b\n", "a\n\nb", "a\n\nB", "    a\n    \n    B\n", "indentation adapted"),
    ],
)
def test_lines_that_the_new_text_only_repeats_stay_as_they_are(document, old, new, after, reading) -> None:
    assert replaced(document, old, new) == (after, reading)


@pytest.mark.parametrize(
    ("document", "old", "new", "after"),
    [
        pytest.param(
            "    if a:\n        b()\n    c()\n", "if a:\n\tb()\n", "if a:\n\tb()\n\tif x:\n\t\tz()\n",
            "    if a:\n        b()\n        if x:\n            z()\n    c()\n", id="tabs for spaces",
        ),
        pytest.param(
            "\tif a:\n\t\tb()\n", "if a:\n    b()\n", "if a:\n    b()\n    if x:\n        z()\n",
            "\tif a:\n\t\tb()\n\t\tif x:\n\t\t\tz()\n", id="spaces for tabs",
        ),
        pytest.param(
            "\tif a:\n\t\tb()\n", "if a:\n  b()\n", "if a:\n  b()\n  if x:\n    z()\n",
            "\tif a:\n\t\tb()\n\t\tif x:\n\t\t\tz()\n", id="two spaces for tabs",
        ),
        pytest.param(
            "class A:\n  def f(self):\n    x\n", "    def f(self):\n        x\n",
            "    def f(self):\n        x\n        if y:\n            z\n",
            "class A:\n  def f(self):\n    x\n    if y:\n      z\n", id="four spaces for two",
        ),
        pytest.param(
            "class A:\n    def f(self):\n        x\n", "  def f(self):\n    x\n",
            "  def f(self):\n    if y:\n      x\n",
            "class A:\n    def f(self):\n        if y:\n            x\n", id="two spaces for four",
        ),
        pytest.param(
            "class A:\n    def f(self):\n        x\n", "def f(self):\n    x\n", "def f(self):\n    g(a,\n      b)\n",
            "class A:\n    def f(self):\n        g(a,\n          b)\n", id="the same steps, and an alignment",
        ),
    ],
)  # fmt: skip
def test_what_the_new_text_indents_deeper_is_indented_as_the_document_does(document, old, new, after) -> None:
    assert replaced(document, old, new) == (after, "indentation adapted")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_ambiguity_is_told_with_the_lines_whatever_ends_them(end: str) -> None:
    with pytest.raises(ToolError, match=r"at lines 1, 3;"):
        find_match(Rope.of(end.join("abab") + end), f"a{end}", "c", name="f")


@pytest.mark.parametrize(
    ("document", "content", "after"),
    [
        ("a\nb\n", "a\r\nB\r\n", "a\nB\n"),
        ("a\r\nb\r\nc\n", "a\nB\nc\n", "a\r\nB\r\nc\n"),
        ("a\r\nb\r\nc\nd", "new\na\nb\nc\nd\ne\n", "new\r\na\r\nb\r\nc\nd\r\ne\r\n"),
        ("a\r\nb\r\nc\n", "", ""),
        ("a\r\nb\r\nc\n", "c\n", "c\n"),
        ("a\r\nb\r\nc\n", "a\nb\n", "a\r\nb\r\n"),
        ("a\n\r", "a\n\n\n", "a\n\n\n"),
    ],
)
def test_a_whole_new_text_leaves_the_line_ends_of_lines_that_stay(document: str, content: str, after: str) -> None:
    assert ended_like(Rope.of(document), content) == after


@pytest.mark.parametrize(
    ("document", "old", "new", "after"),
    [
        ("a\r\nimport os\r\nb\r\n", "\nimport os", "", "a\r\nb\r\n"),
        ("a\r\nfoo\r\n", "\nfoo", "\nfoo\nbar", "a\r\nfoo\r\nbar\r\n"),
        ("a\nfoo\r\nb\n", "\nfoo", "\nbar", "a\nbar\r\nb\n"),
    ],
)
def test_no_reading_cuts_a_line_end_in_two(document: str, old: str, new: str, after: str) -> None:
    assert replaced(document, old, new) == (after, "exact")
