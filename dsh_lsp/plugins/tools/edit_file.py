"""edit_file: replaces one piece of a document, after the user's review."""

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
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.edits import FileEdit
from dsh_lsp.workspace.match import find_match
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.report import describe_outcomes, is_failure


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
change if it is short. Where only white space differs, whole lines are found all the same, and the result says so.
The user reviews the edit before it lands; the result tells what they decided.
"""
    Args = EditFileArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: EditFileArgs, execution: Execution) -> ToolOutput:
        """Find the place, propose, and tell what became of it."""
        base = await self._workspace.read(args.path, execution.approved)
        match = find_match(base.rope, args.old_text, args.new_text, name=base.path)
        edit = FileEdit(path=base.path, base=base, new=base.rope.changed(match.change))
        outcomes = await self._workspace.propose([edit], execution.approved, signal=execution.signal)
        found = "" if match.reading == "exact" else f"\n(old_text was found with {match.reading}.)"
        return ToolOutput(text=describe_outcomes(outcomes) + found, is_error=is_failure(outcomes))

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
