"""edit_file: replaces pieces of documents, after the user's review."""

from __future__ import annotations

import re
from typing import Final

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
from dsh_lsp.workspace.match import find_match
from dsh_lsp.workspace.order import Ticket
from dsh_lsp.workspace.port import Workspace
from dsh_lsp.workspace.report import describe_outcomes, is_failure
from dsh_lsp.workspace.rope import Rope
from dsh_lsp.workspace.text import LINE_END, Change, Span, bare_lines, with_line_ending
from dsh_lsp.workspace.threads import in_thread

MAX_CHARS_IN_LOOP: Final = 50_000
NEAR_CHARS: Final = 4_000


class Replacement(ToolArgs):
    """What gives way to what."""

    path: str | None = Field(default=None, description="Path of the file; the one before it, if left out.")
    old_text: str = Field(min_length=1, description="The text to replace, as above.")
    new_text: str = Field(description="The text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")


class EditFileArgs(ToolArgs):
    """One replacement, and others that belong to the same change."""

    path: str = Field(description="Path of the file, relative to the workspace root.")
    old_text: str = Field(
        min_length=1,
        description="The text to replace, exactly as it stands in the file, long enough to occur once.",
    )
    new_text: str = Field(description="The text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace every occurrence instead of the only one.")
    more: tuple[Replacement, ...] = Field(
        default=(),
        max_length=50,
        description="More replacements of the same change, in this or other files: made in order, reviewed together.",
    )

    @property
    def replacements(self) -> list[tuple[str, Replacement]]:
        """All of them in order, each with its path."""
        first = Replacement(old_text=self.old_text, new_text=self.new_text, replace_all=self.replace_all)
        found, path = [], self.path
        for replacement in (first, *self.more):
            path = replacement.path or path
            found.append((path, replacement))
        return found


class EditFile(Tool[EditFileArgs]):
    """Proposes replacements as one review."""

    name = "edit_file"
    description = """
Replace a piece of a file. old_text must occur exactly once, with its white space; give a few lines around the
change if it is short. Where only white space differs, whole lines are found all the same, and the result says so.
Put further replacements that belong to the change into `more`: if one of them cannot be found, nothing is proposed.
The user reviews the edit before it lands; the result tells what they decided.
"""
    Args = EditFileArgs
    mode: Mode = "parallel"  # type: ignore[misc]

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, args: EditFileArgs, execution: Execution) -> ToolOutput:
        """Find the places, propose, and tell what became of them."""
        with self._workspace.order.ticket(execution.signal) as ticket:
            return await self._edit(args, execution, ticket)

    async def _edit(self, args: EditFileArgs, execution: Execution, ticket: Ticket) -> ToolOutput:
        bases: dict[str, Snapshot] = {}
        names: dict[str, str] = {}  # what the model calls a file, and its name
        texts: dict[str, Rope] = {}
        notes: list[str] = []
        for number, (path, replacement) in enumerate(args.replacements, 1):
            if path not in names:
                base = await self._workspace.read(path, execution.approved)
                names[path] = base.path
                bases.setdefault(base.path, base)
            name = names[path]
            before = texts.get(name, bases[name].rope)
            try:
                with execution.signal.guard():
                    texts[name], note = await _replaced(before, replacement, name)
            except ToolError as error:
                if not args.more:
                    raise
                raise ToolError(
                    f"replacement {number} ({name}): {error}; nothing was proposed", code=error.code
                ) from error
            notes += [f"\n(old_text{f' {number}' if args.more else ''} was found with {note}.)"] if note else []
        edits = [FileEdit(path=name, base=bases[name], new=text) for name, text in texts.items()]
        changed = [edit for edit in edits if edit.base is not None and edit.base.rope != edit.new]
        outcomes = await self._workspace.propose(
            changed or edits, execution.approved, signal=execution.signal, ticket=ticket
        )
        return ToolOutput(
            text=describe_outcomes(outcomes) + "".join(notes),
            meta=edit_meta(edits, outcomes),
            is_error=is_failure(outcomes),
        )

    def effects(self, args: EditFileArgs) -> list[Effect]:
        """It edits the files that it names."""
        paths = dict.fromkeys(path for path, _ in args.replacements)
        effects = (effect for path in paths for effect in self._workspace.effects(path, "edit"))
        return list(dict.fromkeys(effects))

    def present_call(self, args: EditFileArgs) -> Card:
        """Show the texts."""
        parts, shown = [], args.path
        for path, replacement in args.replacements:
            if path != shown:
                parts.append(f"@@ {path}\n")
                shown = path
            parts += [f"-{line}\n" for line in bare_lines(replacement.old_text)]
            parts += [f"+{line}\n" for line in bare_lines(replacement.new_text)]
        others = len({path for path, _ in args.replacements}) - 1
        more = f" and {others} more" if others else ""
        return Card(kind="diff", title=f"Edit {args.path}{more}", path=args.path, body="".join(parts))

    def present_result(self, args: EditFileArgs, output: str, meta: JsonObject | None) -> Card:  # noqa: ARG002
        """Show the texts and what became of them."""
        call = self.present_call(args)
        return Card(kind="diff", title=call.title, path=call.path, body=call.body, detail=output)


async def _replaced(text: Rope, replacement: Replacement, name: str) -> tuple[Rope, str | None]:
    """As `replaced`; what takes longer than anybody notices runs in a thread."""
    if len(text) + len(replacement.old_text) + len(replacement.new_text) <= MAX_CHARS_IN_LOOP:
        return replaced(text, replacement, name)
    return await in_thread(lambda _: replaced(text, replacement, name))


def replaced(text: Rope, replacement: Replacement, name: str) -> tuple[Rope, str | None]:
    """The text with a replacement made in it, and how it was found, where that was not exact.

    Raises:
        ToolError: `old_text` is not there, or more than once.
    """
    if replacement.replace_all:
        changes = _everywhere(text, replacement.old_text, replacement.new_text)
        for change in reversed(changes):  # what comes before it stays where it is
            text = text.changed(change)
        if changes:
            return text, None
    match = find_match(text, replacement.old_text, replacement.new_text, name=name)
    return text.changed(match.change), None if match.reading == "exact" else match.reading


def _everywhere(text: Rope, old: str, new: str) -> list[Change]:
    """The changes that replace a piece wherever it stands, whatever ends its lines; near places are one change."""
    pattern = re.compile(LINE_END.join(map(re.escape, re.split(LINE_END, old))))
    whole, runs = str(text), list[Span]()
    for found in pattern.finditer(whole):
        if runs and found.start() - runs[-1].end < NEAR_CHARS:
            runs[-1] = Span(runs[-1].start, found.end())
        else:
            runs.append(Span(*found.span()))

    def written(found: re.Match[str]) -> str:
        there = re.search(LINE_END, found[0])
        return with_line_ending(new, there[0] if there else text.line_ending)

    return [Change(run, pattern.sub(written, whole[run.start : run.end])) for run in runs]
