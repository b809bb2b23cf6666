"""Refusals: how an exception of ours becomes a JSON-RPC error.

Owns: the one translation table at the border to the client.
Rules: every error of a command carries `data.code`; no traceback, no second line and no key goes to the client; what
nobody raised on purpose is logged with its traceback.
"""

from __future__ import annotations

import logging
from typing import Final

from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams

from dsh_lsp.errors import DshError, UsageError, error_chain
from dsh_lsp.lsp.log_file import log_path
from dsh_lsp.secrets import redact

log = logging.getLogger(__name__)

REQUEST_FAILED: Final = -32803  # LSP: syntactically right, but it cannot be done; the user can mend it
_MAX_CHARS: Final = 2000


def to_lsp_error(error: BaseException) -> JsonRpcException:
    """Translate what a request's handler raised.

    A `UsageError` is InvalidParams, any other `DshError` is RequestFailed, a `JsonRpcException` stays what it is, and
    the rest is InternalError: a failed validation, too, for only who reads the arguments knows that they are meant.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # "unhandled errors in a TaskGroup" tells nobody anything
    if isinstance(error, JsonRpcException):
        return error
    if isinstance(error, UsageError):
        return invalid_params(error_chain(error), code=error.code)
    if isinstance(error, DshError):
        return JsonRpcException(one_line(error_chain(error)), code=REQUEST_FAILED, data={"code": error.code})
    log.error("a request failed", exc_info=error)
    return internal_error(f"{type(error).__name__}: {error_chain(error)}")


def internal_error(reason: str) -> JsonRpcInternalError:
    """Say that we failed, and where more of it is written."""
    text = one_line(f"internal error: {reason}")
    if (path := log_path()) is not None:
        text += f" (the log: {path})"
    return JsonRpcInternalError(text, data={"code": "INTERNAL"})


def invalid_params(reason: str, *, code: str = "USAGE") -> JsonRpcInvalidParams:
    """Say why the params of a request were refused."""
    return JsonRpcInvalidParams(one_line(reason), data={"code": code})


def one_line(text: str) -> str:
    """Put a text of any kind on one line of bounded length; what strangers raise may quote a key."""
    return redact(" ".join(text.split()))[:_MAX_CHARS]
