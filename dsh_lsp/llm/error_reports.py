"""Error reports: a provider's own account of an error, read from a body or an event, whatever its shape.

Rules: pure; what a router passes on of the provider behind it is read too, for it alone says what went wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsh_lsp.wire import dumps

MAX_DETAILS_CHARS = 4_000
MAX_CHARS = 32_768  # of each text: some servers answer with the whole prompt, and all of it is searched for words


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """What a provider says of an error; `status` is its HTTP status, or the one that it wrote into the stream.

    `limit` and `prompt`: the context window and the prompt in tokens, where it names them outside of its text.
    `details`: what else it says, to be matched and not to be shown.
    """

    status: int | None = None
    code: str = ""
    kind: str = ""
    message: str = ""
    limit: int | None = None
    prompt: int | None = None
    details: str = ""
    in_stream: bool = False

    @property
    def words(self) -> str:
        """Everything that can be matched."""
        return f"{self.code} {self.kind} {self.message} {self.details}"


def report_of_body(status: int, body: Any) -> ErrorReport:
    """Read the body of a refused request: decoded JSON of any shape, or text."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        return _report(_error_in(body) or body, status)
    text = body if isinstance(body, str) and not body.lstrip().startswith("<") else ""
    return ErrorReport(status=status, message=_text(text.strip()))


def report_in_stream(event_name: str, data: Mapping[str, Any]) -> ErrorReport | None:
    """Find the error that a server wrote into a stream it had begun with 200, or None.

    See https://github.com/BerriAI/litellm/issues/40578, https://github.com/vllm-project/vllm/issues/4667.
    """
    error = _error_in(data)
    if not error and (event_name == "error" or data.get("object") == "error"):
        error = data
    choices = data.get("choices")
    if not error and isinstance(choices, list):
        error = next((found for choice in choices if isinstance(choice, dict) and (found := _error_in(choice))), None)
    return replace(_report(error, None), in_stream=True) if error else None


def _error_in(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object that tells of the error; the data itself where `error` only says that there is one."""
    error = data.get("error")
    if isinstance(error, dict):
        return error or None
    if isinstance(error, str) and error:
        said = data.get("message")
        return {**data, "message": f"{error}: {said}" if isinstance(said, str) and said else error}
    return data if error else None


def _report(error: Mapping[str, Any], status: int | None) -> ErrorReport:
    code, kind = error.get("code"), error.get("type")
    message = error.get("message") or error.get("detail") or ""
    report = ErrorReport(
        status=status or _status_of(code) or _status_of(error.get("status")),
        code="" if code is None else _text(code),
        kind=_text(error.get("status") or "" if kind is None else kind),
        message=_text(message),
        limit=_tokens(error, "n_ctx"),
        prompt=_tokens(error, "n_prompt_tokens"),
        details=dumps(error["details"])[:MAX_DETAILS_CHARS] if error.get("details") else "",
    )
    inner = _passed_on(error.get("metadata"))
    if inner is None:
        return report
    return replace(
        inner,
        status=report.status or inner.status,
        code=inner.code or report.code,
        kind=inner.kind or report.kind,
        message=": ".join(filter(None, (report.message, inner.message))),
    )


def _passed_on(metadata: Any) -> ErrorReport | None:
    """What the provider behind a router said: https://openrouter.ai/docs/api-reference/errors."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str):
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            return ErrorReport(message=_text(raw))
    if isinstance(raw, list) and raw:
        raw = raw[0]
    return _report(_error_in(raw) or raw, None) if isinstance(raw, dict) else None


def _text(value: Any) -> str:
    return str(value)[:MAX_CHARS]


def _tokens(error: Mapping[str, Any], name: str) -> int | None:
    value = error.get(name)
    return value if type(value) is int and value > 0 else None


def _status_of(code: Any) -> int | None:
    """Read an HTTP status that stands where an error code should."""
    text = str(code)
    return int(text) if re.fullmatch(r"[45]\d\d", text) else None
