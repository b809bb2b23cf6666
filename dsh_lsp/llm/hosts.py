"""Hosts: what is known of public and local chat-completions servers; a row each.

Rules: the first row whose name ends the host's name counts; nothing here is needed to talk to a server that is
not here.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from dsh_lsp.llm.dialect import Dialect, Wording

PLAIN = Dialect()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One server: its dialect, the variable that its key is usually in, and the header that carries it."""

    dialect: Dialect = PLAIN
    key_env: str | None = None
    key_header: Literal["authorization", "api-key"] = "authorization"
    needs_key: bool = True


_OPENAI = Dialect(
    thinking="openai",
    max_tokens_field="max_completion_tokens",
    think_tags=False,
    wording=Wording(takes_turns=False),
)

HOSTS: dict[str, Host] = {
    "api.openai.com": Host(dialect=_OPENAI, key_env="OPENAI_API_KEY"),
    ".openai.azure.com": Host(dialect=_OPENAI, key_env="AZURE_OPENAI_API_KEY", key_header="api-key"),
    ".services.ai.azure.com": Host(dialect=_OPENAI, key_env="AZURE_OPENAI_API_KEY", key_header="api-key"),
    "openrouter.ai": Host(dialect=Dialect(thinking="openrouter", think_tags=False), key_env="OPENROUTER_API_KEY"),
    "api.deepseek.com": Host(
        dialect=Dialect(
            thinking="deepseek", think_tags=False, wording=Wording(reasoning="every message", takes_turns=False)
        ),
        key_env="DEEPSEEK_API_KEY",
    ),
    "api.groq.com": Host(
        dialect=Dialect(thinking="openai", max_tokens_field="max_completion_tokens"), key_env="GROQ_API_KEY"
    ),
    # it refuses fields that it does not know, and ids of any other form
    "api.mistral.ai": Host(
        dialect=Dialect(stream_usage=False, wording=Wording(reasoning="never", short_ids=True)),
        key_env="MISTRAL_API_KEY",
    ),
    "api.x.ai": Host(dialect=Dialect(think_tags=False), key_env="XAI_API_KEY"),
    "api.together.xyz": Host(key_env="TOGETHER_API_KEY"),
    "api.fireworks.ai": Host(key_env="FIREWORKS_API_KEY"),
    "api.cerebras.ai": Host(dialect=Dialect(max_tokens_field="max_completion_tokens"), key_env="CEREBRAS_API_KEY"),
    "aliyuncs.com": Host(dialect=Dialect(thinking="qwen"), key_env="DASHSCOPE_API_KEY"),
    "api.moonshot.ai": Host(key_env="MOONSHOT_API_KEY"),
    "api.moonshot.cn": Host(key_env="MOONSHOT_API_KEY"),
    "api.z.ai": Host(dialect=Dialect(thinking="toggle"), key_env="ZAI_API_KEY"),
    "open.bigmodel.cn": Host(dialect=Dialect(thinking="toggle"), key_env="ZAI_API_KEY"),
    "generativelanguage.googleapis.com": Host(
        dialect=Dialect(thinking="openai", wording=Wording(reasoning="never")), key_env="GEMINI_API_KEY"
    ),
}

# Ollama, LM Studio, llama.cpp and vLLM on one's own machine ask for no key, and a chat template knows thinking.
LOCAL = Host(dialect=Dialect(thinking="template"), needs_key=False)
UNKNOWN = Host(needs_key=False)


def find_host(base_url: str) -> Host:
    """What is known of the server at an address."""
    name = (urlsplit(base_url).hostname or "").lower()
    if is_local(name):
        return LOCAL
    found = (host for ending, host in HOSTS.items() if name == ending.lstrip(".") or _ends(name, ending))
    return next(found, UNKNOWN)


def _ends(name: str, ending: str) -> bool:
    return name.endswith(ending if ending.startswith(".") else f".{ending}")


def is_local(name: str) -> bool:
    """Whether a host's name means this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
