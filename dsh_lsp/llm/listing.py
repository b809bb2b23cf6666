"""Listing: the models of all providers that can be asked, and why the others could not.

Rules: all are asked at the same time; a provider that nobody set up is no failure unless it is the one in use.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import anyio

from dsh_lsp.errors import ConfigError, LlmError, error_chain
from dsh_lsp.llm.adapter import Lists, Llm, ModelInfo
from dsh_lsp.wire import Wire

log = logging.getLogger(__name__)

NOT_SET_UP = frozenset({"MISSING_CREDENTIAL", "BAD_SETTING"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisted(Wire):
    """A provider that gave no list."""

    provider: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Wire):
    """What can be chosen."""

    models: tuple[ModelInfo, ...] = ()
    failed: tuple[Unlisted, ...] = ()


async def list_models(llm: Llm, *, in_use: str) -> Listing:
    """Ask every provider."""
    found: dict[str, tuple[ModelInfo, ...]] = {}
    failed: dict[str, Unlisted] = {}

    async def ask(provider: str) -> None:
        try:
            adapter = llm.adapter(provider)
            if isinstance(adapter, Lists):
                found[provider] = await adapter.models()
        except (LlmError, ConfigError) as error:
            if provider == in_use or error.code not in NOT_SET_UP:
                failed[provider] = Unlisted(provider=provider, code=error.code, message=str(error))
        except Exception as error:  # the border to adapters, some of which come from plugins
            log.warning("%s gave no list of models", provider, exc_info=error)
            failed[provider] = Unlisted(provider=provider, code="UNKNOWN", message=error_chain(error))

    async with anyio.create_task_group() as tasks:
        for provider in llm.providers:
            tasks.start_soon(ask, provider)
    return Listing(
        models=tuple(model for provider in llm.providers for model in found.get(provider, ())),
        failed=tuple(failed[provider] for provider in llm.providers if provider in failed),
    )
