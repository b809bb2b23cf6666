"""Rewind: a turn's edits are taken back where they still stand as they landed, and nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import ReviewOpened
from dsh_lsp.events import Ended, TurnEnd, TurnStart
from dsh_lsp.workspace.edits import FileDelete, FileEdit, FileRename
from dsh_lsp.workspace.rope import Rope
from tests.support.review_bench import Bench, make_bench, play, run_virtually
from tests.support.simulated_manners import Manners

BEFORE = "one\ntwo\nthree\nfour\nfive\n"
FILES = {"a.txt": BEFORE}
AFTER = "one\n2\nthree\nfour\n4.5\nfive\n"
EDITORS = [
    Manners(name="VS Code", saves=True),
    Manners(name="stock Neovim", tells="after", delay=0.138, stale="yes"),
    Manners(name="eglot", tells="debounced", delay=0.5, stale="error"),
]


@pytest.mark.parametrize("manners", EDITORS, ids=lambda manners: manners.name)
def test_a_turn_is_rewound_in_the_buffer_and_what_the_user_typed_beside_it_stays(root, manners) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", AFTER))
        await bench.type("a.txt", "three", "THREE")
        assert await bench.rewind() == [None, None]
        assert bench.text("a.txt") == BEFORE.replace("three", "THREE")
        undone = [edit.hunk for edit in bench.landed()][:2]
        opened = [event.data for event in bench.log if isinstance(event.data, ReviewOpened)][-1]
        assert sorted(hunk.undoes for file in opened.files for hunk in file.hunks) == sorted(undone)
        assert bench.reviews.landed.of_turn(1) == []

    play(root, story, manners)


def test_a_hunk_whose_lines_the_user_has_changed_is_left_and_the_reason_told(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", AFTER))
        await bench.type("a.txt", "2\n", "2 and mine\n")
        reasons = await bench.rewind()
        assert sorted(reason is None for reason in reasons) == [False, True]
        assert "its lines, or those beside them, were changed since" in reasons
        assert bench.text("a.txt") == BEFORE.replace("two", "2 and mine")

    play(root, story)


def test_an_edit_that_the_user_took_back_with_the_editors_own_undo_is_not_taken_out_elsewhere(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", "one\none\n" + BEFORE.removeprefix("one\n")))
        bench.editor.undo(bench.uri("a.txt"))
        await anyio.sleep(1)
        assert await bench.rewind() == ["its lines, or those beside them, were changed since"]
        assert bench.text("a.txt") == BEFORE

    play(root, story)


def test_lines_that_came_in_again_by_whatever_ranges_are_not_given_back_twice(root) -> None:
    """Neovim's undo of a deletion is told as lines behind the end of the line before."""

    async def story(bench: Bench) -> None:
        (root / "a.txt").write_text("a\n    x\n    y\n")
        await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", "a\n    y\n"))
        bench.editor.type(bench.uri("a.txt"), 1, 2, "\n    x\n")
        await anyio.sleep(1)
        assert await bench.rewind() == ["its lines, or those beside them, were changed since"]
        assert bench.text("a.txt") == "a\n    x\n    y\n"

    play(root, story)


@pytest.mark.parametrize("body", ["a\na\na\na\na\n", "a\na\na\n"], ids=["a line put in", "a line taken out"])
def test_among_equal_lines_an_edit_that_the_user_undid_is_not_undone_again(root, body: str) -> None:
    async def story(bench: Bench) -> None:
        (root / "a.txt").write_text("a\na\na\na\n")
        await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", body))
        bench.editor.undo(bench.uri("a.txt"))
        await anyio.sleep(1)
        assert await bench.rewind() == ["its lines were changed, and cannot be told from others"]
        assert bench.text("a.txt") == "a\na\na\na\n"

    play(root, story)


def test_a_turn_that_changed_the_same_lines_twice_is_rewound_step_by_step(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", BEFORE.replace("two", "2")))
        await bench.land(await bench.edit("a.txt", BEFORE.replace("two", "zwei")))
        await bench.land(await bench.edit("a.txt", BEFORE.replace("two\n", "")))
        assert await bench.rewind() == [None, None, None]
        assert bench.text("a.txt") == BEFORE

    play(root, story)


@pytest.mark.parametrize("opens", [True, False], ids=["open", "closed"])
def test_a_rewind_in_a_later_life_finds_the_lines_by_what_stands_beside_them(root, opens: bool) -> None:
    async def main(tasks) -> None:
        first = make_bench(root, tasks, EDITORS[0])
        await first.open("a.txt")
        await first.land(await first.edit("a.txt", AFTER.replace("three\n", "")))
        (root / "a.txt").write_text("zero\n" + (root / "a.txt").read_text() + "six\n")
        second = make_bench(root, tasks, EDITORS[0], log=first.log)
        if opens:
            await second.open("a.txt")
        assert await second.rewind() == [None, None]
        now = second.text("a.txt") if opens else (root / "a.txt").read_text()
        assert now == f"zero\n{BEFORE}six\n"

    run_virtually(main)


@pytest.mark.parametrize("opens", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize(
    "texts",
    [
        ("a\nb\nc\nd\n", "a\nc\nd\n", "a\nd\n"),
        ("a\nb\nc\nd\n", "a\nb\nd\n", "a\nd\n"),
        ("x\na\na\n", "a\n", ""),
        ("a\nb\nc\n", "b\nc\n", "c\n", ""),
        ("a\nb\nc", "a\nb", "a", ""),
        ("a\nb\nc\nd\ne\nf\n", "a\nc\nd\nf\n", "a\nf\n", "f\n"),
        ("x\na\nb\nc\ny\n", "x\nb\nc\ny\n", "x\nc\ny\n", "x\ny\n"),
        ("x\na\nb\nc\ny\n", "x\na\nb\ny\n", "x\na\ny\n", "x\ny\n"),
        ("x\na\nb\nc\ny\n", "x\na\nc\ny\n", "x\nc\ny\n", "x\ny\n"),
    ],
)
def test_lines_that_were_taken_out_side_by_side_come_back_in_their_order(root, texts, opens: bool) -> None:
    before, *after = texts
    (root / "a.txt").write_text(before)

    async def story(bench: Bench) -> None:
        if opens:
            await bench.open("a.txt")
        for text in after:
            await bench.land(await bench.edit("a.txt", text))
        assert set(await bench.rewind()) == {None}
        assert (root / "a.txt").read_text() == before

    play(root, story)


@pytest.mark.parametrize("opens", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\na\r\n", "a\n"),
        ("b\na\r\na\n", "a\r\na"),
        ("x\r\n\rb\nb", "b\nb"),
        ("a\r\nb\n", ""),
        ("a\rb\nc\r\nd", "a\rB\nd"),
    ],
)
def test_lines_come_back_with_their_own_ends(root, before: str, after: str, opens: bool) -> None:
    (root / "a.txt").write_bytes(before.encode())

    async def story(bench: Bench) -> None:
        if opens:
            await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", after))
        assert (root / "a.txt").read_bytes() == after.encode()
        assert set(await bench.rewind()) == {None}
        assert (root / "a.txt").read_bytes() == before.encode()

    play(root, story)


def test_lines_come_back_with_the_ends_that_the_file_has_by_now(root) -> None:
    (root / "a.txt").write_bytes(b"a\r\nb\r\nc\r\n")

    async def story(bench: Bench) -> None:
        await bench.land(await bench.edit("a.txt", "a\r\nc\r\n"))
        (root / "a.txt").write_bytes(b"a\nc\n")
        assert await bench.rewind() == [None]
        assert (root / "a.txt").read_bytes() == b"a\nb\nc\n"

    play(root, story)


def test_lines_that_stand_in_two_places_are_not_guessed_at(root) -> None:
    async def main(tasks) -> None:
        block = "a\nX\nb\n"
        (root / "a.txt").write_text("a\nb\n")
        first = make_bench(root, tasks, EDITORS[0])
        await first.land(await first.edit("a.txt", block))
        (root / "a.txt").write_text(block + block)
        second = make_bench(root, tasks, EDITORS[0], log=first.log)
        assert await second.rewind() == ["its lines occur more than once"]
        assert (root / "a.txt").read_text() == block + block

    run_virtually(main)


def test_created_renamed_and_deleted_files_are_given_back(root) -> None:
    raw = b"\xff\xfe\x00 not text \x80"
    (root / "image.bin").write_bytes(raw)
    (root / "image.bin").chmod(0o751)
    (root / "old.txt").write_text("moved\n")

    async def story(bench: Bench) -> None:
        outcomes = await bench.land(
            FileEdit(path="deep/new.txt", base=None, new=Rope.of("new\n")),
            FileRename(path="old.txt", new_path="sub/name.txt"),
            FileDelete(path="image.bin"),
        )
        assert [outcome.outcome for outcome in outcomes] == ["landed"] * 3
        assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == [
            "a.txt",
            "deep/new.txt",
            "sub/name.txt",
        ]
        assert await bench.rewind() == [None, None, None]
        assert (root / "image.bin").read_bytes() == raw
        assert (root / "image.bin").stat().st_mode & 0o777 == 0o751
        assert (root / "old.txt").read_text() == "moved\n"
        assert not (root / "deep/new.txt").exists()

    play(root, story)


@pytest.mark.parametrize("opens", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize(
    "text", ["", "\ufeffone\r\ntwo", "\n"], ids=["empty", "with a byte-order mark", "one line end"]
)
def test_a_created_file_is_taken_back_whatever_it_holds(root, text: str, opens: bool) -> None:
    async def story(bench: Bench) -> None:
        (outcome,) = await bench.land(FileEdit(path="deep/new.txt", base=None, new=Rope.of(text)))
        assert outcome.outcome == "landed"
        assert (root / "deep/new.txt").read_bytes() == text.encode()
        if opens:
            bench.documents.open(bench.uri("deep/new.txt"), 1, text.removeprefix("\ufeff"))  # as editors read it
        assert await bench.rewind() == [None]
        assert not (root / "deep").exists()

    play(root, story)


def test_files_that_changed_since_or_whose_name_is_taken_are_left(root) -> None:
    (root / "old.txt").write_text("moved\n")
    (root / "gone.txt").write_text("gone\n")

    async def story(bench: Bench) -> None:
        await bench.land(
            FileEdit(path="new.txt", base=None, new=Rope.of("new\n")),
            FileRename(path="old.txt", new_path="name.txt"),
            FileDelete(path="gone.txt"),
        )
        (root / "new.txt").write_text("new\nand mine\n")
        (root / "old.txt").write_text("mine\n")
        (root / "gone.txt").write_text("mine\n")
        reasons = await bench.rewind()
        assert sorted(map(str, reasons)) == [
            "gone.txt exists already",
            "old.txt exists already",
            "the new file was changed since",
        ]
        texts = {path.name: path.read_text() for path in root.iterdir()}
        assert texts == {
            "a.txt": BEFORE, "new.txt": "new\nand mine\n", "name.txt": "moved\n", "old.txt": "mine\n",
            "gone.txt": "mine\n",
        }  # fmt: skip

    play(root, story)


def test_a_deletion_whose_copy_is_gone_is_told(root, tmp_path) -> None:
    async def story(bench: Bench) -> None:
        await bench.land(FileDelete(path="a.txt"))
        (copy,) = (tmp_path / "project-copies").iterdir()
        assert copy.read_text() == BEFORE
        assert copy.stat().st_mode & 0o077 == 0
        copy.unlink()
        assert await bench.rewind() == ["its copy is gone"]

    play(root, story)


def test_a_rewind_takes_back_that_turn_alone(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", BEFORE.replace("two", "2")))
        bench.log.append(TurnEnd(turn=1, reason=Ended(kind="completed")))
        bench.log.append(TurnStart(turn=2))
        await bench.land(await bench.edit("a.txt", bench.text("a.txt").replace("four", "4")))
        assert await bench.rewind(1) == [None]
        assert bench.text("a.txt") == BEFORE.replace("four", "4")
        assert await bench.rewind(1) == []
        assert await bench.rewind(2) == [None]
        assert bench.text("a.txt") == BEFORE

    play(root, story)


# -- what leads elsewhere by now -----------------------------------------------------------------------------


def lead_to_git(root: Path, folder: str, held: str) -> Path:
    """Put a link to `.git` in the place of a folder; the file of it that must not be touched."""
    (root / ".git").mkdir()
    config = root / ".git" / "config"
    config.write_text(held)
    shutil.rmtree(root / folder, ignore_errors=True)
    (root / folder).symlink_to(".git")
    return config


@pytest.mark.parametrize("kind", ["create", "edit", "rename", "delete"])
def test_a_rewind_does_nothing_through_a_folder_that_became_a_link(root, kind: str) -> None:
    (root / "n").mkdir()
    (root / "n/config").write_text("one\ntwo\n")
    (root / "n/hooks").write_text("moved\n")

    async def story(bench: Bench) -> None:
        change = {
            "create": FileEdit(path="new/config", base=None, new=Rope.of("one\ntwo\n")),
            "edit": await bench.edit("n/config", "one\ntwo\n2\n"),
            "rename": FileRename(path="n/hooks", new_path="m.txt"),
            "delete": FileDelete(path="n/hooks"),
        }[kind]
        await bench.land(change)
        held = "one\ntwo\n2\n" if kind == "edit" else "one\ntwo\n"
        config = lead_to_git(root, "new" if kind == "create" else "n", held)
        (reason,) = await bench.rewind()
        assert reason is not None
        assert "leads elsewhere" in reason
        assert config.read_text() == held
        assert [path.name for path in (root / ".git").iterdir()] == ["config"]

    play(root, story)


def test_a_document_that_was_opened_by_a_link_is_not_rewound_where_the_link_leads_later(root) -> None:
    (root / "v1").mkdir()
    (root / "v1/config").write_text(BEFORE)
    (root / "cur").symlink_to("v1")

    async def main(tasks) -> None:
        first = make_bench(root, tasks, EDITORS[0])
        await first.open("cur/config")
        await first.land(await first.edit("cur/config", AFTER))
        first.editor.close(first.uri("cur/config"))
        await anyio.sleep(1)
        (root / "cur").unlink()
        config = lead_to_git(root, "cur", AFTER)
        second = make_bench(root, tasks, EDITORS[0], log=first.log)
        assert all("belongs to version control" in str(reason) for reason in await second.rewind())
        assert await first.rewind() == [None, None]
        assert config.read_text() == AFTER
        assert (root / "v1/config").read_text() == BEFORE

    run_virtually(main)


def test_what_was_allowed_is_taken_back_without_another_permission(root) -> None:
    async def story(bench: Bench) -> None:
        new = FileEdit(path=".vscode/settings.json", base=None, new=Rope.of("{}"))
        bench.tasks.start_soon(propose, bench, new)
        await anyio.sleep(1)
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(1)
        assert (root / new.path).exists()
        assert await bench.rewind() == [None]
        assert not (root / new.path).exists()

    async def propose(bench: Bench, change: FileEdit) -> None:
        await bench.workspace.propose([change], frozenset({f"rights:{change.path}"}), signal=AbortSignal())

    play(root, story)
