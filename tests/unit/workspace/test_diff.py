"""Diff: it leads from one text to the other, finds what is small, and never takes long."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.workspace.diff import differing_blocks

words = st.lists(st.sampled_from("abcdefg"), max_size=30)


def applied(a: list[str], b: list[str]) -> list[str]:
    result: list[str] = []
    i = 0
    for i1, i2, j1, j2 in differing_blocks(a, b):
        result += a[i:i1] + b[j1:j2]
        i = i2
    return result + a[i:]


def edits(a: list[str], b: list[str]) -> int:
    return sum(i2 - i1 + j2 - j1 for i1, i2, j1, j2 in differing_blocks(a, b))


def shortest(a: list[str], b: list[str]) -> int:
    """The length of a shortest edit script, the slow and plain way."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(above[j - 1] if x == y else 1 + min(above[j], row[j - 1]))
    return row[-1]


@given(words, words)
def test_it_leads_from_one_to_the_other_in_as_few_edits_as_there_can_be(a: list[str], b: list[str]) -> None:
    assert applied(a, b) == b
    assert edits(a, b) == shortest(a, b)
    blocks = differing_blocks(a, b)
    for (_, i2, _, j2), (i1, _, j1, _) in pairwise(blocks):
        assert i2 < i1
        assert j2 < j1


def lines(count: int) -> list[str]:
    return [f"line {number}\n" for number in range(count)]


def changed(a: list[str], count: int) -> list[str]:
    b = list(a)
    for at in random.Random(1).sample(range(len(a)), count):
        b[at] = f"changed {at}\n"
    return b


@pytest.mark.parametrize("count", [1, 50, 400, 20_000])
def test_each_changed_line_of_a_long_text_is_found_alone(count: int) -> None:
    a = lines(60_000)
    b = changed(a, count)
    assert applied(a, b) == b
    assert edits(a, b) == 2 * count


def test_a_moved_function_and_a_few_edits_stay_small() -> None:
    a = lines(5_000)
    b = changed(a[:1_000] + a[3_000:3_200] + a[1_000:3_000] + a[3_200:], 300)
    assert applied(a, b) == b
    assert edits(a, b) <= 2 * 300 + 2 * 200


@pytest.mark.parametrize("kind", ["shuffled", "disjoint", "repetitive"])
def test_texts_that_share_no_order_are_compared_all_the_same(kind: str) -> None:
    a = lines(20_000)
    b = list(a)
    if kind == "shuffled":
        random.Random(2).shuffle(b)
    elif kind == "disjoint":
        b = [f"other {number}\n" for number in range(20_000)]
    else:
        a = ["x\n", "y\n"] * 10_000
        b = ["y\n", "z\n", "x\n"] * 7_000
    assert applied(a, b) == b
