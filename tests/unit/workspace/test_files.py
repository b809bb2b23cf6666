"""Files: what is accepted is written where it belongs, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import anyio
import pytest

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.decisions import EditLanded, Position, Range, ReviewDecided, ReviewOpened
from dsh_lsp.errors import ToolError
from dsh_lsp.events import TurnStart
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.edits import FileEdit, HunkOutcome
from dsh_lsp.workspace.files import Choice, Decide, FileWorkspace, HunkQuestion, accept_all, range_of
from dsh_lsp.workspace.paths import Guarded
from dsh_lsp.workspace.port import Query
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import Span


def new_workspace(root: Path, decide: Decide = accept_all) -> tuple[FileWorkspace, SessionLog]:
    log = SessionLog(SessionHeader(id="s1", created_at=0, cwd=str(root)))
    log.append(TurnStart(turn=1))
    ids = count(1)
    return FileWorkspace(
        root, log, decide=decide, new_id=lambda: f"id{next(ids)}", copies=Copies(root / "copies")
    ), log


async def propose(
    workspace: FileWorkspace, path: str, change: Callable[[str], str], signal: AbortSignal | None = None
) -> list[HunkOutcome]:
    base = await workspace.read(path)
    edit = FileEdit(path=path, base=base, new=Rope.of(change(base.text)))
    return await workspace.propose([edit], signal=signal or AbortSignal())


def events_of(log: SessionLog) -> list[str]:
    return [event.type for event in log][1:]


async def test_an_accepted_edit_lands_and_every_other_byte_stays(tmp_path: Path) -> None:
    raw = b"\xef\xbb\xbfone\r\ntwo \xf0\x9f\x90\x8d\r\nthree\nfour"
    (tmp_path / "a.txt").write_bytes(raw)
    workspace, log = new_workspace(tmp_path)
    (outcome,) = await propose(workspace, "a.txt", lambda text: text.replace("two", "2"))
    assert (tmp_path / "a.txt").read_bytes() == raw.replace(b"two", b"2")
    assert (outcome.outcome, outcome.lines, outcome.note) == ("landed", (2, 2), "saved")
    assert events_of(log) == ["review/opened", "edit/landed", "review/decided"]
    opened, landed, decided = (event.data for event in list(log)[1:])
    assert isinstance(opened, ReviewOpened)
    assert isinstance(landed, EditLanded)
    assert isinstance(decided, ReviewDecided)
    assert opened.files[0].uri == (tmp_path / "a.txt").as_uri()
    assert landed.range == Range(start=Position(line=1, character=0), end=Position(line=2, character=0))
    assert (landed.before, landed.after) == ("two \U0001f40d\r\n", "2 \U0001f40d\r\n")
    assert (landed.hunk, decided.hunks[0].id) == (opened.files[0].hunks[0].id,) * 2


async def test_each_hunk_is_decided_by_itself(tmp_path: Path) -> None:
    asked: list[HunkQuestion] = []

    async def decide(question: HunkQuestion) -> Choice:
        asked.append(question)
        return Choice(accepts=question.number == 2, comment="no, thanks")

    path = tmp_path / "a.txt"
    path.write_text("a\nb\nc\nd\ne\n")
    workspace, log = new_workspace(tmp_path, decide)
    outcomes = await propose(workspace, "a.txt", lambda text: text.replace("a\n", "A\nA\n").replace("e", "E"))
    assert path.read_text() == "a\nb\nc\nd\nE\n"
    assert [(outcome.outcome, outcome.comment) for outcome in outcomes] == [
        ("rejected", "no, thanks"),
        ("landed", None),
    ]
    assert [(question.number, question.count) for question in asked] == [(1, 2), (2, 2)]
    assert events_of(log) == ["review/opened", "review/decided", "edit/landed", "review/decided"]


async def test_a_new_file_is_created_with_its_folders(tmp_path: Path) -> None:
    workspace, log = new_workspace(tmp_path)
    edit = FileEdit(path="deep/er/new.txt", base=None, new=Rope.of("one\ntwo\n"))
    (outcome,) = await workspace.propose([edit], signal=AbortSignal())
    assert (tmp_path / "deep/er/new.txt").read_text() == "one\ntwo\n"
    assert (outcome.outcome, outcome.lines) == ("landed", (1, 2))
    assert next(event.data for event in log if isinstance(event.data, ReviewOpened)).files[0].kind == "create"


@pytest.mark.parametrize(
    ("now", "then", "outcome"),
    [
        ("a\nb\nc\n# new\n", "a\nB\nc\n# new\n", "landed"),
        ("# new\na\nb\nc\n", "# new\na\nB\nc\n", "landed"),
        ("a\nmine\nc\n", "a\nmine\nc\n", "conflict"),
        ("a\nb\nC\n", "a\nb\nnew\nC\n", "landed"),
        ("a\nmine\nC\n", "a\nmine\nC\n", "conflict"),
        ("a\nb\nc\nd\n", "a\nb\n3\nd\n", "landed"),
    ],
)
@pytest.mark.parametrize("moment", ["before the question", "while it is asked"])
async def test_what_another_program_wrote_meanwhile_stays(
    tmp_path: Path, now: str, then: str, outcome: str, moment: str
) -> None:
    proposed = {"C": "a\nb\nnew\nc\n", "d": "a\nb\n3"}.get(now[-2], "a\nB\nc\n")
    path = tmp_path / "a.txt"
    path.write_text("a\nb\nc\n")

    async def decide(_: HunkQuestion) -> Choice:
        if moment == "while it is asked":
            await anyio.Path(path).write_text(now)
        return Choice(accepts=True)

    workspace, _ = new_workspace(tmp_path, decide)
    base = await workspace.read("a.txt")
    if moment == "before the question":
        path.write_text(now)
    edit = FileEdit(path="a.txt", base=base, new=Rope.of(proposed))
    (became,) = await workspace.propose([edit], signal=AbortSignal())
    assert path.read_text() == then
    assert became.outcome == outcome
    assert became.current == (now if outcome == "conflict" else None)


async def test_edits_of_one_step_land_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\nb\nc\n")
    open_questions = 0

    async def decide(_: HunkQuestion) -> Choice:
        nonlocal open_questions
        open_questions += 1
        assert open_questions == 1
        await anyio.sleep(0.01)
        open_questions -= 1
        return Choice(accepts=True)

    workspace, _ = new_workspace(tmp_path, decide)
    outcomes: list[HunkOutcome] = []

    async def change(old: str, new: str) -> None:
        outcomes.extend(await propose(workspace, "a.txt", lambda text: text.replace(old, new)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(change, "a\n", "A\nA\n")
        tasks.start_soon(change, "c", "C")
    assert path.read_text() == "A\nA\nb\nC\n"
    assert [outcome.outcome for outcome in outcomes] == ["landed", "landed"]


async def test_a_cancel_leaves_the_file_as_it_is_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\nb\nc\n")
    signal = AbortSignal()

    async def decide(question: HunkQuestion) -> Choice:
        if question.number == 2:
            signal.abort(USER)
            await anyio.sleep_forever()
        return Choice(accepts=True)

    workspace, log = new_workspace(tmp_path, decide)
    with anyio.fail_after(5):
        outcomes = await propose(workspace, "a.txt", lambda text: text.replace("a", "A").replace("c", "C"), signal)
    assert [outcome.outcome for outcome in outcomes] == ["cancelled", "cancelled"]
    assert path.read_text() == "a\nb\nc\n"
    assert events_of(log) == ["review/opened", "review/decided"]


async def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")

    async def decide(_: HunkQuestion) -> Choice:
        await anyio.Path(tmp_path / "a.txt").unlink()
        return Choice(accepts=True)

    workspace, _ = new_workspace(tmp_path, decide)
    (outcome,) = await propose(workspace, "a.txt", str.upper)
    assert (outcome.outcome, outcome.note) == ("notLanded", "a.txt does not exist")


@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        ("../outside.txt", "x", "OUTSIDE"),
        (".git/config", "x", "RIGHTS"),
        (".vscode/tasks.json", "x", "RIGHTS"),
        ("there.txt", "x", "EXISTS"),
    ],
)
async def test_what_may_not_be_written_is_refused_before_anybody_is_asked(
    tmp_path: Path, path: str, text: str, code: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "there.txt").write_text("mine")
    workspace, log = new_workspace(root)
    with pytest.raises(ToolError) as error:
        await workspace.propose([FileEdit(path=path, base=None, new=Rope.of(text))], signal=AbortSignal())
    assert error.value.code == code
    assert events_of(log) == []


async def test_an_edit_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    workspace, log = new_workspace(tmp_path)
    with pytest.raises(ToolError) as error:
        await propose(workspace, "a.txt", lambda text: text)
    assert error.value.code == "NO_CHANGE"
    assert events_of(log) == []


async def test_the_files_below_a_folder_are_listed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/c.txt").write_text("")
    workspace, _ = new_workspace(tmp_path)
    listing = await workspace.list_files("b", limit=10)
    assert [entry.path for entry in listing.entries] == ["b/c.txt"]


def test_what_an_edit_touches_is_told(tmp_path: Path) -> None:
    workspace, _ = new_workspace(tmp_path)
    assert [effect.kind for effect in workspace.effects("../x", "edit")] == ["edit", "outside"]


async def test_another_folder_of_the_window_is_read_listed_and_searched_as_the_root_is(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
    (other / "a.txt").write_text("needle\n")
    workspace = FileWorkspace(
        root,
        new_workspace(root)[1],
        decide=accept_all,
        new_id=lambda: "id",
        copies=Copies(tmp_path / "copies"),
        guarded=Guarded(folders=lambda: [other]),
    )
    name = str(other / "a.txt")
    assert (await workspace.read(name)).text == "needle\n"
    assert await workspace.read_page(name, first=1, limit=1) is None
    assert [entry.path for entry in (await workspace.list_files(str(other), limit=9)).entries] == [name]
    assert [match.path for match in (await workspace.search(Query(pattern="needle", path=str(other)))).matches] == [
        name
    ]


def test_a_place_counts_utf_16_units() -> None:
    text = Rope.of("a\r\n\U0001f40db")
    assert range_of(text, Span(3, 5)) == Range(start=Position(line=1, character=0), end=Position(line=1, character=3))
    assert range_of(Rope.of(""), Span(0, 0)).end == Position(line=0, character=0)
