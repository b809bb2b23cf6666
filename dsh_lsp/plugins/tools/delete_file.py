"""delete_file: deletes a file, after the user's review."""

from __future__ import annotations

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.tools.tool import Card, Execution, Mode, Tool, ToolArgs, ToolOutput
from dsh_lsp.workspace.edits import FileDelete
from dsh_lsp.workspace.knowledge import gone_meta
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.report import describe_outcomes, is_failure


class DeleteFileArgs(ToolArgs):
    """Which file."""

    path: str = Field(description="Path of the file, relative to the workspace root.")


class DeleteFile(Tool[DeleteFileArgs]):
    """Proposes to delete a file."""

    name = "delete_file"
    description = """
Delete a file of the workspace. The user reviews the deletion before it happens; the result tells what they decided.
A copy is kept, so that they can have it back.
"""
    Args = DeleteFileArgs
    mode: Mode = "exclusive"  # type: ignore[misc]  # what follows in the same step may use the names

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: DeleteFileArgs, execution: Execution) -> ToolOutput:
        """Propose, and tell what became of it."""
        outcomes = await self._workspace.propose(
            [FileDelete(path=args.path)], execution.approved, signal=execution.signal
        )
        meta = gone_meta(args.path, outcomes)
        return ToolOutput(text=describe_outcomes(outcomes), meta=meta, is_error=is_failure(outcomes))

    def effects(self, args: DeleteFileArgs) -> list[Effect]:
        """It edits one file."""
        return self._workspace.effects(args.path, "edit")

    def present_call(self, args: DeleteFileArgs) -> Card:
        """Name the file."""
        return Card(kind="generic", title=f"Delete {args.path}", path=args.path)
