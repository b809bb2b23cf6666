"""Edit tools: every line that is not replaced keeps its end, and a line is what ends as LSP says."""

from __future__ import annotations

import pytest

from dsh_lsp.plugins.tools.edit_file import EditFile, EditFileArgs, Replacement, replaced
from dsh_lsp.plugins.tools.write_file import WriteFile, WriteFileArgs
from dsh_lsp.workspace.rope import Rope
from tests.support.fake_workspace import FakeWorkspace

ODD = "a\u2028b\x0cc"  # one line, for LSP and for editors


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a\r\nb\r\nc\na\nb\n", "a\nb\n", "A\nB\n", "A\r\nB\r\nc\nA\nB\n"),
        ("a\r\nb\r\nc\na\nb\n", "a", "A", "A\r\nb\r\nc\nA\nb\n"),
        ("a\nb\r\na\nb\n", "a\nb", "A", "A\r\nA\n"),
        ("a\rb\ra\r", "a\n", "A\nx\n", "A\rx\rb\rA\rx\r"),
        ("a.b\naxb\n", "a.b", "A", "A\naxb\n"),
    ],
)
def test_every_occurrence_is_replaced_whatever_ends_its_lines_and_keeps_their_ends(text, old, new, after) -> None:
    result, reading = replaced(Rope.of(text), Replacement(old_text=old, new_text=new, replace_all=True), "f")
    assert (str(result), reading) == (after, None)


def test_cards_show_lines_as_editors_count_them() -> None:
    workspace = FakeWorkspace({})
    edit = EditFile(workspace).present_call(EditFileArgs(path="a", old_text=ODD, new_text=f"{ODD}\r\nx"))
    write = WriteFile(workspace).present_call(WriteFileArgs(path="a", content=f"{ODD}\nx\n"))
    assert edit.body == f"-{ODD}\n+{ODD}\n+x\n"
    assert write.body == f"+{ODD}\n+x\n"
