"""A preview of the editor's own that stays open after its hunks were decided: what it applies then is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.lsp.proposal import STILL_SHOWN
from tests.support.review_bench import Bench, play


@pytest.mark.parametrize(("decides", "outcome"), [("cancels", "unconfirmed"), ("rejects", "rejected")])
def test_what_a_preview_applies_after_the_decision_is_logged_and_taken_back(
    tmp_path: Path, decides: str, outcome: str
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_bytes(b"a\nb\nc\n")

    async def story(bench: Bench) -> None:
        await bench.open("a.py")
        clicked, request = anyio.Event(), bench.editor.request

        async def hold(method: str, params: dict[str, Any], *, timeout_s: float | None) -> Any:
            if "changeAnnotations" in params.get("edit", {}):
                await clicked.wait()
            return await request(method, params, timeout_s=timeout_s)

        bench.editor.request = hold  # type: ignore[method-assign]
        proposed = bench.propose(await bench.edit("a.py", "a\nB\nc\n"))
        await anyio.sleep(5)
        if decides == "cancels":
            proposed.signal.abort(USER)
        else:
            bench.reviews.reject("all", uri=None, comment="no")
        await anyio.sleep(0.5)
        assert bench.decided() == [outcome]
        (told,) = proposed.outcomes or ()
        assert (told.note == STILL_SHOWN) == (decides == "cancels")
        clicked.set()
        await anyio.sleep(3)
        assert bench.text("a.py") == "a\nB\nc\n"
        assert len(bench.landed()) == 1
        assert await bench.rewind() == [None]
        assert bench.text("a.py") == "a\nb\nc\n"

    play(root, story, previews_edits=True)
