"""Documents: what a keystroke and an edit of the agent cost in files of 1,000, 100,000 and 1,000,000 lines.

The baselines are the same keystroke in pygls' own document, and ours in the shortest file: the cost must not grow
with the document. Ours is measured with a hunk waiting for review in the document, which has to be moved each time.

A formatter may change a whole document in which many hunks wait: the baseline is one comparison of the two texts.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from lsprotocol import types
from pygls.workspace import TextDocument

from dsh_lsp.abort import AbortSignal
from dsh_lsp.events import TurnStart
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import ClientProfile, Editor
from dsh_lsp.lsp.review import Reviews
from dsh_lsp.lsp.workspace import EditorWorkspace
from dsh_lsp.plugins.tools.edit_file import EditFile, EditFileArgs
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.tools.tool import Execution
from dsh_lsp.workspace.changes import Prepared
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.edits import FileEdit, Hunk
from dsh_lsp.workspace.passage import Passage
from dsh_lsp.workspace.paths import Guarded
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Change, Span
from tests.benchmarks import Ratio, interleave, ratio, seconds

ROUNDS = 7
SIZES = (1_000, 100_000, 1_000_000)
KEYS = 50
POLL_S = 0.001
GROWTH_LIMIT = 2.0  # from the shortest to the longest; what is measured is some 100 µs long
LINE = "    value_{number} = compute(value_{number}, other_{number})\n"


FORMATTED_LINES, WAITING, FORMATTED = 5_000, 200, 150
FORMATTED_LIMIT = 10.0  # to one comparison; one for each hunk would be 200


class _Tasks:
    """Starts tasks, as a task group does."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start_soon(self, function: Callable[..., Any], *args: Any) -> None:
        task = asyncio.ensure_future(function(*args))
        self._running.add(task)
        task.add_done_callback(self._running.discard)


class _Bench:
    """One document under review, with an editor that applies whatever it is sent at once."""

    def __init__(self, folder: Path, lines: int) -> None:
        text = "".join(LINE.format(number=number) for number in range(lines))
        self.path = folder / f"{lines}.py"
        self.path.write_text(text)
        self.uri = self.path.as_uri()
        self.lines = lines
        self.documents = Documents()
        self.documents.open(self.uri, 1, text)
        self.upstream = TextDocument(self.uri, source=text, version=1)
        ids = count()
        log = SessionLog(SessionHeader(id="s1", created_at=0, cwd=str(folder)), clock=lambda: 0)
        log.append(TurnStart(turn=1))
        editor = Editor(self, ClientProfile(name="benchmark"))
        self.reviews = Reviews(
            log=log,
            documents=self.documents,
            editor=editor,
            tasks=_Tasks(),  # type: ignore[arg-type]
            new_id=lambda: f"h{next(ids)}",
            root=folder,
            copies=Copies(folder / "copies"),
        )
        guarded = Guarded(keys=lambda: ["a-key-that-is-in-use"])
        self.workspace = EditorWorkspace(folder, self.documents, self.reviews, guarded)
        self._edits = count()
        self._keys = count()

    async def request(self, method: str, params: dict[str, Any], *, timeout_s: float | None) -> Any:
        assert method == "workspace/applyEdit"
        for change in params["edit"]["documentChanges"]:
            contents = [{"range": edit["range"], "text": edit["newText"]} for edit in change["edits"]]
            self.documents.change(self.uri, change["textDocument"]["version"] + 1, contents)
        return {"applied": True}

    def notify(self, method: str, params: Any | None = None) -> None:
        pass

    def press(self, deliver: Callable[[int, dict[str, Any]], None], keys: int = KEYS) -> float:
        """Type in the middle, a new line now and then."""
        began = time.perf_counter()
        for key in range(keys):
            where = {"line": self.lines // 2 + key, "character": 8}
            text = "\n" if key % 10 == 9 else "x"
            deliver(next(self._keys) + 2, {"range": {"start": where, "end": where}, "text": text})
        return (time.perf_counter() - began) / keys

    def ours(self) -> float:
        return self.press(lambda version, change: self.documents.change(self.uri, version, [change]))

    def theirs(self) -> float:
        def deliver(_version: int, change: dict[str, Any]) -> None:
            start, end = (types.Position(**change["range"][edge]) for edge in ("start", "end"))
            self.upstream.apply_change(
                types.TextDocumentContentChangePartial(range=types.Range(start, end), text=change["text"])
            )

        return self.press(deliver, keys=KEYS if self.lines == SIZES[0] else 1)  # up to a second each

    async def edit(self) -> float:
        """Change one line by the tool and a review; the processor's time, for the pauses are the same in all."""
        document = self.documents.at(self.path)
        assert document is not None
        document.changed_at = float("-inf")
        old = document.rope.line(self.lines // 3)
        new = f"    edit_{next(self._edits)} = {self.lines}\n"
        args = EditFileArgs(path=self.path.name, old_text=old, new_text=new)
        began = time.process_time()
        async with anyio.create_task_group() as group:
            group.start_soon(self._execute, args)
            await self._shown()
            self.reviews.accept("all", uri=None, edited={})
        spent = time.process_time() - began
        assert document.rope.line(self.lines // 3) == new
        return spent

    async def _execute(self, args: EditFileArgs) -> None:
        execution = Execution(call_id="c", name="edit_file", arguments={}, turn=1, step=1, signal=AbortSignal())
        output = await EditFile(self.workspace).execute(args, execution)
        assert not output.is_error, output.text

    async def wait_for_review(self) -> None:
        """Leave a hunk waiting, so that every change has to be followed."""
        base = await self.workspace.read(self.path.name)
        edit = FileEdit(path=base.path, base=base, new=base.rope.replaced((1, 0), (1, 4), "\t"))
        asyncio.ensure_future(self.reviews.propose([Prepared(change=edit, path=self.path)], signal=AbortSignal()))  # noqa: RUF006
        await self._shown()

    async def _shown(self) -> None:
        while not self.reviews.pending_at(str(self.path)):  # noqa: ASYNC110 - it must cost nothing itself
            await anyio.sleep(POLL_S)


class _Formatter:
    """A document of which a formatter changes some lines, telling of all, while many hunks wait in it."""

    def __init__(self) -> None:
        chance = random.Random(1)
        lines = [LINE.format(number=number) for number in range(FORMATTED_LINES)]
        self.before = Rope.of("".join(lines))
        starts = (self.before.offset_at((number * FORMATTED_LINES // WAITING, 0)) for number in range(WAITING))
        self.hunks = [Hunk(id="h", span=Span(start, start), old="", new="new\n") for start in starts]
        for _ in range(FORMATTED):
            lines[chance.randrange(len(lines))] = f"formatted = {chance.random()}\n"
        self.after = "".join(lines)

    def follow(self) -> float:
        after = Rope.of(self.after)
        passage = Passage(self.before, after, [Change(Span(0, len(self.before)), self.after)])
        return seconds(lambda: [passage.follow(hunk) for hunk in self.hunks])

    def compare(self) -> float:
        after = Rope.of(self.after)
        return seconds(lambda: self.before.line_changes(after))


def run(rounds: int = ROUNDS) -> list[Ratio]:
    """Compare keystrokes and edits, by the size of the document and with pygls."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        files = {size: _Bench(Path(folder).resolve(), size) for size in SIZES}
        work: dict[str, Callable[[], float]] = {}
        for size, file in files.items():
            runner.run(file.edit())
            work[f"edit {size}"] = lambda file=file: runner.run(file.edit())  # type: ignore[misc]
        edits = interleave(rounds, work)
        for file in files.values():
            runner.run(file.wait_for_review())
        keys = interleave(
            rounds,
            {f"{name} {size}": getattr(file, name) for size, file in files.items() for name in ("ours", "theirs")},
        )
    formatter = _Formatter()
    formatted = interleave(rounds, {"follow": formatter.follow, "compare": formatter.compare})
    small, large = SIZES[0], SIZES[-1]
    return [
        *(
            ratio(
                f"keystroke in {size:,} lines, to pygls",
                keys[f"ours {size}"],
                keys[f"theirs {size}"],
                scale=1e6,
                unit="µs",
            )
            for size in SIZES
        ),
        ratio(
            "keystroke in 1,000,000 lines, to 1,000",
            keys[f"ours {large}"],
            keys[f"ours {small}"],
            limit=GROWTH_LIMIT,
            scale=1e6,
            unit="µs",
        ),
        ratio("an edit in 1,000,000 lines, to a keystroke of pygls", edits[f"edit {large}"], keys[f"theirs {large}"]),
        ratio("an edit in 100,000 lines, to 1,000", edits[f"edit {SIZES[1]}"], edits[f"edit {small}"]),
        ratio("an edit in 1,000,000 lines, to 1,000", edits[f"edit {large}"], edits[f"edit {small}"]),
        ratio(
            "200 hunks through a formatter, to one comparison",
            formatted["follow"],
            formatted["compare"],
            limit=FORMATTED_LIMIT,
        ),
    ]
