"""Compaction: which part of the surface may give way to a summary, and what a long result may lose.

Rules: pure; a cut never parts a tool call from its result; what is kept is the newest part, whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dsh_lsp.events import AssistantMessageLogged, LogEvent, SeqRange, ToolResult
from dsh_lsp.messages import TextBlock, ToolResultBlock, UserMessage

PRUNED = "\n\n[... tool result middle pruned ...]\n\n"


def head_of(nodes: Sequence[LogEvent], price: Callable[[LogEvent], int], *, retain: int, most: int) -> int:
    """How many nodes from the start may be summarized; 0 if there is nothing that would be worth it.

    Args:
        nodes: The surface.
        price: The tokens of a node.
        retain: The tokens at the end that stay, and at least the newest exchange.
        most: The tokens that a summarizer can read; a part that is larger by itself is taken all the same where
            there is little else, since nothing behind it could be summarized before it.
    """
    cut, kept = len(nodes), 0
    while cut > 0 and (kept < retain or cut == len(nodes)):
        cut -= 1
        kept += price(nodes[cut])
    balanced = _balanced(nodes)
    spent = worth = fits = 0
    for index in range(cut):
        spent += price(nodes[index])
        if not balanced[index + 1]:
            continue
        if spent > most and worth >= most / 2:
            break
        worth, fits = spent, index + 1
        if spent > most:
            break
    return 0 if fits == 1 and nodes[0].replaces is not None else fits  # a summary alone gains nothing


def _balanced(nodes: Sequence[LogEvent]) -> list[bool]:
    """For each place between two nodes, whether all calls before it have their results before it."""
    open_calls: set[str] = set()
    places = [True]
    for node in nodes:
        match node.data:
            case AssistantMessageLogged(message=message):
                open_calls |= {call.id for call in message.tool_calls}
            case ToolResult(message=message):
                open_calls -= {b.tool_call_id for b in message.content if isinstance(b, ToolResultBlock)}
            case _:
                pass
        places.append(not open_calls)
    return places


def spans_of(seqs: Iterable[int]) -> tuple[SeqRange, ...]:
    """Numbers as ascending ranges."""
    spans: list[SeqRange] = []
    for seq in sorted(seqs):
        if spans and spans[-1][1] == seq - 1:
            spans[-1] = (spans[-1][0], seq)
        else:
            spans.append((seq, seq))
    return tuple(spans)


def pruned(result: ToolResult, *, above: int, head: int, tail: int) -> ToolResult | None:
    """A result without the middle of its longest texts; None where that makes nothing shorter."""
    content = tuple(
        _pruned_block(block, above=above, head=head, tail=tail) if isinstance(block, ToolResultBlock) else block
        for block in result.message.content
    )
    if content == result.message.content:
        return None
    message: UserMessage = replace(result.message, content=content)
    return replace(result, message=message)


def _pruned_block(block: ToolResultBlock, *, above: int, head: int, tail: int) -> ToolResultBlock:
    return replace(block, content=tuple(_pruned_text(text, above, head, tail) for text in block.content))


def _pruned_text(block: TextBlock, above: int, head: int, tail: int) -> TextBlock:
    text = block.text
    if len(text) <= max(above, head + tail + len(PRUNED)):
        return block
    return TextBlock(text=text[:head] + PRUNED + text[len(text) - tail :])
