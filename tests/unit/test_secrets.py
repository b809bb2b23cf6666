"""Secrets: what is known to be a key is in no text, and what is none stays readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.secrets import LEFT_OUT, Keys, learn, redact, without

KEY = "sk-canary-0123456789abcdef"


@pytest.mark.parametrize("text", [KEY, f"a {KEY} b {KEY}", f"Authorization: Bearer {KEY}\n", f'{{"key":"{KEY}"}}'])
def test_a_known_key_is_in_no_text(text: str) -> None:
    found = without(text, [KEY])
    assert KEY not in found
    assert found == text.replace(KEY, LEFT_OUT)


@pytest.mark.parametrize("part", [KEY[:13], KEY[:20], KEY[-13:], KEY[-20:]])
def test_the_larger_part_of_a_key_that_was_cut_is_in_no_text(part: str) -> None:
    assert without(f"begin {part} end", [KEY]) == f"begin {LEFT_OUT} end"


def test_what_is_less_than_half_of_a_key_stays() -> None:
    text = "their keys begin with sk-canary-01"
    assert without(text, [KEY]) == text


@given(st.text(max_size=60), st.lists(st.text("ab1-", min_size=8, max_size=20), max_size=4), st.randoms())
def test_no_key_survives_wherever_it_stands(text: str, keys: list[str], random) -> None:
    for key in keys:
        at = random.randrange(len(text) + 1)
        text = text[:at] + key + text[at:]
    found = without(text, keys)
    assert not any(key in found for key in keys)


def test_a_variable_that_holds_a_word_holds_no_key() -> None:
    environ = {"KEY": "lm-studio", "SHORT": "a1", "OTHER": f" {KEY}\n"}
    assert Keys(environ, environ).known() >= {KEY}
    assert Keys(environ, environ).hide("lm-studio a1") == "lm-studio a1"


def test_a_key_that_was_read_from_elsewhere_is_known_and_one_of_earlier_settings_stays_known() -> None:
    environ = {"FIRST": "sk-first-0123456789", "SECOND": "sk-second-9876543210"}
    keys = Keys({"FIRST"}, environ)
    assert keys.hide(environ["SECOND"]) == environ["SECOND"]
    keys.also_in({"SECOND"})
    assert keys.hide(" ".join(environ.values())) == f"{LEFT_OUT} {LEFT_OUT}"
    learn("of-a-keyring-4711")
    assert keys.hide_in({"a": ["of-a-keyring-4711", 1, None]}) == {"a": [LEFT_OUT, 1, None]}
    assert "of-a-keyring-4711" not in redact("it is of-a-keyring-4711", {})
