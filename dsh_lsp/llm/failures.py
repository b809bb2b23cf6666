"""Failures: what a provider says when it refuses, sorted into our codes.

Owns: the table of wordings and statuses; the reading of retry hints; the removal of the key from texts.
Rules: the first rule that fits wins, so a rule that must not be retried stands above one that may. The order is
quota, overflow, key, rate, server, request: https://github.com/evalstate/fast-agent/issues/621 shows why words count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil, isfinite
from typing import Any

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm import overflow
from dsh_lsp.llm.overflow import any_of
from dsh_lsp.llm.surrogates import mend_surrogates

MAX_MESSAGE_CHARS = 2_000
HIDDEN_KEY = "[key]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """A provider's own account of an error; `status` is its HTTP status, or the one it wrote into the stream.

    `limit` and `prompt`: the context window and the prompt in tokens, where it names them outside of its text.
    """

    status: int | None = None
    code: str = ""
    kind: str = ""
    message: str = ""
    limit: int | None = None
    prompt: int | None = None

    @property
    def words(self) -> str:
        """Everything that can be matched."""
        return f"{self.code} {self.kind} {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row: fits by status alone, or by wording where the status is one of `worded_in` (None: no status)."""

    code: str
    statuses: frozenset[int] = frozenset()
    worded_in: frozenset[int | None] = frozenset()
    words: re.Pattern[str] = re.compile(r"(?!)")
    unless: re.Pattern[str] = re.compile(r"(?!)")

    def fits(self, report: ErrorReport) -> bool:
        """Whether the report belongs to this row."""
        if report.status in self.statuses:
            return True
        worded = report.status in self.worded_in and bool(self.words.search(report.words))
        return worded and not self.unless.search(report.words)


_RATE = any_of(r"rate.?limit", r"too many (?:requests|tokens)", r"throttl", r"quota.*per minute")
_QUOTA = any_of(
    r"insufficient.?quota",
    r"insufficient.?balance",
    r"exceeded your current quota",
    r"credits? exhausted",
    r"billing",
    r"credit balance is too low",
    r"usage limit reached",
    r"FreeUsageLimitError",
)
_AUTH = any_of(r"invalid.?api.?key", r"authentication", r"unauthori[sz]ed", r"permission.?denied")
_SERVER = any_of(r"overloaded", r"server.?error", r"internal error", r"insufficient_system_resource", r"unavailable")

RULES = (
    Rule(code="QUOTA", statuses=frozenset({402}), worded_in=frozenset({None, 400, 403, 429}), words=_QUOTA),
    Rule(
        code="CONTEXT_WINDOW_EXCEEDED",
        worded_in=frozenset({None, 400, 413, 422, 500}),
        words=overflow.WORDS,
        unless=_RATE,
    ),
    Rule(code="AUTH", statuses=frozenset({401, 403}), worded_in=frozenset({None}), words=_AUTH),
    Rule(code="RATE_LIMIT", statuses=frozenset({429}), worded_in=frozenset({None}), words=_RATE),
    Rule(code="SERVER", statuses=frozenset(range(500, 600)), worded_in=frozenset({None}), words=_SERVER),
    Rule(code="TIMEOUT", statuses=frozenset({408})),
    Rule(
        code="INVALID_REQUEST",
        statuses=frozenset({400, 413, 422}),
        worded_in=frozenset({None}),
        words=any_of(r"invalid_request"),
    ),
)

ADVICE = {
    "AUTH": "check the API key",
    "QUOTA": "the account has no balance or quota left: top it up, or choose another provider",
    "RATE_LIMIT": "too many requests at a time: wait, then try again",
    "CONTEXT_WINDOW_EXCEEDED": "the conversation is longer than the model can read",
    "HTTP_404": "check the model's name and baseUrl",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """One provider's table: its own rules come before those of all, its advice in the place of theirs."""

    rules: tuple[Rule, ...] = RULES
    advice: Mapping[str, str] = field(default_factory=lambda: ADVICE)

    @classmethod
    def of(cls, *rules: Rule, **advice: str) -> Faults:
        """The table of a provider that adds to the common one."""
        return cls(rules=(*rules, *RULES), advice={**ADVICE, **advice})


def classify(report: ErrorReport, rules: tuple[Rule, ...] = RULES) -> str:
    """Name the code of a report: of the first rule that fits, else of its bare status, else `UNKNOWN`."""
    for rule in rules:
        if rule.fits(report):
            return rule.code
    return "UNKNOWN" if report.status is None else f"HTTP_{report.status}"


def report_of_body(status: int, body: Any) -> ErrorReport:
    """Read the body of a refused request: decoded JSON of any shape, or text."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        error = body.get("error") or body
        return _report(error, status)
    text = body if isinstance(body, str) and not body.lstrip().startswith("<") else ""
    return ErrorReport(status=status, message=text.strip())


def report_in_stream(event_name: str, data: Mapping[str, Any]) -> ErrorReport | None:
    """Find the error that a server wrote into a stream it had begun with 200, or None.

    See https://github.com/BerriAI/litellm/issues/40578, https://github.com/vllm-project/vllm/issues/4667.
    """
    error = data.get("error")
    if not error and (event_name == "error" or data.get("object") == "error"):
        error = data
    choices = data.get("choices")
    if not error and isinstance(choices, list):
        error = next(
            (choice["error"] for choice in choices if isinstance(choice, dict) and choice.get("error")), None
        )
    return _report(error, None) if error else None


def failure_from(report: ErrorReport, *, host: str, faults: Faults | None = None) -> LlmFailure:
    """Write a report down for the log and for people."""
    faults = faults or Faults()
    code = classify(report, faults.rules)
    answered = f"{host} answered {report.status}" if report.status else f"{host} sent an error"
    parts = [f"{answered}: {report.message}" if report.message else answered]
    if code in faults.advice:
        parts.append(faults.advice[code])
    too_long = code == "CONTEXT_WINDOW_EXCEEDED"
    return LlmFailure(
        message="; ".join(parts),
        code=code,
        status=report.status,
        context_window=(overflow.stated_limit(report.message) or report.limit) if too_long else None,
        prompt_tokens=(overflow.stated_prompt(report.message) or report.prompt) if too_long else None,
    )


def retry_after_ms(headers: Mapping[str, str], *, now: datetime | None = None) -> int | None:
    """Read how long the provider asks to wait; a date is counted from the server's own `Date`, else from `now`."""
    for name, factor in (("retry-after-ms", 1.0), ("retry-after", 1000.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            wait_ms = float(value) * factor
        except ValueError:
            wait_ms = _ms_until(value, headers.get("date"), now)
        if isfinite(wait_ms) and wait_ms > 0:
            return ceil(wait_ms)
    return None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Read whether the provider itself advises another try; most say nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def request_id(headers: Mapping[str, str]) -> str | None:
    """Find the provider's name for the request."""
    names = ("x-request-id", "request-id", "x-deepseek-request-id", "x-ds-trace-id")
    return next((headers[name] for name in names if headers.get(name)), None)


def without_key(failure: LlmFailure, key: str) -> LlmFailure:
    """Remove the key from everything a failure says, and cut what is too long for a log."""
    message = mend_surrogates(failure.message)
    message = message.replace(key, HIDDEN_KEY) if key else message
    if len(message) > MAX_MESSAGE_CHARS:
        message = message[:MAX_MESSAGE_CHARS] + "…"
    named = failure.request_id.replace(key, HIDDEN_KEY) if failure.request_id and key else failure.request_id
    return replace(failure, message=message, request_id=named)


def _report(error: Any, status: int | None) -> ErrorReport:
    if not isinstance(error, dict):
        return ErrorReport(status=status, message=str(error))
    code, kind = error.get("code"), error.get("type")
    message = error.get("message") or error.get("detail") or ""
    return ErrorReport(
        status=status or _status_of(code) or _status_of(error.get("status")),
        code="" if code is None else str(code),
        kind="" if kind is None else str(kind),
        message=message if isinstance(message, str) else str(message),
        limit=_tokens(error, "n_ctx"),
        prompt=_tokens(error, "n_prompt_tokens"),
    )


def _tokens(error: Mapping[str, Any], name: str) -> int | None:
    value = error.get(name)
    return value if type(value) is int and value > 0 else None


def _status_of(code: Any) -> int | None:
    """Read an HTTP status that stands where an error code should."""
    text = str(code)
    return int(text) if re.fullmatch(r"[45]\d\d", text) else None


def _ms_until(date: str, server_date: str | None, now: datetime | None) -> float:
    try:
        then = parsedate_to_datetime(date)
        since = parsedate_to_datetime(server_date) if server_date else now or datetime.now(UTC)
    except ValueError:
        return 0.0
    if then.tzinfo is None or since.tzinfo is None:  # a date without a zone is UTC by the HTTP specification
        then, since = then.replace(tzinfo=UTC), since.replace(tzinfo=UTC)
    return (then - since).total_seconds() * 1000
