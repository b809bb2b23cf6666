from __future__ import annotations

import pytest

from dsh_lsp.errors import LlmError
from dsh_lsp.llm.deepseek import DeepSeekAdapter, DeepSeekSettings
from dsh_lsp.messages import CallConfig

CONFIG = CallConfig(provider="deepseek", model="deepseek-flash")


def test_a_missing_key_names_the_variable_to_set() -> None:
    adapter = DeepSeekAdapter(DeepSeekSettings(api_key_env="MY_KEY"), environ={"MY_KEY": " "})
    with pytest.raises(LlmError) as caught:
        adapter.prepare(CONFIG)
    assert caught.value.code == "MISSING_CREDENTIAL"
    assert "MY_KEY" in str(caught.value)


@pytest.mark.parametrize("key", ["sk-ключ", "sk-a\nb", "sk-a b"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(LlmError) as caught:
        DeepSeekAdapter(environ={"DEEPSEEK_API_KEY": key}).prepare(CONFIG)
    assert caught.value.code == "INVALID_CREDENTIAL"
    assert "sk-" not in str(caught.value)


def test_the_key_is_read_anew_for_each_call_and_never_shown() -> None:
    environ: dict[str, str] = {}
    adapter = DeepSeekAdapter(environ=environ)
    environ["DEEPSEEK_API_KEY"] = "sk-secret"
    prepared = adapter.prepare(CONFIG)
    assert "sk-secret" not in repr(prepared)
    assert "sk-secret" not in repr(adapter)


def test_defaults_are_filled_in_and_named() -> None:
    adapter = DeepSeekAdapter(environ={"DEEPSEEK_API_KEY": "k"})
    prepared = adapter.prepare(CONFIG)
    assert (prepared.config.max_tokens, prepared.config.reasoning_effort) == (256_000, "high")
    assert prepared.defaulted == {"max_tokens", "reasoning_effort"}
    assert prepared.context_window == 1_000_000
    chosen = CallConfig(provider="deepseek", model="m", max_tokens=5, reasoning_effort="off")
    assert adapter.prepare(chosen).config == chosen
    assert adapter.prepare(chosen).defaulted == frozenset()


def test_an_unknown_effort_is_refused_with_the_known_ones() -> None:
    adapter = DeepSeekAdapter(environ={"DEEPSEEK_API_KEY": "k"})
    with pytest.raises(LlmError, match="off, low, high, max") as caught:
        adapter.prepare(CallConfig(provider="deepseek", model="m", reasoning_effort="auto"))
    assert caught.value.code == "UNSUPPORTED_REASONING_EFFORT"
