"""Model client: one POST to a model server, answered by chunks.

Owns: the HTTP client, its timeouts, and the translation of everything that can go wrong on the way.
Rules: one answer ends with exactly one `Finish`; only cancellation leaves as an exception. The key goes to the
configured server alone: redirects are not followed, and no text of a failure holds it. No retries: those belong to
the agent's step, which logs them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from pydantic import SecretStr

import dsh_lsp
from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.llm.answer import Decoder, FrameReader, json_of
from dsh_lsp.llm.endpoint import EndpointSettings
from dsh_lsp.llm.error_reports import report_of_body
from dsh_lsp.llm.event_stream import Frame, NotAStreamError, StreamTooLargeError, read_batches
from dsh_lsp.llm.failures import (
    Faults,
    failure_from,
    with_hints,
    without_key,
)
from dsh_lsp.llm.http_library import (
    import_alone,
    nobody_trusted,
    opening_errors,
    request_errors,
    trusted,
    why_unusable,
)
from dsh_lsp.messages import Chunk, Finish, ReasoningDelta, TextDelta
from dsh_lsp.wire import JsonObject

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

KEEP_IDLE_S = 20.0  # an older pooled socket may be dead: https://github.com/NousResearch/hermes-agent/issues/62807
DRAIN_S = 0.1
REFUSAL_S = 10.0  # for the words of a refusal
TAIL_S = 2.0  # after the end of an answer, for what it cost
MAX_ERROR_BYTES = 64 * 1024
MAX_LIST_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: `encode` writes its body, with `stream` true or false; `key` is kept out of every text."""

    path: str
    headers: Mapping[str, str]
    encode: Callable[[bool], bytes]
    new_decoder: Callable[[], Decoder]
    key: SecretStr | None = None

    @property
    def secret(self) -> str:
        """The key's text, or nothing."""
        return self.key.get_secret_value() if self.key is not None else ""


class ModelClient:
    """One server's pooled connections; opened at the first call, closed by `aclose()`.

    `transport` takes the place of the network; a connection that was idle for `keep_idle_s` is not used again,
    and what may come after the end of an answer is waited for `tail_s`.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        *,
        faults: Faults | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        keep_idle_s: float = KEEP_IDLE_S,
        tail_s: float = TAIL_S,
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._keep_idle_s = keep_idle_s
        self._tail_s = tail_s
        self._faults = faults or Faults()
        self._client: httpx.AsyncClient | None = None
        self._urls: dict[str, httpx.URL] = {}  # parsed, since a client takes long over that for each request
        self._opening = anyio.Lock()

    async def aclose(self) -> None:
        """Close all connections; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def stream(self, call: Call, signal: AbortSignal) -> AsyncIterator[Chunk]:
        """Send one request and stream its answer.

        Raises:
            Aborted: the signal fired; the connection is closed.
        """
        async with aclosing(self._batches(call)) as batches:
            while True:
                with signal.guard():  # around each wait: a cancel scope must not be open across a yield
                    batch = await anext(batches, None)
                if batch is None:
                    return
                for chunk in batch:
                    signal.check()
                    yield chunk

    async def get(self, path: str, headers: Mapping[str, str], *, key: SecretStr | None, timeout_s: float) -> Any:
        """Get a JSON document, such as the list of models.

        Raises:
            LlmError: whatever went wrong, or the answer is no JSON.
        """
        client = await self._open_client()

        secrets = (key.get_secret_value() if key is not None else "", *self._settings.secrets)
        try:
            with anyio.fail_after(timeout_s):
                async with client.stream("GET", self._url(path), headers=dict(headers)) as response:
                    if not response.is_success:
                        raise LlmError(without_key(await self._refusal(response), *secrets))
                    body = bytearray()
                    await _read_into(body, response, MAX_LIST_BYTES)
        except TimeoutError as error:
            message = f"{self._settings.host} did not answer in {timeout_s:g} s"
            raise LlmError(LlmFailure(message=message, code="TIMEOUT")) from error
        except request_errors() as error:
            failure = transport_failure(error, host=self._settings.host)
            raise LlmError(without_key(failure, *secrets)) from error
        document = json_of(body.decode(errors="replace"))
        if isinstance(document, str):
            message = f"{self._settings.host} answered with something that is not JSON: check baseUrl"
            raise LlmError(LlmFailure(message=message, code="MALFORMED_RESPONSE"))
        return document

    async def _batches(self, call: Call) -> AsyncGenerator[list[Chunk]]:
        """Give the chunks of one answer, those of one packet together."""
        decoder, done = call.new_decoder(), False
        headers: dict[str, str] = {}

        def failed(failure: LlmFailure) -> LlmFailure:
            return without_key(with_hints(failure, headers), call.secret, *self._settings.secrets)

        # a stream that ends without a word hides an error, which the same request without streaming brings out
        for stream in (True, False):
            decoder, done, came = call.new_decoder(), False, False
            try:
                async with aclosing(self._events(call, decoder, headers, stream=stream)) as batches:
                    async for events in batches:
                        done = events[-1] is None
                        came |= events[0] is not None
                        real = [event for event in events if event is not None]
                        chunks = self._read(partial(decoder.feed_all, real))
                        yield list(joined(chunks)) if len(chunks) > 1 else chunks
                if came and not decoder.known:
                    raise LlmError(self._no_answer())
            except LlmError as error:
                after_the_end = decoder.complete and error.code in {"TRANSPORT", "TIMEOUT", "STREAM_CLOSED"}
                if not after_the_end:
                    yield list(decoder.fail(failed(error.failure)))
                    return
            if decoder.started:
                break
        try:
            last = self._read(partial(decoder.end, done=done))
        except LlmError as error:
            last = list(decoder.fail(error.failure))
        *others, finish = last
        if isinstance(finish, Finish) and finish.failure is not None:
            finish = replace(finish, failure=failed(finish.failure))
        yield [*others, finish]

    def _read(self, read: Callable[[], Iterator[Chunk]]) -> list[Chunk]:
        """Let a decoder read.

        Raises:
            LlmError: what came is nothing that it was made for.
        """
        try:
            return list(read())
        except Exception as error:
            log.warning("an answer of %s cannot be read", self._settings.host, exc_info=error)
            message = f"{self._settings.host} sent something that cannot be read ({type(error).__name__})"
            raise LlmError(LlmFailure(message=message, code="MALFORMED_RESPONSE")) from error

    def _no_answer(self) -> LlmFailure:
        message = f"{self._settings.host} answered with something that is no model's answer: check baseUrl"
        return LlmFailure(message=message, code="MALFORMED_RESPONSE")

    async def _events(
        self, call: Call, decoder: Decoder, told: dict[str, str], *, stream: bool
    ) -> AsyncGenerator[list[JsonObject | None]]:
        """Give the JSON events of one answer by packets, then None if the server said that it is done.

        `told` takes the headers of the response; `decoder` says how long there is something to wait for.

        Raises:
            LlmError: whatever went wrong.
        """
        client = await self._open_client()
        import httpx

        headers = {**call.headers, "Content-Type": "application/json"}
        content = call.encode(stream)
        try:
            async with client.stream("POST", self._url(call.path), content=content, headers=headers) as response:
                told |= response.headers
                if not response.is_success:
                    raise LlmError(await self._refusal(response))
                async with (
                    aclosing(_packets(response)) as packets,
                    aclosing(read_batches(packets)) as frames,
                ):
                    async with aclosing(self._decoded(frames, decoder)) as batches:
                        async for events in batches:
                            yield events
                    with suppress(httpx.HTTPError, StreamTooLargeError), anyio.move_on_after(DRAIN_S):
                        async for _ in frames:  # a response read to its end leaves a connection to use again
                            pass
        except StreamTooLargeError as error:
            message = f"{self._settings.host} sent a larger answer than is read"
            raise LlmError(LlmFailure(message=message, code="MALFORMED_RESPONSE")) from error
        except NotAStreamError as error:
            raise LlmError(self._no_answer()) from error
        except request_errors() as error:
            raise LlmError(transport_failure(error, host=self._settings.host)) from error

    async def _decoded(
        self, batches: AsyncGenerator[list[Frame]], decoder: Decoder
    ) -> AsyncGenerator[list[JsonObject | None]]:
        reader = FrameReader(self._settings.host, self._faults)
        while not (reader.done or decoder.over):
            frames = await self._next_batch(batches, complete=decoder.complete)
            if frames is None:
                return
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

    async def _next_batch(self, batches: AsyncGenerator[list[Frame]], *, complete: bool) -> list[Frame] | None:
        """Wait for frames, not long where only what the answer cost can be missing; None at the end."""
        limit_s = min(self._tail_s, self._settings.event_timeout_s) if complete else self._settings.event_timeout_s
        try:
            with anyio.fail_after(limit_s):
                return await anext(batches, None)
        except TimeoutError as error:
            if complete:
                return None
            message = f"{self._settings.host} keeps the connection but sent no part of an answer in {limit_s:g} s"
            raise LlmError(LlmFailure(message=message, code="TIMEOUT")) from error

    async def _refusal(self, response: httpx.Response) -> LlmFailure:
        import httpx

        body, limit_s = bytearray(), min(REFUSAL_S, self._settings.idle_timeout_s)
        with suppress(httpx.HTTPError), anyio.move_on_after(limit_s):  # without its words, the status says enough
            await _read_into(body, response, MAX_ERROR_BYTES)
        report = report_of_body(response.status_code, json_of(body.decode(errors="replace")))
        failure = failure_from(report, host=self._settings.host, faults=self._faults)
        message = failure.message
        if response.is_redirect:
            message += "; redirects are not followed, since the key would go with them: check baseUrl"
        return replace(failure, message=message)

    def _url(self, path: str) -> httpx.URL:
        import httpx

        if path not in self._urls:
            try:
                self._urls[path] = httpx.URL(self._settings.url_of(path))
            except httpx.InvalidURL as error:
                message = f"model.baseUrl is no address that can be asked: {error}"
                raise LlmError(LlmFailure(message=message, code="BAD_SETTING")) from error
        return self._urls[path]

    async def _open_client(self) -> httpx.AsyncClient:
        if self._client is not None:
            return self._client
        async with self._opening:
            if self._client is None:
                # the import and the certificates are read from disk: not in the loop
                try:
                    self._client = await anyio.to_thread.run_sync(self._new_client)
                except opening_errors() as error:
                    message = f"{self._settings.host} cannot be asked: {why_unusable(error)}"
                    raise LlmError(LlmFailure(message=message, code="BAD_SETTING")) from error
            return self._client

    def _new_client(self) -> httpx.AsyncClient:
        import_alone()
        from urllib.request import getproxies

        import httpx

        settings = self._settings
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
            limits=httpx.Limits(keepalive_expiry=self._keep_idle_s),
            follow_redirects=False,
            transport=self._transport,
            verify=trusted() if settings.is_encrypted or getproxies() else nobody_trusted(),
        )


def transport_failure(error: Exception, *, host: str) -> LlmFailure:
    """Translate what a request raised; total over that, the first row that fits wins."""
    import httpx

    detail = (str(error) if isinstance(error, httpx.HTTPError) else "") or type(error).__name__
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
        (Exception, "TRANSPORT", unreachable),
    )
    code, message = next((code, message) for kind, code, message in table if isinstance(error, kind))
    return LlmFailure(message=message, code=code)


def joined(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks that came together, neighbouring deltas of one block made one: they are logged and shown once.

    What came in a packet of its own stays a chunk of its own.
    """
    texts: list[str] = []
    last: TextDelta | ReasoningDelta | None = None
    for chunk in chunks:
        if last is not None and type(chunk) is type(last) and chunk.index == last.index:
            texts.append(chunk.text)
            continue
        if last is not None:
            yield replace(last, text="".join(texts)) if len(texts) > 1 else last
            last = None
        if isinstance(chunk, TextDelta | ReasoningDelta):
            last, texts = chunk, [chunk.text]
        else:
            yield chunk
    if last is not None:
        yield replace(last, text="".join(texts)) if len(texts) > 1 else last


async def _packets(response: httpx.Response) -> AsyncGenerator[bytes]:
    async for packet in response.aiter_bytes():
        yield packet


async def _read_into(body: bytearray, response: httpx.Response, max_bytes: int) -> None:
    """Read a body, or as much of it as is wanted."""
    async with aclosing(_packets(response)) as packets:
        async for packet in packets:
            body += packet[: max_bytes - len(body)]
            if len(body) == max_bytes:
                return
