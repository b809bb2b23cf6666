"""Chat decoder: the JSON events of one chat-completions answer become its chunks.

Rules: no I/O. Text goes out as it comes; what ends a block, the usage and the finish wait for the end of the stream.
The finish is decided by what came, not by what the server calls it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Literal

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.dialect import Dialect
from dsh_lsp.llm.finish_words import CUT, REFUSED, failure_in, word_in
from dsh_lsp.llm.open_calls import OpenCalls
from dsh_lsp.llm.overflow import silent_overflow
from dsh_lsp.llm.prose import Prose
from dsh_lsp.llm.surrogates import mend_surrogates
from dsh_lsp.llm.text_calls import Reading, TextCallScanner
from dsh_lsp.llm.think_tags import Part, ThinkSplitter
from dsh_lsp.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    TokenUsage,
    ToolCallBlock,
    ToolSpec,
    UsageChunk,
)
from dsh_lsp.wire import JsonObject

EMPTY = LlmFailure(message="the model's answer was empty", code="EMPTY_RESPONSE")
CLOSED = LlmFailure(message="the stream ended before the answer was complete", code="STREAM_CLOSED")
PLAIN = Dialect(think_tags=False)

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")


def new_call_id() -> str:
    """Make an id for a tool call that came without one."""
    return f"call_{uuid.uuid4().hex}"


class ChatDecoder:
    """One answer: is fed its JSON events in order and gives its chunks.

    `window` is the model's context window in tokens: a prompt beyond it was cut by a server that says nothing.
    """

    def __init__(
        self,
        *,
        tools: Sequence[ToolSpec] = (),
        dialect: Dialect = PLAIN,
        window: int | None = None,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._indexes = count()
        self._new_id = new_id
        known = frozenset(tool.name for tool in tools)
        self._calls = OpenCalls(known=known, new_id=new_id, new_index=lambda: next(self._indexes))
        self._text = Prose("text", self._indexes)
        self._reasoning = Prose("reasoning", self._indexes)
        self._retyped: Prose | None = None  # text that turned out to be reasoning
        self._tags = ThinkSplitter() if dialect.think_tags else None
        self._scanner = TextCallScanner(tools) if dialect.text_calls and tools else None
        self._reading = Reading(text="")
        self._host = dialect.wording.host
        self._window = window
        self._usage: TokenUsage | None = None
        self._finish = ""
        self._whole = False
        self._refused = False
        self._model = ""
        self._reasoning_field = ""
        self.started = False
        self.known = False

    @property
    def over(self) -> bool:
        """Never known before `[DONE]`: what the answer cost may come after its end."""
        return False

    @property
    def complete(self) -> bool:
        """Whether the server has said that the answer is over, `[DONE]` apart."""
        return bool(self._finish) or self._whole

    @property
    def _empty(self) -> bool:
        prose = self._text.open or self._reasoning.open or self._retyped is not None
        return not (prose or self._calls or self._reading.calls)

    def feed_all(self, events: Iterable[JsonObject]) -> Iterator[Chunk]:
        """Take events that came together; text after text, which is nearly all of a stream, is taken as one."""
        texts: list[str] = []
        for event in events:
            if self._model and (plain := _plain_text(event)):
                texts.append(plain)
                continue
            if texts:
                yield from self._say_plain("".join(texts))
                texts = []
            yield from self.feed(event)
        if texts:
            yield from self._say_plain("".join(texts))

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        """Take one event that holds no error."""
        self.known |= "choices" in event
        choice = _first_choice(event)
        self._usage = read_usage(event.get("usage")) or read_usage(choice.get("usage")) or self._usage
        self._model = mend_surrogates(_string(event.get("model"))) or self._model
        delta = self._delta_of(choice)
        if not choice:
            return
        self.started = True
        yield from self._think(delta)
        refusal = _string(delta.get("refusal"))
        self._refused |= bool(refusal)
        if text := _content_text(delta.get("content")) + refusal:
            yield from self._say(self._tags.push(text) if self._tags is not None else [("text", text)])
        for entry in _call_entries(delta):
            yield from self._calls.push(entry)
        self._finish = word_in(choice.get("finish_reason")) or self._finish

    def end(self, *, done: bool) -> Iterator[Chunk]:
        """End the stream after the last event; `done` says that `[DONE]` came."""
        if self._tags is not None:
            yield from self._say(self._tags.flush())
        if self._scanner is not None:  # calls in the server's own form win over those in the text
            self._reading = self._scanner.end(wanted=not self._calls)
            yield from self._text.push(self._reading.text)
        yield from self._text.flush()
        yield from self._reasoning.flush()
        finish = self._verdict(done=done)
        if finish.failure is not None:
            yield from self.fail(finish.failure)
            return
        yield from self._ends()
        yield from self._usage_chunks()
        yield finish

    def fail(self, failure: LlmFailure) -> Iterator[Chunk]:
        """End the stream by a failure: no block is whole."""
        yield from self._usage_chunks()
        yield Finish(reason="error", failure=failure)

    # -- what comes ------------------------------------------------------------------------------------------

    def _think(self, delta: JsonObject) -> Iterator[Chunk]:
        found = next(((name, text) for name in _REASONING_FIELDS if (text := _string(delta.get(name)))), None)
        text = found[1] if found is not None else _details_text(delta.get("reasoning_details"))
        text = text or _thought_text(delta.get("content"))
        if not text:
            return
        self._reasoning_field = found[0] if found is not None else self._reasoning_field
        if self._tags is not None:
            yield from self._say(self._tags.stop())
            self._tags = None
        yield from self._reasoning.push(text)

    def _say_plain(self, text: str) -> Iterator[Chunk]:
        self.started = True
        return self._say(self._tags.push(text) if self._tags is not None else [("text", text)])

    def _say(self, parts: Iterable[Part]) -> Iterator[Chunk]:
        """Show parts of the text, each in its block."""
        for kind, text in parts:
            match kind:
                case "reasoning":
                    yield from self._reasoning.push(text)
                case "text":
                    yield from self._text.push(self._scanner.push(text) if self._scanner is not None else text)
                case "retype":
                    yield from self._text.flush()
                    self._text.kind, self._retyped = "reasoning", self._text
                    self._text = Prose("text", self._indexes)

    def _delta_of(self, choice: JsonObject) -> JsonObject:
        """Find what is new: the delta, or the whole message that some servers send in its place."""
        delta = choice.get("delta")
        if isinstance(delta, dict) and delta:
            return delta
        message = choice.get("message")
        if isinstance(message, dict) and self._empty:
            self._whole = True
            return message
        return {}

    # -- how it ends -----------------------------------------------------------------------------------------

    def _verdict(self, *, done: bool) -> Finish:
        if (failed := failure_in(self._finish)) is not None:
            return Finish(reason="error", failure=failed)
        if not (self.complete or done):
            return Finish(reason="error", failure=CLOSED if self.started else EMPTY)
        if (overflow := silent_overflow(self._usage, self._window, cut=self._finish in CUT)) is not None:
            return Finish(reason="error", failure=overflow)
        if self._finish in REFUSED or self._refused:
            return self._ended("refusal")
        if self._finish in CUT:
            return self._ended("max-tokens")
        if self._calls:
            # a call that is not whole, and nobody said that it should be: the stream was cut before `[DONE]`
            cut = not self._finish and not self._calls.complete
            return Finish(reason="error", failure=CLOSED) if cut else self._ended("tool-calls")
        if self._reading.calls:
            return self._ended("tool-calls")
        return Finish(reason="error", failure=EMPTY) if self._empty else self._ended("stop")

    def _ends(self) -> Iterator[Chunk]:
        unclosed = self._tags is not None and self._tags.unclosed
        if unclosed and not (self._text.open or self._calls or self._reading.calls):
            self._reasoning.kind = "text"  # a tag that was never closed, and nothing after it
        retyped = self._retyped.end() if self._retyped is not None else ()
        ends = [*self._text.end(), *self._reasoning.end(), *retyped, *self._calls.close()]
        yield from sorted(ends, key=lambda chunk: getattr(chunk, "index", 0))
        for call in self._reading.calls:
            index = next(self._indexes)
            block = ToolCallBlock(id=self._new_id(), name=call.name, arguments=call.arguments, origin="text")
            yield from (BlockStart(index=index, block_type="tool-call"), BlockEnd(index=index, block=block))

    def _ended(self, reason: Literal["stop", "tool-calls", "max-tokens", "refusal"]) -> Finish:
        field = self._reasoning_field
        told = {
            "model": self._model,
            "reasoningField": field,
            "host": self._host if field else "",
            "unreadCalls": self._reading.unread,
        }
        return Finish(reason=reason, replay_state={key: value for key, value in told.items() if value} or None)

    def _usage_chunks(self) -> Iterator[Chunk]:
        if self._usage is not None:
            yield UsageChunk(usage=self._usage)


def read_usage(usage: Any) -> TokenUsage | None:
    """Read a usage object; the cached part of the prompt is taken out of the input."""
    if not isinstance(usage, dict):
        return None
    prompt, output = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
    if prompt is None and output is None:
        return None
    cached = _tokens(usage, "prompt_cache_hit_tokens")
    if cached is None:
        cached = _tokens(usage.get("prompt_tokens_details"), "cached_tokens")
    return TokenUsage(
        input_tokens=max(0, (prompt or 0) - (cached or 0)),
        output_tokens=output or 0,
        cache_read_tokens=cached,
        reasoning_tokens=_tokens(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _tokens(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and value >= 0 else None


def _plain_text(event: JsonObject) -> str | None:
    """The text of an event that brings text and nothing else."""
    choices = event.get("choices")
    if event.get("usage") or not isinstance(choices, list) or len(choices) != 1:
        return None
    choice = choices[0]
    if not isinstance(choice, dict) or choice.get("index") != 0 or choice.get("finish_reason") or choice.get("usage"):
        return None
    delta = choice.get("delta")
    if not isinstance(delta, dict) or len(delta) != 1:
        return None
    text = delta.get("content")
    return text if isinstance(text, str) else None


def _first_choice(event: JsonObject) -> JsonObject:
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (0, None):
            return choice
    return {}


def _details_text(details: Any) -> str:
    """The text of OpenRouter's list of reasoning parts, which may come without the plain field."""
    parts = details if isinstance(details, list) else ()
    return "".join(
        _string(part.get("text")) or _string(part.get("summary")) for part in parts if isinstance(part, dict)
    )


def _thought_text(content: Any) -> str:
    """The text of Mistral's thoughts, which stand as parts among those of the content."""
    parts = content if isinstance(content, list) else ()
    return "".join(_content_text(part.get("thinking")) for part in parts if isinstance(part, dict))


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(_string(part.get("text")) for part in content if isinstance(part, dict))
    return _string(content)


def _call_entries(delta: JsonObject) -> list[JsonObject]:
    calls = delta.get("tool_calls")
    if isinstance(calls, list) and calls:
        return [entry for entry in calls if isinstance(entry, dict)]
    legacy = delta.get("function_call")
    return [{"function": legacy}] if isinstance(legacy, dict) else []


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
