"""read_output: the rest of a result that was too large to show at once."""

from __future__ import annotations

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.errors import ToolError
from dsh_lsp.tools.spills import Spills
from dsh_lsp.tools.tool import Card, Execution, Mode, Tool, ToolArgs, ToolOutput


class ReadOutputArgs(ToolArgs):
    """Which part of which result."""

    name: str = Field(description="The name that the shortened result gave.")
    offset: int = Field(default=0, ge=0, description="First character to read, counted from 0.")
    limit: int = Field(default=20_000, ge=1, le=40_000, description="How many characters to read at most.")


class ReadOutput(Tool[ReadOutputArgs]):
    """Reads a page of a kept result."""

    name = "read_output"
    description = "Read more of a tool result that was shortened. The shortened result gives the name."
    Args = ReadOutputArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, spills: Spills) -> None:
        self._spills = spills

    async def execute(self, args: ReadOutputArgs, execution: Execution) -> ToolOutput:  # noqa: ARG002
        """Read the page."""
        text = await self._spills.read(args.name)
        if args.offset >= len(text):
            raise ToolError(f"{args.name} has only {len(text)} characters", code="PAST_END")
        end = args.offset + args.limit
        more = f"\n[{len(text) - end} more characters; go on with offset {end}]" if end < len(text) else ""
        return ToolOutput(text=text[args.offset : end] + more)

    def effects(self, args: ReadOutputArgs) -> list[Effect]:
        """It reads what the session itself keeps."""
        return [Effect(kind="read", detail=args.name, grant_key=args.name)]

    def present_call(self, args: ReadOutputArgs) -> Card:
        """Name the result."""
        return Card(kind="read", title=f"Read more of {args.name}")
