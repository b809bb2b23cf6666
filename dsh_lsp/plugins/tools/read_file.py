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
from dsh_lsp.workspace.port import Page, Workspace

MAX_LINE_CHARS = 2_000
MAX_PAGE_CHARS = 60_000


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
        """Read the page; a cancel ends it at once, for nothing of it must be kept."""
        with execution.signal.guard():
            return await self._read(args, execution)

    async def _read(self, args: ReadFileArgs, execution: Execution) -> ToolOutput:
        page = await self._workspace.read_page(args.path, execution.approved, first=args.offset, limit=args.limit)
        notes: list[str] = []
        meta: JsonObject = {}
        if page is None:
            snapshot = await self._workspace.read(args.path, execution.approved)
            total = snapshot.rope.line_count
            if not total:
                return ToolOutput(
                    text=f"{snapshot.path} is empty.", meta={"path": snapshot.path, "digest": snapshot.rope.digest}
                )
            if args.offset > total:
                raise ToolError(f"{snapshot.path} has only {total} lines", code="PAST_END")
            start = args.offset - 1
            lines = tuple(line.rstrip("\r\n") for line in snapshot.rope.lines(start, start + args.limit))
            page = Page(
                path=snapshot.path, first=args.offset, lines=lines, more=start + len(lines) < total, total=total
            )
            meta["digest"] = snapshot.rope.digest
            if snapshot.outdated:
                notes.append(
                    "shown is what the editor holds; the file on disk is newer and differs, and edits go into the "
                    "editor's text: ask the user to reload or save it first"
                )
            elif snapshot.dirty:
                notes.append("the editor holds unsaved changes, shown here")
            if snapshot.unconfirmed:
                notes.append(
                    "an accepted edit of this file is not confirmed and may still arrive; this is what stands there"
                )
        body, count = _body(page)
        last = page.first + count - 1
        if count < len(page.lines) or page.more:
            left = "more lines" if page.total is None else f"{page.total - last} more lines"
            notes.insert(0, f"{left}; go on with offset {last + 1}")
        text = body + "".join(f"\n[{note}]" for note in notes)
        return ToolOutput(text=text, meta={"path": page.path, "lines": [page.first, last], **meta})

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


def _body(page: Page) -> tuple[str, int]:
    """The page as the model reads it, and how many of its lines that are: a page of long lines is cut."""
    rows: list[str] = []
    room = MAX_PAGE_CHARS
    for number, line in enumerate(page.lines, page.first):
        row = f"{number}\t{_shown(line)}"
        room -= len(row) + 1
        if room < 0 and rows:
            break
        rows.append(row)
    return "\n".join(rows), len(rows)


def _shown(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}[... {len(line)} characters]"
