"""move_file: gives a file another name or folder, after the user's review."""

from __future__ import annotations

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.tools.tool import Card, Execution, Mode, Tool, ToolArgs, ToolOutput
from dsh_lsp.workspace.edits import FileRename
from dsh_lsp.workspace.knowledge import gone_meta
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.report import describe_outcomes, is_failure


class MoveFileArgs(ToolArgs):
    """Which file, and where to."""

    path: str = Field(description="Path of the file, relative to the workspace root.")
    new_path: str = Field(description="Its new path, relative to the workspace root.")


class MoveFile(Tool[MoveFileArgs]):
    """Proposes to move a file."""

    name = "move_file"
    description = """
Rename a file of the workspace, or move it to another folder, which is made if it is not there. No file may have the
new name. References to the file in other files are not changed. The user reviews it before it happens; the result
tells what they decided.
"""
    Args = MoveFileArgs
    mode: Mode = "exclusive"  # type: ignore[misc]  # what follows in the same step may use the names

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: MoveFileArgs, execution: Execution) -> ToolOutput:
        """Propose, and tell what became of it."""
        outcomes = await self._workspace.propose(
            [FileRename(path=args.path, new_path=args.new_path)], execution.approved, signal=execution.signal
        )
        meta = gone_meta(args.path, outcomes, new_path=args.new_path)
        return ToolOutput(text=describe_outcomes(outcomes), meta=meta, is_error=is_failure(outcomes))

    def effects(self, args: MoveFileArgs) -> list[Effect]:
        """It edits both paths."""
        return [*self._workspace.effects(args.path, "edit"), *self._workspace.effects(args.new_path, "edit")]

    def present_call(self, args: MoveFileArgs) -> Card:
        """Name both paths."""
        return Card(kind="generic", title=f"Move {args.path} to {args.new_path}", path=args.path)
