"""list_files: what lies in the workspace, ignored files left out."""

from __future__ import annotations

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.tools.tool import (
    Card,
    Execution,
    Mode,
    Tool,
    ToolArgs,
    ToolOutput,
)
from dsh_lsp.workspace.paths import legible
from dsh_lsp.workspace.port import Workspace


class ListFilesArgs(ToolArgs):
    """Which folder."""

    path: str = Field(default=".", description="Folder to list, relative to the workspace root.")
    limit: int = Field(default=500, ge=1, le=2000, description="How many files to list at most.")


class ListFiles(Tool[ListFilesArgs]):
    """Lists the files below a folder."""

    name = "list_files"
    description = """
List the files below a folder of the workspace, with their paths relative to the workspace root. Files that the
project ignores are left out.
"""
    Args = ListFilesArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: ListFilesArgs, execution: Execution) -> ToolOutput:
        """List them, sorted."""
        with execution.signal.guard():
            listing = await self._workspace.list_files(args.path, execution.approved, limit=args.limit)
        if not listing.entries:
            return ToolOutput(text=f"No files below {legible(args.path)}.")
        text = "\n".join(legible(entry.path) for entry in listing.entries)
        return ToolOutput(text=f"{text}\n[more files; list a subfolder]" if listing.truncated else text)

    def effects(self, args: ListFilesArgs) -> list[Effect]:
        """It only reads."""
        return self._workspace.effects(args.path, "read")

    def present_call(self, args: ListFilesArgs) -> Card:
        """Name the folder."""
        return Card(kind="generic", title=f"List files in {args.path}")
