"""Compose: builds one session's runtime from settings and ports; the only place that names the parts.

Rules: heavy modules are imported here, after the editor has its answer to `initialize`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.agent.driver import Agent, AgentParts, new_id
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.agent.modes import Modes
from dsh_lsp.agent.prompt import SystemPrompt
from dsh_lsp.agent.request import AgentOptions
from dsh_lsp.agent.snapshot import RuntimeContext
from dsh_lsp.decisions import ModelSelected
from dsh_lsp.directories import sessions_directory, state_directory
from dsh_lsp.errors import ConfigError, LlmError
from dsh_lsp.events import LogEvent, RequestHeaderLogged
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.plugin import Context
from dsh_lsp.plugin_host import PluginHost
from dsh_lsp.plugins import (
    approval,
    changes,
    compaction,
    diagnostics,
    instructions,
    limits,
    notices,
    persona,
    repeat,
    retry,
    spill,
    timeout,
    toolbox,
    undone,
)
from dsh_lsp.plugins.compaction import Compactor
from dsh_lsp.plugins.limits import Settings as LimitSettings
from dsh_lsp.plugins.retry import RetryWait
from dsh_lsp.providers import key_variables
from dsh_lsp.secrets import Keys
from dsh_lsp.session.loading import load_session
from dsh_lsp.session.log import SessionHeader, SessionLog, wall_clock_ms
from dsh_lsp.session.store import SessionStore, claim_session, session_lock
from dsh_lsp.session.summary import Summary, SummaryFold
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import Live
from dsh_lsp.shell.environment import ChildEnvironment
from dsh_lsp.shell.rules import CommandRules
from dsh_lsp.tools.approvals import Approvals
from dsh_lsp.tools.questions import Questions
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.spills import Spills
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.language import LanguageServers, NoLanguageServers
from dsh_lsp.workspace.paths import Guarded
from dsh_lsp.workspace.port import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What a session's tools reach the user's work through."""

    workspace: Workspace
    languages: LanguageServers = field(default_factory=NoLanguageServers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One live session."""

    log: SessionLog
    store: SessionStore
    agent: Agent
    tools: ToolRegistry
    llm: Llm
    context: Context
    modes: Modes
    plugins: PluginHost
    limits: Live[LimitSettings]

    @property
    def id(self) -> str:
        """The session's id."""
        return self.log.header.id

    @property
    def copies(self) -> Copies:
        """What it took away from the user's files."""
        return _copies_beside(self.store)

    def configure(self, settings: Settings) -> None:
        """Take settings that changed; those of a new session's beginning are of no concern to this one."""
        self.context.get(CommandRules).settings = settings.shell
        self.context.get(Keys).also_in(key_variables(settings.model))
        self.limits.value = settings.limits
        self.modes.trusted = settings.workspace_trusted
        if settings.workspace_trusted:
            self.plugins.trust()
        else:
            self.plugins.distrust()

    async def on_disk(self) -> None:
        """Wait until all that was appended is on disk; a cancel takes back nothing, so it does not tear the wait.

        Raises:
            SessionError: `LOG_NOT_WRITABLE`.
        """
        with anyio.CancelScope(shield=True):
            await self.store.flush()

    async def close(self) -> None:
        """Put all on disk, let others have the session, undo what was registered; the agent rests by now."""
        await self.store.close()
        self.context.scope.close()

    def end_retry_wait(self) -> bool:
        """Let the next try of a failed model call begin at once; False if none is waited for."""
        return self.context.get(RetryWait).end()

    @property
    def compactor(self) -> Compactor:
        """What makes room in the model's context window."""
        return self.context.get(Compactor)

    def check_ready(self) -> None:
        """Refuse input that no model could answer.

        Raises:
            ConfigError: `NO_KEY`, or what else the user must mend before a model can be asked.
        """
        config = self.agent.ledger.seed()
        if not config.model:
            message = f"no model to ask: set model.name, or choose one that {config.provider} offers"
            raise ConfigError(message, code="NO_MODEL")
        if self.llm.pending(config.provider):  # a key that is still looked for is told of by the turn
            return
        try:
            self.llm.prepare_call(config)
        except LlmError as error:
            code = "NO_KEY" if error.code in ("MISSING_CREDENTIAL", "INVALID_CREDENTIAL") else error.code
            raise ConfigError(str(error), code=code) from error


def sessions_folder(settings: Settings) -> Path:
    """Where sessions live."""
    return Path(settings.sessions.directory) if settings.sessions.directory else sessions_directory()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A session's log and the file that follows it."""

    log: SessionLog
    store: SessionStore


def new_log(settings: Settings, root: Path, *, parent: str | None = None, events: Sequence[LogEvent] = ()) -> Stored:
    """Begin a session whose file appears with its first input; a fork begins with the events of its parent."""
    header = SessionHeader(id=new_id(), created_at=wall_clock_ms(), cwd=str(root), parent_session=parent)
    log = SessionLog(header, events=events)
    folder = sessions_folder(settings)
    lock = session_lock(folder / f"{header.id}.jsonl")
    return Stored(log=log, store=SessionStore.create(folder, log, lock=lock))


async def resume_log(path: Path) -> Stored:
    """Go on with a stored session; a turn that its last writer left open is closed.

    Raises:
        SessionError: `UNKNOWN_SESSION`, `SESSION_LOCKED`, `LOG_NOT_READABLE`, `LOG_NOT_SUPPORTED`.
    """
    loaded = await claim_session(path)
    return Stored(log=loaded.log, store=SessionStore.resume(loaded))


def summarize(path: Path) -> Summary:
    """Read what a list shows of a session from its log.

    Raises:
        SessionError: `LOG_NOT_READABLE`, `LOG_NOT_SUPPORTED`.
    """
    return SummaryFold(load_session(path).log).take()


def options_for(settings: Settings, log: SessionLog) -> AgentOptions:
    """The route of a session: the one that its log names, else the one of the settings."""
    model = settings.model
    provider: str = model.provider
    name = model.model
    for event in log.facts():
        match event.data:
            case RequestHeaderLogged(header=header):
                provider, name = header.config.provider, header.config.model
            case ModelSelected(provider=selected, name=model_name):
                provider, name = selected, model_name
            case _:
                pass
    return AgentOptions(
        provider=provider,
        model=name,
        reasoning_effort=model.reasoning_effort,
        max_tokens=model.max_tokens,
        max_parallel_tool_calls=settings.max_parallel_tool_calls,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Groundwork:
    """What a session and its ports stand on: its log and file, what is kept from its tools, its mode."""

    log: SessionLog
    store: SessionStore
    keys: Keys
    guarded: Guarded
    modes: Modes

    @property
    def root(self) -> Path:
        """The folder that it works in."""
        return Path(self.log.header.cwd)

    @property
    def copies(self) -> Copies:
        """What it takes away from the user's files."""
        return _copies_beside(self.store)


def groundwork_of(settings: Settings, stored: Stored, *, folders: Callable[[], Iterable[Path]] = tuple) -> Groundwork:
    """Lay what a session stands on; `folders` belong to the workspace as its root does."""
    log, store = stored.log, stored.store
    keys = Keys(key_variables(settings.model))
    return Groundwork(
        log=log,
        store=store,
        keys=keys,
        guarded=Guarded(folders=folders, keys=keys.known, never=[store.path.parent, state_directory()]),
        modes=Modes(log, settings.mode, trusted=settings.workspace_trusted),
    )


def _copies_beside(store: SessionStore) -> Copies:
    return Copies(store.path.with_suffix(".copies"))


def open_session(
    settings: Settings, ground: Groundwork, ports: Ports, *, llm: Llm, hooks: AgentHooks, tasks: TaskGroup
) -> Session:
    """Build a session's runtime over its log."""
    log, store = ground.log, ground.store
    registry, prompt, limits_now = ToolRegistry(), SystemPrompt(), Live(settings.limits)
    prompt.define("cwd", str(ground.root))
    options = options_for(settings, log)
    agent = Agent(
        AgentParts(
            log=log,
            llm=llm,
            tools=registry,
            prompt=prompt,
            options=options,
            tasks=tasks,
            hooks=hooks,
            barrier=store.flush,
            keys=ground.keys,
        )
    )
    context = Context()
    _provide_work(context, settings, ground, ports)
    _provide_loop(context, agent, hooks)
    context.provide(Llm, llm)
    context.provide(ToolRegistry, registry)
    context.provide(SystemPrompt, prompt)
    context.provide(TaskGroup, tasks)
    for plugin, plugin_settings in _policies(settings, limits_now):
        context.mount(plugin, plugin_settings)
    plugins = PluginHost(
        context,
        settings.plugins,
        root=ground.root,
        folders=ground.guarded.folders,
        trusted=settings.workspace_trusted,
        tool_order=options.tool_order,
    )
    plugins.start()
    ground.guarded.rights = plugins.files
    # The last events of a turn lead to no request whose barrier would write them.
    hooks.status.listen(lambda status: tasks.start_soon(store.settle) if status == "idle" else None)
    return Session(
        log=log,
        store=store,
        agent=agent,
        tools=registry,
        llm=llm,
        context=context,
        plugins=plugins,
        modes=ground.modes,
        limits=limits_now,
    )


def _provide_work(context: Context, settings: Settings, ground: Groundwork, ports: Ports) -> None:
    """Offer what tools reach the user's work through, and what holds them back."""
    context.provide(Workspace, ports.workspace)
    context.provide(LanguageServers, ports.languages)
    context.provide(CommandRules, CommandRules(ground.root, settings.shell, folders=ground.guarded.folders))
    context.provide(Keys, ground.keys)
    context.provide(ChildEnvironment, ChildEnvironment(ground.keys))
    context.provide(Modes, ground.modes)
    context.provide(Spills, Spills(ground.store.path.with_suffix(".outputs")))


def _provide_loop(context: Context, agent: Agent, hooks: AgentHooks) -> None:
    """Offer the loop, its log, and the ways in which it asks a person."""
    context.provide(SessionLog, agent.log)
    context.provide(Agent, agent)
    context.provide(AgentHooks, hooks)
    context.provide(RuntimeContext, agent.context)
    context.provide(Approvals, agent.approvals)
    context.provide(Questions, Questions(agent.log, hooks.tools.question, new_id))


def _policies(settings: Settings, limits_now: Live[LimitSettings]) -> tuple[tuple[ModuleType, Any], ...]:
    """What stands beside every agent, with its settings; who comes first hears first."""
    return (
        (persona, None),
        (toolbox, None),
        (approval, None),
        (timeout, None),
        (diagnostics, None),
        (changes, None),
        (instructions, None),
        (repeat, None),
        (limits, limits_now),
        (retry, settings.retry),
        (compaction, settings.compaction),
        (notices, None),
        (spill, None),
        (undone, None),
    )
