"""Diff: the lines that differ between two texts, minimal where that is cheap and never quadratic.

Common ends are cut off first. Then Myers' greedy algorithm, up to a bound on the number of edits; beyond it, lines
that occur once in both texts anchor the comparison, and the gaps between them are compared in the same way.

Rules: the result leads from one text to the other; a pure function of its input.
Source: E. W. Myers, An O(ND) Difference Algorithm and Its Variations (1986).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

MAX_EDITS = 500  # Myers costs the square of the edits
MAX_GAP_EDITS = 60  # of one gap between anchors

Block = tuple[int, int, int, int]  # lines a[i1:i2] became b[j1:j2]


def differing_blocks(a: Sequence[str], b: Sequence[str]) -> list[Block]:
    """The runs of lines that differ, in order and not touching each other."""
    head = common_prefix(a, b, min(len(a), len(b)))
    tail = common_prefix(a[: head - len(a) - 1 : -1], b[: head - len(b) - 1 : -1], min(len(a), len(b)) - head)
    ids: dict[str, int] = {}
    first = [ids.setdefault(line, len(ids)) for line in a[head : len(a) - tail]]
    second = [ids.setdefault(line, len(ids)) for line in b[head : len(b) - tail]]
    pairs = _matches(first, second) if first and second else []
    blocks: list[Block] = []
    i = j = 0
    for x, y in [*pairs, (len(first), len(second))]:
        if x > i or y > j:
            blocks.append((head + i, head + x, head + j, head + y))
        i, j = x + 1, y + 1
    return blocks


def common_prefix(a: Sequence[str], b: Sequence[str], limit: int) -> int:
    """How many leading items are equal, at most `limit`; halving compares at the speed of memory."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _matches(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of equal lines, both ascending; the ends are known to differ."""
    whole = (0, len(a), 0, len(b))
    pairs = _myers(a, b, *whole, MAX_EDITS)
    return _anchored(a, b, *whole) if pairs is None else pairs


def _myers(
    a: Sequence[int], b: Sequence[int], lo_a: int, hi_a: int, lo_b: int, hi_b: int, bound: int
) -> list[tuple[int, int]] | None:
    """The matches of a shortest edit script; None when it needs more edits than the bound."""
    width, height = hi_a - lo_a, hi_b - lo_b
    furthest: dict[int, int] = {1: 0}  # diagonal x - y → the x that was reached on it
    trace: list[dict[int, int]] = []
    for edits in range(min(width + height, bound) + 1):
        trace.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            x = furthest.get(diagonal + 1, -1) if down else furthest.get(diagonal - 1, -1) + 1
            y = x - diagonal
            while 0 <= x < width and 0 <= y < height and a[lo_a + x] == b[lo_b + y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            if x >= width and y >= height:
                return [(lo_a + i, lo_b + j) for i, j in _backtrack(trace, width, height)]
    return None


def _backtrack(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trace) - 1, -1, -1):
        furthest, diagonal = trace[edits], x - y
        down = diagonal == -edits or (
            diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        from_x = furthest.get(before, 0) if edits else 0
        from_y = from_x - before if edits else 0
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = from_x, from_y
    pairs.reverse()
    return pairs


def _anchored(
    a: Sequence[int], b: Sequence[int], lo_a: int, hi_a: int, lo_b: int, hi_b: int
) -> list[tuple[int, int]]:
    """The matches around lines that occur once on each side, in the longest order that both sides agree on."""
    pairs: list[tuple[int, int]] = []
    i, j = lo_a, lo_b
    for x, y in [*_anchors(a, b, lo_a, hi_a, lo_b, hi_b), (hi_a, hi_b)]:
        if i < x and j < y:
            pairs += _gap(a, b, i, x, j, y)
        if x < hi_a:
            pairs.append((x, y))
        i, j = x + 1, y + 1
    return pairs


def _gap(a: Sequence[int], b: Sequence[int], i: int, x: int, j: int, y: int) -> list[tuple[int, int]]:
    """The matches between two anchors: its common ends, and a short edit script where there is one."""
    head: list[tuple[int, int]] = []
    while i < x and j < y and a[i] == b[j]:
        head.append((i, j))
        i, j = i + 1, j + 1
    tail: list[tuple[int, int]] = []
    while i < x and j < y and a[x - 1] == b[y - 1]:
        x, y = x - 1, y - 1
        tail.append((x, y))
    middle = _myers(a, b, i, x, j, y, MAX_GAP_EDITS) if i < x and j < y else []
    return head + (middle or []) + tail[::-1]


def _anchors(a: Sequence[int], b: Sequence[int], lo_a: int, hi_a: int, lo_b: int, hi_b: int) -> list[tuple[int, int]]:
    count_a, count_b = Counter(a[lo_a:hi_a]), Counter(b[lo_b:hi_b])
    where_b = {b[j]: j for j in range(lo_b, hi_b) if count_b[b[j]] == 1}
    candidates = [(i, where_b[a[i]]) for i in range(lo_a, hi_a) if count_a[a[i]] == 1 and a[i] in where_b]
    return _longest_ascending(candidates)


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, taken in order, whose second members ascend too (patience sorting)."""
    tops: list[int] = []
    top_index: list[int] = []
    back: list[int] = []
    for index, (_, y) in enumerate(pairs):
        pile = bisect_left(tops, y)
        back.append(top_index[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(y)
            top_index.append(index)
        else:
            tops[pile], top_index[pile] = y, index
    chain: list[tuple[int, int]] = []
    index = top_index[-1] if top_index else -1
    while index >= 0:
        chain.append(pairs[index])
        index = back[index]
    return chain[::-1]
