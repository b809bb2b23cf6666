"""Providers: which adapter the settings mean, and whose key goes where."""

from __future__ import annotations

import pytest

from dsh_lsp.errors import ConfigError, LlmError
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.messages import CallConfig
from dsh_lsp.providers import PROVIDERS, ModelSettings, build_models
from dsh_lsp.settings import read_settings

KEYS = {"DEEPSEEK_API_KEY": "d", "ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "MINE": "m"}


def models(**raw: object) -> Llm:
    settings, problems = read_settings(ModelSettings, raw)
    assert not problems
    return build_models(settings, KEYS)


def test_every_provider_is_offered_and_made_when_it_is_asked() -> None:
    llm = models(baseUrl="http://localhost:1/v1", provider="openai_compatible")
    assert llm.providers == tuple(sorted(PROVIDERS))
    assert {llm.adapter(name).provider for name in PROVIDERS} == set(PROVIDERS)
    assert llm.adapter("deepseek") is llm.adapter("deepseek")


def test_address_and_key_are_those_of_the_chosen_provider_alone() -> None:
    llm = models(provider="deepseek", baseUrl="http://proxy.test", apiKeyEnv="MINE")
    assert llm.adapter("deepseek").endpoint.base_url == "http://proxy.test"
    assert llm.adapter("deepseek").keys.name == "MINE"
    assert llm.adapter("anthropic").endpoint.base_url == "https://api.anthropic.com"
    assert llm.adapter("anthropic").keys.name == "ANTHROPIC_API_KEY"
    with pytest.raises(ConfigError, match=r"model\.baseUrl"):
        llm.adapter("openai_compatible")


def test_a_wrong_address_is_told_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"model\.baseUrl: must be an http") as caught:
        models(provider="deepseek", baseUrl="deepseek.com").adapter("deepseek")
    assert caught.value.code == "BAD_SETTING"


@pytest.mark.parametrize(
    ("url", "key", "field"),
    [
        ("https://api.openai.com/v1", "OPENAI_API_KEY", "max_completion_tokens"),
        ("https://me.openai.azure.com/openai/v1", "AZURE_OPENAI_API_KEY", "max_completion_tokens"),
        ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "max_tokens"),
        ("http://localhost:11434/v1", None, "max_tokens"),
        ("http://127.0.0.1:8000/v1", None, "max_tokens"),
        ("https://models.example.test/v1", None, "max_tokens"),
        ("https://openai.com.evil.test/v1", None, "max_tokens"),
        ("https://notapi.openai.com.test", None, "max_tokens"),
    ],
)
def test_a_host_gets_its_own_dialect_and_no_other_hosts_key(url, key, field) -> None:
    adapter = models(provider="openai_compatible", baseUrl=url).adapter("openai_compatible")
    assert adapter.keys.name == key
    assert adapter.dialect.max_tokens_field == field


def test_a_server_without_a_key_is_asked_without_one() -> None:
    adapter = models(provider="openai_compatible", baseUrl="http://localhost:1/v1").adapter("openai_compatible")
    assert adapter.headers(adapter.keys.read("localhost")) == {}
    assert adapter.prepare(CallConfig(provider="openai_compatible", model="m")).config.max_tokens == 8_192


def test_azure_takes_its_key_in_its_own_header() -> None:
    llm = models(provider="openai_compatible", baseUrl="https://me.openai.azure.com/openai/v1", apiKeyEnv="MINE")
    adapter = llm.adapter("openai_compatible")
    assert adapter.headers(adapter.keys.read("x")) == {"api-key": "m"}


def test_a_setting_wins_over_what_is_known_of_a_host() -> None:
    llm = models(
        provider="openai_compatible",
        baseUrl="https://api.openai.com/v1",
        compatibility={"maxTokensField": "max_tokens", "thinkTags": True, "thinking": "qwen", "streamUsage": False},
        contextWindow=5_000,
        maxTokens=77,
    )
    adapter = llm.adapter("openai_compatible")
    dialect = adapter.dialect
    assert (dialect.max_tokens_field, dialect.think_tags, dialect.thinking) == ("max_tokens", True, "qwen")
    assert not dialect.stream_usage
    prepared = adapter.prepare(CallConfig(provider="openai_compatible", model="gpt-5"))
    assert (prepared.config.max_tokens, prepared.context_window) == (77, 5_000)


def test_an_effort_that_a_server_does_not_know_is_refused_with_those_that_it_does() -> None:
    adapter = models(provider="openai_compatible", baseUrl="http://localhost:1").adapter("openai_compatible")
    with pytest.raises(LlmError, match="choose one of off, high") as caught:
        adapter.prepare(CallConfig(provider="openai_compatible", model="m", reasoning_effort="max"))
    assert caught.value.code == "UNSUPPORTED_REASONING_EFFORT"
