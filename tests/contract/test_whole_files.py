"""Whole files: renames and deletions under review, by the editor where it holds the document, seen on the disk."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.edits import FileDelete, FileEdit, FileRename
from dsh_lsp.workspace.report import describe_outcomes
from dsh_lsp.workspace.rope import Rope
from tests.support.review_bench import SOON_S, Bench, play
from tests.support.simulated_manners import Manners

TEXT = "one\ntwo\n"
ABLE = frozenset({"rename", "delete"})
HONEST = Manners(name="an honest one", saves=True)
IGNORES = Manners(name="one that ignores file operations", operations="ignores")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    return folder


@pytest.mark.parametrize("operations", [ABLE, frozenset()], ids=["by the editor", "directly"])
@pytest.mark.parametrize("opens", [True, False], ids=["open", "closed"])
def test_a_file_is_renamed_into_a_new_folder(root, operations, opens: bool) -> None:
    async def story(bench: Bench) -> None:
        if opens:
            await bench.open("a.txt")
        (outcome,) = await bench.land(FileRename(path="a.txt", new_path="sub/b.txt"))
        assert outcome.outcome == "landed"
        assert describe_outcomes([outcome]) == "a.txt: the rename was accepted; the file is sub/b.txt now."
        assert not (root / "a.txt").exists()
        assert (root / "sub/b.txt").read_text() == TEXT
        (landed,) = bench.landed()
        assert (landed.kind, landed.uri, landed.new_uri) == ("rename", bench.uri("a.txt"), bench.uri("sub/b.txt"))

    (root / "sub").mkdir()
    play(root, story, resource_operations=operations)


@pytest.mark.parametrize("operations", [ABLE, frozenset()], ids=["by the editor", "directly"])
@pytest.mark.parametrize("opens", [True, False], ids=["open", "closed"])
def test_a_file_is_deleted(root, operations, opens: bool) -> None:
    async def story(bench: Bench) -> None:
        if opens:
            await bench.open("a.txt")
        (outcome,) = await bench.land(FileDelete(path="a.txt"))
        assert outcome.outcome == "landed"
        assert outcome.hunk.old == TEXT, "a person decides on what goes"
        assert not (root / "a.txt").exists()

    play(root, story, resource_operations=operations)


@pytest.mark.parametrize("change", [FileRename(path="a.txt", new_path="b.txt"), FileDelete(path="a.txt")])
def test_an_editor_that_says_yes_and_does_nothing_is_not_believed(root, change) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        (outcome,) = await bench.land(change)
        assert outcome.outcome == "unconfirmed"
        assert "NOT CONFIRMED" in describe_outcomes([outcome])
        assert bench.landed() == []
        assert (root / "a.txt").read_text() == TEXT

    play(root, story, IGNORES, resource_operations=ABLE)


@pytest.mark.parametrize("again", [False, True], ids=["once", "accepted twice"])
@pytest.mark.parametrize("change", [FileRename(path="a.txt", new_path="b.txt"), FileDelete(path="a.txt")])
def test_what_an_editor_does_late_as_when_it_asks_its_user_first_is_told_once_and_can_be_taken_back(
    root, change, again: bool
) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        for _ in range(1 + again):
            (outcome,) = await bench.land(change)
            assert outcome.outcome == "unconfirmed"
        await anyio.sleep(20)
        bench.editor.close(bench.uri("a.txt"))
        (root / "a.txt").rename(root / ("b.txt" if change.kind == "rename" else "../gone.txt"))
        await anyio.sleep(5)
        (landed,) = bench.landed()
        assert (landed.kind, landed.uri) == (change.kind, bench.uri("a.txt"))
        assert await bench.rewind() == [None]
        assert (root / "a.txt").read_text() == TEXT
        (root / "a.txt").unlink()
        await anyio.sleep(60)
        assert len(bench.landed()) == 2, "nobody looks any more"

    play(root, story, IGNORES, resource_operations=ABLE)


def test_nobody_looks_for_what_was_given_up_in_a_session_that_is_closed(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(FileDelete(path="a.txt"))
        bench.reviews.close()
        (root / "a.txt").unlink()
        await anyio.sleep(5)
        assert bench.landed() == []

    play(root, story, IGNORES, resource_operations=ABLE)


@pytest.mark.parametrize("operations", [ABLE, frozenset()], ids=["by the editor", "directly"])
@pytest.mark.parametrize("change", [FileRename(path="a.txt", new_path="b.txt"), FileDelete(path="a.txt")])
def test_a_document_with_the_users_unsaved_text_is_left_alone(root, operations, change) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.type("a.txt", "two", "two and mine")
        (outcome,) = await bench.land(change)
        assert outcome.outcome == "notLanded"
        assert "text of it that is not saved" in describe_outcomes([outcome])
        assert bench.text("a.txt") == "one\ntwo and mine\n"
        assert (root / "a.txt").read_text() == TEXT

    play(root, story, resource_operations=operations)


def test_a_buffer_that_kept_the_old_name_does_not_keep_the_file_from_getting_it_back(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(FileRename(path="a.txt", new_path="b.txt"))
        assert bench.text("a.txt") == TEXT
        assert await bench.rewind() == [None]
        assert (root / "a.txt").read_text() == TEXT
        await bench.land(FileRename(path="a.txt", new_path="b.txt"))
        await bench.type("a.txt", "two", "mine")
        assert await bench.rewind() == ["the editor holds another text under the new name"]
        assert (root / "b.txt").read_text() == TEXT

    play(root, story)


def test_a_file_that_changed_after_it_was_proposed_to_be_deleted_stays(root) -> None:
    async def story(bench: Bench) -> None:
        proposed = bench.propose(FileDelete(path="a.txt"))
        await anyio.sleep(0.5)
        (root / "a.txt").write_text("mine\n")
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(1)
        assert proposed.outcomes is not None
        assert "a.txt was changed meanwhile" in describe_outcomes(proposed.outcomes)
        assert (root / "a.txt").read_text() == "mine\n"

    play(root, story)


@pytest.mark.parametrize("opens", [False, True], ids=["closed", "open in an editor that would overwrite it"])
def test_a_name_that_is_taken_while_the_review_is_open_is_not_overwritten(root, opens: bool) -> None:
    async def story(bench: Bench) -> None:
        if opens:
            await bench.open("a.txt")
        proposed = bench.propose(
            FileRename(path="a.txt", new_path="b.txt"), FileEdit(path="c.txt", base=None, new=Rope.of("new"))
        )
        await anyio.sleep(0.5)
        (root / "b.txt").write_text("mine\n")
        (root / "c.txt").write_text("mine\n")
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(1)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["notLanded", "notLanded"]
        assert {path.name: path.read_text() for path in root.iterdir()} == {
            "a.txt": TEXT, "b.txt": "mine\n", "c.txt": "mine\n",
        }  # fmt: skip

    play(root, story, resource_operations=ABLE)


def test_a_rejected_deletion_deletes_nothing_and_the_model_reads_why(root) -> None:
    async def story(bench: Bench) -> None:
        proposed = bench.propose(FileDelete(path="a.txt"))
        await anyio.sleep(0.5)
        bench.reviews.reject("all", uri=None, comment="I need it")
        await anyio.sleep(0.5)
        assert proposed.outcomes is not None
        text = describe_outcomes(proposed.outcomes)
        assert text == "a.txt: the user rejected the deletion; the document is unchanged. They said: I need it"
        assert (root / "a.txt").exists()

    play(root, story)


def test_a_closed_file_that_waits_is_watched_and_its_hunks_move_with_what_others_write(root) -> None:
    async def story(bench: Bench) -> None:
        proposed = bench.propose(await bench.edit("a.txt", "1\n2\n"))
        other = bench.propose(await bench.edit("a.txt", TEXT + "three\n"))
        await anyio.sleep(0.5)
        method, params = bench.editor.registered[0]
        assert method == "client/registerCapability"
        (registration,) = params["registrations"]
        assert registration["registerOptions"]["watchers"][0]["globPattern"]["pattern"] == "a.txt"
        (root / "a.txt").write_text("zero\none!\ntwo\n")
        await bench.reviews.look_at_file(str(root / "a.txt"))
        await anyio.sleep(0.1)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["conflict"]
        (waiting,) = bench.reviews.pending()
        assert bench.reviews.pending_files()[0][1].hunks[0].range.start.line == 3
        bench.reviews.accept([waiting.hunk.id], uri=None, edited={})
        await anyio.sleep(1)
        assert [outcome.outcome for outcome in other.outcomes or ()] == ["landed"]
        assert (root / "a.txt").read_text() == "zero\none!\ntwo\nthree\n"
        assert [method for method, _ in bench.editor.registered].count("client/unregisterCapability") == 2

    play(root, story, watches_files=True)


def test_a_document_without_a_file_is_read_and_edited_by_its_uri(root) -> None:
    async def story(bench: Bench) -> None:
        uri = "untitled:Untitled-1"
        bench.editor.open_untitled(uri, TEXT)
        await anyio.sleep(0.1)
        snapshot = await bench.workspace.read(uri)
        assert (snapshot.path, snapshot.text, snapshot.dirty) == (uri, TEXT, True)
        (outcome,) = await bench.land(await bench.edit(uri, TEXT.replace("two", "2")))
        assert outcome.outcome == "landed"
        assert bench.editor.buffers[uri].state.text == "one\n2\n"
        assert {path.name for path in root.iterdir()} == {"a.txt"}, "nothing is written"
        with pytest.raises(ToolError, match="does not exist"):
            await bench.workspace.read("untitled:Untitled-2")

    play(root, story)


def test_changes_of_a_text_land_before_its_file_is_renamed(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        edited = bench.propose(await bench.edit("a.txt", "1\ntwo\n"))
        renamed = bench.propose(FileRename(path="a.txt", new_path="b.txt"))
        await anyio.sleep(0.5)
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(3)
        assert [o.outcome for p in (edited, renamed) for o in p.outcomes or ()] == ["landed", "landed"]
        assert (root / "b.txt").read_text() == "1\ntwo\n"

    play(root, story, resource_operations=ABLE)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (FileRename(path="a.txt", new_path="b.txt"), "EXISTS"),
        (FileRename(path="nowhere.txt", new_path="c.txt"), "NOT_FOUND"),
        (FileRename(path="folder", new_path="c.txt"), "NOT_A_FILE"),
        (FileRename(path="link.txt", new_path="c.txt"), "NOT_A_FILE"),
        (FileRename(path="a.txt", new_path="../out.txt"), "OUTSIDE"),
        (FileRename(path="a.txt", new_path=".git/hooks/pre-commit"), "RIGHTS"),
        (FileRename(path="a.txt", new_path=".vscode/tasks.json"), "RIGHTS"),
        (FileDelete(path="nowhere.txt"), "NOT_FOUND"),
        (FileDelete(path="folder"), "NOT_A_FILE"),
        (FileDelete(path="link.txt"), "NOT_A_FILE"),
        (FileDelete(path="../outside.txt"), "OUTSIDE"),
        (FileDelete(path=".git/config"), "RIGHTS"),
        (FileEdit(path="b.txt", base=None, new=Rope.of("")), "EXISTS"),
        (FileEdit(path="dangling.txt", base=None, new=Rope.of("")), "EXISTS"),
    ],
    ids=repr,
)
def test_what_may_not_be_done_is_refused_before_anybody_reviews_it(root, change, code: str) -> None:
    for name in ("b.txt", ".git/config", "../outside.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    (root / "folder").mkdir()
    (root / "link.txt").symlink_to(root / "a.txt")
    (root / "dangling.txt").symlink_to(root / "nothing")

    async def story(bench: Bench) -> None:
        with pytest.raises(ToolError) as caught:
            await bench.workspace.propose([change], signal=AbortSignal())
        assert caught.value.code == code
        assert bench.decided() == []

    play(root, story)


@pytest.mark.parametrize("change", [FileRename(path="a.txt", new_path="b.txt"), FileDelete(path="a.txt")])
def test_an_editor_that_opened_a_link_is_not_asked_to_do_to_it_what_is_meant_for_the_file(root, change) -> None:
    (root / "link.txt").symlink_to("a.txt")

    async def story(bench: Bench) -> None:
        await bench.open("link.txt")
        (outcome,) = await bench.land(change)
        assert outcome.outcome == "landed"
        assert (root / "link.txt").is_symlink()
        assert not (root / "a.txt").exists()
        assert await bench.rewind() == [None]
        assert (root / "a.txt").read_text() == TEXT

    play(root, story, resource_operations=ABLE)


def test_an_edit_of_a_read_only_file_is_refused_before_anybody_reviews_it_unless_an_editor_holds_it(root) -> None:
    (root / "a.txt").chmod(0o444)

    async def story(bench: Bench) -> None:
        with pytest.raises(ToolError, match="is read-only"):
            await bench.workspace.propose([await bench.edit("a.txt", "one\n2\n")], signal=AbortSignal())
        await bench.open("a.txt")
        (outcome,) = await bench.land(await bench.edit("a.txt", "one\n2\n"))
        assert outcome.outcome == "landed"
        assert bench.text("a.txt") == "one\n2\n"

    play(root, story, Manners())


def test_a_document_that_is_closed_while_it_waits_is_watched_from_then_on_and_once(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        bench.propose(await bench.edit("a.txt", TEXT + "three\n"))
        await anyio.sleep(0.5)
        assert bench.editor.registered == []
        for _ in range(2):
            bench.editor.close(bench.uri("a.txt"))
            await anyio.sleep(0.1)
            await bench.open("a.txt")
        bench.editor.close(bench.uri("a.txt"))
        await anyio.sleep(0.1)
        ((method, params),) = bench.editor.registered
        assert method == "client/registerCapability"
        (registration,) = params["registrations"]
        assert registration["registerOptions"]["watchers"][0]["globPattern"]["pattern"] == "a.txt"
        bench.reviews.reject("all", uri=None, comment=None)
        await anyio.sleep(0.1)
        assert [method for method, _ in bench.editor.registered][1:] == ["client/unregisterCapability"]

    play(root, story, watches_files=True)


@pytest.mark.parametrize(
    "change", [FileDelete(path="a.txt"), FileRename(path="a.txt", new_path="b.txt")], ids=["delete", "rename"]
)
def test_a_file_into_which_somebody_has_just_typed_is_left_alone(root, change) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        bench.at_once = True
        bench.editor.type(bench.uri("a.txt"), 0, 0, "my words\n")
        await anyio.sleep(0.1)  # which is told of later
        proposed = bench.propose(change)
        await anyio.sleep(5)
        assert proposed.outcomes is not None
        assert [outcome.outcome for outcome in proposed.outcomes] == ["notLanded"]
        assert bench.text("a.txt") == "my words\n" + TEXT
        assert [path.name for path in root.iterdir()] == ["a.txt"]

    eglot = Manners(name="eglot", client="eglot", tells="debounced", delay=0.5, stale="error")
    play(root, story, eglot, resource_operations=ABLE)


@pytest.mark.parametrize("becomes", [None, "é\n".encode("latin-1")], ids=["gone", "not text"])
def test_a_document_that_is_closed_without_a_text_on_disk_is_never_called_empty(root, becomes: bytes | None) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        proposed = bench.propose(await bench.edit("a.txt", "one\n2\n"))
        await anyio.sleep(0.5)
        (root / "a.txt").unlink() if becomes is None else (root / "a.txt").write_bytes(becomes)
        bench.editor.close(bench.uri("a.txt"))
        await anyio.sleep(0.5)
        assert proposed.outcomes is None, "it waits on"
        bench.reviews.accept("all", uri=None, edited={})
        await anyio.sleep(SOON_S)
        assert proposed.outcomes is not None
        told = describe_outcomes(proposed.outcomes)
        assert "now reads" not in told
        assert [outcome.outcome for outcome in proposed.outcomes] == ["notLanded"]

    play(root, story)


def test_a_name_that_cannot_be_given_is_refused_before_anybody_is_asked(root) -> None:
    async def story(bench: Bench) -> None:
        for change, words in (
            (FileRename(path="a.txt", new_path="a.txt"), "has that name already"),
            (FileRename(path="a.txt", new_path="a.txt/b.txt"), "a.txt is a file, not a folder"),
            (FileEdit(path="a.txt/b.txt", base=None, new=Rope.of("x\n")), "a.txt is a file, not a folder"),
        ):
            with pytest.raises(ToolError, match=words):
                await bench.workspace.propose([change], signal=AbortSignal())
        assert bench.reviews.pending_count() == 0

    play(root, story)
