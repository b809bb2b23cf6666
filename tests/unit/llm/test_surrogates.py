from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.llm.surrogates import SurrogateJoiner, mend_surrogates


@pytest.mark.parametrize(
    ("text", "mended"),
    [("plain", "plain"), ("\ud83d\ude00", "😀"), ("\ud83dA", "\ufffdA"), ("\ude00A\ud83d", "\ufffdA\ufffd")],
)
def test_pairs_are_joined_and_halves_replaced(text: str, mended: str) -> None:
    assert mend_surrogates(text) == mended


@given(st.text(alphabet=st.sampled_from("aé😀\ud83d\ude00")), st.data())
def test_text_cut_anywhere_is_mended_as_if_whole(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    joiner = SurrogateJoiner()
    pieces = [joiner.push(text[:at]), joiner.push(text[at:]), joiner.flush()]
    assert "".join(pieces) == mend_surrogates(text)
    for piece in pieces:
        piece.encode()
