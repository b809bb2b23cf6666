"""Request: the configuration of one model call and its header in the log.

Rules: a request is rebuildable from the log before its first chunk: derived messages plus the last header; the
header is logged for the first request of an agent and whenever it changes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal, cast

from dsh_lsp.agent.prompt import Assembly, render_prompt
from dsh_lsp.decisions import ModelSelected
from dsh_lsp.errors import UsageError
from dsh_lsp.events import LogEvent, RequestContext, RequestHeader, RequestHeaderLogged
from dsh_lsp.llm.adapter import PreparedCall
from dsh_lsp.messages import CallConfig
from dsh_lsp.session.log import SessionLog
from dsh_lsp.wire import to_camel


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The route of a session's first request and the bounds of its steps."""

    provider: str
    model: str
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    max_parallel_tool_calls: int = 10
    tool_order: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.max_parallel_tool_calls < 1:
            raise UsageError("max_parallel_tool_calls must be a positive integer")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError("max_tokens must be a positive integer")


class HeaderLedger:
    """Knows the last header and route of a log, and appends what is new."""

    def __init__(self, log: SessionLog, options: AgentOptions) -> None:
        self._log = log
        self._options = options
        self._mine = False  # whether this agent has logged a header itself
        self._header: RequestHeader | None = None
        self._route: RequestContext | None = None
        self._selected: ModelSelected | None = None  # by the user, for the next request
        for event in log.facts():
            if isinstance(event.data, RequestHeaderLogged):
                self._header, self._selected = event.data.header, None
            elif isinstance(event.data, RequestContext):
                self._route = event.data
            else:
                self._note(event)
        log.appended.listen(self._note)

    @property
    def header(self) -> RequestHeader | None:
        """The header in force; None before the first request."""
        return self._header

    def seed(self) -> CallConfig:
        """The configuration to start from: the options, later the last header without its defaults.

        A model that was selected since then takes the place of theirs, with the effort and limit of the options.
        """
        if self._selected is not None:
            return CallConfig(
                provider=self._selected.provider,
                model=self._selected.name,
                reasoning_effort=self._options.reasoning_effort,
                max_tokens=self._options.max_tokens,
            )
        if not self._mine or self._header is None:
            options = self._options
            return CallConfig(
                provider=options.provider,
                model=options.model,
                reasoning_effort=options.reasoning_effort or self._restored_effort(),
                max_tokens=options.max_tokens,
            )
        defaulted = self._header.adapter_defaults
        strip = {field.name: None for field in fields(CallConfig) if to_camel(field.name) in defaulted}
        return replace(self._header.config, **strip)  # type: ignore[arg-type]

    def select(self, provider: str, name: str) -> None:
        """Let the next request go to another model; the same one again leaves no trace."""
        now = self.seed()
        if (now.provider, now.model) != (provider, name):
            self._log.append(ModelSelected(provider=provider, name=name))

    def _note(self, event: LogEvent) -> None:
        if isinstance(event.data, ModelSelected):
            self._selected = event.data

    def _restored_effort(self) -> str | None:
        """The effort of an earlier life of the session, if it was chosen and the route is the same."""
        header = self._header
        if header is None or "reasoningEffort" in header.adapter_defaults:
            return None
        same = (header.config.provider, header.config.model) == (self._options.provider, self._options.model)
        return header.config.reasoning_effort if same else None

    def record(self, prepared: PreparedCall, assembly: Assembly, *, starts_series: bool = False) -> RequestHeader:
        """Append the header and the route where they are due; returns the header in force.

        Raises:
            UsageError: the system text uses a variable that nobody defines.
        """
        header = RequestHeader(
            config=prepared.config,
            adapter_defaults=tuple(sorted(map(to_camel, prepared.defaulted))),
            system=render_prompt(
                assembly,
                provider=prepared.config.provider,
                model=prepared.config.model,
                cwd=self._log.header.cwd,
            ),
            tools=assembly.tools,
        )
        if not self._mine or starts_series or header != self._header:
            reason: Literal["initial", "resume", "change"]
            reason = "change" if self._mine else "initial" if self._header is None else "resume"
            logged = RequestHeaderLogged(header=header, reason=reason, starts_series=starts_series or None)
            # The log's own copy: a schema that somebody changes later is a change, and not what was sent.
            self._header = cast("RequestHeaderLogged", self._log.append(logged).data).header
            self._mine = True
        self._selected = None
        route = RequestContext(
            provider=prepared.config.provider,
            model=prepared.config.model,
            context_window=prepared.context_window,
        )
        if route != self._route:
            self._log.append(route)
            self._route = route
        return self._header
