"""todo: the agent's list of what there is to do, for it and for the user to see."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.notes import TodoItem, TodoWritten
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.tool import Card, Execution, Tool, ToolArgs, ToolOutput
from dsh_lsp.wire import JsonObject

MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


class TodoEntry(ToolArgs):
    """One thing to do."""

    text: str = Field(min_length=1, max_length=500, description="What is to be done.")
    status: Literal["pending", "in_progress", "done"] = Field(default="pending", description="How it stands.")


class TodoArgs(ToolArgs):
    """The whole list."""

    items: tuple[TodoEntry, ...] = Field(max_length=50, description="The whole list, in order; it replaces the last.")


class Todo(Tool[TodoArgs]):
    """Writes the list down."""

    name = "todo"
    description = """
Write down what there is to do as a list, which the user sees. Use it for work of several steps: give the whole list
each time, with one item in progress, and mark each as done when it is. Leave it out for small tasks.
"""
    Args = TodoArgs

    def __init__(self, log: SessionLog) -> None:
        self._log = log

    async def execute(self, args: TodoArgs, execution: Execution) -> ToolOutput:
        """Log the list."""
        execution.signal.check()
        items = tuple(TodoItem(text=item.text, status=item.status) for item in args.items)
        self._log.append(TodoWritten(items=items))
        open_items = sum(item.status != "done" for item in items)
        return ToolOutput(text=f"The list is written; {open_items} of {len(items)} are open.")

    def effects(self, args: TodoArgs) -> list[Effect]:  # noqa: ARG002
        """It touches nothing."""
        return []

    def present_call(self, args: TodoArgs) -> Card:
        """Show the list."""
        done = sum(item.status == "done" for item in args.items)
        body = "\n".join(f"{MARKS[item.status]} {item.text}" for item in args.items)
        return Card(kind="todo", title=f"To do: {done} of {len(args.items)} done", body=body)

    def present_result(self, args: TodoArgs, output: str, meta: JsonObject | None) -> Card:  # noqa: ARG002
        """Show the list."""
        return self.present_call(args)
