"""edit_file: what it replaces everywhere is what it says, and a large document stops nobody."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.abort import USER, Aborted, AbortSignal
from dsh_lsp.errors import ToolError
from dsh_lsp.plugins.tools.edit_file import EditFile, EditFileArgs, Replacement, replaced
from dsh_lsp.tools.tool import Execution
from dsh_lsp.workspace.rope import Rope
from tests.support.fake_workspace import FakeWorkspace

FAR = "-" * 5_000


@given(
    st.lists(st.sampled_from(["a", "b", "aa", "\n", "\r\n", FAR]), max_size=12).map("".join),
    st.sampled_from(["a", "aa", "ab", "b\n", "\n"]),
    st.sampled_from(["", "a", "x\ny", "aa"]),
)
def test_all_places_are_replaced_however_far_apart_and_whatever_ends_their_lines(
    text: str, old: str, new: str
) -> None:
    before, plain = Rope.of(text), text.replace("\r\n", "\n")
    if old in plain:
        after, note = replaced(before, Replacement(old_text=old, new_text=new, replace_all=True), "a")
        assert str(after).replace("\r\n", "\n") == plain.replace(old, new)
        if plain.count("\n") in (text.count("\r\n"), text.count("\n") - text.count("\r\n")):
            end = before.line_ending
            assert str(after) == text.replace(old.replace("\n", end), new.replace("\n", end))
        assert note is None


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("}\r\nfoo\r\n}\r\n\r\nbar\r\n", "}\n\n", "}\n// end\n\n", "}\r\nfoo\r\n}\r\n// end\r\n\r\nbar\r\n"),
        ("a\r\nx\r\nb\nx\n", "\nx", "", "a\r\nb\n"),
    ],
)
def test_a_line_end_of_two_characters_is_one(text: str, old: str, new: str, after: str) -> None:
    assert str(replaced(Rope.of(text), Replacement(old_text=old, new_text=new, replace_all=True), "a")[0]) == after


def test_a_line_end_is_no_empty_line() -> None:
    with pytest.raises(ToolError, match="does not occur"):
        replaced(Rope.of("a\r\nb\r\n"), Replacement(old_text="a\n\nb", new_text="X", replace_all=True), "a")


def execution(signal: AbortSignal) -> Execution:
    return Execution(call_id="c", name="edit_file", arguments={}, turn=1, step=1, signal=signal)


LINES = "".join(f"line {number} of {number % 9}\n" for number in range(60_000))


async def test_others_go_on_while_a_large_document_is_looked_through() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    args = EditFileArgs(path="a", old_text="no such line here\n" * 3, new_text="")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        with pytest.raises(ToolError, match="does not occur"):
            await EditFile(FakeWorkspace({"a": LINES})).execute(args, execution(AbortSignal()))
        tasks.cancel_scope.cancel()
    assert turns > 10


async def test_a_cancel_is_heard_while_a_large_document_is_looked_through() -> None:
    workspace, signal = FakeWorkspace({"a": LINES}), AbortSignal()

    async def cancel() -> None:
        signal.abort(USER)

    args = EditFileArgs(path="a", old_text="line", new_text="row", replace_all=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        with pytest.raises(Aborted):
            await EditFile(workspace).execute(args, execution(signal))
    assert workspace.touched == ["read a"]
