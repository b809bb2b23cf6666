"""Failures: what a provider says when it refuses, sorted into our codes.

Owns: the table of statuses, names and wordings; the reading of retry hints; the removal of the key from texts.
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

from dsh_lsp.errors import LlmFailure
from dsh_lsp.llm import overflow
from dsh_lsp.llm.error_reports import ErrorReport
from dsh_lsp.llm.overflow import any_of
from dsh_lsp.llm.surrogates import mend_surrogates

MAX_MESSAGE_CHARS = 2_000
HIDDEN_KEY = "[key]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row: fits by status alone; by code or type where there is no status; by wording in one of `worded_in`.

    In `worded_in` None stands for no status.
    """

    code: str
    statuses: frozenset[int] = frozenset()
    named: frozenset[str] = frozenset()
    worded_in: frozenset[int | None] = frozenset()
    words: re.Pattern[str] = re.compile(r"(?!)")
    unless: re.Pattern[str] = re.compile(r"(?!)")

    def fits(self, report: ErrorReport) -> bool:
        """Whether the report belongs to this row."""
        if report.status in self.statuses:
            return True
        if report.status is None and not self.named.isdisjoint((report.code, report.kind)):
            return True
        worded = report.status in self.worded_in and bool(self.words.search(report.words))
        return worded and not self.unless.search(report.words)


_RATE = any_of(r"rate.?limit", r"too many (?:requests|tokens)", r"throttl", r"quota.{0,80}per.?minute")
_EMPTY = (
    r"insufficient.?quota",
    r"insufficient.?balance",
    r"credits? exhausted",
    r"credit balance is too low",
    r"usage limit reached",
    r"FreeUsageLimitError",
    r"per.?day",
)
_QUOTA = any_of(*_EMPTY, r"exceeded your current quota", r"billing")
# Limits of a moment whose words speak of quotas and of billing too: OpenAI's, Gemini's.
_MOMENT = any_of(r"per.?(?:second|minute)", r"\b[RT]PM\b", r"(?:try again|retry) in [\d.]+ ?(?:ms|s)\b")
_AUTH = any_of(r"invalid.?api.?key", r"authentication", r"unauthori[sz]ed", r"permission.?denied")
_SERVER = any_of(r"overloaded", r"server.?error", r"internal error", r"insufficient_system_resource", r"unavailable")

RULES = (
    Rule(code="RATE_LIMIT", worded_in=frozenset({None, 429}), words=_MOMENT, unless=any_of(*_EMPTY)),
    Rule(
        code="QUOTA",
        statuses=frozenset({402}),
        named=frozenset({"402", "billing_error"}),
        worded_in=frozenset({None, 400, 403, 429}),
        words=_QUOTA,
    ),
    Rule(
        code="CONTEXT_WINDOW_EXCEEDED",
        worded_in=frozenset({None, 400, 413, 422, 500}),
        words=overflow.WORDS,
        unless=_RATE,
    ),
    Rule(
        code="AUTH",
        statuses=frozenset({401, 403}),
        named=frozenset({"authentication_error", "permission_error"}),
        worded_in=frozenset({None}),
        words=_AUTH,
    ),
    Rule(
        code="RATE_LIMIT",
        statuses=frozenset({429}),
        named=frozenset({"RESOURCE_EXHAUSTED"}),
        worded_in=frozenset({None}),
        words=_RATE,
    ),
    Rule(
        code="TIMEOUT",
        statuses=frozenset({408}),
        named=frozenset({"timeout_error", "timeout", "request_timeout", "DEADLINE_EXCEEDED"}),
    ),
    Rule(
        code="SERVER",
        statuses=frozenset(range(500, 600)),
        named=frozenset({"api_error", "overloaded_error", "INTERNAL"}),
        worded_in=frozenset({None}),
        words=_SERVER,
    ),
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


def failure_from(report: ErrorReport, *, host: str, faults: Faults | None = None) -> LlmFailure:
    """Write a report down for the log and for people."""
    faults = faults or Faults()
    code = classify(report, faults.rules)
    if report.in_stream:
        answered = f"{host} sent an error ({report.status})" if report.status else f"{host} sent an error"
    else:
        answered = f"{host} answered {report.status}"
    parts = [f"{answered}: {report.message}" if report.message else answered]
    if code in faults.advice:
        parts.append(faults.advice[code])
    too_long = code == "CONTEXT_WINDOW_EXCEEDED"
    return LlmFailure(
        message="; ".join(parts),
        code=code,
        status=report.status,
        provider_retry_after_ms=stated_wait_ms(report.words),
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


_WAIT = re.compile(
    r"(?:retryDelay\W*|(?:try again|retry) in )((?:\d+h)?(?:\d+m(?!s))?(?:\d+(?:\.\d+)?(?:ms|s)\b)?)", re.IGNORECASE
)
_UNITS = {"h": 3_600_000.0, "m": 60_000.0, "s": 1_000.0, "ms": 1.0}


def stated_wait_ms(words: str) -> int | None:
    """Read the wait that a refusal asks for in its words, as those do that come without a header for it."""
    for found in _WAIT.finditer(words):
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", found[1], re.IGNORECASE)
        wait_ms = sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)
        if wait_ms > 0:
            return ceil(wait_ms)
    return None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Read whether the provider itself advises another try; most say nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def request_id(headers: Mapping[str, str]) -> str | None:
    """Find the provider's name for the request."""
    names = ("x-request-id", "request-id", "x-deepseek-request-id", "x-ds-trace-id")
    return next((headers[name] for name in names if headers.get(name)), None)


def with_hints(failure: LlmFailure, headers: Mapping[str, str]) -> LlmFailure:
    """Add to a failure what the headers of the response say of it."""
    advice = should_retry(headers)
    return replace(
        failure,
        provider_retry_after_ms=retry_after_ms(headers) or failure.provider_retry_after_ms,
        request_id=failure.request_id or request_id(headers),
        should_retry=failure.should_retry if advice is None else advice,
    )


def without_key(failure: LlmFailure, *keys: str) -> LlmFailure:
    """Remove keys from everything a failure says, and cut what is too long for a log."""
    message, named = mend_surrogates(failure.message), failure.request_id
    for key in filter(None, keys):
        message = message.replace(key, HIDDEN_KEY)
        named = named.replace(key, HIDDEN_KEY) if named else named
    if len(message) > MAX_MESSAGE_CHARS:
        message = message[:MAX_MESSAGE_CHARS] + "…"
    return replace(failure, message=message, request_id=named)


def _ms_until(date: str, server_date: str | None, now: datetime | None) -> float:
    then = _date_of(date)
    since = _date_of(server_date or "") or now or datetime.now(UTC)
    return (then - since).total_seconds() * 1000 if then is not None else 0.0


def _date_of(text: str) -> datetime | None:
    """A date of HTTP; one without a zone is UTC by its specification."""
    try:
        date = parsedate_to_datetime(text)
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date
    except (ValueError, OverflowError):
        return None
