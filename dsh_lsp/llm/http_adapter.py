"""HTTP adapter: what all adapters to a model server share: its key, its connections, the limits of its models.

Rules: a call is bound to the key of the moment in which it is prepared; the output asked for never reaches beyond
the context window, since servers refuse a request whose prompt and output together do not fit; a window that the
server itself told wins over what was assumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import SecretStr

from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.llm.adapter import ModelInfo, ModelRequest, PreparedCall
from dsh_lsp.llm.catalog import Limits, limits_of
from dsh_lsp.llm.concurrency import OpenCalls
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.failures import Faults
from dsh_lsp.llm.keys import KeySource
from dsh_lsp.llm.meter import MARGIN
from dsh_lsp.llm.model_client import Call, ModelClient
from dsh_lsp.llm.overflow import stated_total
from dsh_lsp.messages import CallConfig, Chunk, Finish
from dsh_lsp.secrets import learn
from dsh_lsp.wire import JsonObject

LIST_TIMEOUT_S = 15.0
MIN_OUTPUT_TOKENS = 1_024
FALLBACK_OUTPUT_TOKENS = 8_192
UNDERESTIMATED = 1.25  # what an estimate is taken for that a refusal has shown to be too low


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDefaults:
    """What settings say of the model, over what is known of it by its name."""

    context_window: int | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None


class HttpAdapter(ABC):
    """A provider at one address; connections are opened at the first call and shared by all."""

    list_path = "/models"

    def __init__(
        self, provider: str, endpoint: EndpointSettings, keys: KeySource, defaults: ModelDefaults, faults: Faults
    ) -> None:
        for secret in endpoint.secrets:
            learn(secret)
        self._provider = provider
        self.endpoint = endpoint
        self.keys = keys
        self._defaults = defaults
        self._client = ModelClient(endpoint, faults=faults)
        self._told: dict[str, Limits] = {}  # by model: what the server itself said
        self._open: dict[tuple[str, str], OpenCalls] = {}  # by key and model

    @property
    def provider(self) -> str:
        """The name by which settings choose it."""
        return self._provider

    def prepare(self, config: CallConfig) -> PreparedCall:
        """Fill in effort and output limit, and bind the call to the key of this moment.

        Raises:
            LlmError: `MISSING_CREDENTIAL`, `INVALID_CREDENTIAL`, `UNSUPPORTED_REASONING_EFFORT`.
        """
        key = self.keys.read(self.endpoint.host)
        ready = replace(
            config,
            max_tokens=config.max_tokens or self._output_of(config.model),
            reasoning_effort=config.reasoning_effort or self._defaults.reasoning_effort,
        )
        known = self.efforts(ready.model)
        if ready.reasoning_effort is not None and ready.reasoning_effort not in known:
            words = f"choose one of {', '.join(known)}" if known else "leave it out"
            message = f"the reasoning effort {ready.reasoning_effort!r} is unknown to {self.endpoint.host}; {words}"
            raise LlmError(LlmFailure(message=message, code="UNSUPPORTED_REASONING_EFFORT"))
        names = ("max_tokens", "reasoning_effort")
        return PreparedCall(
            config=ready,
            stream=partial(self._stream, key),
            defaulted=frozenset(name for name in names if getattr(config, name) != getattr(ready, name)),
            context_window=self.window_of(ready.model),
            key_changed=partial(self._key_changed, key),
        )

    @property
    def pending(self) -> bool:
        """Whether the keyring may have the key and was not asked yet."""
        return self.keys.pending

    async def warm(self) -> None:
        """Fetch what a call needs and may take long to get: the key from the keyring."""
        await self.keys.warm()

    async def models(self) -> tuple[ModelInfo, ...]:
        """Ask the server for its models.

        Raises:
            LlmError: there is no key, or it did not answer with a list.
        """
        document = await self.document(self.list_path)
        rows = document.get("data", document.get("models")) if isinstance(document, dict) else document
        if not isinstance(rows, list):
            message = f"{self.endpoint.host} answered with something that is no list of models: check baseUrl"
            raise LlmError(LlmFailure(message=message, code="MALFORMED_RESPONSE"))
        named: dict[str, JsonObject] = {}
        for row in rows:
            if isinstance(row, dict) and _is_name(row.get("id")):
                named.setdefault(row["id"], row)
        return tuple(map(self._info, named.values()))

    async def document(self, path: str) -> Any:
        """Get a JSON document of the server's.

        Raises:
            LlmError: there is no key, or no document came.
        """
        await self.keys.warm()
        key = self.keys.read(self.endpoint.host)
        limit_s = min(LIST_TIMEOUT_S, self.endpoint.idle_timeout_s)
        return await self._client.get(path, self.headers(key), key=key, timeout_s=limit_s)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    # -- what a provider says ----------------------------------------------------------------------------------

    @abstractmethod
    def efforts(self, model: str) -> tuple[str, ...]:
        """The words for how much to think that a model knows."""

    @abstractmethod
    def headers(self, key: SecretStr | None) -> Mapping[str, str]:
        """The headers that carry the key."""

    @abstractmethod
    def call(self, request: ModelRequest, key: SecretStr | None) -> Call:
        """Write a request down."""

    # -- limits ------------------------------------------------------------------------------------------------

    def limits_of(self, model: str) -> Limits:
        """What is known of a model."""
        told, named = self._told.get(model, Limits()), limits_of(model)
        return Limits(
            context_window=told.context_window or named.context_window,
            max_output=told.max_output or named.max_output,
            images=named.images if told.images is None else told.images,
        )

    def window_of(self, model: str) -> int | None:
        """A model's context window in tokens, if anybody said."""
        told = self._told.get(model, Limits()).context_window
        setting = self._defaults.context_window
        if setting is not None and told is not None:
            return min(setting, told)
        return setting or self.limits_of(model).context_window

    def _output_of(self, model: str) -> int:
        most = self.limits_of(model).max_output
        wanted = self._defaults.max_tokens
        if wanted is not None:
            return wanted if most is None else min(wanted, most)
        return most or FALLBACK_OUTPUT_TOKENS

    def fitted(self, request: ModelRequest) -> ModelRequest:
        """The request with no more output asked for than there is room for after the prompt."""
        window, wanted = self.window_of(request.config.model), request.config.max_tokens
        if window is None or wanted is None:
            return request
        room = int(window * (1 - MARGIN)) - request.prompt_tokens
        fits = max(min(wanted, room), min(wanted, MIN_OUTPUT_TOKENS))
        return request if fits == wanted else replace(request, config=replace(request.config, max_tokens=fits))

    def _info(self, row: JsonObject) -> ModelInfo:
        name = row["id"]
        meta = row.get("meta")
        told = Limits(
            context_window=_count_in(row, *_WINDOW_KEYS)
            or (_count_in(meta, "n_ctx") if isinstance(meta, dict) else None),
            max_output=_count_in(row, "max_tokens", "max_output_tokens"),
        )
        if told != Limits():
            self._told[name] = told
        known = self.limits_of(name)
        return ModelInfo(
            provider=self.provider,
            name=name,
            context_window=self.window_of(name),
            max_output=known.max_output,
            efforts=self.efforts(name),
            images=known.images,
        )

    # -- one call ----------------------------------------------------------------------------------------------

    async def _stream(self, key: SecretStr | None, request: ModelRequest) -> AsyncIterator[Chunk]:
        model = request.config.model
        if request.config.max_tokens is None:
            request = replace(request, config=replace(request.config, max_tokens=self._output_of(model)))
        fitted = self.fitted(request)
        call = self.call(fitted, key)
        calls = self._open.setdefault((call.secret, model), OpenCalls())
        taken = False
        try:
            with request.signal.guard():
                await calls.take()
                taken = True  # the guard may raise after it: a place that was given is given back in any case
            async with aclosing(self._client.stream(call, request.signal)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    if isinstance(chunk, Finish) and chunk.failure is not None:
                        yield replace(chunk, failure=await self._learn(fitted, chunk.failure, calls))
                        continue
                    if isinstance(chunk, Finish):
                        calls.answered()
                    yield chunk
        finally:
            if taken:
                calls.give_back()

    async def _learn(self, request: ModelRequest, failure: LlmFailure, calls: OpenCalls) -> LlmFailure:
        """Keep what a refusal taught, and add to it what only follows from the request."""
        model = request.config.model
        if failure.code == "RATE_LIMIT":
            calls.refused()
        if failure.context_window is not None:
            self._told[model] = replace(self._told.get(model, Limits()), context_window=failure.context_window)
        if failure.code == "AUTH":
            await self.keys.warm(again=True)
        if failure.code == "CONTEXT_WINDOW_EXCEEDED" and failure.prompt_tokens is None:
            return replace(failure, prompt_tokens=self._refused_prompt(request, failure))
        return failure

    def _refused_prompt(self, request: ModelRequest, failure: LlmFailure) -> int | None:
        """What a refused prompt has, where the refusal names the sum alone, or nothing and the estimate said it fits.

        A refusal that taught nothing would be followed by the very same request.
        """
        output, window = request.config.max_tokens or 0, self.window_of(request.config.model)
        total = stated_total(failure.message)
        if total is not None and total > output:
            return total - output
        if window is None or total is not None or request.prompt_tokens + output > window:
            return None
        return max(window - output + 1, int(request.prompt_tokens * UNDERESTIMATED))

    def _key_changed(self, key: SecretStr | None) -> bool:
        try:
            now = self.keys.read(self.endpoint.host)
        except LlmError:
            return False
        return now != key


_WINDOW_KEYS = ("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens")


def _is_name(value: Any) -> bool:
    """Whether a model can be chosen by it: one line that people can read."""
    return isinstance(value, str) and value.isprintable() and bool(value.strip())


def _count_in(row: JsonObject, *keys: str) -> int | None:
    """The first number of tokens under some keys; 0 and less say nothing, or that there is no limit."""
    return next((row[key] for key in keys if type(row.get(key)) is int and row[key] > 0), None)


def bearer(key: SecretStr | None) -> dict[str, str]:
    """The usual header for a key."""
    return {"Authorization": f"Bearer {key.get_secret_value()}"} if key is not None else {}


def with_defaults(settings: Any) -> ModelDefaults:
    """The part of an adapter's settings that is about its models."""
    return ModelDefaults(
        context_window=settings.context_window,
        max_tokens=settings.max_tokens,
        reasoning_effort=settings.reasoning_effort,
    )
