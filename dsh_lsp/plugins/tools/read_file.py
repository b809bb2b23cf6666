"""read_file: the text of a document as the user sees it now, by pages, with line numbers."""

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
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.text import split_lines

MAX_LINE_CHARS = 2_000


class ReadFileArgs(ToolArgs):
    """Which part of which file."""

    path: str = Field(description="Path of the file, relative to the workspace root.")
    offset: int = Field(default=1, ge=1, description="First line to read, counted from 1.")
    limit: int = Field(default=1000, ge=1, le=2000, description="How many lines to read at most.")


class ReadFile(Tool[ReadFileArgs]):
    """Reads a page of a document."""

    name = "read_file"
    description = """
Read a text file of the workspace. You get what the user's editor holds, unsaved changes included. Each line comes
with its number and a tab before it; they are not part of the file. Long files come in pages: use offset and limit.
"""
    Args = ReadFileArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: ReadFileArgs, execution: Execution) -> ToolOutput:
        """Read the page."""
        snapshot = await self._workspace.read(args.path, execution.approved)
        lines = split_lines(snapshot.text)
        if not lines:
            return ToolOutput(text=f"{snapshot.path} is empty.")
        if args.offset > len(lines):
            raise ToolError(f"{snapshot.path} has only {len(lines)} lines", code="PAST_END")
        page = lines[args.offset - 1 : args.offset - 1 + args.limit]
        last = args.offset + len(page) - 1
        body = "\n".join(f"{number}\t{_shown(line)}" for number, line in enumerate(page, args.offset))
        notes = []
        if last < len(lines):
            notes.append(f"{len(lines) - last} more lines; go on with offset {last + 1}")
        if snapshot.dirty:
            notes.append("the editor holds unsaved changes, shown here")
        if snapshot.unconfirmed:
            notes.append(
                "an accepted edit of this file is not confirmed and may still arrive; this is what stands there"
            )
        text = body + "".join(f"\n[{note}]" for note in notes)
        return ToolOutput(text=text, meta={"path": snapshot.path, "lines": [args.offset, last]})

    def effects(self, args: ReadFileArgs) -> list[Effect]:
        """It only reads."""
        return self._workspace.effects(args.path, "read")

    def present_call(self, args: ReadFileArgs) -> Card:
        """Name the file."""
        return Card(kind="read", title=f"Read {args.path}", path=args.path)

    def present_result(self, args: ReadFileArgs, output: str, meta: JsonObject | None) -> Card:
        """Name the file and the lines."""
        first, last = (meta or {}).get("lines", (1, 1))
        return Card(
            kind="read", title=f"Read {args.path}", detail=f"lines {first}-{last}", path=args.path, body=output
        )


def _shown(line: str) -> str:
    text = line.rstrip("\r\n")
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}[... {len(text)} characters]"
