"""search: the lines of the workspace that match a regular expression, unsaved text included."""

from __future__ import annotations

from itertools import groupby

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.tools.tool import Card, Execution, Mode, Tool, ToolArgs, ToolOutput
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.paths import legible
from dsh_lsp.workspace.port import Found, Query, Workspace


class SearchArgs(ToolArgs):
    """What is searched for, and where."""

    pattern: str = Field(min_length=1, description="A regular expression, matched line by line.")
    path: str = Field(default=".", description="Folder to search, relative to the workspace root.")
    glob: str | None = Field(default=None, description="Only files like this: `*.py`, `src/**/*.{ts,tsx}`.")
    fixed: bool = Field(default=False, description="Take the pattern as plain text.")
    ignore_case: bool = Field(default=False, description="Take upper and lower case as the same.")
    files_only: bool = Field(default=False, description="Give only the names of the files that match.")
    limit: int = Field(default=100, ge=1, le=1000, description="How many matches to give at most.")


class Search(Tool[SearchArgs]):
    """Searches the workspace."""

    name = "search"
    description = """
Search the files of the workspace for a regular expression. Unsaved text in the user's editor counts instead of what
is on disk; files that the project ignores, or of more than 8 MB, are left out. You get path:line: text. For what a
name means, where it is defined or used, `language` is more exact.
"""
    Args = SearchArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: SearchArgs, execution: Execution) -> ToolOutput:
        """Search; a cancel ends it at once, for nothing of it must be kept."""
        query = Query(
            pattern=args.pattern,
            path=args.path,
            glob=args.glob,
            fixed=args.fixed,
            ignore_case=args.ignore_case,
            limit=args.limit,
        )
        with execution.signal.guard():
            found = await self._workspace.search(query, execution.approved)
        text = _files(found) if args.files_only else _lines(found)
        more = "\n[there is more; narrow the search]" if found.truncated else ""
        return ToolOutput(text=(text or "No matches.") + more, meta={"matches": len(found.matches)})

    def effects(self, args: SearchArgs) -> list[Effect]:
        """It only reads."""
        return self._workspace.effects(args.path, "read")

    def present_call(self, args: SearchArgs) -> Card:
        """Name what is searched for."""
        where = "" if args.path == "." else f" in {args.path}"
        return Card(kind="search", title=f"Search {args.pattern[:80]}{where}", detail=args.glob)

    def present_result(self, args: SearchArgs, output: str, meta: JsonObject | None) -> Card:
        """Show what was found."""
        count = (meta or {}).get("matches")
        detail = f"{count} match{'' if count == 1 else 'es'}" if isinstance(count, int) else None
        return Card(kind="search", title=self.present_call(args).title, detail=detail, body=output)


def _lines(found: Found) -> str:
    return "\n".join(f"{legible(match.path)}:{match.line}: {match.text}" for match in found.matches)


def _files(found: Found) -> str:
    groups = ((path, len(list(matches))) for path, matches in groupby(found.matches, key=lambda match: match.path))
    return "\n".join(f"{legible(path)} ({count})" for path, count in groups)
