"""The last line end: whoever leaves it to the buffer is sent edits that fit, and each is known to stand or not to."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.lsp.landing import judge_shown, shows_only, why_not, without_own_end
from dsh_lsp.lsp.manners import KNOWN
from dsh_lsp.workspace.edits import FileEdit, Snapshot, minimal, plan_hunks
from dsh_lsp.workspace.passage import Landed
from dsh_lsp.workspace.rope import Rope

NEOVIM = KNOWN["neovim"]
texts = st.builds(
    lambda lines, end: "".join(f"{line}\n" for line in lines) + end,
    st.lists(st.sampled_from(["a", "b", "", "c d"]), max_size=5),
    st.sampled_from(["", "", "end"]),
)


def put_as_neovim_does(text: str, edits: list[tuple[int, int, str]]) -> str:
    """The lines of a buffer after edits, the last one first: the end of its last line is none of them."""
    lines = text.removesuffix("\n")
    for start, end, new in reversed(edits):
        if start > len(lines):
            lines += f"\n{new}"  # behind the last one
        elif end > len(lines):
            lines = (lines[:start] + new).removesuffix("\n")
        else:
            lines = lines[:start] + new + lines[end:]
    return lines


@given(texts, texts)
def test_what_is_sent_gives_the_wanted_lines_and_is_seen_to_stand(before: str, wanted: str) -> None:
    ids = count()
    rope = Rope.of(before)
    base = Snapshot(uri="file:///a", path="a", rope=rope)
    hunks = plan_hunks(FileEdit(path="a", base=base, new=Rope.of(wanted)), lambda: f"h{next(ids)}")
    sent = [hunk for hunk in hunks if why_not(hunk, rope, NEOVIM) is None]
    changes = [without_own_end(minimal(hunk), rope) for hunk in sent]
    lines = put_as_neovim_does(before, [(one.span.start, one.span.end, one.text) for one in changes])
    assert lines == wanted.removesuffix("\n")
    shown = f"{lines}\n" if not before or before.endswith("\n") else lines  # it is told as it was
    verdicts = judge_shown(rope, sent, Rope.of(shown), NEOVIM)
    if before.removesuffix("\n") != lines:
        assert all(isinstance(verdict, Landed) for verdict in verdicts.values())
    assert shows_only(rope, sent, Rope.of(shown), NEOVIM)
