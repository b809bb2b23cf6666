"""Overtaken edits: those that keys come before, in editors that do not say so."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.support.review_bench import SOON_S, Bench, play
from tests.support.simulated_manners import Manners

KEY_S = 0.05
LINK_S = 0.06  # a key falls while an edit is on its way, each time


@pytest.mark.parametrize("stale", ["yes", "no", "null"])
def test_an_accepted_edit_that_keys_overtake_lands_when_they_pause(tmp_path: Path, stale: str) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", "one\n2\n"))
        await anyio.sleep(0.5)
        bench.reviews.accept("all", uri=None, edited={})
        for _ in range(60):
            bench.editor.type(bench.uri("a.txt"), 0, 0, "x")
            await anyio.sleep(KEY_S)
        assert not bench.landed()
        await anyio.sleep(SOON_S)
        assert bench.decided() == ["landed"]
        assert proposed.outcomes is not None
        assert not [told for told in bench.editor.messages if "did not apply" in told]
        assert bench.text("a.txt") == "x" * 60 + "one\n2\n"

    play(tmp_path, story, Manners(name="a slow one", link=LINK_S, stale=stale))  # type: ignore[arg-type]


@pytest.mark.parametrize("stale", ["no", "error"])
@pytest.mark.parametrize(
    ("at", "key"), [(3, "x"), (4, "x"), (3, "\n"), (8, "x")], ids=["above", "below", "enter", "far"]
)
def test_lines_to_be_put_in_are_put_in_though_somebody_types_beside_their_place(
    tmp_path: Path, stale: str, at: int, key: str
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        bench.propose(await bench.edit("a.txt", "one\nnew\ntwo\n"))
        await anyio.sleep(0.5)
        bench.reviews.accept("all", uri=None, edited={})
        for _ in range(12):
            bench.editor.type(bench.uri("a.txt"), at, at, key)
            await anyio.sleep(KEY_S)
        await anyio.sleep(SOON_S)
        assert bench.decided() == ["landed"]
        lines = bench.text("a.txt").splitlines()
        assert lines.count("new") == 1
        assert bench.text("a.txt").replace("new\n", "", 1) == "one\ntwo\n"[:at] + key * 12 + "one\ntwo\n"[at:]

    play(tmp_path, story, Manners(name="a slow one", link=LINK_S, stale=stale))  # type: ignore[arg-type]


def test_an_edit_of_the_last_line_that_a_key_overtakes_joins_no_line_to_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        bench.propose(await bench.edit("a.txt", "one\n2"))
        await anyio.sleep(0.5)
        bench.reviews.accept("all", uri=None, edited={})
        bench.editor.type(bench.uri("a.txt"), 8, 8, "mine")
        await anyio.sleep(SOON_S)
        assert bench.decided() == ["landed"]
        assert bench.text("a.txt") == "one\n2\nmine"

    play(tmp_path, story, Manners(name="a slow one", link=LINK_S))
