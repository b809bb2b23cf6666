"""Export: a session as a text that people can read and keep, or as the rows of its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsh_lsp.decisions import ReviewDecided
from dsh_lsp.events import (
    AssistantMessageLogged,
    EndedByAbort,
    EndedByError,
    LogEvent,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    encode_event,
)
from dsh_lsp.messages import AssistantMessage, ReasoningBlock, TextBlock, ToolResultBlock, UserMessage, UserSource
from dsh_lsp.session.log import SessionHeader
from dsh_lsp.wire import dumps, encode

MAX_RESULT_CHARS = 2_000


def to_jsonl(header: SessionHeader, events: Iterable[LogEvent]) -> str:
    """The header and the events, a row each."""
    rows = [{"type": "session", **encode(header)}, *(encode_event(event) for event in events)]
    return "".join(f"{dumps(row)}\n" for row in rows)


def to_markdown(title: str, events: Iterable[LogEvent]) -> str:
    """The conversation: what people and the model said, what tools did, and how each turn ended."""
    return (
        "\n\n".join([f"# {title or 'Untitled session'}", *(part for event in events for part in _parts(event))])
        + "\n"
    )


def _parts(event: LogEvent) -> Iterator[str]:
    match event.data:
        case UserMessage(source=UserSource()) as message:
            yield f"## You\n\n{message.text}"
        case UserMessage() as message:
            yield _folded("Context", message.text)
        case AssistantMessageLogged(message=message, interrupted=interrupted):
            yield from _answer(message)
            if interrupted:
                yield "*(interrupted)*"
        case ToolCall(name=name, arguments=arguments):
            yield f"**{name}** `{_one_line(arguments)}`"
        case ToolResult(message=message):
            texts = [block.text for block in message.content if isinstance(block, ToolResultBlock)]
            yield from (_fenced(text[:MAX_RESULT_CHARS]) for text in texts)
        case ReviewDecided(hunks=hunks):
            yield "*Review: " + ", ".join(hunk.outcome for hunk in hunks) + "*"
        case TurnEnd(reason=reason):
            yield from _ending(reason)
        case _:
            pass


def _answer(message: AssistantMessage) -> Iterator[str]:
    for block in message.content:
        if isinstance(block, ReasoningBlock):
            yield _folded("Thinking", block.text)
        elif isinstance(block, TextBlock):
            yield f"## DSH\n\n{block.text}"


def _ending(reason: TurnEndReason) -> Iterator[str]:
    if isinstance(reason, EndedByAbort):
        yield "*The turn was cancelled.*"
    elif isinstance(reason, EndedByError):
        yield f"*The turn failed: {reason.error.message}*"


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{_fenced(text)}\n\n</details>"


def _one_line(text: str) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= 200 else f"{line[:200]}…"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
