"""Think tags: however a text is cut into deltas, it has the same parts, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.llm.think_tags import ThinkSplitter

PIECES = st.lists(
    st.sampled_from(["<think>", "</think>", "<think/>", "<", "</", "`", "```", "\n", " ", "a", "b."]), max_size=10
)


def parts(pieces: Iterable[str]) -> tuple[str, str]:
    """The reasoning and the text."""
    splitter, kept = ThinkSplitter(), {"reasoning": "", "text": ""}

    def take(found) -> None:
        for kind, text in found:
            if kind == "retype":
                kept["reasoning"], kept["text"] = kept["text"], ""
            else:
                kept[kind] += text

    for piece in pieces:
        take(splitter.push(piece))
    take(splitter.flush())
    return kept["reasoning"], kept["text"]


@given(PIECES)
def test_the_parts_do_not_depend_on_the_cuts(pieces: list[str]) -> None:
    whole = "".join(pieces)
    assert parts(pieces) == parts([whole]) == parts(whole)


@given(PIECES)
def test_all_letters_are_kept_but_for_one_pair_of_tags(pieces: list[str]) -> None:
    whole = "".join(pieces)
    reasoning, text = parts([whole])
    kept = len((reasoning + text).replace("\n", "").replace(" ", ""))
    lost = len(whole.replace("\n", "").replace(" ", "")) - kept
    assert lost in {0, len("<think>"), len("<think/>"), len("</think>"), len("<think></think>")}
