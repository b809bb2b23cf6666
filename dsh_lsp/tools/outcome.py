"""Outcome: what became of a call, and what plugins and tools may give as that.

Rules: an outcome that passes `checked` or `rendered` can be logged; a success that comes after the cancel is marked
as aborted, but what it had done is never hidden; keys are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dsh_lsp.abort import AbortSignal
from dsh_lsp.errors import DshError, ToolError, error_chain
from dsh_lsp.events import ToolFailure
from dsh_lsp.messages import TextBlock, UserMessage
from dsh_lsp.secrets import Keys
from dsh_lsp.tools.tool import ToolOutput
from dsh_lsp.wire import JsonObject, json_copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The settled result of one call; a `final` one was never a result that post-execute may judge."""

    text: str
    is_error: bool = False
    error: ToolFailure | None = None
    meta: JsonObject | None = None
    contexts: tuple[UserMessage, ...] = ()
    concludes_turn: bool = False
    final: bool = False


class InvalidOutputError(ToolError):
    """A tool or a plugin gave what is no result."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the tool gave no usable result: {what}", code="INVALID_TOOL_OUTPUT")


class InvalidVerdictError(ToolError):
    """A listener of pre-execute answered with what is no verdict."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is no verdict on a call", code="INVALID_VERDICT")


class UnknownToolError(ToolError):
    """The model called a tool that it does not have."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f'unknown tool "{name}"; the tools are: {", ".join(known)}', code="UNKNOWN_TOOL")


ABORTED_BEFORE_DISPATCH = Outcome(
    text="Error: tool call aborted before dispatch",
    is_error=True,
    error=ToolFailure(name="AbortError", code="ABORTED_BEFORE_DISPATCH"),
)
ABORTED = Outcome(
    text="Error: tool call aborted", is_error=True, error=ToolFailure(name="AbortError", code="ABORTED")
)


def failed(error: BaseException) -> Outcome:
    """Turn an exception into the result that the model reads."""
    info = ToolFailure(name=type(error).__name__, code=error.code) if isinstance(error, DshError) else None
    return Outcome(text=f"Error: {error_chain(error)}", is_error=True, error=info)


def rendered(output: object) -> Outcome:
    """Turn what a body returned into a result.

    Raises:
        InvalidOutputError: it is neither text nor a `ToolOutput`, or its `meta` is not JSON.
    """
    if isinstance(output, str):
        return Outcome(text=output)
    if not isinstance(output, ToolOutput) or not isinstance(output.text, str):
        raise InvalidOutputError(f"{type(output).__name__} is neither text nor a ToolOutput")
    return Outcome(text=output.text, meta=_own_meta(output.meta), is_error=bool(output.is_error))


def _own_meta(meta: object) -> JsonObject | None:
    if meta is None:
        return None
    try:
        copy = json_copy(meta)
    except ValueError as error:
        raise InvalidOutputError(f"its meta is {error}") from error
    if not isinstance(copy, dict):
        raise InvalidOutputError("its meta is no JSON object")
    return copy


def checked(outcome: object) -> Outcome:
    """Take what a plugin gave as an outcome.

    Raises:
        InvalidOutputError: the log could not hold it.
    """
    if not isinstance(outcome, Outcome) or not isinstance(outcome.text, str):
        raise InvalidOutputError(f"{type(outcome).__name__} is no outcome with a text")
    if outcome.error is not None and not isinstance(outcome.error, ToolFailure):
        raise InvalidOutputError("its error is no ToolFailure")
    if not all(isinstance(message, UserMessage) for message in outcome.contexts):
        raise InvalidOutputError("its contexts are no messages")
    return replace(outcome, meta=_own_meta(outcome.meta), contexts=tuple(outcome.contexts))


def late(signal: AbortSignal, outcome: Outcome) -> Outcome:
    """Mark a success that settles after the cancel as aborted, but never hide what it had done."""
    if not signal.aborted or outcome.is_error:
        return outcome
    text = f"{ABORTED.text}; it had already answered:\n{outcome.text}" if outcome.text else ABORTED.text
    return replace(ABORTED, text=text, meta=outcome.meta, contexts=outcome.contexts)


def without_keys(outcome: Outcome, keys: Keys) -> Outcome:
    """A result as everybody may have it."""
    contexts = tuple(_message_without_keys(message, keys) for message in outcome.contexts)
    return replace(outcome, text=keys.hide(outcome.text), meta=keys.hide_in(outcome.meta), contexts=contexts)


def _message_without_keys(message: UserMessage, keys: Keys) -> UserMessage:
    content = (
        replace(block, text=keys.hide(block.text)) if isinstance(block, TextBlock) else block
        for block in message.content
    )
    return replace(message, content=tuple(content))
