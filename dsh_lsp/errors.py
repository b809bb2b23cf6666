"""Errors: everything this package raises on purpose, sorted by who must act.

    DshError
    ├── ConfigError      the user: a setting, a key
    ├── UsageError       the developer: a call that this API does not allow
    ├── SessionError     the user: the session's log or its file
    ├── LlmError         the user or time: the model's provider; carries an `LlmFailure`
    ├── ToolError        the model: it reads the text as the tool's result
    └── EditorError      the user: the editor refused or did not answer

Rules: every error has a stable upper-case `code`; its text is for people, holds no secret and names what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsh_lsp.wire import Wire


class DshError(Exception):
    """Base of all errors raised on purpose; `code` is stable, the text is not."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class ConfigError(DshError):
    """A setting or a credential that the user must mend."""


class UsageError(DshError):
    """A call that breaks a rule of this package's API: a bug of ours or of a plugin."""

    def __init__(self, message: str, *, code: str = "USAGE") -> None:
        super().__init__(message, code=code)


class SessionError(DshError):
    """A session that cannot be found, read or written."""


class ToolError(DshError):
    """A tool that could not do what the model asked; the model reads the text."""


class EditorError(DshError):
    """The editor refused a request or did not answer it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmFailure(Wire):
    """What went wrong with one model call, as logged and shown.

    `status` is the HTTP status (100-599), `provider_retry_after_ms` the provider's own wish, `request_id` its
    name for the request, `should_retry` its own word on whether trying again may help,
    `context_window` the limit in tokens that it named when it refused too long a conversation, `prompt_tokens` what
    it counted then, or what it must have counted at least.
    """

    message: str
    code: str
    status: int | None = None
    provider_retry_after_ms: int | None = None
    request_id: str | None = None
    should_retry: bool | None = None
    context_window: int | None = None
    prompt_tokens: int | None = None


class LlmError(DshError):
    """A model call that failed."""

    def __init__(self, failure: LlmFailure) -> None:
        super().__init__(failure.message, code=failure.code)
        self.failure = failure


def error_chain(error: BaseException, *, seen: frozenset[int] = frozenset()) -> str:
    """Describe an error with its members and causes on one line."""
    if id(error) in seen:
        return "<circular cause>"
    seen |= {id(error)}
    try:
        text = str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - rendering a stranger's exception may do anything
        return "<unrenderable value>"
    if isinstance(error, BaseExceptionGroup):
        text += " [" + "; ".join(error_chain(member, seen=seen) for member in error.exceptions) + "]"
    if error.__cause__ is not None:
        cause = error_chain(error.__cause__, seen=seen)
        if cause not in text:
            text += f": {cause}"
    return text


def failure_of(error: BaseException) -> LlmFailure:
    """Turn any error that ended a turn into the failure that the log keeps."""
    if isinstance(error, LlmError):
        return error.failure
    if isinstance(error, DshError):
        return LlmFailure(message=error_chain(error), code=error.code)
    return LlmFailure(message=error_chain(error), code="UNKNOWN")
