"""Output: head and tail of whatever is printed, as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.shell.output import HEAD_BYTES, PROGRESS_BYTES, TAIL_BYTES, Output


def printed(*pieces: bytes) -> Output:
    output = Output()
    for piece in pieces:
        output.add(piece)
    return output


def test_a_small_output_is_whole_and_a_large_one_keeps_both_ends() -> None:
    assert printed(b"a\r\n", b"b").text == "a\nb"
    whole = b"begin" + b"x" * 1_000_000 + b"end"
    output = printed(*(whole[at : at + 65_536] for at in range(0, len(whole), 65_536)))
    assert output.size == len(whole)
    assert output.text.startswith("beginxxx")
    assert output.text.endswith("xxxend")
    assert f"[... {len(whole) - HEAD_BYTES - TAIL_BYTES} bytes left out ...]" in output.text
    assert len(output.text) < HEAD_BYTES + TAIL_BYTES + 100


def test_what_is_no_text_is_replaced_and_colours_are_left_out() -> None:
    assert printed(b"\xff\x00ok \x1b[31mred\x1b[0m\x1b]0;title\x07").text == "\ufffd\ufffdok red"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"a\x1b(B\x1b[mb", "ab"),  # tput sgr0
        (b"a\x1b[?25lb\x1b[2Kc\x1b[1;31md", "abcd"),
        (b"a\xc2\x9b31mb", "ab"),  # C1
        (b"a\x1bPq#0;2;0;0;0\x1b\\b", "ab"),
        (b"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x07b", "alinkb"),
        (b"a\x1b]0;never ended\nb", "a\nb"),
        (b"a\x1b]0;never ended", "a"),
        (b"a\x1b[", "a"),
        (b"a\x1b", "a"),
        (b"a\x1bcb\x1b7c\x1b=d", "abcd"),
        (b"10%\r20%\r\nok\r\r\n", "10%\n20%\nok\n"),
        (b"a\x07b\x08c\x7fd\xc2\x85e\tf", "a\ufffdb\ufffdc\ufffdd\ufffde\tf"),
    ],
)
def test_no_control_character_is_left(data: bytes, shown: str) -> None:
    assert printed(data).text == shown


@given(st.text(alphabet="\x1b\x07\x08\r\n[]()P\\;0m\x9b\x9c\x9dab", max_size=60))
def test_whatever_is_printed_no_control_character_is_left(text: str) -> None:
    found = printed(text.encode()).text
    assert all(character in "\n\t" or character.isprintable() for character in found.replace("\ufffd", ""))
    assert found.count("\n") >= text.count("\n")


def test_the_last_lines_are_shown_while_it_runs() -> None:
    output = printed(*(f"line {n}\n".encode() for n in range(1_000)))
    assert output.recent.startswith("line ")
    assert output.recent.endswith("line 999\n")


KEY = b"sk-canary-0123456789abcdef"


@pytest.mark.parametrize("after", [40_000, TAIL_BYTES - len(KEY) // 2, TAIL_BYTES + 1, 200_000])
@pytest.mark.parametrize("into_it", range(len(KEY) + 1))
def test_no_cut_leaves_a_part_of_a_key(into_it: int, after: int) -> None:
    """Wherever head, tail and what is shown while it runs end, or begin."""
    head = b"x" * (HEAD_BYTES - into_it)
    for parts in (
        [head, KEY, b"y" * after],
        [head, KEY, b"y" * (after - len(KEY)), KEY, b"z" * (TAIL_BYTES - into_it)],
    ):
        output = Output([KEY.decode()])
        for part in parts:
            output.add(part)
        shown = output.text.replace(KEY.decode(), "")
        assert not set("0123456789").intersection(shown.partition("[... ")[0])
        assert not set("scnr").intersection(shown.partition("left out ...]")[2])
    output = Output([KEY.decode()])
    output.add(b"x" * 10 + KEY + b"y" * (PROGRESS_BYTES - into_it))
    assert not set("scnr0").intersection(output.recent.replace(KEY.decode(), ""))


@given(st.lists(st.binary(max_size=30_000), max_size=6))
def test_any_bytes_in_any_pieces_give_the_same_bounded_text(pieces: list[bytes]) -> None:
    output, at_once = printed(*pieces), printed(b"".join(pieces))
    assert output.text == at_once.text
    assert len(output.text) <= HEAD_BYTES + TAIL_BYTES + 100
    assert len(output.recent) <= 2_048
