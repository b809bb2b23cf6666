"""Unopened: a client of ours edits files that it has not opened, and is believed for what the text shows alone."""

from __future__ import annotations

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from dsh_lsp.workspace.edits import FileEdit
from dsh_lsp.workspace.rope import Rope
from tests.support.review_bench import HONEST, SOON_S, Bench, play
from tests.support.simulated_manners import Manners

BEFORE = "one\r\ntwo 😀\r\nthree\r\n"
FILES = {"a.txt": BEFORE}
AFTER = BEFORE.replace("two 😀", "2 😀").replace("three", "3")
OURS = Manners(name="a client of ours", saves=True, reviews=True)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_the_editor_makes_the_edit_in_a_buffer_and_saves_it(root, encoding) -> None:
    async def story(bench: Bench) -> None:
        (outcome,) = await bench.land(await bench.edit("a.txt", AFTER))
        assert (outcome.outcome, outcome.note) == ("landed", "saved")
        assert bench.text("a.txt") == AFTER
        assert (root / "a.txt").read_bytes() == AFTER.encode()
        (landed,) = bench.landed()
        assert landed.version is not None
        assert await bench.rewind() == [None]
        assert (root / "a.txt").read_bytes() == BEFORE.encode()

    play(root, story, replace(OURS, encoding=encoding))


@pytest.mark.parametrize("after", [AFTER, ""], ids=["changed", "emptied"])
def test_a_buffer_that_the_server_is_not_told_of_is_seen_by_its_file(root, after) -> None:
    async def story(bench: Bench) -> None:
        (outcome,) = await bench.land(await bench.edit("a.txt", after))
        assert (outcome.outcome, outcome.note) == ("landed", "saved")
        assert (root / "a.txt").read_bytes() == after.encode()
        (landed,) = bench.landed()
        assert landed.version is None

    play(root, story, replace(OURS, opens="silently"))


def test_an_editor_that_says_yes_and_does_nothing_is_not_confirmed_and_what_comes_later_is_seen(root) -> None:
    async def story(bench: Bench) -> None:
        proposed = bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(0.5)
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(12)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["unconfirmed"]
        assert bench.landed() == []
        bench.editor.type(bench.uri("a.txt"), 0, len(BEFORE), AFTER)
        await anyio.sleep(1)
        assert len(bench.landed()) == 1

    play(root, story, replace(OURS, lies=1))


def test_what_changed_on_disk_meanwhile_is_kept_and_lines_of_our_own_that_changed_are_a_conflict(root) -> None:
    async def story(bench: Bench) -> None:
        proposed = bench.propose(await bench.edit("a.txt", AFTER.replace("3", "three")))
        other = bench.propose(await bench.edit("a.txt", BEFORE.replace("three", "drei")))
        await anyio.sleep(0.5)
        (root / "a.txt").write_bytes(b"zero\r\n" + BEFORE.encode().replace(b"three", b"3"))
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(3)
        assert [o.outcome for p in (proposed, other) for o in p.outcomes or ()] == ["landed", "conflict"]
        assert (root / "a.txt").read_text() == "zero\none\n2 😀\n3\n"

    play(root, story, OURS)


def test_a_file_that_is_gone_is_not_made_anew(root) -> None:
    async def story(bench: Bench) -> None:
        proposed = bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(0.5)
        (root / "a.txt").unlink()
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(1)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["notLanded"]
        assert not (root / "a.txt").exists()

    play(root, story, OURS)


def test_a_refusal_leaves_it_waiting_and_its_user_is_told(root) -> None:
    async def story(bench: Bench) -> None:
        bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(0.5)
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(SOON_S)
        assert bench.reviews.pending_count() == 1
        assert any("still waits" in message for message in bench.editor.messages)
        assert (root / "a.txt").read_bytes() == BEFORE.encode()

    play(root, story, replace(OURS, refuses=True))


@pytest.mark.parametrize("manners", [OURS, HONEST, Manners(name="one that saves nothing")], ids=lambda m: m.name)
@pytest.mark.parametrize("opened", [True, False])
def test_a_link_that_takes_a_folders_place_meanwhile_is_not_written_through(root, manners, opened: bool) -> None:
    outside = root.parent / "outside"
    for folder in (root / "d", outside):
        folder.mkdir()
        (folder / "a.txt").write_bytes(BEFORE.encode())

    async def story(bench: Bench) -> None:
        if opened:
            await bench.open("d/a.txt")
        proposed = bench.propose(
            await bench.edit("d/a.txt", AFTER), FileEdit(path="d/n", base=None, new=Rope.of("n"))
        )
        await anyio.sleep(0.5)
        (root / "d").rename(root.parent / "old")
        (root / "d").symlink_to(outside)
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(SOON_S)
        assert proposed.outcomes is not None
        assert {outcome.outcome for outcome in proposed.outcomes} == {"notLanded"}
        assert all("leads elsewhere" in str(outcome.note) for outcome in proposed.outcomes)

    play(root, story, manners)
    assert [path.name for path in outside.iterdir()] == ["a.txt"]
    assert (outside / "a.txt").read_bytes() == BEFORE.encode()


def test_a_file_that_is_opened_and_typed_into_while_it_is_sent_keeps_the_edit_in_its_place(root) -> None:
    async def story(bench: Bench) -> None:
        proposed = bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(0.5)
        items = bench.reviews.pending()
        bench.reviews.accept("all", uri=None, edited={})
        while items[0].state != "sent":
            await anyio.lowlevel.checkpoint()
        bench.editor.open(root / "a.txt")
        bench.editor.type(bench.uri("a.txt"), 0, 0, "zero\r\nmore\r\n")
        await anyio.sleep(SOON_S)
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(20)
        assert bench.text("a.txt") == "zero\r\nmore\r\n" + AFTER
        assert proposed.outcomes is not None
        assert {outcome.outcome for outcome in proposed.outcomes} == {"landed"}

    play(root, story, OURS)


@pytest.mark.parametrize("answers", ["no", "error"])
def test_an_edit_that_is_made_in_spite_of_a_no_is_seen(root, answers) -> None:
    async def story(bench: Bench) -> None:
        (outcome,) = await bench.land(await bench.edit("a.txt", AFTER))
        assert outcome.outcome == "landed"
        assert bench.text("a.txt") == AFTER
        assert len(bench.landed()) == 1

    play(root, story, replace(OURS, answers=answers))
