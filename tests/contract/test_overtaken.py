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
