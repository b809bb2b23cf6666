"""Cards: what a screen shows of calls, of results, and of what needs a permission.

Rules: made from the registry, so that no screen knows a tool; a presenter that fails, or arguments that no tool
takes, give the plain card.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from dsh_lsp.decisions import Effect, EffectKind
from dsh_lsp.events import ToolCall
from dsh_lsp.tools.arguments import InvalidArgumentsError, read_arguments, validate
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Card, Execution, Tool
from dsh_lsp.wire import JsonObject

log = logging.getLogger(__name__)

_WORDS: Final[dict[EffectKind, str]] = {
    "read": "reads",
    "edit": "edits",
    "command": "runs",
    "outside": "outside the workspace:",
    "rights": "decides what other programs may run:",
    "network": "reaches the network:",
}


def words_of(effect: Effect) -> str:
    """An effect as a person reads it before allowing it."""
    return f"{_WORDS[effect.kind]} {effect.detail}"


def call_card(registry: ToolRegistry, call: ToolCall) -> Card:
    """How a screen shows a call."""
    plain = Card(kind="generic", title=call.name)
    arguments = read_arguments(call.arguments)
    return _made(registry.get(call.name), arguments, lambda tool, args: tool.present_call(args), plain)


def asked_card(execution: Execution) -> Card:
    """How a screen shows a call that waits for a permission."""
    plain = Card(kind="generic", title=execution.name)
    return _made(execution.tool, execution.arguments, lambda tool, args: tool.present_call(args), plain)


def result_card(registry: ToolRegistry, call: ToolCall, text: str, meta: JsonObject | None) -> Card:
    """How a screen shows the result of a call."""
    plain = Card(kind="generic", title=call.name, body=text)
    arguments = read_arguments(call.arguments)
    return _made(registry.get(call.name), arguments, lambda tool, args: tool.present_result(args, text, meta), plain)


def _made(
    tool: Tool[Any] | None, arguments: JsonObject | str, make: Callable[[Tool[Any], Any], Card], plain: Card
) -> Card:
    if tool is None:
        return plain
    try:
        return make(tool, validate(tool, arguments))
    except InvalidArgumentsError:
        return plain
    except Exception:
        log.exception("the card of %s failed", tool.name)  # a card is only looks
        return plain
