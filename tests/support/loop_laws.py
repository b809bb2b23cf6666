"""Loop laws: what must hold of the loop whatever happens, watched while a scenario runs and checked when it rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dsh_lsp.agent.driver import Agent
from dsh_lsp.agent.inbox import Inbox, InboxChange
from dsh_lsp.errors import UsageError
from dsh_lsp.events import (
    AssistantMessageLogged,
    InboxSpliced,
    InboxTarget,
    LogEvent,
    RequestHeaderLogged,
    StepEnd,
    ToolResult,
    TurnEnd,
)
from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.messages import UserMessage
from dsh_lsp.session.legality import LogState, advance, check
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.surface import Surface, derive_messages
from dsh_lsp.tools.tool import Mode

HEADER = SessionHeader(id="s1", created_at=0, cwd="/w")


class Facts(list[LogEvent]):
    """Events in the place of a log."""

    def facts(self) -> Iterator[LogEvent]:
        return iter(self)


class Watch:
    """Looks at each event as it comes, and at the whole log in the end; `broken` are the laws found broken."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.broken: list[str] = []
        self.verdicts: set[str] = set()  # messages that pre-step took out
        self.requests: list[tuple[int, ModelRequest]] = []  # with the length of the log when each was sent
        self.state, self.surface = LogState(), Surface()
        self.running: dict[str, Mode] = {}
        self.answered: set[str] = set()  # in any step: a body that was given up may run on
        log.appended.listen(self.see)

    def hold(self, law: bool, words: str) -> None:
        if not law:
            self.broken.append(f"{words} (event {len(self.log)})")

    def see(self, event: LogEvent) -> None:
        """The log is legal after every event, and no call is unanswered after its step."""
        try:
            check(self.state, event)
            self.surface.check(event)
        except UsageError as error:
            self.broken.append(f"the log is illegal: {error}")
        if isinstance(event.data, ToolResult):
            blocks = event.data.message.content
            self.answered |= {block.tool_call_id for block in blocks if block.type == "tool-result"}
        if isinstance(event.data, StepEnd):
            self.hold(not self.state.unanswered, f"calls {self.state.unanswered} are unanswered after their step")
        if isinstance(event.data, TurnEnd):
            self.hold(not self.state.step_open, "a turn ended in its step")
        advance(self.state, event)
        self.surface.add(event)

    def see_request(self, request: ModelRequest) -> None:
        """Every request is rebuilt from the log before its first chunk."""
        prefix = list(self.log)
        self.requests.append((len(prefix), request))
        self.hold(derive_messages(prefix) == request.messages, "a request has other messages than its log")
        headers = [event.data.header for event in prefix if isinstance(event.data, RequestHeaderLogged)]
        told = (headers[-1].config, headers[-1].system, headers[-1].tools)
        self.hold(told == (request.config, request.system, request.tools), "a request has another header")

    def body_begins(self, call_id: str, mode: Mode, cap: int) -> None:
        """At most `cap` bodies of a step run at once, an exclusive one alone; abandoned ones do not count."""
        others = [other for key, other in self.running.items() if key not in self.answered]
        self.hold(len(others) < cap, f"{len(others) + 1} bodies run at once")
        self.hold(not others or (mode == "parallel" and "exclusive" not in others), "an exclusive body overlaps")
        self.running[call_id] = mode

    def check_inbox(self, inbox: Inbox) -> None:
        """The inbox rebuilt from the log is the live one."""
        splices = [event for event in self.log if isinstance(event.data, InboxSpliced)]
        rebuilt = Inbox(Facts(splices))  # type: ignore[arg-type] - it only reads the facts
        self.hold(
            (rebuilt.next_turn, rebuilt.next_step) == (inbox.next_turn, inbox.next_step),
            "the inbox is not that of the log",
        )

    def check_replay(self) -> None:
        """A new log takes all events of this one and comes to the same state."""
        replayed = SessionLog(HEADER, events=list(self.log))
        self.hold(replayed.state == self.log.state == self.state, "a replay comes to another state")
        self.hold(replayed.derive_messages() == self.log.derive_messages(), "a replay has other messages")

    def check_order(self) -> None:
        """The results of a message's calls come in the model's order."""
        results: list[str] = []
        asked: list[str] = []
        for event in self.log:
            if isinstance(event.data, AssistantMessageLogged):
                asked = [block.id for block in event.data.message.tool_calls]
                results = []
            elif isinstance(event.data, ToolResult):
                results.append(event.data.message.content[0].tool_call_id)
                self.hold(results == asked[: len(results)], "results are out of the model's order")

    def check_fates(self, pending: set[str]) -> None:
        """Each accepted message ends in exactly one way."""
        fates = self._fates()
        for message_id, fate in fates.items():
            if fate == "claimed":
                self.hold(message_id in self.verdicts, f"message {message_id} was claimed and vanished")
            self.hold((fate == "pending") == (message_id in pending), f"message {message_id} is {fate}")
        self.hold(pending <= fates.keys(), "a message waits that nobody sent")

    def _fates(self) -> dict[str, str]:
        fates: dict[str, str] = {}
        lists: dict[InboxTarget, list[str]] = {"next-step": [], "next-turn": []}
        for event in self.log:
            if isinstance(event.data, UserMessage) and event.data.id in fates:
                self.hold(fates[event.data.id] == "claimed", f"{fates[event.data.id]} message became history")
                fates[event.data.id] = "history"
            if not isinstance(event.data, InboxSpliced):
                continue
            splice, waiting = event.data, lists[event.data.target]
            end = splice.start + (splice.removed_count or 0)
            for message_id in waiting[splice.start : end]:
                fates[message_id] = "canceled" if splice.outcome == "canceled" else "claimed"
            inserted = [message.id for message in splice.inserted]
            for message_id in inserted:
                before = fates.get(message_id)
                again = splice.outcome == "restored"
                self.hold(before == ("claimed" if again else None), f"a {before} message was inserted")
                fates[message_id] = "pending"
            waiting[splice.start : end] = inserted
        return fates

    def check_history(self) -> None:
        """What became history reached a request, or its turn ended before one."""
        sent = [(length, {message.id for message in request.messages}) for length, request in self.requests]
        ends = [event.seq for event in self.log if isinstance(event.data, TurnEnd)]
        for event in self.log:
            if isinstance(event.data, UserMessage):
                request = next((ids for length, ids in sent if length > event.seq), None)
                until = next((seq for seq in ends if seq > event.seq), len(self.log))
                asked_in_turn = any(event.seq < length <= until for length, _ in sent)
                reached = request is not None and event.data.id in request
                self.hold(reached or not asked_in_turn, f"message {event.data.id} reached no request")


class Queue:
    """The plain model of the inbox: two lists, changed by what is told of the real one."""

    def __init__(self, agent: Agent) -> None:
        self.lists: dict[str, list[str]] = {"next-step": [], "next-turn": []}
        self.place: tuple[str, int | None] = ("next-step", None)  # where the next insertion goes; a context's place
        self._origin: dict[str, str] = {}
        self._restored: Counter[str] = Counter()
        agent.hooks.inbox.listen(self._hear)

    @property
    def ids(self) -> list[str]:
        return [*self.lists["next-step"], *self.lists["next-turn"]]

    def _hear(self, change: InboxChange) -> None:
        message_id = change.message.id
        if change.kind != "restored":
            self._restored.clear()
        if change.kind == "inserted":
            name, index = self.place
            self.lists[name].insert(len(self.lists[name]) if index is None else index, message_id)
            self._origin[message_id] = name
        elif change.kind == "restored":
            name = self._origin[message_id]
            self.lists[name].insert(self._restored[name], message_id)
            self._restored[name] += 1
        else:
            self.lists[self._origin[message_id]].remove(message_id)
