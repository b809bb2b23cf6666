"""Saving: what the user has typed and not saved is never saved for them, however late it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.review_bench import Bench, play
from tests.support.simulated_buffer import Application

FILES = {"a.py": "a\nb\nc\n"}


@pytest.mark.parametrize("late_s", [0.001, 0.003, 0.05, 0.203])
def test_what_is_typed_right_behind_an_edit_is_not_saved_with_it(root: Path, late_s: float) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.py")
        watch = bench.editor.applied

        def type_soon(one: Application) -> None:
            watch(one)
            asyncio.get_running_loop().call_later(late_s, bench.editor.type, bench.uri("a.py"), 0, 0, "mine ")

        bench.editor.applied = type_soon
        (outcome,) = await bench.land(await bench.edit("a.py", "a\nB\nc\n"))
        assert (outcome.outcome, outcome.note) == ("landed", "not saved: the user has changed the document since")
        assert bench.text("a.py") == "mine a\nB\nc\n"
        assert (root / "a.py").read_bytes() == b"a\nb\nc\n"

    play(root, story)


def test_an_empty_document_without_a_file_is_saved_with_its_first_text(root: Path) -> None:
    async def story(bench: Bench) -> None:
        (root / "b.py").write_bytes(b"")
        await bench.open("b.py")
        (root / "b.py").unlink()
        (outcome,) = await bench.land(await bench.edit("b.py", "x\n"))
        assert (outcome.outcome, outcome.note) == ("landed", "saved")
        assert (root / "b.py").read_bytes() == b"x\n"

    play(root, story)


def test_a_document_with_unsaved_text_stays_unsaved(root: Path) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.py")
        await bench.type("a.py", "c", "C")
        (outcome,) = await bench.land(await bench.edit("a.py", "a\nB\nC\n"))
        assert outcome.note == "not saved: the document and its file differed before the edit"
        assert (root / "a.py").read_bytes() == b"a\nb\nc\n"

    play(root, story)
