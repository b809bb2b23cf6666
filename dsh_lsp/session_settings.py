"""Session settings: all that a client may configure, gathered from the models beside their owners."""

from __future__ import annotations

from pydantic import Field

from dsh_lsp.decisions import Mode
from dsh_lsp.plugin_host import PluginEntry
from dsh_lsp.plugins.limits import Settings as LimitSettings
from dsh_lsp.plugins.retry import Settings as RetrySettings
from dsh_lsp.plugins.shortening import Settings as CompactionSettings
from dsh_lsp.providers import ModelSettings
from dsh_lsp.settings import AbsolutePath, SettingsModel, raises_rights
from dsh_lsp.shell.rules import ShellSettings


class EditSettings(SettingsModel):
    """How accepted edits are kept."""

    save: bool = Field(
        default=True,
        description="Save a document that was clean before the agent's edit; one with unsaved text never is.",
    )


class SessionSettings(SettingsModel):
    """Where sessions live."""

    directory: AbsolutePath | None = Field(
        default=None,
        json_schema_extra=raises_rights(None),
        description="Where session logs live: an absolute path, where `~` is your home; in the user's state "
        "directory, unless set.",
    )


class Settings(SettingsModel):
    """All that a client may configure; `docs/settings.md` is made from it."""

    event_token: str | int | None = Field(
        default=None,
        description="The token under which the client gets the stream of events; a client sets it, not its user.",
    )
    model: ModelSettings = ModelSettings()
    mode: Mode = Field(
        default="ask",
        json_schema_extra=raises_rights("read-only"),
        description="What a new session may do. `ask`: edits are reviewed, what reaches further is asked for. "
        "`auto-edit`: edits are applied at once, to keep or undo until the next turn. `read-only`: nothing but "
        "reading. `plan`: the same, with a plan as the aim.",
    )
    limits: LimitSettings = LimitSettings()
    retry: RetrySettings = RetrySettings()
    compaction: CompactionSettings = CompactionSettings()
    edits: EditSettings = EditSettings()
    max_parallel_tool_calls: int = Field(default=10, ge=1, description="How many tools of one step may overlap.")
    shell: ShellSettings = ShellSettings()
    sessions: SessionSettings = SessionSettings()
    workspace_trusted: bool = Field(
        default=True,
        json_schema_extra=raises_rights(False),
        description="Whether the workspace is trusted. If not, the agent only reads, whatever the mode, and takes "
        "neither plugins nor instructions from it.",
    )
    plugins: list[PluginEntry] = Field(
        default_factory=list,
        json_schema_extra=raises_rights([]),
        description='Plugins, by entry point, dotted name or path: `"name"`, or `{"use": "name", "settings": {…}}`.',
    )
