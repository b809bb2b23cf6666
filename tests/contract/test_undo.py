"""Undo: what landed can be kept or taken back, where it still stands as it landed, and nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest
from lsprotocol import types

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import ReviewOpened
from dsh_lsp.errors import SessionError
from dsh_lsp.events import Ended, TurnEnd, TurnStart
from dsh_lsp.lsp.actions import code_lenses, review_actions
from dsh_lsp.workspace.edits import FileChange, FileDelete, FileEdit, FileRename
from dsh_lsp.workspace.rope import Rope
from tests.support.review_bench import Bench, make_bench, play, run_virtually
from tests.support.simulated_editor import Manners

BEFORE = "one\ntwo\nthree\nfour\nfive\n"
AFTER = "one\n2\nthree\nfour\n4.5\nfive\n"
EDITORS = [
    Manners(name="VS Code", saves=True),
    Manners(name="stock Neovim", tells="after", delay=0.138, stale="yes"),
    Manners(name="eglot", tells="debounced", delay=0.5, stale="error"),
]
ANY_EDITOR = pytest.mark.parametrize("manners", EDITORS, ids=lambda manners: manners.name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text(BEFORE)
    return folder


@ANY_EDITOR
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


# -- keep and undo -------------------------------------------------------------------------------------------


def test_in_auto_edit_nobody_is_asked_and_each_hunk_can_be_kept_or_undone(root) -> None:
    async def story(bench: Bench) -> None:
        bench.at_once = True
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(1)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["landed", "landed"]
        assert bench.text("a.txt") == AFTER
        first, second = (mark.hunk.id for mark in bench.reviews.landed.at(str(root / "a.txt")))
        assert bench.reviews.landed.was_unasked(first)
        bench.reviews.accept([first], uri=None, edited={})
        assert [mark.hunk.id for mark in bench.reviews.landed.at(str(root / "a.txt"))] == [second]
        bench.reviews.reject([second], uri=None, comment=None)
        await anyio.sleep(1)
        assert bench.text("a.txt") == BEFORE.replace("two", "2")
        with pytest.raises(SessionError, match="not waiting"):
            bench.reviews.reject([second], uri=None, comment=None)

    play(root, story)


def test_what_landed_is_offered_until_the_next_turn_begins(root) -> None:
    async def story(bench: Bench) -> None:
        bench.at_once = True
        await bench.open("a.txt")
        bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(1)
        key = str(root / "a.txt")
        bench.log.append(TurnEnd(turn=1, reason=Ended(kind="completed")))
        assert len(bench.reviews.landed.at(key)) == 2
        bench.log.append(TurnStart(turn=2))
        assert bench.reviews.landed.at(key) == []
        assert await bench.rewind(1) == [None, None], "a rewind still can"

    play(root, story)


def test_the_place_of_a_landed_hunk_follows_the_typing(root) -> None:
    async def story(bench: Bench) -> None:
        bench.at_once = True
        await bench.open("a.txt")
        bench.propose(await bench.edit("a.txt", BEFORE.replace("four", "4")))
        await anyio.sleep(1)
        await bench.type("a.txt", "one", "zero\nzero\none")
        (mark,) = bench.reviews.landed.at(str(root / "a.txt"))
        document = bench.documents.at(root / "a.txt")
        assert document is not None
        assert document.position_at(mark.hunk.span.start).line == 5

    play(root, story)


def test_what_needed_a_permission_is_reviewed_in_auto_edit_too(root) -> None:
    async def story(bench: Bench) -> None:
        bench.at_once = True
        new = FileEdit(path=".vscode/settings.json", base=None, new=Rope.of("{}"))
        bench.tasks.start_soon(propose_with_rights, bench, new)
        await anyio.sleep(1)
        assert bench.reviews.pending_count() == 1
        assert not (root / ".vscode").exists()

    async def propose_with_rights(bench: Bench, change: FileEdit) -> None:
        await bench.workspace.propose([change], frozenset({f"rights:{change.path}"}), signal=AbortSignal())

    play(root, story)


def test_an_editor_that_may_not_be_edited_leaves_auto_edits_waiting(root) -> None:
    async def story(bench: Bench) -> None:
        bench.at_once = True
        bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(1)
        assert bench.reviews.pending_count() == 2
        assert (root / "a.txt").read_text() == BEFORE
        assert not any("nothing was written" in message for message in bench.editor.messages), "nobody has accepted"

    play(root, story, name="Kate")


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


# -- what can be kept and taken back, wherever it landed -----------------------------------------------------


def titles(bench: Bench, name: str, line: int = 0) -> list[str]:
    """What is offered to whoever asks by hand."""
    document = bench.documents.at(bench.root / name)
    assert document is not None
    params = types.CodeActionParams(
        text_document=types.TextDocumentIdentifier(document.uri),
        range=types.Range(types.Position(line, 0), types.Position(line, 0)),
        context=types.CodeActionContext([], trigger_kind=types.CodeActionTriggerKind.Invoked),
    )
    return [action.title for action in review_actions(document, bench.reviews, params, session="s1")]


def lenses(bench: Bench, name: str) -> list[tuple[int, str]]:
    document = bench.documents.at(bench.root / name)
    assert document is not None
    found = code_lenses(document, bench.reviews, session="s1")
    return [(lens.range.start.line, lens.command.title) for lens in found if lens.command is not None]


async def at_once(bench: Bench, *changes: FileChange) -> None:
    bench.at_once = True
    outcomes = await bench.workspace.propose(changes, signal=AbortSignal())
    assert {outcome.outcome for outcome in outcomes} == {"landed"}


@pytest.mark.parametrize("when", ["opened later", "closed and opened again"])
def test_what_landed_can_be_kept_and_undone_in_a_file_that_is_opened_later(root, when: str) -> None:
    async def story(bench: Bench) -> None:
        if when == "closed and opened again":
            await bench.open("a.txt")
        await at_once(bench, await bench.edit("a.txt", BEFORE.replace("four", "4")))
        if when == "closed and opened again":
            bench.editor.close(bench.uri("a.txt"))
            await anyio.sleep(0.5)
        (root / "a.txt").write_text("zero\n" + (root / "a.txt").read_text())
        await bench.open("a.txt")
        assert lenses(bench, "a.txt") == [(4, "DSH: Keep"), (4, "DSH: Undo")]
        await bench.type("a.txt", "zero", "zero\nzero and a half")
        assert lenses(bench, "a.txt") == [(5, "DSH: Keep"), (5, "DSH: Undo")]
        bench.reviews.reject("all", uri=bench.uri("a.txt"), comment=None)
        await anyio.sleep(1)
        assert bench.text("a.txt") == f"zero\nzero and a half\n{BEFORE}"
        assert lenses(bench, "a.txt") == []

    play(root, story)


def test_what_has_no_certain_place_in_a_file_that_is_opened_later_is_not_offered_there(root) -> None:
    async def story(bench: Bench) -> None:
        await at_once(bench, await bench.edit("a.txt", BEFORE.replace("four", "4")))
        (root / "a.txt").write_text(BEFORE)
        await bench.open("a.txt")
        assert lenses(bench, "a.txt") == []

    play(root, story)


def test_what_landed_in_other_files_is_offered_in_every_document_and_all_of_it_at_once(root) -> None:
    for name in ("b.txt", "old name.txt", "gone.txt"):
        (root / name).write_text(BEFORE)

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await at_once(bench, await bench.edit("b.txt", AFTER))
        await at_once(bench, FileEdit(path="deep/new.txt", base=None, new=Rope.of("new\n")))
        await at_once(bench, FileRename(path="old name.txt", new_path="name.txt"), FileDelete(path="gone.txt"))
        await at_once(bench, await bench.edit("a.txt", BEFORE.replace("two", "2")))
        offered = titles(bench, "a.txt", 4)
        for what in (
            "the deletion of gone.txt", "the new name of old name.txt, name.txt", "the new file new.txt",
            "all 2 edits of b.txt", "all 6 edits of all files",
        ):  # fmt: skip
            assert {f"DSH: Keep {what}", f"DSH: Undo {what}"} <= set(offered)
        document = bench.documents.at(root / "a.txt")
        assert document is not None
        (kept,) = bench.reviews.landed.elsewhere(document.key)[-1:]
        bench.reviews.accept([edit.hunk for edit in kept], uri=None, edited={})
        assert "DSH: Undo all 2 edits of b.txt" not in titles(bench, "a.txt", 4)
        bench.reviews.reject("all", uri=None, comment=None)
        await anyio.sleep(2)
        assert {path.name: path.read_text() for path in root.rglob("*") if path.is_file()} == {
            "a.txt": BEFORE, "b.txt": AFTER, "old name.txt": BEFORE, "gone.txt": BEFORE,
        }  # fmt: skip
        assert titles(bench, "a.txt", 4) == []

    play(root, story)


def test_all_is_what_waits_and_else_what_nobody_was_asked_about_never_what_was_accepted(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.land(await bench.edit("a.txt", AFTER))
        assert bench.reviews.reject("all", uri=None, comment=None) == 0
        await anyio.sleep(1)
        assert (root / "a.txt").read_text() == AFTER
        new = FileEdit(path="new.txt", base=None, new=Rope.of("new\n"))
        await at_once(bench, new)
        bench.at_once = False
        bench.propose(FileDelete(path="a.txt"))
        await anyio.sleep(0.5)
        bench.reviews.reject("all", uri=None, comment=None)
        await anyio.sleep(1)
        assert ((root / "a.txt").exists(), (root / "new.txt").exists()) == (True, True), "only what waited"
        bench.reviews.reject("all", uri=bench.uri("a.txt"), comment=None)
        await anyio.sleep(1)
        assert (root / "new.txt").exists(), "that is another file"
        bench.reviews.reject("all", uri=None, comment=None)
        await anyio.sleep(1)
        assert ((root / "a.txt").read_text(), (root / "new.txt").exists()) == (AFTER, False)

    play(root, story)


def test_all_that_waits_in_several_files_is_decided_by_one_action_and_that_of_a_file_by_one_lens(root) -> None:
    (root / "b.txt").write_text(BEFORE)

    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        bench.propose(await bench.edit("a.txt", AFTER))
        await anyio.sleep(0.5)
        assert lenses(bench, "a.txt")[:2] == [
            (0, "DSH: Accept all 2 edits of this file"), (0, "DSH: Reject all 2 edits of this file")
        ]  # fmt: skip
        assert not any("all files" in title for title in titles(bench, "a.txt"))
        bench.propose(await bench.edit("b.txt", BEFORE.replace("two", "2")))
        await anyio.sleep(0.5)
        assert {"DSH: Accept all 3 edits of all files", "DSH: Reject all 3 edits of all files"} <= set(
            titles(bench, "a.txt")
        )

    play(root, story)


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "untitled:///tmp/x.py", "untitled://x/y.py"])
def test_an_edit_of_a_document_without_a_file_is_taken_back_while_it_is_open(root, uri: str) -> None:
    async def edit(bench: Bench) -> None:
        base = await bench.workspace.read(uri)
        bench.at_once = True
        change = FileEdit(path=uri, base=base, new=Rope.of(AFTER))
        outcomes = await bench.workspace.propose([change], signal=AbortSignal())
        assert [outcome.outcome for outcome in outcomes] == ["landed", "landed"]

    async def story(bench: Bench) -> None:
        bench.editor.open_untitled(uri, BEFORE)
        await anyio.sleep(0.1)
        await edit(bench)
        document = bench.documents.get(uri)
        assert document is not None
        hunk = bench.reviews.landed.at(document.key)[0].edit.hunk
        bench.reviews.reject([hunk], uri=None, comment=None)
        await anyio.sleep(1)
        assert bench.editor.buffers[uri].state.text == AFTER.replace("2", "two", 1)
        assert await bench.rewind() == [None]
        assert bench.editor.buffers[uri].state.text == BEFORE
        await edit(bench)
        bench.editor.close(uri)
        await anyio.sleep(0.1)
        assert await bench.rewind() == ["its document, which had no file, was closed"] * 2

    play(root, story)
