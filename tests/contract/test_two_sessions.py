"""Two sessions: they share the documents of one editor, and neither spoils what the other shows or sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from tests.support.review_bench import Bench, make_bench, run_virtually
from tests.support.simulated_manners import Manners

BEFORE = "".join(f"line {number}\n" for number in range(12))
FILES = {"a.txt": BEFORE}
EDITORS = [
    Manners(name="stock Neovim", tells="after", delay=0.138, stale="yes"),
    Manners(name="eglot", tells="debounced", delay=0.5, stale="error"),
    Manners(name="one that tells late and says no", tells="after", delay=0.4),
]


def play_both(root: Path, story: Callable[[Bench, Bench], Awaitable[None]], manners: Manners = EDITORS[0]) -> None:
    async def main(tasks: TaskGroup) -> None:
        first = make_bench(root, tasks, manners)
        await story(first, make_bench(root, tasks, manners, beside=first))

    run_virtually(main)


async def propose(bench: Bench, line: int) -> None:
    bench.propose(await bench.edit("a.txt", BEFORE.replace(f"line {line}\n", f"{line}!\n")))
    await anyio.sleep(0.5)


def test_what_waits_in_both_is_shown_beside_a_document_until_it_is_decided(root) -> None:
    async def story(first: Bench, second: Bench) -> None:
        await first.open("a.txt")
        await propose(first, 1)
        await propose(second, 9)
        (mine,), (theirs,) = ([item.hunk.id for item in bench.reviews.pending()] for bench in (first, second))
        uri = first.uri("a.txt")
        assert sorted(first.editor.hints[uri]) == sorted([mine, theirs])
        second.reviews.reject("all", uri=None, comment=None)
        assert first.editor.hints[uri] == [mine]
        first.reviews.reject("all", uri=None, comment=None)
        assert first.editor.hints[uri] == []
        await propose(second, 5)
        second.reviews.close()
        await propose(first, 2)
        assert first.editor.hints[uri] == [item.hunk.id for item in first.reviews.pending()]

    play_both(root, story)


@pytest.mark.parametrize("manners", EDITORS, ids=lambda manners: manners.name)
def test_edits_that_are_accepted_in_both_at_once_all_land(root, manners: Manners) -> None:
    async def story(first: Bench, second: Bench) -> None:
        await first.open("a.txt")
        for line in (1, 5):
            await propose(first, line)
        for line in (3, 9):
            await propose(second, line)
        for bench in (first, second):
            bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(20)
        assert [first.decided(), second.decided()] == [["landed", "landed"]] * 2
        assert [line for line in (1, 3, 5, 9) if f"{line}!\n" in first.text("a.txt")] == [1, 3, 5, 9]
        assert not any("did not apply" in message for message in first.editor.messages)

    play_both(root, story, manners)
