"""Summary: what a model is asked when history must become shorter, and the message that takes its place.

Rules: the user's own words for the open task stand in the message as they were written, whatever the model made of
them.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from dsh_lsp.abort import AbortSignal
from dsh_lsp.agent.driver import new_id
from dsh_lsp.errors import DshError, LlmError
from dsh_lsp.events import TurnStart
from dsh_lsp.llm.adapter import ModelRequest, PreparedCall
from dsh_lsp.llm.assemble import BlockAssembler
from dsh_lsp.llm.meter import price_of
from dsh_lsp.messages import (
    AssistantMessage,
    Message,
    PluginSource,
    ReasoningBlock,
    TextBlock,
    TokenUsage,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
    UserMessage,
    UserSource,
)
from dsh_lsp.session.log import SessionLog
from dsh_lsp.wire import dumps

SOURCE = "compaction"
MAX_TASK_CHARS = 6_000
LONGEST_CLIPPED, SHORTEST_CLIPPED = 65_536, 256  # characters that a text keeps which is too long to be read whole
CLIPPED = "\n\n[... middle left out ...]\n\n"

INSTRUCTION = """\
Stop working on the task for one answer. The conversation above will be removed to make room, and only your answer \
will be left of it, so write down everything that is needed to go on. Call no tools. Use these headings:

## Task
What the user wants, in their words where they matter, with every limit and preference that they named.
## Done
What has been done and found out, with file paths, names, commands and their results.
## Now
What was under way at this moment, and what of it is left.
## Open
Decisions, questions and problems that are not settled, and what to do next.

Keep exact names, paths, numbers and error texts. Leave out what no longer matters."""

PREAMBLE = """\
The earlier part of this conversation was removed to make room. This is its summary, written by you; what follows \
after this message is the conversation as it went on."""


class CompactionError(DshError):
    """A compaction that did not come about; the surface is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A model's summary, and whose it is."""

    text: str
    provider: str
    model: str
    usage: TokenUsage | None = None


def ask() -> UserMessage:
    """The message that asks for a summary."""
    return UserMessage(
        id=new_id(), content=(TextBlock(text=INSTRUCTION),), source=PluginSource(plugin=SOURCE, form="notice")
    )


ASK_TOKENS = price_of(ask())


async def summarize(
    prepared: PreparedCall,
    messages: tuple[Message, ...],
    *,
    prompt_tokens: int,
    system: str | None,
    tools: tuple[ToolSpec, ...],
    session_id: str,
    signal: AbortSignal,
) -> Summary:
    """Ask for a summary; the request begins like those of the conversation, for the provider's cache.

    `messages` end with what asks for it, and `prompt_tokens` count all that is sent.

    Raises:
        LlmError: the call failed.
        CompactionError: what came is no summary.
        Aborted: the signal fired.
    """
    request = ModelRequest(
        config=prepared.config,
        messages=messages,
        session_id=f"{session_id} {SOURCE}",  # its history is not that of the session
        signal=signal,
        system=system,
        tools=tools,
        prompt_tokens=prompt_tokens,
    )
    assembler = BlockAssembler()
    with signal.guard():
        async with aclosing(prepared.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                assembler.push(chunk)
    finish = assembler.finish
    if finish is not None and finish.failure is not None:
        raise LlmError(finish.failure)
    if finish is not None and finish.reason in {"max-tokens", "refusal"}:
        raise CompactionError(f"the summary was not finished ({finish.reason})", code="SUMMARY_CUT")
    text = "".join(block.text for block in assembler.blocks() if isinstance(block, TextBlock)).strip()
    if not text:
        raise CompactionError("the model wrote no summary", code="EMPTY_SUMMARY")
    config = prepared.config
    return Summary(text=text, provider=config.provider, model=config.model, usage=assembler.usage)


def clipped(messages: tuple[Message, ...], *, most: int) -> tuple[Message, ...]:
    """The messages, their longest texts without a middle if they are together more than `most` tokens."""
    limit, shorter = LONGEST_CLIPPED, messages
    while sum(map(price_of, shorter)) > most and limit >= SHORTEST_CLIPPED:
        shorter = tuple(_clipped(message, limit) for message in messages)
        limit //= 2
    return shorter


def _clipped(message: Message, limit: int) -> Message:
    match message:
        case UserMessage():
            return replace(message, content=tuple(_clip_block(block, limit) for block in message.content))
        case AssistantMessage():
            content = tuple(_clip_block(block, limit) for block in message.content)
            if content == message.content:
                return message
            # what was signed is no longer what stands there
            return replace(message, content=content, source=replace(message.source, replay_state=None))


def _clip_block(block: Any, limit: int) -> Any:
    match block:
        case TextBlock(text=text) | ReasoningBlock(text=text):
            return replace(block, text=_clip(text, limit))
        case ToolResultBlock():
            return replace(block, content=tuple(_clip_block(text, limit) for text in block.content))
        case ToolCallBlock(arguments=arguments) if len(arguments) > limit:
            return replace(block, arguments=dumps({"clipped_arguments": _clip(arguments, limit)}))
        case _:
            return block


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit * 3 // 4]}{CLIPPED}{text[-limit // 4 :]}"


def framed(summary: str, task: str) -> str:
    """The text of the message that takes the place of what was summarized."""
    parts = [PREAMBLE, f"<compacted-summary>\n{summary}\n</compacted-summary>"]
    if task:
        parts.append(f"The user's own words for the task that is open:\n<open-task>\n{task}\n</open-task>")
    return "\n\n".join(parts)


def open_task(log: SessionLog, *, still_there: Collection[int], max_chars: int = MAX_TASK_CHARS) -> str:
    """What the user said in the last turn in which they said anything; nothing if that stays in history anyway."""
    said: list[UserMessage] = []
    for seq in range(len(log) - 1, -1, -1):
        match log[seq].data:
            case TurnStart() if said:
                break
            case UserMessage(source=UserSource()) as message:
                if seq in still_there:
                    return ""
                said.append(message)
            case _:
                pass
    text = "\n\n".join(message.text for message in reversed(said))
    return _clip(text, min(max_chars, MAX_TASK_CHARS))
