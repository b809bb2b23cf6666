"""Late edits: what an editor shows after it was given up is seen for what it is, wherever it stands by then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.support.review_bench import Bench, Proposed, play
from tests.support.simulated_manners import Manners

TEXT = "one\ntwo\nthree\nfour\n"
FILES = {"a.py": TEXT}
MENDED = "one\ntwo\nthree\nFOUR\n"
GIVEN_UP_S = 20.0  # virtual


def hang(bench: Bench) -> Callable[[], None]:
    """Let the editor take no edit from now on, as at a prompt; what is returned lets it do all of them."""
    held, take = [0], bench.editor._take

    def hold() -> None:
        held[0] += 1

    def wake() -> None:
        bench.editor._take = take  # type: ignore[method-assign]
        for _ in range(held[0]):
            take()

    bench.editor._take = hold  # type: ignore[method-assign]
    return wake


async def accept(bench: Bench, name: str, new: str) -> Proposed:
    proposed = bench.propose(await bench.edit(name, new))
    await anyio.sleep(0.5)
    bench.reviews.accept("all", uri=None, edited={})
    return proposed


@pytest.mark.parametrize("when", ["never", "while it is awaited", "afterwards"])
def test_an_edit_that_comes_late_is_seen_below_what_was_typed_meanwhile(root: Path, when: str) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.py")
        hang(bench)
        proposed = await accept(bench, "a.py", MENDED)
        await anyio.sleep(1)
        if when == "while it is awaited":
            await bench.type("a.py", "one", "zero\none")
        await anyio.sleep(GIVEN_UP_S)
        if when == "afterwards":
            await bench.type("a.py", "one", "zero\none")
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["unconfirmed"]
        await bench.type("a.py", "four", "FOUR")  # the very edit, however it came
        assert [(edit.before, edit.after) for edit in bench.landed()] == [("four\n", "FOUR\n")]

    play(root, story)


def test_the_same_edit_of_another_line_leaves_the_first_awaited(root: Path) -> None:
    (root / "a.py").write_text("x\na\nb\nc\nx\nd\n")

    async def story(bench: Bench) -> None:
        await bench.open("a.py")
        wake = hang(bench)
        first = await accept(bench, "a.py", "y\na\nb\nc\nx\nd\n")
        await anyio.sleep(GIVEN_UP_S)
        assert first.outcomes is not None
        await accept(bench, "a.py", "x\na\nb\nc\ny\nd\n")
        await anyio.sleep(0.5)
        wake()
        await anyio.sleep(5)
        assert bench.text("a.py") == "y\na\nb\nc\ny\nd\n"
        assert sorted(edit.range.start.line for edit in bench.landed()) == [0, 4]
        assert await bench.rewind() == [None, None]
        assert bench.text("a.py") == "x\na\nb\nc\nx\nd\n"

    play(root, story)


def test_a_file_that_went_away_shows_no_late_edit(root: Path) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.py")
        hang(bench)
        await accept(bench, "a.py", "")
        await anyio.sleep(GIVEN_UP_S)
        bench.editor._inbox.clear()
        (root / "a.py").unlink()
        bench.editor.close(bench.uri("a.py"))
        await anyio.sleep(1)
        assert bench.landed() == []

    play(root, story)


@pytest.mark.parametrize("answers", ["null", "no", "error"])
@pytest.mark.parametrize("tells", ["after", "debounced"])
def test_an_edit_that_is_shown_after_an_answer_that_says_nothing_or_no_has_landed(
    root: Path, answers: str, tells: str
) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.py")
        proposed = await accept(bench, "a.py", MENDED)
        await anyio.sleep(15)
        assert bench.text("a.py") == MENDED
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["landed"]
        assert not [message for message in bench.editor.messages if "did not apply" in message]

    play(root, story, Manners(answers=answers, tells=tells, delay=0.3))  # type: ignore[arg-type]
