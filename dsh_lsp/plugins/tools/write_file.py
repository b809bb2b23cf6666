"""write_file: creates a file or replaces its whole text, after the user's review."""

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
from dsh_lsp.workspace.edits import FileEdit, Snapshot
from dsh_lsp.workspace.knowledge import edit_meta
from dsh_lsp.workspace.match import ended_like
from dsh_lsp.workspace.order import Ticket
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.report import describe_outcomes, is_failure
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import bare_lines


class WriteFileArgs(ToolArgs):
    """The whole text."""

    path: str = Field(description="Path of the file, relative to the workspace root.")
    content: str = Field(description="The whole text of the file.")


class WriteFile(Tool[WriteFileArgs]):
    """Proposes a file's whole text."""

    name = "write_file"
    description = """
Create a file, or replace the whole text of one. To change a part of a file use edit_file. The user reviews the
text before it is written; the result tells what they decided.
"""
    Args = WriteFileArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: WriteFileArgs, execution: Execution) -> ToolOutput:
        """Propose, and tell what became of it."""
        with self._workspace.order.ticket(execution.signal) as ticket:
            return await self._write(args, execution, ticket)

    async def _write(self, args: WriteFileArgs, execution: Execution, ticket: Ticket) -> ToolOutput:
        base: Snapshot | None = None
        content = args.content
        try:
            base = await self._workspace.read(args.path, execution.approved)
        except ToolError as error:
            if error.code != "NOT_FOUND":
                raise
        if base is not None:
            content = ended_like(base.rope, content)
        edit = FileEdit(path=base.path if base else args.path, base=base, new=Rope.of(content))
        outcomes = await self._workspace.propose([edit], execution.approved, signal=execution.signal, ticket=ticket)
        meta = edit_meta([edit], outcomes)
        for file in meta["files"]:
            file.pop("before", None)  # whatever stood there: the model knows the whole text now
        return ToolOutput(text=describe_outcomes(outcomes), meta=meta, is_error=is_failure(outcomes))

    def effects(self, args: WriteFileArgs) -> list[Effect]:
        """It edits one file."""
        return self._workspace.effects(args.path, "edit")

    def present_call(self, args: WriteFileArgs) -> Card:
        """Show the text."""
        body = "".join(f"+{line}\n" for line in bare_lines(args.content))
        return Card(kind="diff", title=f"Write {args.path}", path=args.path, body=body)

    def present_result(self, args: WriteFileArgs, output: str, meta: JsonObject | None) -> Card:  # noqa: ARG002
        """Show the text and what became of it."""
        call = self.present_call(args)
        return Card(kind="diff", title=call.title, path=call.path, body=call.body, detail=output)
