"""Script: an adapter that plays prepared replies in the place of a model; for the demo and for tests.

    adapter = ScriptedAdapter([
        think("I should look.") + call("read_file", path="a.py"),
        lambda request: say(f"I read {len(request.messages)} messages."),
    ])

Rules: a reply streams like a real answer: text in small pieces, blocks ended at the end, one finish.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

import anyio

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm.adapter import ModelRequest, PreparedCall
from dsh_lsp.messages import (
    BlockEnd,
    BlockStart,
    CallConfig,
    Chunk,
    Finish,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
)
from dsh_lsp.wire import dumps


class Gate(Protocol):
    """What holds a reply until somebody opens it: an `anyio.Event`, an `asyncio.Event`."""

    async def wait(self) -> Any:
        """Return once the gate is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Text for the reader."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Think:
    """Reasoning."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call; an empty `id` is filled in."""

    tool: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Nothing comes until the gate opens."""

    gate: Gate


Part: TypeAlias = Say | Think | Call | Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; replies are joined by `+`, and the later one's finish and usage win."""

    parts: tuple[Part, ...] = ()
    finish: Finish | None = None
    usage: TokenUsage | None = None

    def __add__(self, other: Reply) -> Reply:
        return Reply(
            parts=self.parts + other.parts,
            finish=other.finish or self.finish,
            usage=other.usage or self.usage,
        )


ScriptedReply: TypeAlias = Reply | Callable[[ModelRequest], Reply]


def say(text: str) -> Reply:
    """Answer with text."""
    return Reply(parts=(Say(text=text),))


def think(text: str) -> Reply:
    """Think aloud."""
    return Reply(parts=(Think(text=text),))


def call(tool: str, /, *, id: str = "", **arguments: Any) -> Reply:  # noqa: A002 - the wire's word
    """Call a tool with these arguments."""
    return Reply(parts=(Call(tool=tool, arguments=dumps(arguments), id=id),))


def call_text(tool: str, arguments: str, *, id: str = "") -> Reply:  # noqa: A002 - the wire's word
    """Call a tool with arguments as raw text, JSON or not."""
    return Reply(parts=(Call(tool=tool, arguments=arguments, id=id),))


def hold(gate: Gate) -> Reply:
    """Wait here until the gate opens."""
    return Reply(parts=(Hold(gate=gate),))


def use(usage: TokenUsage) -> Reply:
    """Report this usage in place of an estimate."""
    return Reply(usage=usage)


def finish_as(reason: Literal["stop", "tool-calls", "max-tokens", "refusal"]) -> Reply:
    """End with this reason, whatever was said."""
    return Reply(finish=Finish(reason=reason))


def fail(failure: LlmFailure | str, *, message: str = "scripted failure") -> Reply:
    """Break off with a failure, given whole or by its code."""
    if isinstance(failure, str):
        failure = LlmFailure(message=message, code=failure)
    return Reply(finish=Finish(reason="error", failure=failure))


class ScriptedAdapter:
    """Plays one reply for each call, in order; `requests` keeps what it was asked.

    After the last reply it plays `default`, and without one it fails with the code `SCRIPT_ENDED`. `delay_s` is
    the pause before each piece. Cancellation stops it between two pieces and inside a pause or a hold.
    """

    def __init__(
        self,
        script: Iterable[ScriptedReply] = (),
        *,
        provider: str = "scripted",
        default: ScriptedReply | None = None,
        delay_s: float = 0.0,
        context_window: int | None = 128_000,
    ) -> None:
        self._script = iter(script)
        self._provider = provider
        self._default = default
        self._delay_s = delay_s
        self._context_window = context_window
        self.requests: list[ModelRequest] = []

    @property
    def provider(self) -> str:
        """The name by which settings choose it."""
        return self._provider

    def prepare(self, config: CallConfig) -> PreparedCall:
        """Bind the call; there is nothing to fill in."""
        return PreparedCall(config=config, stream=self._stream, context_window=self._context_window)

    async def _stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        number = len(self.requests)
        reply = self._next_reply(request, number)
        for step in _play(reply, request, number):
            with request.signal.guard():
                # also without a pause the loop gets its turn, as between packets of a real stream
                await (step.gate.wait() if isinstance(step, Hold) else anyio.sleep(self._delay_s))
            if not isinstance(step, Hold):
                yield step

    def _next_reply(self, request: ModelRequest, number: int) -> Reply:
        reply = next(self._script, self._default)
        if reply is None:
            text = f"the script ended before call {number}: add a reply, or give the adapter a default"
            return fail("SCRIPT_ENDED", message=text)
        return reply if isinstance(reply, Reply) else reply(request)


def _play(reply: Reply, request: ModelRequest, number: int) -> Iterator[Chunk | Hold]:
    """Turn a reply into its chunks; text after text continues the block."""
    blocks: list[TextBlock | ReasoningBlock | ToolCallBlock] = []
    for part in reply.parts:
        match part:
            case Hold():
                yield part
            case Call():
                index = len(blocks)
                called = ToolCallBlock(
                    id=part.id or f"call_{number}_{index}", name=part.tool, arguments=part.arguments
                )
                blocks.append(called)
                yield BlockStart(index=index, block_type="tool-call")
                yield from _call_deltas(index, called)
            case Say() | Think():
                yield from _prose(part, blocks)
    if reply.finish is None or reply.finish.failure is None:
        for index, block in enumerate(blocks):
            yield BlockEnd(index=index, block=block)
        yield UsageChunk(usage=reply.usage or _estimate(request, blocks))
    elif reply.usage is not None:
        yield UsageChunk(usage=reply.usage)
    calls = any(isinstance(block, ToolCallBlock) for block in blocks)
    yield reply.finish or Finish(reason="tool-calls" if calls else "stop")


def _prose(part: Say | Think, blocks: list[TextBlock | ReasoningBlock | ToolCallBlock]) -> Iterator[Chunk]:
    said = isinstance(part, Say)
    last = blocks[-1] if blocks else None
    if isinstance(last, TextBlock if said else ReasoningBlock):
        blocks[-1] = replace(last, text=last.text + part.text)
    else:
        yield BlockStart(index=len(blocks), block_type="text" if said else "reasoning")
        blocks.append(TextBlock(text=part.text) if said else ReasoningBlock(text=part.text))
    index = len(blocks) - 1
    for piece in _pieces(part.text):
        yield TextDelta(index=index, text=piece) if said else ReasoningDelta(index=index, text=piece)


def _call_deltas(index: int, block: ToolCallBlock) -> Iterator[Chunk]:
    yield ToolCallDelta(index=index, id=block.id, name=block.name, arguments_delta="")
    for start in range(0, len(block.arguments), 16):
        yield ToolCallDelta(index=index, id=block.id, arguments_delta=block.arguments[start : start + 16])


def _pieces(text: str) -> list[str]:
    """Split text about as tokens do: word by word, the space in front; together they are `text`."""
    return re.findall(r"\s*\S{1,12}|\s+", text)


def _estimate(request: ModelRequest, blocks: list[TextBlock | ReasoningBlock | ToolCallBlock]) -> TokenUsage:
    read = len(request.system or "") + len(str(request.messages))
    return TokenUsage(input_tokens=read // 4, output_tokens=len(str(blocks)) // 4)
