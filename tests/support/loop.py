"""Loop: what tests of the loop's contract share: a tool that waits, a model of raw chunks, a log that refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel

from dsh_lsp.decisions import Effect
from dsh_lsp.events import EventData, InboxSpliced, LogEvent, TurnEnd
from dsh_lsp.llm.adapter import ModelRequest, PreparedCall
from dsh_lsp.llm.scripted import Gate
from dsh_lsp.messages import (
    BlockEnd,
    BlockStart,
    CallConfig,
    Chunk,
    Finish,
    PluginSource,
    TextBlock,
    TextDelta,
    UserMessage,
)
from dsh_lsp.tools.tool import Execution, Tool, ToolArgs, ToolOutput


def ends(log: Iterable[LogEvent]) -> list[str]:
    """The reasons for which the turns ended."""
    return [event.data.reason.kind for event in log if isinstance(event.data, TurnEnd)]


def splices(log: Iterable[LogEvent]) -> list[InboxSpliced]:
    return [event.data for event in log if isinstance(event.data, InboxSpliced)]


def outcomes(log: Iterable[LogEvent]) -> list[str]:
    return [splice.outcome for splice in splices(log) if splice.outcome]


def texts(messages: Iterable[Any]) -> list[str]:
    return [message.text for message in messages]


def committed(log: Iterable[LogEvent]) -> list[str]:
    """The texts of the messages that became history."""
    return [event.data.text for event in log if isinstance(event.data, UserMessage)]


def notice(text: str, message_id: str) -> UserMessage:
    """A plugin's message."""
    return UserMessage(id=message_id, content=(TextBlock(text=text),), source=PluginSource(plugin="p", form="notice"))


def numbered(*data: EventData, first: int = 0) -> list[LogEvent]:
    """Events in a row, as a log would hold them."""
    return [LogEvent(seq=first + index, time=first + index, data=item) for index, item in enumerate(data)]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something has come true."""
    with anyio.fail_after(5):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def settled(rounds: int = 20) -> None:
    """Let everybody run who can."""
    for _ in range(rounds):
        await anyio.lowlevel.checkpoint()


class Refuse:
    """A check of the log that refuses the next appends of one type."""

    def __init__(self, tag: str, times: int = 1) -> None:
        self.tag, self.times = tag, times

    def __call__(self, event: LogEvent) -> None:
        if event.type == self.tag and self.times > 0:
            self.times -= 1
            raise RuntimeError(f"no {self.tag} now")


class NoArgs(ToolArgs):
    pass


class Waits(Tool[NoArgs]):
    """A tool that runs until the test lets it end."""

    name = "waits"
    description = "Wait."
    Args = NoArgs

    def __init__(self, *, ignores_cancel: bool = False, concludes: bool = False) -> None:
        self.started, self.release = anyio.Event(), anyio.Event()
        self.ignores_cancel, self.concludes = ignores_cancel, concludes

    async def execute(self, args: NoArgs, execution: Execution) -> ToolOutput:
        self.started.set()
        if self.concludes:
            execution.conclude_turn()
        if self.ignores_cancel:
            await self.release.wait()
        else:
            with execution.signal.guard():
                await self.release.wait()
        return ToolOutput(text="done")

    def effects(self, args: NoArgs) -> list[Effect]:
        return []


class Acts(Tool[NoArgs]):
    """A tool whose body the test gives."""

    name = "acts"
    description = "Act."
    Args = NoArgs

    def __init__(self, body: Callable[[Execution], object], name: str = "acts") -> None:
        self.body, self.name = body, name

    async def execute(self, args: NoArgs, execution: Execution) -> ToolOutput:
        self.body(execution)
        return ToolOutput(text="acted")

    def effects(self, args: NoArgs) -> list[Effect]:
        return []


def spoken(*pieces: str, finish: Finish | None = None) -> list[Chunk | Gate]:
    """The chunks of a text answer."""
    deltas = [TextDelta(index=0, text=piece) for piece in pieces]
    end = BlockEnd(index=0, block=TextBlock(text="".join(pieces)))
    return [BlockStart(index=0, block_type="text"), *deltas, end, finish or Finish(reason="stop")]


class RawAdapter:
    """Plays raw chunks; a gate among them holds the stream. It fills in `defaults` where a call says nothing."""

    def __init__(
        self,
        *answers: Iterable[Chunk | Gate],
        provider: str = "raw",
        window: int | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.provider, self.window, self.defaults = provider, window, dict(defaults or {})
        self.requests: list[ModelRequest] = []
        self._answers = iter(answers)

    def prepare(self, config: CallConfig) -> PreparedCall:
        filled = {name: value for name, value in self.defaults.items() if getattr(config, name) is None}
        return PreparedCall(
            config=replace(config, **filled),
            stream=self._stream,
            defaulted=frozenset(filled),
            context_window=self.window,
        )

    async def _stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        for item in next(self._answers, spoken("ok")):
            if hasattr(item, "wait"):
                with request.signal.guard():
                    await item.wait()
            else:
                yield item


RAW = {"provider": "raw", "model": "m"}
