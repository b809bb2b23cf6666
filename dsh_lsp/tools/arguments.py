"""Arguments: what a model wrote for a call, read, checked, and what it means to touch.

Rules: what does not fit is refused with all its flaws at once, in words that the model can mend it by.
"""

from __future__ import annotations

from json import JSONDecodeError
from typing import Any

from pydantic import ValidationError

from dsh_lsp.decisions import Effect
from dsh_lsp.errors import ToolError
from dsh_lsp.tools.tool import Execution, Tool
from dsh_lsp.wire import JsonObject, dump_bytes, loads


class InvalidArgumentsError(ToolError):
    """The model's arguments do not fit the tool's schema; the text lists every violation."""

    def __init__(self, violations: list[str]) -> None:
        super().__init__("invalid arguments: " + "; ".join(violations), code="INVALID_ARGS")


def read_arguments(raw: str) -> JsonObject | str:
    """Read the model's argument text: empty is `{}`; what is not a JSON object stays text and fails validation."""
    if not raw.strip():
        return {}
    try:
        value = loads(raw)
        dump_bytes(value)  # 1e999 reads as infinity, which is no JSON
    except (ValueError, RecursionError):
        return raw
    return value if isinstance(value, dict) else raw


def validate(tool: Tool[Any], arguments: JsonObject | str) -> Any:
    """Check arguments against the tool's model.

    Raises:
        InvalidArgumentsError: with all violations at once.
    """
    if isinstance(arguments, str):
        raise InvalidArgumentsError([f"not a JSON object{_flaw(arguments)}: {arguments[:200]}"])
    try:
        # By way of JSON, so that strictness means JSON's types: an array fills a tuple, "7" is no number.
        return tool.Args.model_validate_json(dump_bytes(arguments))
    except ValidationError as error:
        flaws = error.errors(include_url=False)
    if any(flaw["type"] == "json_invalid" for flaw in flaws):  # it was JSON, but for one of these
        deep = any("recursion" in flaw["msg"] for flaw in flaws)
        half = "they hold half of a character, a surrogate without its other"
        raise InvalidArgumentsError(["they are nested too deeply" if deep else half])
    raise InvalidArgumentsError(
        [f"{'.'.join(map(str, flaw['loc'])) or 'arguments'}: {flaw['msg']}" for flaw in flaws]
    )


def _flaw(raw: str) -> str:
    """Where a text stops being JSON, in words; empty when it is JSON of another kind."""
    try:
        loads(raw)
    except JSONDecodeError as error:
        return f" ({error.msg} at line {error.lineno} column {error.colno})"
    except (ValueError, RecursionError):
        pass
    return ""


def effects_of(execution: Execution) -> list[Effect]:
    """What a call means to touch; nothing, if it cannot be run as it is written."""
    if execution.tool is None:
        return []
    try:
        return list(execution.tool.effects(validate(execution.tool, execution.arguments)))
    except ToolError:
        return []
