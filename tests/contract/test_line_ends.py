r"""Line ends: what editors make of them does not change whether an edit stands, and what cannot be sent is not."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.support.review_bench import Bench, play


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_an_editor_that_does_not_end_lines_at_a_return_is_sent_no_edit_of_them(root: Path) -> None:
    (root / "a.txt").write_bytes(b"a\rb\rc\n")

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        (outcome,) = await bench.land(await bench.edit("a.txt", "a\rB\rc\n"))
        assert outcome.outcome == "notLanded"
        assert "\\r" in (outcome.note or "")
        assert bench.text("a.txt") == "a\rb\rc\n"

    play(root, story, name="Neovim")


@pytest.mark.parametrize("opened", [True, False])
def test_a_hunk_whose_old_text_is_put_back_ends_at_once_and_changes_nothing(root: Path, opened: bool) -> None:
    (root / "a.txt").write_bytes(b"a\nb\nc\n")

    async def story(bench: Bench) -> None:
        if opened:
            await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", "a\nB\nc\n"))
        await anyio.sleep(0.5)
        (item,) = bench.reviews.pending()
        bench.reviews.accept([item.hunk.id], uri=None, edited={item.hunk.id: "b\n"})
        await anyio.sleep(1)
        assert proposed.outcomes is not None
        assert [(one.outcome, one.edited) for one in proposed.outcomes] == [("landed", True)]
        assert (root / "a.txt").read_bytes() == b"a\nb\nc\n"

    play(root, story)
