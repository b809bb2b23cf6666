"""Refusals: how an exception of ours becomes a JSON-RPC error.

Owns: the one translation table at the border to the client.
Rules: every error of a command carries `data.code`; no traceback and no second line goes to the client; what nobody
raised on purpose is logged with its traceback.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams

from dsh_lsp.errors import DshError, UsageError, error_chain

log = logging.getLogger(__name__)

REQUEST_FAILED: Final = -32803  # LSP: syntactically right, but it cannot be done; the user can mend it
_MAX_CHARS: Final = 2000


def to_lsp_error(error: BaseException) -> JsonRpcException:
    """Translate what a request's handler raised.

    A failed validation and a `UsageError` are InvalidParams, any other `DshError` is RequestFailed, a
    `JsonRpcException` stays what it is, and the rest is InternalError.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # "unhandled errors in a TaskGroup" tells nobody anything
    if isinstance(error, JsonRpcException):
        return error
    if isinstance(error, UsageError):
        return invalid_params(error_chain(error), code=error.code)
    if isinstance(error, DshError):
        return JsonRpcException(one_line(error_chain(error)), code=REQUEST_FAILED, data={"code": error.code})
    if (reasons := _validation_reasons(error)) is not None:
        return invalid_params(reasons)
    log.error("a request failed", exc_info=error)
    text = one_line(f"internal error: {type(error).__name__}: {error_chain(error)}")
    return JsonRpcInternalError(text, data={"code": "INTERNAL"})


def invalid_params(reason: str, *, code: str = "USAGE") -> JsonRpcInvalidParams:
    """Say why the params of a request were refused."""
    return JsonRpcInvalidParams(one_line(reason), data={"code": code})


def one_line(text: str) -> str:
    """Put a text of any kind on one line of bounded length."""
    return " ".join(text.split())[:_MAX_CHARS]


def _validation_reasons(error: BaseException) -> str | None:
    if "pydantic" not in sys.modules:  # whoever raised its error has imported it; the start is faster without
        return None
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    return "; ".join(_reason(detail["loc"], detail["msg"]) for detail in error.errors(include_url=False))


def _reason(path: tuple[Any, ...], message: str) -> str:
    return f"{'.'.join(map(str, path))}: {message}" if path else message
