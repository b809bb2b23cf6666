r"""Line ends: what editors make of them does not change whether an edit stands, and what cannot be sent is not."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from dsh_lsp.workspace.edits import Hunk, with_text
from dsh_lsp.workspace.passage import Landed, judge
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Span
from tests.support.review_bench import Bench, play


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


@pytest.mark.parametrize(
    ("before", "new", "shown"),
    [
        ("a\r\nb\r\nc\n", "B\r\nB2\r\n", "a\r\nB\nB2\r\nc\n"),
        ("a\r\nb\r\nc\r\n", "B\nB2\n", "a\r\nB\r\nB2\r\nc\r\n"),
        ("a\nb\nc\n", "B\r\n", "a\nB\nc\n"),
    ],
)
def test_a_hunk_whose_lines_stand_there_with_other_ends_has_landed(before: str, new: str, shown: str) -> None:
    start = before.index("b")
    end = before.index("c")
    hunk = Hunk(id="h", span=Span(start, end), old=before[start:end], new=new)
    verdict = judge(Rope.of(before), [hunk], Rope.of(shown))["h"]
    assert verdict == Landed(Span(shown.index("B"), shown.index("c")))


def test_what_is_typed_in_the_place_of_a_hunk_gets_its_line_ends() -> None:
    hunk = Hunk(id="h", span=Span(0, 3), old="b\r\n", new="B\r\n")
    assert with_text(hunk, "B1\nB2\n").new == "B1\r\nB2\r\n"
    assert with_text(hunk, "B1\nB2").new == "B1\r\nB2\r\n"
    assert with_text(hunk, "B\n") is hunk
    assert with_text(hunk, "b\n").new == hunk.old


@pytest.mark.parametrize(
    ("on_disk", "told"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb\nc\n"),
        ("a\r\nb\nc\r\n", "a\r\nb\r\nc\r\n"),
        ("a\nb\nc\r\n", "a\r\nb\r\nc\r\n"),
    ],
)
def test_what_waits_or_landed_stays_when_an_editor_opens_the_file_with_other_line_ends(
    root: Path, on_disk: str, told: str
) -> None:
    (root / "a.txt").write_bytes(on_disk.encode())

    async def story(bench: Bench) -> None:
        proposed = bench.propose(await bench.edit("a.txt", on_disk.replace("b", "B")))
        await anyio.sleep(0.5)
        bench.documents.open(bench.uri("a.txt"), 1, told)
        await anyio.sleep(0.5)
        (item,) = bench.reviews.pending()
        assert item.hunk.new == told[told.index("b") : told.index("c")].replace("b", "B")
        bench.documents.close(bench.uri("a.txt"))
        await anyio.sleep(0.5)
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(1)
        assert proposed.outcomes is not None
        assert [one.outcome for one in proposed.outcomes] == ["landed"]
        assert (root / "a.txt").read_bytes().decode().replace("\r\n", "\n") == "a\nB\nc\n"
        (root / "a.txt").write_bytes(told.replace("b", "B").encode())
        assert await bench.rewind() == [None]
        assert (root / "a.txt").read_bytes().decode() == told

    play(root, story)
