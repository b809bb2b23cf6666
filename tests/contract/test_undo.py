"""Undo: what landed unasked can be kept or taken back until the next turn, wherever it landed."""

from __future__ import annotations

import anyio
import pytest
from lsprotocol import types

from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import SessionError
from dsh_lsp.events import Ended, TurnEnd, TurnStart
from dsh_lsp.lsp.actions import code_lenses, review_actions
from dsh_lsp.workspace.edits import FileChange, FileDelete, FileEdit, FileRename
from dsh_lsp.workspace.rope import Rope
from tests.support.review_bench import SOON_S, Bench, play

BEFORE = "one\ntwo\nthree\nfour\nfive\n"
FILES = {"a.txt": BEFORE}
AFTER = "one\n2\nthree\nfour\n4.5\nfive\n"


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


@pytest.mark.parametrize("opens", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("last_first", [False, True], ids=["down", "up"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\n\nb\n\nc\n", "A\n\nB\n\nb\n\nC\n"),
        ("a\na\na\nb\na\n", "a\nx\na\nb"),
        ("b\n\na\nc\na\n\nb\n", "b\n\na\na\na\na\nx\n\nb\n"),
    ],
)
def test_hunks_of_one_proposal_that_were_accepted_one_by_one_are_all_taken_back(
    root, before: str, after: str, last_first: bool, opens: bool
) -> None:
    (root / "a.txt").write_text(before)

    async def story(bench: Bench) -> None:
        if opens:
            await bench.open("a.txt")
        bench.propose(await bench.edit("a.txt", after))
        await anyio.sleep(0.5)
        for item in sorted(bench.reviews.pending(), key=lambda one: one.hunk.span.start, reverse=last_first):
            bench.reviews.accept([item.hunk.id], uri=None, edited={})
            await anyio.sleep(SOON_S)
        assert (root / "a.txt").read_text() == after
        assert set(await bench.rewind()) == {None}
        assert (root / "a.txt").read_text() == before

    play(root, story)
