"""Meter: how many tokens the next request of a session has: what the provider last counted, and an estimate since.

Rules: a function of the log; a step costs what is new in it. The provider's count, with an answer or a refusal of
too long a prompt, stands until the header or the model changes, and shows by how much the estimates are too low. One
that is far below the estimate is not believed, for some servers drop the oldest part of a prompt that does not fit
and count the rest (https://github.com/ollama/ollama/issues/18107).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from dsh_lsp.errors import LlmFailure
from dsh_lsp.events import AssistantAttempt, AssistantMessageLogged, LogEvent, RequestHeader, RequestHeaderLogged
from dsh_lsp.messages import (
    Message,
    ReasoningBlock,
    TextBlock,
    TokenUsage,
    ToolCallBlock,
    ToolResultBlock,
)
from dsh_lsp.session.log import SessionLog
from dsh_lsp.session.surface import message_of
from dsh_lsp.wire import dumps, encode

ASCII_PER_TOKEN = 4.0
OTHER_PER_TOKEN = 1.6  # Chinese, and what else is not ASCII
OVERHEAD = 4  # of a block and of a message
MIN_BELIEVED = 0.5  # of the estimate
SMALLEST_CONTEXT = 1_000  # a count below it comes from a server that does not count
MOST_CORRECTED = 3.0  # times the estimate; a count beyond that is of something else
MARGIN = 0.02  # of the window: how far an estimate of the prompt may be off


def price_of_text(text: str) -> int:
    """Estimate the tokens of a text."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return ceil(plain / ASCII_PER_TOKEN + (len(text) - plain) / OTHER_PER_TOKEN)


def price_of(message: Message | None) -> int:
    """Estimate the tokens of a message."""
    if message is None:
        return 0
    return OVERHEAD + sum(OVERHEAD + _price_of_block(block) for block in message.content)


def _price_of_block(block: TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock) -> int:
    match block:
        case TextBlock(text=text) | ReasoningBlock(text=text):
            return price_of_text(text)
        case ToolCallBlock(name=name, arguments=arguments):
            return price_of_text(name) + price_of_text(arguments)
        case ToolResultBlock():
            return price_of_text(block.text)


def price_of_header(header: RequestHeader) -> int:
    """Estimate the tokens of the system text and the tools."""
    system = price_of_text(header.system) + OVERHEAD if header.system else 0
    return system + sum(price_of_text(dumps(encode(tool))) + OVERHEAD for tool in header.tools)


def prompt_of(usage: TokenUsage) -> int:
    """All tokens that a call read; a server that does not count has none."""
    return usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)


def total(usage: TokenUsage) -> int:
    """All tokens that a call read and wrote."""
    return prompt_of(usage) + usage.output_tokens


def counted(event: LogEvent) -> int | None:
    """What a provider counted of the surface as it is after an event, if the event says so."""
    match event.data:
        case AssistantMessageLogged(usage=usage) if usage is not None and prompt_of(usage):
            return total(usage)
        case AssistantAttempt(failure=LlmFailure(prompt_tokens=tokens)):
            return tokens
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Anchor:
    """What the provider counted, and what the surface was estimated at with it."""

    tokens: int
    surface: int


class TokenMeter:
    """Follows one log."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._prices: dict[int, int] = {}  # of the nodes on the surface, by seq
        self._surface = 0
        self._header: RequestHeader | None = None
        self._envelope = 0
        self._anchor: _Anchor | None = None
        self._replay()
        log.appended.listen(self._note)

    @property
    def tokens(self) -> int:
        """The tokens of the next request as it stands now."""
        estimate = self._envelope + self._surface
        anchor = self._anchor
        if anchor is None or self.doubtful:
            return estimate
        change = self._surface - anchor.surface
        # what was taken away had been counted, what came since was not
        return max(0, anchor.tokens + (change if change > 0 else int(change * self._correction)))

    @property
    def doubtful(self) -> bool:
        """Whether the provider counted far less than it was sent."""
        anchor = self._anchor
        return anchor is not None and anchor.tokens < MIN_BELIEVED * (self._envelope + anchor.surface)

    @property
    def forgetful(self) -> bool:
        """Whether that looks like a prompt of which only a part was read: a context has at least so many tokens."""
        return self.doubtful and self._anchor is not None and self._anchor.tokens >= SMALLEST_CONTEXT

    @property
    def estimated(self) -> bool:
        """Whether no provider's count stands behind it."""
        return self._anchor is None

    def count(self, messages: Iterable[Message]) -> int:
        """What a request with these messages and the session's header has, as the provider counts."""
        return ceil(self._correction * (self._envelope + sum(map(price_of, messages))))

    def room(self, window: int, *, output: int) -> int:
        """The estimate of the messages that a request may have at most, to leave `output` in a window."""
        return int((window * (1 - MARGIN) - output) / self._correction) - self._envelope

    @property
    def _correction(self) -> float:
        """How many times its estimate the last count was; never less than one, to be on the safe side."""
        if self._anchor is None:
            return 1.0
        estimate = self._envelope + self._anchor.surface
        return min(MOST_CORRECTED, max(1.0, self._anchor.tokens / estimate)) if estimate else 1.0

    def price(self, event: LogEvent) -> int:
        """The estimate of one node of the surface."""
        if event.seq not in self._prices:
            self._prices[event.seq] = price_of(message_of(event))
        return self._prices[event.seq]

    def _note(self, event: LogEvent) -> None:
        match event.data:
            case RequestHeaderLogged(header=header):
                self._take_header(header)
            case _ if event.replaces is not None:
                nodes = self._log.surface.nodes()
                self._surface = sum(map(self.price, nodes))
                self._prices = {node.seq: self._prices[node.seq] for node in nodes}
            case _ if self._log.surface.holds(event.seq):
                self._surface += self.price(event)
                self._take_count(event, self._surface)
            case _:
                self._take_count(event, self._surface)

    def _take_header(self, header: RequestHeader) -> None:
        if header != self._header:
            self._header, self._envelope, self._anchor = header, price_of_header(header), None

    def _take_count(self, event: LogEvent, surface: int) -> None:
        if (tokens := counted(event)) is not None:
            self._anchor = _Anchor(tokens, surface)

    def _replay(self) -> None:
        """Take what the log holds already; a count that a replacement came after is not known any more."""
        last: LogEvent | None = None
        for event in self._log.facts():
            match event.data:
                case RequestHeaderLogged(header=header) if header != self._header:
                    self._take_header(header)
                    last = None
                case _ if event.replaces is not None:
                    last = None
                case _ if counted(event) is not None:
                    last = event
                case _:
                    pass
        nodes = self._log.surface.nodes()
        self._surface = sum(map(self.price, nodes))
        if last is not None:
            self._take_count(last, sum(self.price(node) for node in nodes if node.seq <= last.seq))
