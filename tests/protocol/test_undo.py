"""Undo over the wire: edits applied at once, kept or taken back; a turn that is rewound; what the agent is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.support.fake_editor import FakeEditor, fake_editor
from tests.support.model_server import FakeModelServer, Gate, Reply, answer

CODE = "def add(a, b):\n    return a - b\n\n\ndef twice(a):\n    return a + a\n"
BOTH = answer(
    "Both.",
    calls=[
        ("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"}),
        ("edit_file", {"path": "calc.py", "old_text": "a + a", "new_text": "2 * a"}),
    ],
)
MENDED = CODE.replace("a - b", "a + b").replace("a + a", "2 * a")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "calc.py").write_text(CODE)
    return root


@pytest.fixture
def model():
    with FakeModelServer() as server:
        yield server


async def lenses(editor: FakeEditor, name: str) -> list[str]:
    params = types.CodeLensParams(text_document=types.TextDocumentIdentifier(editor.uri(name)))
    found = await editor.client.text_document_code_lens_async(params)
    return [f"{lens.range.start.line} {lens.command.title}" for lens in found or ()]


async def test_what_landed_unasked_is_kept_and_undone_by_lens_and_action(project, model) -> None:
    model.script(BOTH, answer("Done."), answer("I see."))
    async with fake_editor(project, model_url=model.url, options={"mode": "auto-edit"}) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend both.", "wait": True})
        assert editor.text("calc.py") == MENDED
        assert await lenses(editor, "calc.py") == [
            "0 DSH: Keep all 2 edits of this file", "0 DSH: Undo all 2 edits of this file",
            "1 DSH: Keep", "1 DSH: Undo", "5 DSH: Keep", "5 DSH: Undo",
        ]  # fmt: skip
        titles = [action.title for action in await editor.code_actions("calc.py", 1)]
        assert "DSH: Keep this edit" in titles
        assert "DSH: Undo all 2 edits of this file" in titles
        await editor.choose("calc.py", 1, "DSH: Keep this edit")
        assert await lenses(editor, "calc.py") == ["5 DSH: Keep", "5 DSH: Undo"]
        params = types.CodeLensParams(text_document=types.TextDocumentIdentifier(editor.uri("calc.py")))
        *_, undo = await editor.client.text_document_code_lens_async(params)
        (where,) = undo.command.arguments
        hunks = where["hunks"] if isinstance(where, dict) else where.hunks
        await editor.command("dsh.review.reject", {"hunks": hunks, "comment": "Too clever."})
        await editor.until(lambda: editor.text("calc.py") == CODE.replace("a - b", "a + b"))
        assert await lenses(editor, "calc.py") == []
        await editor.command("dsh.followup", {"text": "Go on.", "wait": True})
        (told,) = [m["content"] for m in model.requests[-1].body["messages"] if "taken back" in str(m["content"])]
        assert "calc.py (1 edit)" in told
        assert told.endswith("The user's words: Too clever.")


async def test_a_turn_is_rewound_while_nothing_runs_and_the_outcome_is_told(project, model) -> None:
    gate = Gate()
    slow = answer("Slow.")
    model.script(BOTH, answer("Done."), Reply(packets=(gate, *slow.packets)))
    async with fake_editor(project, model_url=model.url, dsh={"review": False}) as editor:
        editor.open("calc.py")
        await editor.command("dsh.mode.set", {"mode": "auto-edit"})
        await editor.command("dsh.followup", {"text": "Mend both.", "wait": True})
        at = editor.text("calc.py").index("2 * a")
        editor.type("calc.py", at, at + 5, "a * 2")
        assert (await editor.command("dsh.rewind", {"turn": 1}))["turn"] == 1
        done = (await editor.event("rewind/done"))["data"]
        assert (done["turn"], len(done["undone"]), len(done["left"])) == (1, 1, 1)
        assert "changed since" in done["left"][0]["reason"]
        assert editor.text("calc.py") == CODE.replace("a + a", "a * 2")
        words = "1 of 2 edits of turn 1 were taken back. Left: calc.py"
        await editor.until(lambda: any(words in text for text in editor.messages))

        for _ in range(2):  # the second does not have to wait for the first
            await editor.command("dsh.rewind", {"turn": 1})
        assert len((await editor.event("rewind/done", 3))["data"]["left"]) == 1

        with pytest.raises(JsonRpcException, match="no turn 7"):
            await editor.command("dsh.rewind", {"turn": 7})
        await editor.command("dsh.followup", {"text": "Slowly."})
        with pytest.raises(JsonRpcException, match="a turn runs"):
            await editor.command("dsh.rewind", {"turn": 1})
        gate.release()
        await editor.event("turn/end", 2)


async def test_files_that_no_document_shows_are_decided_from_any_document(project, model) -> None:
    model.script(
        answer(
            "Tidy.",
            calls=[
                ("write_file", {"path": "new.py", "content": "NEW = True\n"}),
                ("move_file", {"path": "calc.py", "new_path": "lib/calc.py"}),
            ],
        ),
        answer("Done."),
    )
    (project / "open.py").write_text("x = 1\n")
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("open.py")
        await editor.command("dsh.followup", {"text": "Tidy up."})
        await editor.event("review/opened")
        await editor.choose("open.py", 0, "DSH: Accept the new file new.py")
        await editor.event("review/opened", 2)
        await editor.choose("open.py", 0, "DSH: Accept to rename calc.py")
        await editor.event("turn/end")
        assert (project / "new.py").read_text() == "NEW = True\n"
        assert (project / "lib" / "calc.py").read_text() == CODE
        assert not (project / "calc.py").exists()
        assert "the file is lib/calc.py now" in editor.tool_results[1]


async def test_a_fork_takes_back_a_deletion_of_its_parent(project, model) -> None:
    (project / "calc.py").chmod(0o755)
    model.script(answer("Away.", calls=[("delete_file", {"path": "calc.py"})]), answer("Done."))
    async with fake_editor(project, model_url=model.url, options={"mode": "auto-edit"}) as editor:
        await editor.command("dsh.followup", {"text": "Delete it.", "wait": True})
        assert not (project / "calc.py").exists()
        fork = await editor.command("dsh.session.fork", {"turn": 1})
        await editor.command("dsh.rewind", {"session": fork["session"], "turn": 1})
        done = (await editor.event("rewind/done"))["data"]
        assert (len(done["undone"]), done["left"]) == (1, [])
        assert (project / "calc.py").read_text() == CODE
        assert (project / "calc.py").stat().st_mode & 0o777 == 0o755
