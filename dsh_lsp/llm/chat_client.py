"""Chat client: one POST to a chat-completions server, answered by chunks.

Owns: the HTTP client, its timeouts, and the translation of everything that can go wrong on the way.
Rules: one answer ends with exactly one `Finish`; only cancellation leaves as an exception. The key goes to the
configured server alone: redirects are not followed, and no text of a failure holds it. No retries: those belong to
the agent's step, which logs them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

import dsh_lsp
from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.llm.chat_wire import ChatDecoder, dump_body
from dsh_lsp.llm.event_stream import Frame, StreamTooLargeError, read_batches
from dsh_lsp.llm.failures import (
    ADVICE,
    ErrorReport,
    failure_from,
    report_in_stream,
    report_of_body,
    request_id,
    retry_after_ms,
    should_retry,
    without_key,
)
from dsh_lsp.messages import Chunk
from dsh_lsp.wire import JsonObject, to_camel

if TYPE_CHECKING:
    import httpx

DONE = "[DONE]"
KEEP_IDLE_S = 20.0  # an older pooled socket may be dead: https://github.com/NousResearch/hermes-agent/issues/62807
DRAIN_S = 0.1
MAX_ERROR_BYTES = 64 * 1024


class EndpointSettings(BaseModel):
    """Where a chat-completions server is and how long to wait for it.

    `idle_timeout_s` bounds the time without a single byte, `event_timeout_s` the time without a real event while
    only keep-alive comments come: a provider's queue.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    base_url: str
    connect_timeout_s: float = Field(default=10.0, gt=0)
    write_timeout_s: float = Field(default=60.0, gt=0)
    pool_timeout_s: float = Field(default=30.0, gt=0)
    idle_timeout_s: float = Field(default=120.0, gt=0)
    event_timeout_s: float = Field(default=630.0, gt=0)

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be an http:// or https:// address")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("must be an address without user, password, query or fragment")
        _ = parts.port  # raises ValueError when it is no port
        return value.rstrip("/")

    @property
    def host(self) -> str:
        """The server's name as shown to people."""
        return urlsplit(self.base_url).netloc


class ChatClient:
    """One server's pooled connections; opened at the first call, closed by `aclose()`."""

    def __init__(self, settings: EndpointSettings, *, advice: Mapping[str, str] = ADVICE) -> None:
        self._settings = settings
        self._advice = advice
        self._client: httpx.AsyncClient | None = None
        self._url: httpx.URL  # whole and parsed, since a client takes long to join it to a base for each request
        self._opening = anyio.Lock()

    async def aclose(self) -> None:
        """Close all connections; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def chat(
        self,
        encode: Callable[[bool], JsonObject],
        *,
        key: SecretStr,
        new_decoder: Callable[[], ChatDecoder],
        signal: AbortSignal,
    ) -> AsyncIterator[Chunk]:
        """Send one request and stream its answer; `encode` builds the body, with `stream` true or false.

        Raises:
            Aborted: the signal fired; the connection is closed.
        """
        async with aclosing(self._batches(encode, key, new_decoder)) as batches:
            while True:
                with signal.guard():  # around each wait: a cancel scope must not be open across a yield
                    batch = await anext(batches, None)
                if batch is None:
                    return
                for chunk in batch:
                    signal.check()
                    yield chunk

    async def _batches(
        self, encode: Callable[[bool], JsonObject], key: SecretStr, new_decoder: Callable[[], ChatDecoder]
    ) -> AsyncGenerator[list[Chunk]]:
        """Give the chunks of one answer, those of one packet together."""
        decoder, done = new_decoder(), False
        # a stream that ends without a word hides an error, which the same request without streaming brings out
        for stream in (True, False):
            decoder, done = new_decoder(), False
            try:
                async with aclosing(self._events(encode(stream), key)) as batches:
                    async for events in batches:
                        done = events[-1] is None
                        yield [chunk for event in events if event is not None for chunk in decoder.feed(event)]
            except LlmError as error:
                cut_after_the_end = decoder.complete and error.code in {"TRANSPORT", "TIMEOUT"}
                if not cut_after_the_end:
                    yield list(decoder.fail(without_key(error.failure, key.get_secret_value())))
                    return
            if decoder.started:
                break
        yield list(decoder.end(done=done))

    async def _events(self, body: JsonObject, key: SecretStr) -> AsyncGenerator[list[JsonObject | None]]:
        """Give the JSON events of one answer by packets, then None if the server said that it is done.

        Raises:
            LlmError: whatever went wrong.
        """
        import httpx

        client = await self._open_client()
        headers = {"Authorization": f"Bearer {key.get_secret_value()}", "Content-Type": "application/json"}
        try:
            async with client.stream("POST", self._url, content=dump_body(body), headers=headers) as response:
                if not response.is_success:
                    raise LlmError(await self._refusal(response))
                async with (
                    aclosing(_packets(response)) as packets,
                    aclosing(read_batches(packets)) as frames,
                ):
                    async with aclosing(self._decoded(frames)) as batches:
                        async for events in batches:
                            yield events
                    with suppress(httpx.HTTPError, StreamTooLargeError), anyio.move_on_after(DRAIN_S):
                        async for _ in frames:  # a response read to its end leaves a connection to use again
                            pass
        except httpx.HTTPError as error:
            raise LlmError(transport_failure(error, host=self._settings.host)) from error
        except StreamTooLargeError as error:
            message = f"{self._settings.host} sent a larger answer than is read"
            raise LlmError(LlmFailure(message=message, code="MALFORMED_RESPONSE")) from error

    async def _decoded(self, batches: AsyncGenerator[list[Frame]]) -> AsyncGenerator[list[JsonObject | None]]:
        reader = _FrameReader(self._settings.host, self._advice)
        while not reader.done and (frames := await self._next_batch(batches)) is not None:
            events: list[JsonObject | None] = []
            try:
                for event in reader.read(frames):
                    events.append(event)  # noqa: PERF402 - keeps what came before an error
            except LlmError:
                if events:
                    yield events
                raise
            if events:
                yield events

    async def _next_batch(self, batches: AsyncGenerator[list[Frame]]) -> list[Frame] | None:
        limit_s = self._settings.event_timeout_s
        try:
            with anyio.fail_after(limit_s):
                return await anext(batches, None)
        except TimeoutError as error:
            message = f"{self._settings.host} keeps the connection but sent no part of an answer in {limit_s:g} s"
            raise LlmError(LlmFailure(message=message, code="TIMEOUT")) from error

    async def _refusal(self, response: httpx.Response) -> LlmFailure:
        raw = b""
        async with aclosing(_packets(response)) as packets:
            async for packet in packets:
                raw += packet
                if len(raw) > MAX_ERROR_BYTES:
                    break
        text = raw[:MAX_ERROR_BYTES].decode(errors="replace")
        report = report_of_body(response.status_code, _json_of(text))
        failure = failure_from(report, host=self._settings.host, advice=self._advice)
        message = failure.message
        if response.is_redirect:
            message += "; redirects are not followed, since the key would go with them: check baseUrl"
        return LlmFailure(
            message=message,
            code=failure.code,
            status=failure.status,
            provider_retry_after_ms=retry_after_ms(response.headers),
            request_id=request_id(response.headers),
            should_retry=should_retry(response.headers),
        )

    async def _open_client(self) -> httpx.AsyncClient:
        if self._client is not None:
            return self._client
        async with self._opening:
            if self._client is None:
                # the import and the certificates are read from disk: not in the loop
                self._client = await anyio.to_thread.run_sync(self._new_client)
            return self._client

    def _new_client(self) -> httpx.AsyncClient:
        import httpx

        settings = self._settings
        self._url = httpx.URL(f"{settings.base_url}/chat/completions")
        return httpx.AsyncClient(
            headers={
                "User-Agent": f"dsh-lsp/{dsh_lsp.__version__}",
                "Accept": "text/event-stream, application/json",
                "Accept-Encoding": "identity",  # a compressing proxy holds events back
            },
            timeout=httpx.Timeout(
                connect=settings.connect_timeout_s,
                read=settings.idle_timeout_s,
                write=settings.write_timeout_s,
                pool=settings.pool_timeout_s,
            ),
            limits=httpx.Limits(keepalive_expiry=KEEP_IDLE_S),
            follow_redirects=False,
        )


class _FrameReader:
    """Reads the frames of one answer as JSON events; `done` once the server has said that it is."""

    def __init__(self, host: str, advice: Mapping[str, str]) -> None:
        self._host = host
        self._advice = advice
        self._broken = False
        self.done = False

    def read(self, frames: Iterable[Frame]) -> Iterator[JsonObject | None]:
        """Give their events, and None in the place of `[DONE]`; what follows that is no part of the answer.

        Raises:
            LlmError: the server reports an error, or a frame before the last is no event.
        """
        for frame in frames:
            if self._broken:
                message = f"{self._host} sent an event that is not a JSON object"
                raise LlmError(LlmFailure(message=message, code="MALFORMED_RESPONSE"))
            if frame.data.strip() == DONE:
                self.done = True
                yield None
                return
            event = _object_of(frame.data)
            report = report_in_stream(frame.event, event) if event is not None else None
            if event is None and frame.event == "error":
                report = ErrorReport(message=frame.data)
            if report is not None:
                raise LlmError(failure_from(report, host=self._host, advice=self._advice))
            if event is None:
                self._broken = True  # if it is the last one, the stream was cut and the decoder says so
            else:
                yield event


def transport_failure(error: httpx.HTTPError, *, host: str) -> LlmFailure:
    """Translate what the HTTP client raised; total over its errors, the first row that fits wins."""
    import httpx

    detail = str(error) or type(error).__name__
    unreachable = f"cannot connect to {host} ({detail}); check baseUrl, the network and a proxy"
    cut = f"the connection to {host} was cut ({detail})"
    table: tuple[tuple[type[Exception], str, str], ...] = (
        (
            httpx.ConnectTimeout,
            "TIMEOUT",
            f"{host} did not take the connection in time; check baseUrl and the network",
        ),
        (httpx.ReadTimeout, "TIMEOUT", f"{host} sent nothing for too long"),
        (httpx.TimeoutException, "TIMEOUT", f"{host} was too slow ({type(error).__name__})"),
        (httpx.ConnectError, "TRANSPORT", unreachable),
        (httpx.ProxyError, "TRANSPORT", unreachable),
        (httpx.UnsupportedProtocol, "TRANSPORT", unreachable),
        (httpx.TransportError, "TRANSPORT", cut),
        (httpx.DecodingError, "MALFORMED_RESPONSE", f"{host} sent a body that cannot be unpacked ({detail})"),
        (httpx.HTTPError, "TRANSPORT", cut),
    )
    code, message = next((code, message) for kind, code, message in table if isinstance(error, kind))
    return LlmFailure(message=message, code=code)


async def _packets(response: httpx.Response) -> AsyncGenerator[bytes]:
    async for packet in response.aiter_bytes():
        yield packet


def _json_of(text: str) -> Any:
    """Decode JSON; text that is none stays text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _object_of(text: str) -> JsonObject | None:
    """Decode a JSON object, also one wrapped in a list, as some gateways send errors."""
    value = _json_of(text)
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) else None
