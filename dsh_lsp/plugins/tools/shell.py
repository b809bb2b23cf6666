"""shell: runs a command line in the workspace, after the user's permission."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import anyio.to_thread
from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.errors import ToolError
from dsh_lsp.shell.environment import ChildEnvironment
from dsh_lsp.shell.process import Finished, run_command
from dsh_lsp.shell.rules import CommandRules, grant_key
from dsh_lsp.shell.scan import visible
from dsh_lsp.tools.tool import Card, Execution, Tool, ToolArgs, ToolOutput
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.disk import read_file
from dsh_lsp.workspace.paths import legible
from dsh_lsp.workspace.port import OpenDocument, Workspace
from dsh_lsp.workspace.survey import Difference, compare, survey
from dsh_lsp.workspace.text import is_saved

MAX_NAMES: Final = 20


class ShellArgs(ToolArgs):
    """What is run."""

    command: str = Field(min_length=1, description="The command line, for bash.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, description="End it after this time; the user's limit is the most."
    )


class Shell(Tool[ShellArgs]):
    """Runs a command line in the workspace's root."""

    name = "shell"
    description = """
Run a command line in the workspace's root. It has no input and no terminal, and every process that it starts ends
with it: nothing can be left running in the background. It sees files as they are saved, not unsaved text in the
editor. You get its output, its exit code and the files of the workspace that changed, but not ignored ones. Use the
other tools to read, search and edit. The user may be asked first.
"""
    Args = ShellArgs

    def __init__(self, workspace: Workspace, rules: CommandRules, environment: ChildEnvironment) -> None:
        self._workspace = workspace
        self._rules = rules
        self._environment = environment

    async def execute(self, args: ShellArgs, execution: Execution) -> ToolOutput:
        """Run it, and tell how it ended and what it did to the workspace."""
        if os.name == "nt":
            raise ToolError("commands cannot be run on Windows yet", code="NOT_SUPPORTED")
        if "\0" in args.command:
            raise ToolError("a command cannot hold a NUL character", code="INVALID_ARGS")
        root = self._workspace.root
        limit_s = min(args.timeout_seconds or float("inf"), self._rules.settings.timeout_seconds)
        unsaved = await unsaved_documents(self._workspace)
        before = await anyio.to_thread.run_sync(
            survey, root, self._workspace.folders, lambda: execution.signal.aborted
        )
        finished = await run_command(
            args.command,
            folder=root,
            environment=self._environment,
            timeout_s=limit_s,
            abort=execution.signal,
            on_output=execution.progress,
        )
        after = await anyio.to_thread.run_sync(survey, root, self._workspace.folders) if before is not None else None
        difference = compare(before, after) if before is not None and after is not None else None
        notes = [
            ending(finished, limit_s),
            *_left(finished),
            *_changes(difference, self._workspace.open_documents()),
            *_unsaved(unsaved),
        ]
        text = finished.output.text.rstrip("\n")
        meta: JsonObject = {"exitCode": finished.code, "how": finished.how}
        if difference is not None:
            meta["changed"] = [legible(path) for path in difference.paths[:MAX_NAMES]]
        return ToolOutput(
            text="\n".join([text or "(no output)", *(f"[{note}]" for note in notes)]),
            meta=meta,
            is_error=finished.how == "timeout",  # a cancel marks it by itself, and keeps its text
        )

    def effects(self, args: ShellArgs) -> list[Effect]:
        """It runs a command, which may do anything."""
        return [Effect(kind="command", detail=visible(args.command), grant_key=grant_key(args.command))]

    async def unsaved(self, args: ShellArgs) -> list[str]:  # noqa: ARG002
        """The documents whose text the command would not see."""
        return [document.uri for document in await unsaved_documents(self._workspace)]

    def present_call(self, args: ShellArgs) -> Card:
        """Show the command."""
        line = " ".join(visible(args.command).split()) or "(an empty line)"
        return Card(kind="terminal", title=line if len(line) <= 100 else f"{line[:100]}…", body=visible(args.command))

    def present_result(self, args: ShellArgs, output: str, meta: JsonObject | None) -> Card:
        """Show what it printed and how it ended."""
        code = (meta or {}).get("exitCode")
        detail = f"exit code {code}" if isinstance(code, int) and code >= 0 else None
        return Card(kind="terminal", title=self.present_call(args).title, detail=detail, body=output)


async def unsaved_documents(workspace: Workspace) -> list[OpenDocument]:
    """The open documents whose text is not their file's."""
    documents = workspace.open_documents()

    def look() -> list[OpenDocument]:
        return [document for document in documents if not _is_saved(workspace, document)]

    return await anyio.to_thread.run_sync(look)


def _is_saved(workspace: Workspace, document: OpenDocument) -> bool:
    try:
        saved = read_file(workspace.root / document.path, document.path).text
    except ToolError:
        return False
    return is_saved(
        document.text, saved, line_ends_apart=document.line_ends_apart, last_end_apart=document.last_end_apart
    )


def ending(finished: Finished, limit_s: float) -> str:
    """How a command ended, as the model reads it."""
    match finished.how:
        case "timeout":
            return f"timed out after {limit_s:g} s; the command and all that it had started were ended"
        case "aborted":
            return "cancelled; the command and all that it had started were ended"
        case "exited" if finished.code is None:
            return "the command was ended from outside"
        case _:
            code = finished.code or 0
            return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _left(finished: Finished) -> list[str]:
    notes = []
    if finished.left and finished.how == "exited":
        count = "a process" if finished.left == 1 else f"{finished.left} processes"
        notes.append(f"{count} left in the background ended with the command")
    if finished.survivors:
        notes.append(f"could not be ended: {', '.join(map(str, finished.survivors))}")
    return notes


def _changes(difference: Difference | None, documents: Sequence[OpenDocument]) -> list[str]:
    if difference is None:
        return ["the workspace has too many files to tell which of them changed"]
    words = (("created", difference.created), ("changed", difference.changed), ("deleted", difference.deleted))
    notes = [f"{word}: {_names(paths)}" for word, paths in words if paths]
    touched = set(difference.paths)
    shown = [document.path for document in documents if document.path in touched]
    if shown:
        notes.append(f"open in the editor, which may still hold the text from before: {_names(shown)}")
    return notes


def _unsaved(unsaved: Sequence[OpenDocument]) -> list[str]:
    if not unsaved:
        return []
    return [f"the command did not see the unsaved text of: {_names([document.path for document in unsaved])}"]


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MAX_NAMES} more" if len(paths) > MAX_NAMES else ""
    return ", ".join(map(legible, paths[:MAX_NAMES])) + more
