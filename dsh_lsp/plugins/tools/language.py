"""language: what the user's own language servers know: problems, definitions, uses, symbols, renames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.errors import ToolError
from dsh_lsp.tools.tool import Card, Execution, Mode, Tool, ToolArgs, ToolOutput
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.knowledge import edit_meta
from dsh_lsp.workspace.language import LanguageServers, Place, Spot, Symbol, bounded, describe_problems
from dsh_lsp.workspace.order import Ticket
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.report import describe_outcomes, is_failure

Operation = Literal["diagnostics", "definition", "references", "implementation", "hover", "symbols", "rename"]
NOT_OFFERED = "No language server of the editor has an answer to this. Use search and read_file instead."
MAX_HOVER_CHARS: Final = 10_000


class LanguageArgs(ToolArgs):
    """What is asked, and of what."""

    operation: Operation = Field(description="What to ask. `symbols` outlines a file, or looks a name up everywhere.")
    path: str | None = Field(default=None, description="The file; only `symbols` with a `query` goes without.")
    symbol: str | None = Field(default=None, description="The name to ask about, as it stands in the file.")
    line: int | None = Field(default=None, ge=1, description="The line where it stands, if it occurs more than once.")
    query: str | None = Field(default=None, description="For `symbols` without a path: the name or a part of it.")
    new_name: str | None = Field(default=None, description="For `rename`: the new name.")


class Language(Tool[LanguageArgs]):
    """Asks the language servers of the user's editor."""

    name = "language"
    description = """
Ask the language servers that run in the user's editor: `diagnostics` of a file, `definition`, `references`,
`implementation` or `hover` of a symbol, `symbols` of a file or of the workspace, `rename` a symbol everywhere. More
exact than text search. A rename is reviewed by the user like any edit.
"""
    Args = LanguageArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, workspace: Workspace, languages: LanguageServers) -> None:
        self._workspace = workspace
        self._languages = languages

    async def execute(self, args: LanguageArgs, execution: Execution) -> ToolOutput:
        """Ask, and tell what was answered."""
        match args.operation:
            case "diagnostics":
                with execution.signal.guard():
                    return await self._diagnostics(_needed(args, "path"), execution)
            case "symbols":
                with execution.signal.guard():
                    return await self._symbols(args, execution)
            case "hover":
                with execution.signal.guard():
                    text = await self._languages.hover(_spot(args), execution.approved)
                if text is not None and len(text) > MAX_HOVER_CHARS:
                    text = f"{text[:MAX_HOVER_CHARS]}\n[{len(text) - MAX_HOVER_CHARS} more characters]"
                return ToolOutput(text=NOT_OFFERED if text is None else text or f"Nothing is known of {args.symbol}.")
            case "rename":
                with self._workspace.order.ticket(execution.signal) as ticket:
                    return await self._rename(args, execution, ticket)
            case relation:
                with execution.signal.guard():
                    places = await self._languages.find(relation, _spot(args), execution.approved)
                return ToolOutput(text=_places(places, f"No {relation} of {args.symbol} is known."))

    async def _diagnostics(self, path: str, execution: Execution) -> ToolOutput:
        await self._workspace.read(path, execution.approved)  # a file that is not there has no clean bill
        found = await self._languages.diagnose(path, execution.approved)
        if found is None:
            return ToolOutput(text=f"No diagnostics are available for {path}.")
        doubt = "" if found.fresh else "\n[not confirmed: this may be about an earlier text]"
        return ToolOutput(text=(describe_problems(found.problems) or f"{path} has no problems.") + doubt)

    async def _symbols(self, args: LanguageArgs, execution: Execution) -> ToolOutput:
        if args.path is not None:
            found = await self._languages.outline(args.path, execution.approved)
        elif args.query:
            found = await self._languages.lookup(args.query)
        else:
            raise ToolError("symbols needs a path, or a query", code="INVALID_ARGS")
        if found is None:
            return ToolOutput(text=NOT_OFFERED)
        lines = [_symbol_line(symbol, outline=args.path is not None) for symbol in found]
        return ToolOutput(text=bounded(lines) or "There are no such symbols.")

    async def _rename(self, args: LanguageArgs, execution: Execution, ticket: Ticket) -> ToolOutput:
        with execution.signal.guard():
            edits = await self._languages.rename(_spot(args), _needed(args, "new_name"), execution.approved)
        if edits is None:
            return ToolOutput(text=NOT_OFFERED, is_error=True)
        if not edits:
            raise ToolError(f"the language server would change nothing to rename {args.symbol}", code="NO_CHANGE")
        outcomes = await self._workspace.propose(edits, execution.approved, signal=execution.signal, ticket=ticket)
        return ToolOutput(
            text=describe_outcomes(outcomes), meta=edit_meta(edits, outcomes), is_error=is_failure(outcomes)
        )

    def effects(self, args: LanguageArgs) -> list[Effect]:
        """It reads, but for a rename, which edits."""
        if args.path is None:
            return []
        return self._workspace.effects(args.path, "edit" if args.operation == "rename" else "read")

    def present_call(self, args: LanguageArgs) -> Card:
        """Name what is asked."""
        of = args.symbol or args.path or args.query or "the workspace"
        to = f" to {args.new_name}" if args.operation == "rename" and args.new_name else ""
        return Card(kind="search", title=f"{args.operation.capitalize()} of {of}{to}", path=args.path)

    def present_result(self, args: LanguageArgs, output: str, meta: JsonObject | None) -> Card:  # noqa: ARG002
        """Show the answer."""
        return Card(kind="search", title=self.present_call(args).title, path=args.path, body=output)


def _needed(args: LanguageArgs, name: Literal["path", "symbol", "new_name"]) -> str:
    value: str | None = getattr(args, name)
    if not value:
        raise ToolError(f"{args.operation} needs {name}", code="INVALID_ARGS")
    return value


def _spot(args: LanguageArgs) -> Spot:
    return Spot(path=_needed(args, "path"), symbol=_needed(args, "symbol"), line=args.line)


def _places(places: Sequence[Place] | None, none: str) -> str:
    if places is None:
        return NOT_OFFERED
    return bounded([f"{place.path}:{place.line}:{place.column}: {place.text.strip()}" for place in places]) or none


def _symbol_line(symbol: Symbol, *, outline: bool) -> str:
    where = f"line {symbol.line}" if outline else f"{symbol.path}:{symbol.line}"
    return f"{'  ' * symbol.depth}{symbol.kind} {symbol.name} ({where})"
