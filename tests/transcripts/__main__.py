"""Records the transcripts anew: `python -m tests.transcripts [NAME...]`.

Each story is told by the real server and a fake editor; the values of its event stream are written to `NAME.jsonl`,
one a line, and the views that the reference (`dsh_lsp/session/view.py`) comes to beside it, to `NAME.views.json`: a
list of `{after, state, waitingFor?, view}`, where `after` counts the values that were folded: a view wherever
the state changes or text begins or ceases to stream, and one at the end.

Rules: ids, times, folders, ports and the joining of frames are made the same in every run, so that a new recording
differs only where the protocol does, and in the order of what tools side by side said.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.support.model_server import FakeModelServer
from tests.transcripts.stories import CALC, STORIES, Story
from tests.transcripts.views import checkpoints

FOLDER = Path(__file__).parent
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")

PORT = re.compile(r"127\.0\.0\.1:\d+")


async def record(story: Story) -> list[dict[str, Any]]:
    """Tell a story and return what an editor was told."""
    with tempfile.TemporaryDirectory() as folder, FakeModelServer() as model:
        root = Path(folder) / "project"
        root.mkdir()
        (root / "calc.py").write_text(CALC)
        told = await story(root, model)
        return [json.loads(line) for line in _settled(told, Path(folder))]


def _settled(values: Iterable[dict[str, Any]], folder: Path) -> Iterator[str]:
    """The same text in every run."""
    names: dict[str, str] = {}
    for number, value in enumerate(_joined(values)):
        data = value["data"]
        if value["type"] == "request/header":  # what the model is told of the tools is none of a screen's business
            data = {**data, "header": {"config": data["header"]["config"]}}
        line = json.dumps({**value, "time": 1_700_000_000_000 + number, "data": data}, ensure_ascii=False)
        for found in ID.findall(line):
            names.setdefault(found, f"id-{len(names) + 1}")
        line = PORT.sub("127.0.0.1:8000", ID.sub(lambda match: names[match.group()], line))
        yield line.replace(folder.as_uri(), "file:///home/user").replace(str(folder), "/home/user")


def _joined(values: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Frames of one block as two: how they fell together depends on the clock."""
    frames: dict[str, list[dict[str, Any]]] = {}
    for value in values:
        if value["type"] == "assistant/stream":
            place = {key: item for key, item in value["data"].items() if key != "text"}
            frames.setdefault(json.dumps(place), []).append(value)
            continue
        yield from _halves(frames)
        frames = {}
        yield value
    yield from _halves(frames)


def _halves(frames: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for block in frames.values():
        text = "".join(frame["data"]["text"] for frame in block)
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            if piece:
                yield {**block[0], "data": {**block[0]["data"], "text": piece}}


def main() -> None:
    """Record the named stories, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.transcripts", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *STORIES], help="stories; all of them if none is named")
    for name in parser.parse_args().names or STORIES:
        values = asyncio.run(record(STORIES[name]))
        lines = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values]
        (FOLDER / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        views = json.dumps(list(checkpoints(values)), ensure_ascii=False, separators=(",", ":"))
        (FOLDER / f"{name}.views.json").write_text(f"{views}\n")
        print(f"{name}: {len(values)} values")


if __name__ == "__main__":
    main()
