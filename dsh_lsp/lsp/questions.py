"""Questions: what the agent asks the user, and every way of answering.

Rules: an answer is one of the options, unless the question takes other words; a prompt has buttons alone, so that it
is raised only for a question with options.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from anyio.abc import TaskGroup

from dsh_lsp.decisions import QuestionAsked
from dsh_lsp.errors import SessionError
from dsh_lsp.lsp.desk import Desk, Waiting
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.tools.questions import QuestionHook, QuestionRequest

LATER = "Later"  # harmless, and so the first button


def later_beside(options: Sequence[str]) -> str:
    """What that button says, so that nobody takes it for an answer, nor an answer for it."""
    taken = {option.strip().casefold() for option in options}
    button = LATER
    while button.casefold() in taken:
        button = f"Answer {button.lower()}"
    return button


class QuestionDesk(Desk[QuestionAsked, str]):
    """The pending questions of one session."""

    noun = "question"
    wanted = "an answer"

    def __init__(self, *, hook: QuestionHook, documents: Documents, editor: Editor, tasks: TaskGroup) -> None:
        super().__init__(documents=documents, editor=editor, tasks=tasks)
        hook.listen(self._answer)

    def oldest(self) -> str:
        """The question that has waited longest: what a person means who has been told of one, and not of its id.

        Raises:
            SessionError: `NOT_PENDING`, none waits.
        """
        if not (pending := self.pending()):
            raise SessionError("no question waits for an answer", code="NOT_PENDING")
        return pending[0].id

    def answer(self, question: str, answer: str) -> None:
        """Answer a question.

        Raises:
            SessionError: `NOT_PENDING`, or `NOT_AN_OPTION`.
        """
        asked = self._find(question).asked
        if asked.options and not asked.free_text and answer not in asked.options:
            raise SessionError(f"the answer must be one of: {', '.join(asked.options)}", code="NOT_AN_OPTION")
        self.settle(question, answer)

    def prompt(self, asked: str) -> None:
        """Raise the editor's own prompt: the user asked for it."""
        if not self._find(asked).asked.options:
            raise SessionError("this question is answered in words: send them as `answer`", code="NOT_AN_OPTION")
        super().prompt(asked)

    async def _answer(
        self, request: QuestionRequest, _call_next: Callable[[QuestionRequest], Awaitable[str | None]]
    ) -> str | None:
        return await self.wait_for(request.asked)

    async def _show_in_client(self, asked: QuestionAsked) -> bool:
        if not self._editor.profile.offers("ask"):
            return False
        await self._editor.show_question(asked)
        return True

    def _announce(self, asked: QuestionAsked) -> str:
        how = "Answer by code action" if asked.options else "Answer with the command dsh.answer"
        return f"DSH asks: {' '.join(asked.text.split())} {how}"

    async def _prompt(self, waiting: Waiting[QuestionAsked, str]) -> None:
        options = list(waiting.asked.options or ())
        if not options:
            return
        chosen = await self._editor.choose(f"DSH: {waiting.asked.text}", [later_beside(options), *options])
        if chosen in options and waiting.outcome is None:
            self.settle(waiting.asked.id, chosen)
