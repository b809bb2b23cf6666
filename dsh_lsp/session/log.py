"""Session log: the append-only list of facts, and the one place that knows what happened.

Rules: `seq` is contiguous from 0; appending is synchronous and never re-entrant; observers hear an event after
it is committed and can neither undo it nor starve each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

from pydantic import BaseModel

from dsh_lsp.abort import Disposer
from dsh_lsp.errors import UsageError
from dsh_lsp.events import (
    CLASSES,
    AssistantChunk,
    AssistantMessageLogged,
    EventData,
    LogEvent,
    PluginEvent,
    RequestHeaderLogged,
    SeqRange,
    ToolResult,
)
from dsh_lsp.hooks import Emit
from dsh_lsp.messages import Finish, Message
from dsh_lsp.session.legality import LogState, advance, check
from dsh_lsp.session.rows import ChunkRun
from dsh_lsp.session.surface import Surface
from dsh_lsp.wire import JsonObject, Wire, json_copy


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader(Wire):
    """What is fixed for a session's life; `created_at` is milliseconds since 1970, `cwd` an absolute path.

    `parent_session` is the session that it was forked from.
    """

    id: str
    created_at: int
    cwd: str
    version: int = 0
    parent_session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEventKind:
    """A kind of event that a plugin registers: its tag, its model, and the rules for its place in a log."""

    tag: str
    model: type[BaseModel] | None = None
    needs_turn: bool = False
    ignorable: bool = False


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


Check = Callable[[LogEvent], None]


class SessionLog(Sequence[LogEvent]):
    """One session's events, and its surface kept up to date with them.

    `checks` look at each event before it is committed, beside the rules of legality; one that raises refuses it.
    """

    def __init__(
        self,
        header: SessionHeader,
        *,
        events: Iterable[LogEvent | ChunkRun] = (),
        clock: Callable[[], int] = wall_clock_ms,
        checks: Sequence[Check] = (),
    ) -> None:
        self.header = header
        self.appended: Emit[LogEvent] = Emit("session/event")
        self.state = LogState()
        self.surface = Surface()
        self._clock = clock
        self._checks = tuple(checks)
        self._events: list[LogEvent | ChunkRun] = []  # a run stands in each of its places
        self._packed = False  # whether there are runs among them
        self._plugin_events: dict[str, PluginEventKind] = {}
        self._appending = False
        self.replay(events)

    def replay(self, events: Iterable[LogEvent | ChunkRun]) -> None:
        """Take what happened before, telling nobody.

        Raises:
            UsageError: `ILLEGAL_EVENT`; what came before it stays.
        """
        for event in events:
            if isinstance(event, ChunkRun):
                self._admit(event.first)  # the others differ in their text, and no rule looks at that
                self._events += [event] * event.length
                self._packed = True
            else:
                self._admit(event)
                self._commit(event)

    def append(
        self, data: EventData, *, sources: tuple[SeqRange, ...] | None = None, replaces: SeqRange | None = None
    ) -> LogEvent:
        """Commit a fact and tell the observers.

        Raises:
            UsageError: `ILLEGAL_EVENT`, it may not come now; `REENTRANT`, an observer of an append tried to append.
                Nothing has changed.
        """
        if self._appending:
            raise UsageError("an observer of an append cannot append; use a later turn of the loop", code="REENTRANT")
        self._appending = True
        try:
            event = LogEvent(
                seq=len(self._events), time=self._clock(), data=_own(data), sources=sources, replaces=replaces
            )
            self._admit(event)
            for refuse in self._checks:
                refuse(event)
            self._commit(event)
            self.appended(event)
        finally:
            self._appending = False
        return event

    def register(self, kind: PluginEventKind) -> Disposer:
        """Let a plugin append events of its own.

        Raises:
            UsageError: the tag is taken.
        """
        if kind.tag in self._plugin_events or kind.tag in CLASSES:
            raise UsageError(f"an event is called {kind.tag!r} already", code="DUPLICATE_EVENT")
        self._plugin_events[kind.tag] = kind
        return lambda: self._plugin_events.pop(kind.tag, None)

    def append_plugin_event(self, tag: str, data: JsonObject) -> LogEvent:
        """Commit a plugin's fact.

        Raises:
            UsageError: nobody registered the tag, or the event may not come now.
            pydantic.ValidationError: the data does not fit the registered model.
        """
        kind = self._plugin_events.get(tag)
        if kind is None:
            raise UsageError(f"no plugin has registered the event {tag!r}", code="UNKNOWN_EVENT")
        if kind.model is not None:
            kind.model.model_validate(data)
        return self.append(PluginEvent(tag=tag, data=data, needs_turn=kind.needs_turn, ignorable=kind.ignorable))

    def derive_messages(self) -> tuple[Message, ...]:
        """What a model sees now; equal to `derive_messages(list(log))` and cheaper."""
        return self.surface.messages()

    def _admit(self, event: LogEvent) -> None:
        if event.seq != len(self._events):
            raise UsageError(f"event {event.seq} cannot follow {len(self._events) - 1}", code="ILLEGAL_EVENT")
        check(self.state, event)
        self.surface.check(event)

    def _commit(self, event: LogEvent) -> None:
        self._events.append(event)
        self.surface.add(event)
        advance(self.state, event)

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[LogEvent]:
        return self._walk(whole=True) if self._packed else iter(self._events)  # type: ignore[arg-type]

    def facts(self) -> Iterator[LogEvent]:
        """The events in order, but of a packed run of chunks only the first and the last.

        Enough for whoever does not read the text of chunks, and much cheaper on a long log.
        """
        return self._walk(whole=False) if self._packed else iter(self._events)  # type: ignore[arg-type]

    def _walk(self, *, whole: bool) -> Iterator[LogEvent]:
        seq = 0
        while seq < len(self._events):
            event = self._events[seq]
            if not isinstance(event, ChunkRun):
                yield event
                seq += 1
                continue
            if whole:
                yield from event.events()
            else:
                yield event.first
                if event.length > 1:
                    yield event.last
            seq += event.length

    @overload
    def __getitem__(self, index: int) -> LogEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[LogEvent]: ...
    def __getitem__(self, index: int | slice) -> LogEvent | list[LogEvent]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self._events)))]
        event = self._events[index]
        return event.event(index % len(self._events)) if isinstance(event, ChunkRun) else event


def _own(data: EventData) -> EventData:
    """The event with copies of its open JSON, so that nobody changes a fact later.

    Raises:
        UsageError: it holds what JSON cannot say.
    """
    try:
        match data:
            case ToolResult(meta=meta) if meta is not None:
                return replace(data, meta=json_copy(meta))
            case PluginEvent(data=content):
                return replace(data, data=json_copy(content))
            case AssistantChunk(chunk=Finish(replay_state=state) as finish) if state is not None:
                return replace(data, chunk=replace(finish, replay_state=json_copy(state)))
            case AssistantMessageLogged(message=message) if message.source.replay_state is not None:
                source = replace(message.source, replay_state=json_copy(message.source.replay_state))
                return replace(data, message=replace(message, source=source))
            case RequestHeaderLogged(header=header):
                tools = tuple(replace(tool, parameters=json_copy(tool.parameters)) for tool in header.tools)
                return replace(data, header=replace(header, tools=tools))
            case _:
                return data
    except ValueError as error:
        raise UsageError(f"{type(data).__name__}: {error}", code="ILLEGAL_EVENT") from error
