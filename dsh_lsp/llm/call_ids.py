"""Call ids: each tool call of a conversation under an id of its own, its result under the same one.

Some servers count anew in each answer (`call_0`), and others refuse a conversation in which an id comes twice.
Rules: pure; the first use of an id stays as it is, and what an id becomes depends on what stands before it alone, so
that a longer conversation begins like the shorter one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace

from dsh_lsp.messages import AssistantMessage, Message, ToolCallBlock, ToolResultBlock, UserMessage


def with_own_ids(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Rename the second and every later use of an id; messages without one stay the very same objects."""
    names = _Names()
    return tuple(names.named(message) for message in messages)


class _Names:
    """The ids that are taken, and which calls wait for their result by the id that they came with."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._waiting: defaultdict[str, deque[str]] = defaultdict(deque)

    def named(self, message: Message) -> Message:
        match message:
            case AssistantMessage() if message.tool_calls:
                self._waiting.clear()
                calls = tuple(
                    replace(block, id=self._claim(block.id)) if isinstance(block, ToolCallBlock) else block
                    for block in message.content
                )
                return message if calls == message.content else replace(message, content=calls)
            case UserMessage() if self._waiting:
                results = tuple(
                    replace(block, tool_call_id=self._answered(block.tool_call_id))
                    if isinstance(block, ToolResultBlock)
                    else block
                    for block in message.content
                )
                return message if results == message.content else replace(message, content=results)
            case _:
                return message

    def _claim(self, wanted: str) -> str:
        number, call_id = 1, wanted
        while call_id in self._taken:
            number += 1
            call_id = f"{wanted}-{number}"
        self._taken.add(call_id)
        self._waiting[wanted].append(call_id)
        return call_id

    def _answered(self, call_id: str) -> str:
        waiting = self._waiting.get(call_id)
        return waiting.popleft() if waiting else call_id
