"""Keys: the environment first, then the keyring, in a thread and once."""

from __future__ import annotations

import threading

import pytest

from dsh_lsp.errors import LlmError
from dsh_lsp.llm.keys import KeySource


class FakeKeyring:
    def __init__(self, key: str | None = None) -> None:
        self.key = key
        self.asked: list[str] = []
        self.threads: set[str] = set()

    def __call__(self, name: str) -> str | None:
        self.asked.append(name)
        self.threads.add(threading.current_thread().name)
        if self.key == "broken":
            raise RuntimeError("no back end")
        return self.key


async def test_a_key_of_the_environment_wins_and_the_keyring_is_not_asked() -> None:
    keyring = FakeKeyring("from the keyring")
    keys = KeySource("K", environ={"K": "e"}, lookup=keyring)
    assert not keys.pending
    await keys.warm()
    assert keys.read("h").get_secret_value() == "e"
    assert keys.place == "the environment variable K"
    assert keyring.asked == []


async def test_without_one_the_keyring_is_asked_in_a_thread() -> None:
    keyring = FakeKeyring("k")
    keys = KeySource("K", environ={}, lookup=keyring)
    assert keys.pending
    await keys.warm()
    await keys.warm()
    assert not keys.pending
    assert keys.read("h").get_secret_value() == "k"
    assert keyring.asked == ["K"]
    assert threading.main_thread().name not in keyring.threads
    assert keys.place == "the keyring (dsh-lsp, K)"


async def test_a_key_that_was_mended_is_found_when_it_was_refused_before() -> None:
    keyring = FakeKeyring("old")
    keys = KeySource("K", environ={}, lookup=keyring)
    await keys.warm()
    keyring.key = "new"
    await keys.warm(again=True)
    assert keys.read("h").get_secret_value() == "new"


@pytest.mark.parametrize("key", [None, "", "broken"])
async def test_a_key_that_is_nowhere_is_told_with_both_places(key) -> None:
    keys = KeySource("K", environ={}, lookup=FakeKeyring(key))
    await keys.warm()
    with pytest.raises(LlmError, match=r"set K in the environment.*keyring set dsh-lsp K") as caught:
        keys.read("h")
    assert caught.value.code == "MISSING_CREDENTIAL"


def test_where_no_key_is_needed_none_is_missed() -> None:
    assert KeySource(None, needed=False, lookup=None).read("h") is None
    assert KeySource("K", needed=False, environ={}, lookup=None).read("h") is None
    with pytest.raises(LlmError, match=r"model\.apiKeyEnv"):
        KeySource(None, lookup=None).read("h")
