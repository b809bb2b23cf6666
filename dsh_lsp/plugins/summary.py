"""Summary: what a model is asked when history must become shorter, and the message that takes its place.

Rules: the user's own words for the open task stand in the message as they were written, whatever the model made of
them.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass

from dsh_lsp.abort import AbortSignal
from dsh_lsp.agent.driver import new_id
from dsh_lsp.errors import DshError, LlmError
from dsh_lsp.events import TurnStart
from dsh_lsp.llm.adapter import ModelRequest, PreparedCall
from dsh_lsp.llm.assemble import BlockAssembler
from dsh_lsp.llm.meter import price_of
from dsh_lsp.messages import Message, PluginSource, TextBlock, TokenUsage, ToolSpec, UserMessage, UserSource
from dsh_lsp.session.log import SessionLog

SOURCE = "compaction"
MAX_TASK_CHARS = 6_000

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


async def summarize(
    prepared: PreparedCall,
    messages: tuple[Message, ...],
    *,
    system: str | None,
    tools: tuple[ToolSpec, ...],
    session_id: str,
    signal: AbortSignal,
) -> Summary:
    """Ask for a summary of messages; the request begins like those of the conversation, for the provider's cache.

    Raises:
        LlmError: the call failed.
        CompactionError: what came is no summary.
        Aborted: the signal fired.
    """
    ask = UserMessage(
        id=new_id(), content=(TextBlock(text=INSTRUCTION),), source=PluginSource(plugin=SOURCE, form="notice")
    )
    request = ModelRequest(
        config=prepared.config,
        messages=(*messages, ask),
        session_id=f"{session_id} {SOURCE}",  # its history is not that of the session
        signal=signal,
        system=system,
        tools=tools,
        prompt_tokens=sum(map(price_of, messages)),
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


def framed(summary: str, task: str) -> str:
    """The text of the message that takes the place of what was summarized."""
    parts = [PREAMBLE, f"<compacted-summary>\n{summary}\n</compacted-summary>"]
    if task:
        parts.append(f"The user's own words for the task that is open:\n<open-task>\n{task}\n</open-task>")
    return "\n\n".join(parts)


def open_task(log: SessionLog, *, still_there: Collection[int]) -> str:
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
    if len(text) <= MAX_TASK_CHARS:
        return text
    return f"{text[: MAX_TASK_CHARS * 3 // 4]}\n[...]\n{text[-MAX_TASK_CHARS // 4 :]}"
