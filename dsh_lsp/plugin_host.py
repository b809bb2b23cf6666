"""Plugin host: mounts the plugins that the user chose, and exchanges them while the agent runs.

One host serves one session: each session mounts its own, so a plugin hears one agent and `ctx.get(Agent)` is it.

Rules: a plugin that cannot be located, loaded, validated or applied is reported by name and left out, and the
others run; a new version that fails leaves the old one in place; a version that is replaced takes no new calls
and closes after its last running one; a plugin inside a workspace folder is exchanged by command alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from pydantic import BaseModel, Field, ValidationError, model_validator

from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.agent.prompt import Assembly, SystemPrompt
from dsh_lsp.errors import ConfigError, DshError, error_chain
from dsh_lsp.hooks import Emit
from dsh_lsp.plugin import Context, Scope, check_plugin
from dsh_lsp.plugin_source import Brought, Source, Stamp, bring_in, lies_in, locate, places_of, stamp_of
from dsh_lsp.settings import SettingsModel
from dsh_lsp.tools.pipeline import Outcome
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import (
    Execution,
)
from dsh_lsp.validation import problems_in
from dsh_lsp.wire import Wire

log = logging.getLogger(__name__)


class PluginEntry(SettingsModel):
    """One plugin of the setting `plugins`: `"name"`, or `{"use": "name", "settings": {...}}`."""

    use: str = Field(min_length=1)
    settings: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_name_alone(cls, value: Any) -> Any:
        return {"use": value} if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFailure(Wire):
    """A plugin that was left out, or whose new version was; `name` is as in the settings until it is known."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"plugin {self.name}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport(Wire):
    """Which plugins were loaded, and which could not be."""

    loaded: tuple[str, ...] = ()
    failed: tuple[PluginFailure, ...] = ()


def join_reports(reports: Iterable[PluginReport]) -> PluginReport:
    """What several sessions report, each thing once, in order."""
    known = list(reports)
    return PluginReport(
        loaded=tuple(dict.fromkeys(name for report in known for name in report.loaded)),
        failed=tuple(dict.fromkeys(failure for report in known for failure in report.failed)),
    )


@dataclass(slots=True, eq=False)
class _Slot:
    """One entry of the setting: the version that runs, and what was tried last."""

    entry: PluginEntry
    name: str
    source: Source | None = None
    tried: Stamp | None = None
    places: tuple[Path, ...] = ()  # of its file: as it is named, and where links lead
    scope: Scope | None = None
    failure: str | None = None


class PluginHost:
    """The user's plugins of one session; `reported` tells of every exchange after the start."""

    def __init__(
        self,
        context: Context,
        entries: Sequence[PluginEntry],
        *,
        root: Path,
        folders: Callable[[], Iterable[Path]] = tuple,
        trusted: bool = True,
        tool_order: tuple[str, ...] | None = None,
    ) -> None:
        self.reported: Emit[PluginReport] = Emit("plugins/reported")
        self._context = context
        self._root, self._folders = root, folders
        self._roots: tuple[Path, ...] = ()
        self._trusted = trusted
        self._tool_order = tool_order
        self._slots = [_Slot(entry, entry.use) for entry in entries]
        self._lock = anyio.Lock()

    def start(self) -> PluginReport:
        """Mount every plugin, in the order of the settings. Imports their code, and so blocks as imports do."""
        if not self._slots:
            return PluginReport()
        hooks = self._context.get(AgentHooks)
        self._context.own(hooks.assemble.listen(self._at_step_boundary, prepend=True))
        self._context.own(hooks.tools.execute.listen(self._hold_while_a_tool_runs, prepend=True))
        for slot in self._slots:
            self._exchange(slot, self._find(slot, again=False))
        return self.report()

    def report(self) -> PluginReport:
        """Which plugins run, and which of all do not, or run in an older version."""
        return PluginReport(
            loaded=tuple(slot.name for slot in self._slots if slot.scope is not None),
            failed=tuple(
                PluginFailure(name=slot.name, reason=slot.failure) for slot in self._slots if slot.failure is not None
            ),
        )

    def files(self) -> tuple[Path, ...]:
        """The files of the plugins: who may write them may run code in here."""
        return tuple(slot.source.file for slot in self._slots if slot.source is not None and slot.source.file)

    def distrust(self) -> None:
        """Unload the plugins that lie in the workspace, and load none from there any more."""
        self._trusted = False
        for slot in self._slots:
            if (scope := slot.scope) is not None and self._is_inside(slot.places):
                scope.retire()
                slot.scope = None
                self._failed(slot, "it lies in a workspace that is not trusted")

    def trust(self) -> None:
        """Let the plugins that lie in the workspace be loaded again, by the next `reload`."""
        self._trusted = True

    async def reload(self, name: str | None = None) -> PluginReport:
        """Bring in plugins again, whatever their files' times: one by its name, or all."""
        chosen = [slot for slot in self._slots if name in (None, slot.name, slot.entry.use)]
        if name is not None and not chosen:
            known = ", ".join(slot.name for slot in self._slots) or "none"
            unknown = PluginFailure(name=name, reason=f"no plugin is called so; the plugins are: {known}")
            return PluginReport(failed=(unknown,))
        async with self._lock:
            return await self._bring_in(chosen)

    async def refresh(self) -> PluginReport:
        """Bring in plugins whose files changed since they were last tried."""
        watched = [slot for slot in self._slots if slot.places and not self._is_inside(slot.places)]
        if not watched:
            return PluginReport()
        async with self._lock:
            changed = await anyio.to_thread.run_sync(_changed, watched, abandon_on_cancel=True)
            return await self._bring_in(changed) if changed else PluginReport()

    # -- at the extension points -----------------------------------------------------------------------------

    async def _at_step_boundary(
        self, assembly: Assembly, call_next: Callable[[Assembly], Awaitable[Assembly]]
    ) -> Assembly:
        """Look for changed files before each step, so that it sees what is registered then."""
        report = await self.refresh()
        if not report.loaded:
            return await call_next(assembly)
        # This assembly and this dispatch are older than the exchange: both begin again.
        specs = self._context.get(ToolRegistry).specs()
        assembly = self._context.get(SystemPrompt).assemble(specs, order=self._tool_order)
        return await self._context.get(AgentHooks).assemble(assembly, _unchanged)

    async def _hold_while_a_tool_runs(
        self, execution: Execution, call_next: Callable[[Execution], Awaitable[Outcome]]
    ) -> Outcome:
        """Count a tool's body as a call of every plugin: whose tool it is, is known to the registry alone."""
        with ExitStack() as calls:
            for slot in self._slots:
                if slot.scope is not None:
                    calls.enter_context(slot.scope.call())
            return await call_next(execution)

    # -- exchanging ------------------------------------------------------------------------------------------

    async def _bring_in(self, slots: list[_Slot]) -> PluginReport:
        loaded: list[str] = []
        failed: list[PluginFailure] = []
        for slot in slots:
            # Importing reads files and runs code, hence the thread; registering is the loop's alone.
            find = partial(self._find, slot, again=True)
            found = await anyio.to_thread.run_sync(find, abandon_on_cancel=True)
            self._exchange(slot, found)
            if slot.failure is None:
                loaded.append(slot.name)
            else:
                failed.append(PluginFailure(name=slot.name, reason=slot.failure))
        report = PluginReport(loaded=tuple(loaded), failed=tuple(failed))
        self.reported(report)
        return report

    def _find(self, slot: _Slot, *, again: bool) -> Brought | str:
        """Bring in a plugin's code, or say why that cannot be. Blocks; notes what it looked at."""
        try:
            self._roots = places_of(self._root)
            slot.source = source = locate(slot.entry.use, self._refuses)
            slot.places = places_of(source.file) if source.file is not None else ()
            slot.tried = stamp_of(source.file)
            return bring_in(source, again=again)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the border to plugins: their code may raise anything
            return _reason(error)

    def _exchange(self, slot: _Slot, found: Brought | str) -> None:
        """Put a version in the place of the one that runs, at once; if it fails, that one stays."""
        if isinstance(found, str):
            self._failed(slot, found)
            return
        old = slot.scope
        if old is not None:
            old.hide()  # or the new version could not register the same names
        try:
            settings = self._checked(slot, found.plugin)
            new = self._context.mount_scope(found.plugin, settings)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the border to plugins
            if old is not None:
                old.show()
            found.put_back()
            self._failed(slot, _reason(error))
            return
        slot.scope, slot.name, slot.failure = new, found.plugin.name, None
        log.info("plugin %s %s", slot.name, "is loaded" if old is None else "is loaded again")
        if old is not None:
            old.retire()

    def _checked(self, slot: _Slot, plugin: Any) -> BaseModel | None:
        """Check a plugin and its settings; returns what `apply` gets.

        Raises:
            DshError: it is no plugin, its name is taken, or the settings do not fit.
        """
        check_plugin(plugin)
        if any(other.scope is not None and other.name == plugin.name for other in self._slots if other is not slot):
            raise ConfigError("a plugin of this name is loaded already", code="DUPLICATE_PLUGIN")
        if slot.scope is None:
            slot.name = plugin.name
        return read_plugin_settings(plugin, slot.entry.settings)

    def _failed(self, slot: _Slot, reason: str) -> None:
        slot.failure = reason if slot.scope is None else f"{reason} (the version before goes on)"
        log.warning("plugin %s: %s", slot.name, slot.failure)

    def _refuses(self, place: Path) -> bool:
        return not self._trusted and self._is_inside(places_of(place))

    def _is_inside(self, places: Iterable[Path]) -> bool:
        """Whether a file lies in the workspace, by the folders that it has now."""
        return lies_in((*self._roots, *self._folders()), places)


def read_plugin_settings(plugin: Any, raw: dict[str, Any] | None) -> BaseModel | None:
    """Read settings by the plugin's own model, its attribute `Settings`; None if it has none.

    Raises:
        ConfigError: `BAD_SETTING`, with the path of every key that is wrong.
    """
    model = getattr(plugin, "Settings", None)
    if model is None:
        if raw:
            raise ConfigError("it takes no settings", code="BAD_SETTING")
        return None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError("its `Settings` must be a pydantic model", code="BAD_SETTING")
    try:
        return model.model_validate(raw or {})
    except ValidationError as error:
        problems = problems_in(error, model, raw or {}, under="settings")
        raise ConfigError("; ".join(map(str, problems)), code="BAD_SETTING") from None


def _changed(slots: list[_Slot]) -> list[_Slot]:
    """The slots whose file is there and is not the one last tried. Blocks on files."""
    changed = []
    for slot in slots:
        stamp = stamp_of(slot.source.file) if slot.source is not None else None
        if stamp is not None and stamp != slot.tried:
            changed.append(slot)
    return changed


def _reason(error: BaseException) -> str:
    if isinstance(error, DshError):
        return error_chain(error)
    log.warning("the code of a plugin failed", exc_info=error)
    return f"{type(error).__name__}: {error_chain(error)}"


async def _unchanged(assembly: Assembly) -> Assembly:
    return assembly
