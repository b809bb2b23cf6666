"""edit_file: replaces one piece of a document, after the user's review."""

from __future__ import annotations

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.errors import ToolError
from dsh_lsp.tools.tool import (
    Card,
    Execution,
    Mode,
    Tool,
    ToolArgs,
    ToolOutput,
)
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.edits import FileEdit
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.report import describe_outcomes, is_failure
from dsh_lsp.workspace.text import line_ending, with_line_ending


class EditFileArgs(ToolArgs):
    """What gives way to what."""

    path: str = Field(description="Path of the file, relative to the workspace root.")
    old_text: str = Field(
        min_length=1,
        description="The text to replace, exactly as it stands in the file, long enough to occur once.",
    )
    new_text: str = Field(description="The text to put in its place.")


class EditFile(Tool[EditFileArgs]):
    """Proposes one replacement."""

    name = "edit_file"
    description = """
Replace a piece of a file. old_text must occur exactly once, with its white space; give a few lines around the
change if it is short. The user reviews the edit before it lands; the result tells what they decided.
"""
    Args = EditFileArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: EditFileArgs, execution: Execution) -> ToolOutput:
        """Find the place, propose, and tell what became of it."""
        base = await self._workspace.read(args.path, execution.approved)
        end = line_ending(base.text)
        old, new = with_line_ending(args.old_text, end), with_line_ending(args.new_text, end)
        found = base.text.count(old)
        if found == 0:
            raise ToolError(
                f"old_text does not occur in {base.path}; read the file and copy it exactly", code="NO_MATCH"
            )
        if found > 1 or base.text.find(old, base.text.find(old) + 1) != -1:
            raise ToolError(
                f"old_text occurs more than once in {base.path}; add lines around it until it is unique",
                code="AMBIGUOUS",
            )
        edit = FileEdit(path=base.path, base=base, new_text=base.text.replace(old, new))
        outcomes = await self._workspace.propose([edit], execution.approved, signal=execution.signal)
        return ToolOutput(text=describe_outcomes(outcomes), is_error=is_failure(outcomes))

    def effects(self, args: EditFileArgs) -> list[Effect]:
        """It edits one file."""
        return self._workspace.effects(args.path, "edit")

    def present_call(self, args: EditFileArgs) -> Card:
        """Show both texts."""
        removed = "".join(f"-{line}\n" for line in args.old_text.splitlines())
        added = "".join(f"+{line}\n" for line in args.new_text.splitlines())
        return Card(kind="diff", title=f"Edit {args.path}", path=args.path, body=removed + added)

    def present_result(self, args: EditFileArgs, output: str, meta: JsonObject | None) -> Card:  # noqa: ARG002
        """Show both texts and what became of them."""
        call = self.present_call(args)
        return Card(kind="diff", title=call.title, path=call.path, body=call.body, detail=output)
