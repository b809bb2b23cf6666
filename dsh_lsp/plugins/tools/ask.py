"""ask: a question to the user, whose answer is the result."""

from __future__ import annotations

from pydantic import Field

from dsh_lsp.decisions import Effect
from dsh_lsp.tools.questions import Questions
from dsh_lsp.tools.tool import Card, Execution, Tool, ToolArgs, ToolOutput
from dsh_lsp.wire import JsonObject


class AskArgs(ToolArgs):
    """What is asked."""

    question: str = Field(min_length=1, description="The question, complete in itself.")
    options: tuple[str, ...] = Field(
        default=(), max_length=8, description="Short answers to choose from, the one that you advise first."
    )
    free_text: bool = Field(default=True, description="Whether the user may answer in other words than the options.")


class Ask(Tool[AskArgs]):
    """Waits for a person."""

    name = "ask"
    description = """
Ask the user a question and wait for the answer. Ask only what decides how to go on and what you cannot find out
yourself; ask one thing at a time. Do not ask for permission: tools do that themselves.
"""
    Args = AskArgs

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def execute(self, args: AskArgs, execution: Execution) -> ToolOutput:
        """Ask, and give the answer."""
        options = tuple(dict.fromkeys(option for option in args.options if option.strip()))
        answer = await self._questions.ask(execution, args.question, options=options, free_text=args.free_text)
        return ToolOutput(text=f"The user answered: {answer}", meta={"answer": answer})

    def effects(self, args: AskArgs) -> list[Effect]:  # noqa: ARG002
        """It touches nothing."""
        return []

    def present_call(self, args: AskArgs) -> Card:
        """Show the question."""
        body = "\n".join(f"- {option}" for option in args.options) or None
        return Card(kind="generic", title=f"Ask: {_first_line(args.question)}", body=body)

    def present_result(self, args: AskArgs, output: str, meta: JsonObject | None) -> Card:
        """Show what was answered."""
        answer = (meta or {}).get("answer")
        return Card(
            kind="generic", title=self.present_call(args).title, body=answer if isinstance(answer, str) else output
        )


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:80]}…"
