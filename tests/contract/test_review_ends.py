"""Review ends: what a cancel says of hunks that were sent, and what a session leaves behind when it is closed."""

from __future__ import annotations

import gc
import weakref

import anyio
import anyio.lowlevel
import pytest

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.errors import ToolError
from dsh_lsp.events import Ended, TurnEnd, TurnStart
from dsh_lsp.lsp.landed import MAX_MARKS
from dsh_lsp.workspace.report import describe_outcomes
from dsh_lsp.workspace.text import Span
from tests.support.review_bench import SOON_S, Bench, play
from tests.support.review_scenarios import EDITORS
from tests.support.simulated_manners import Manners

BEFORE = "one\ntwo\nthree\n"
FILES = {"a.txt": BEFORE}
AFTER = BEFORE.replace("two", "2")
EGLOT = Manners(name="eglot", tells="debounced", delay=0.5, stale="error")
PLAIN = Manners()
LIAR = Manners(name="a liar", lies=1)
TOLD_S = 0.15  # when Neovim tells of a change


async def accept(bench: Bench) -> None:
    await anyio.sleep(0.5)
    bench.reviews.accept("all", uri=None, edited={})


def test_a_cancel_while_a_refused_edit_waits_for_newer_text_says_that_nothing_was_changed(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", AFTER))
        await accept(bench)
        for number in range(8):  # so quickly that the editor does not tell of it
            bench.editor.type(bench.uri("a.txt"), 0, 0, str(number))
            await anyio.sleep(0.1)
        assert proposed.outcomes is None, "it waits"
        proposed.signal.abort(USER)
        await anyio.lowlevel.checkpoint()
        bench.editor.type(bench.uri("a.txt"), 0, 0, "8")
        await anyio.sleep(SOON_S)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["cancelled"]
        assert bench.text("a.txt") == "876543210" + BEFORE
        assert bench.landed() == []

    play(root, story, EGLOT)


def test_a_cancel_while_an_edit_that_was_answered_for_is_not_seen_says_that_it_may_still_come(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", AFTER))
        await accept(bench)
        await anyio.sleep(1)
        proposed.signal.abort(USER)
        await anyio.sleep(0.1)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["unconfirmed"]

    play(root, story, LIAR)


def test_a_closed_session_follows_no_document_and_is_forgotten(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", AFTER))
        await accept(bench)
        await anyio.sleep(12)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["unconfirmed"]
        (again,) = await bench.land(await bench.edit("a.txt", BEFORE.replace("three", "3")))
        assert again.outcome == "landed"
        bench.reviews.close()
        told = []
        bench.documents.changed.listen(told.append)
        await bench.type("a.txt", "two", "2")
        assert bench.text("a.txt") == AFTER.replace("three", "3")
        assert told == [], "nobody watches the document any more"
        assert [edit.after for edit in bench.landed()] == ["3\n"], "what comes later is nobody's"
        gone = weakref.ref(bench.reviews)
        bench.reviews = bench.workspace = bench.log = None  # type: ignore[assignment]
        del proposed
        gc.collect()
        assert gone() is None

    play(root, story, LIAR)


def test_a_document_is_watched_for_a_late_edit_until_that_is_seen(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        bench.propose(await bench.edit("a.txt", AFTER))
        await accept(bench)
        await anyio.sleep(12)
        await bench.type("a.txt", "two", "2")
        assert [edit.after for edit in bench.landed()] == ["2\n"]
        bench.editor.close(bench.uri("a.txt"))  # and with it the places of what landed
        await bench.open("a.txt")
        told = []
        bench.documents.changed.listen(told.append)
        await bench.type("a.txt", "one", "1")
        assert told == []

    play(root, story, LIAR)


def test_the_places_of_edits_of_long_ago_are_not_followed_and_then_the_lines_beside_them_must_stand(root) -> None:
    lines = [f"line {number}\n" for number in range(2 * MAX_MARKS + 10)]
    (root / "a.txt").write_text("".join(lines))

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        landed = bench.reviews.landed
        await bench.land(await bench.edit("a.txt", bench.text("a.txt").replace("line 0\n", "first\n")))
        await bench.land(await bench.edit("a.txt", bench.text("a.txt").replace("line 4\n", "fifth\n")))
        fifth, first = landed.of_turn(1)
        await bench.type("a.txt", "line 1\n", "second\n")
        bench.log.append(TurnEnd(turn=1, reason=Ended(kind="completed")))
        bench.log.append(TurnStart(turn=2))
        now = bench.text("a.txt").splitlines(keepends=True)
        many = "".join(f"{n}!\n" if n > 6 and n % 2 else line for n, line in enumerate(now))
        await bench.land(await bench.edit("a.txt", many))
        assert len(landed.at(str(root / "a.txt"))) > MAX_MARKS, "those of the last turn are all there"
        assert landed.plan(first).span == Span(0, 6)
        bench.log.append(TurnEnd(turn=2, reason=Ended(kind="completed")))
        bench.log.append(TurnStart(turn=3))
        plan = landed.plan(fifth)
        assert plan.text[plan.span.start : plan.span.end] == "fifth\n"
        with pytest.raises(ToolError, match="beside them, were changed"):
            landed.plan(first)

    play(root, story, PLAIN)


def test_a_file_with_two_texts_in_the_editor_is_not_edited_until_they_agree(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "l.txt").symlink_to("a.txt")

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.open("l.txt")
        waiting = bench.propose(await bench.edit("a.txt", "one\n2\n"))
        await anyio.sleep(0.5)
        await bench.type("l.txt", "one", "mine")
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(SOON_S)
        assert waiting.outcomes is not None
        assert "with different texts" in describe_outcomes(waiting.outcomes)
        with pytest.raises(ToolError, match="with different texts"):
            await bench.workspace.propose([await bench.edit("a.txt", "one\n2\n")], signal=AbortSignal())
        assert (bench.text("a.txt"), bench.text("l.txt")) == ("one\ntwo\n", "mine\ntwo\n")
        bench.editor.close(bench.uri("l.txt"))
        await anyio.sleep(0.5)
        (outcome,) = await bench.land(await bench.edit("a.txt", "one\n2\n"))
        assert outcome.outcome == "landed"

    play(tmp_path, story)


# -- what was given up ---------------------------------------------------------------------------------------


async def give_up(bench: Bench) -> None:
    """An edit is accepted, answered for, and never seen."""
    await bench.open("a.txt")
    proposed = bench.propose(await bench.edit("a.txt", AFTER))
    await accept(bench)
    await anyio.sleep(12)
    assert proposed.outcomes is not None
    assert [outcome.outcome for outcome in proposed.outcomes] == ["unconfirmed"]
    assert (await bench.workspace.read("a.txt")).unconfirmed


def test_hunks_follow_the_typing_when_a_document_is_opened_again_without_having_been_closed(root) -> None:
    async def story(bench: Bench) -> None:
        (root / "a.txt").write_text("x\n" * 4)
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", "x\nx\nY\nx\n"))
        await anyio.sleep(0.5)
        await bench.type("a.txt", "x\n", "above\n" * 4 + "x\n")
        buffer = bench.editor.buffers[bench.uri("a.txt")]
        bench.documents.open(buffer.uri, buffer.version, "above\n" + bench.text("a.txt"))
        (hunk,) = bench.reviews.pending_files()[0][1].hunks
        assert hunk.range.start.line == 7
        bench.documents.open(buffer.uri, buffer.version, bench.text("a.txt"))
        await bench.type("a.txt", "above", "above all")  # which is stamped by the clock of this loop
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(SOON_S)
        assert [outcome.outcome for outcome in proposed.outcomes or ()] == ["landed"]
        assert bench.text("a.txt") == "above all\n" + "above\n" * 3 + "x\nx\nY\nx\n"

    play(root, story)


def test_what_was_given_up_is_awaited_no_longer_once_its_buffer_is_closed(root) -> None:
    async def story(bench: Bench) -> None:
        await give_up(bench)
        bench.editor.close(bench.uri("a.txt"))
        await anyio.sleep(0.1)
        assert not (await bench.workspace.read("a.txt")).unconfirmed
        await bench.open("a.txt")
        assert not (await bench.workspace.read("a.txt")).unconfirmed
        await bench.type("a.txt", "two", "2")
        assert bench.landed() == [], "that is the user's own"

    play(root, story, LIAR)


@pytest.mark.parametrize("when", ["saved before it is closed", "there when it is opened again"])
def test_what_was_given_up_has_landed_when_a_closed_and_reopened_file_shows_it(root, when: str) -> None:
    async def story(bench: Bench) -> None:
        await give_up(bench)
        if when == "saved before it is closed":
            (root / "a.txt").write_text(AFTER)
        bench.editor.close(bench.uri("a.txt"))
        await anyio.sleep(0.5)
        (root / "a.txt").write_text(AFTER)
        await bench.open("a.txt")
        await anyio.sleep(0.5)
        assert [edit.after for edit in bench.landed()] == ["2\n"]
        assert await bench.rewind() == [None]
        assert bench.text("a.txt") == BEFORE

    play(root, story, LIAR)


@pytest.mark.parametrize("story_of", ["a minute later", "after something else"])
def test_a_line_that_the_user_types_when_nothing_can_come_any_more_is_the_users(root, story_of: str) -> None:
    async def story(bench: Bench) -> None:
        await give_up(bench)
        if story_of == "a minute later":
            await anyio.sleep(60)
        else:
            await bench.type("a.txt", "one", "uno")
            await anyio.sleep(2)
        assert not (await bench.workspace.read("a.txt")).unconfirmed
        await bench.type("a.txt", "two", "2")
        assert bench.landed() == []
        assert await bench.rewind() == []

    play(root, story, LIAR)


@pytest.mark.parametrize(
    ("after", "typed"),
    [(BEFORE.replace("two\n", ""), "mine\n"), (AFTER, "2 and mine\n")],
    ids=["a deletion", "a new line"],
)
def test_an_edit_that_is_told_of_together_with_what_was_typed_over_it_is_neither_claimed_nor_denied(
    root, after: str, typed: str
) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", after))
        await accept(bench)
        await anyio.sleep(TOLD_S / 2)
        assert bench.text("a.txt") == after
        at = after.index("three") if "2" not in after else after.index("2")
        bench.editor.type(bench.uri("a.txt"), at, after.index("three"), typed)
        await anyio.sleep(SOON_S)
        assert proposed.outcomes is not None
        text = describe_outcomes(proposed.outcomes)
        assert "NOT CONFIRMED: the user changed these lines in the moment" in text
        assert text.endswith(f"a.txt now reads:\none\n{typed}three\n")
        assert bench.landed() == []

    play(root, story, Manners(tells="debounced", delay=TOLD_S))


def test_an_edit_never_goes_into_a_key_that_neovim_has_not_told_of_yet_in_a_document_just_opened(root) -> None:
    """Neovim opens documents at version 0, with which it compares nothing."""

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(0.5)
        bench.editor.type(bench.uri("a.txt"), 0, 0, "zero\n")
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(SOON_S)
        assert bench.text("a.txt") == "zero\n" + AFTER
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["landed"]

    (neovim,) = (manners for manners in EDITORS if manners.name == "Neovim at version 0")
    play(root, story, neovim)
