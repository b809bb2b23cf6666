"""Undo beside renames: edits are found under a file's new name; another file that came to that name stays."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from dsh_lsp.events import Ended, TurnEnd, TurnStart
from dsh_lsp.workspace.edits import FileEdit, FileRename
from dsh_lsp.workspace.rope import Rope
from tests.support.review_bench import HONEST, SOON_S, Bench, make_bench, play, run_virtually

TEXT = "one\ntwo\nthree\nfour\n"
FILES = {"a.txt": TEXT}
EDITED = TEXT.replace("two", "2")
RENAME = FileRename(path="a.txt", new_path="b.txt")
OTHER = "another file has that name now, or nothing is left of it"
ABLE = frozenset({"rename", "delete"})
BY_WHOM = pytest.mark.parametrize("operations", [ABLE, frozenset()], ids=["by the editor", "directly"])


def next_turn(bench: Bench, turn: int) -> None:
    bench.log.append(TurnEnd(turn=turn - 1, reason=Ended(kind="completed")))
    bench.log.append(TurnStart(turn=turn))


async def rename(bench: Bench, old: str, new: str) -> None:
    """The agent renames a file; where its editor cannot, its user closes the old name."""
    await bench.land(FileRename(path=old, new_path=new))
    if bench.uri(old) in bench.editor.buffers:
        bench.editor.close(bench.uri(old))
        await anyio.sleep(0.5)


def names(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in root.iterdir()}


@BY_WHOM
@pytest.mark.parametrize("opens", [True, False], ids=["open", "closed"])
def test_an_edit_is_taken_back_under_the_name_that_a_later_turn_gave_its_file(root, operations, opens: bool) -> None:
    async def story(bench: Bench) -> None:
        if opens:
            await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", EDITED))
        next_turn(bench, 2)
        await rename(bench, "a.txt", "b.txt")
        (root / "a.txt").write_text(EDITED)  # the user's own, under the old name
        assert await bench.rewind(1) == [None]
        assert names(root) == {"a.txt": EDITED, "b.txt": TEXT}
        (root / "a.txt").unlink()
        assert await bench.rewind(2) == [None]
        assert names(root) == {"a.txt": TEXT}

    play(root, story, resource_operations=operations)


@BY_WHOM
def test_turns_that_rename_and_edit_by_turns_are_rewound_in_any_order(root, operations) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await rename(bench, "a.txt", "b.txt")
        next_turn(bench, 2)
        await bench.land(await bench.edit("b.txt", EDITED))
        next_turn(bench, 3)
        await rename(bench, "b.txt", "c.txt")
        assert await bench.rewind(1) == [None], "the file has its first name again"
        assert names(root) == {"a.txt": EDITED}
        assert await bench.rewind(2) == [None]
        assert names(root) == {"a.txt": TEXT}
        assert await bench.rewind(3) == [None], "it gets the name back that it had before that turn"
        assert names(root) == {"b.txt": TEXT}

    play(root, story, resource_operations=operations)


def test_a_later_life_finds_renamed_files_too(root) -> None:
    async def story(tasks) -> None:
        bench = make_bench(root, tasks, HONEST)
        await bench.land(await bench.edit("a.txt", EDITED))
        await bench.land(FileEdit(path="new.txt", base=None, new=Rope.of("new\n")))
        next_turn(bench, 2)
        await bench.land(RENAME)
        await bench.land(FileRename(path="new.txt", new_path="newer.txt"))
        bench.reviews.close()
        later = make_bench(root, tasks, HONEST, log=bench.log)
        assert await later.rewind(1) == [None, None]
        assert names(root) == {"b.txt": TEXT}, "the file that was made is gone, under whatever name"

    run_virtually(story)


@pytest.mark.parametrize(
    "theirs", ["", "quite\nanother\n", TEXT + "x\n" * 5], ids=["empty", "another", "mostly other"]
)
def test_another_file_that_has_come_to_the_new_name_is_not_moved(root, theirs: str) -> None:
    async def story(bench: Bench) -> None:
        await bench.land(RENAME)
        (root / "b.txt").unlink()
        (root / "b.txt").write_text(theirs)
        assert await bench.rewind() == [OTHER]
        assert names(root) == {"b.txt": theirs}

    play(root, story)


@pytest.mark.parametrize("text", [TEXT, ""], ids=["some lines", "none"])
@pytest.mark.parametrize("mine", ["", "mine\n"], ids=["as it was", "with the user's words"])
def test_a_renamed_file_gets_its_name_back_with_what_the_user_has_written_since(root, text: str, mine: str) -> None:
    (root / "a.txt").write_text(text)

    async def story(bench: Bench) -> None:
        await bench.land(RENAME)
        (root / "b.txt").unlink()  # many editors put a new file in the place of the old one when they save
        (root / "b.txt").write_text(text + mine)
        is_known = text != "" or mine == ""
        assert await bench.rewind() == ([None] if is_known else [OTHER])
        assert names(root) == {"a.txt" if is_known else "b.txt": text + mine}

    play(root, story)


def test_what_landed_before_a_rename_is_offered_under_the_new_name(root) -> None:
    async def story(bench: Bench) -> None:
        await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", EDITED), RENAME)
        await bench.open("b.txt")
        (mark,) = bench.reviews.landed.at(str(root / "b.txt"))
        assert mark.hunk.old == "2\n"
        bench.reviews.reject([mark.edit.hunk], uri=None, comment=None)
        await bench.type("b.txt", "four", "four and mine")
        assert bench.text("b.txt") == TEXT.replace("four", "four and mine")

    play(root, story, resource_operations=ABLE)


def test_no_copy_is_kept_of_what_is_taken_back(root) -> None:
    """What the user has written into the file by then may be a key."""

    async def story(bench: Bench) -> None:
        await bench.land(RENAME)
        kept = set((root.parent / "project-copies").iterdir())
        (root / "b.txt").write_text(TEXT + "sk-secret\n")
        assert await bench.rewind() == [None]
        assert set((root.parent / "project-copies").iterdir()) == kept

    play(root, story)


@BY_WHOM
@pytest.mark.parametrize("opens", [True, False], ids=["open", "closed"])
def test_a_file_that_was_edited_and_renamed_in_one_review_gets_back_its_name_and_its_text(
    root, operations, opens: bool
) -> None:
    async def story(bench: Bench) -> None:
        if opens:
            await bench.open("a.txt")
        await bench.land(await bench.edit("a.txt", "all new\n"), RENAME)
        assert names(root) == {"b.txt": "all new\n"}
        if opens and not operations:
            bench.editor.close(bench.uri("a.txt"))
            await anyio.sleep(0.5)
        assert await bench.rewind() == [None, None]
        await anyio.sleep(SOON_S)
        assert names(root) == FILES

    play(root, story, resource_operations=operations)
