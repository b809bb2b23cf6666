"""Transcripts: the reference comes to the views that stand beside them, as every client must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsh_lsp.events import TAGS
from tests.transcripts.stories import STORIES
from tests.transcripts.views import checkpoints

FOLDER = Path(__file__).parents[1] / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def values_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_comes_to_the_views_beside_a_transcript(name: str) -> None:
    expected = json.loads((FOLDER / f"{name}.views.json").read_text())
    assert list(checkpoints(values_of(name))) == expected, f"record it again: python -m tests.transcripts {name}"


def test_every_story_is_recorded_and_no_other() -> None:
    assert set(NAMES) == set(STORIES)


def test_every_event_that_is_sent_is_in_a_transcript() -> None:
    told = {value["type"] for name in NAMES for value in values_of(name)}
    untold = set(TAGS.values()) - {"assistant/chunk"} - told
    assert not untold, "tell them in tests/transcripts/stories.py, so that the clients are held to them"
