"""DeepSeek: the adapter for the official API and for servers that speak its dialect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.llm.chat_adapter import ChatAdapter
from dsh_lsp.llm.dialect import Dialect, Wording
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.failures import Faults
from dsh_lsp.llm.http_adapter import with_defaults
from dsh_lsp.llm.keys import KeySource

# Thinking is on unless it is turned off, and then every message of an assistant carries its reasoning.
DIALECT = Dialect(
    thinking="deepseek", think_tags=False, wording=Wording(reasoning="every message", takes_turns=False)
)


class DeepSeekSettings(EndpointSettings):
    """The settings of this adapter; `api_key_env` names the environment variable that holds the key."""

    base_url: str = "https://api.deepseek.com"
    api_key_env: str = Field(default="DEEPSEEK_API_KEY", min_length=1)
    max_tokens: int = Field(default=256_000, gt=0)
    reasoning_effort: Literal["off", "low", "high", "max"] = "high"
    context_window: int = Field(default=1_000_000, gt=0)


class DeepSeekAdapter(ChatAdapter):
    """Calls one server."""

    def __init__(
        self,
        settings: DeepSeekSettings | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        dialect: Dialect = DIALECT,
        keys: KeySource | None = None,
    ) -> None:
        settings = settings or DeepSeekSettings()
        super().__init__(
            "deepseek",
            settings,
            keys or KeySource(settings.api_key_env, environ=environ),
            with_defaults(settings),
            Faults.of(AUTH=f"check the key in {settings.api_key_env}"),
            dialect=dialect,
        )

    async def balance(self) -> str:
        """Ask what is left on the account.

        Raises:
            LlmError: no answer came, or `QUOTA`, it is too little for a call.
        """
        document = await self.document("/user/balance")
        rows = document.get("balance_infos") if isinstance(document, dict) else None
        amounts = [
            f"{row['total_balance']} {row['currency']}"
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, dict) and row.keys() >= {"total_balance", "currency"}
        ]
        left = ", ".join(amounts) or "not told"
        if isinstance(document, dict) and document.get("is_available") is False:
            raise LlmError(LlmFailure(message=f"{left}: too little for a call", code="QUOTA"))
        return left
