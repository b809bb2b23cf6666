"""Questions: what the agent asks a person, and the pair of events that it leaves.

Rules: asked and answered are always a pair in the log; only a person answers, never silence, a failure or time; a
cancel ends the question without an answer, and one that comes later counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dsh_lsp.abort import Aborted
from dsh_lsp.decisions import QuestionAnswered, QuestionAsked
from dsh_lsp.errors import ToolError, UsageError
from dsh_lsp.hooks import Waterfall
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.tool import Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRequest:
    """A question for a person; a listener that can ask returns the answer, the others call `next`."""

    asked: QuestionAsked
    execution: Execution


QuestionHook = Waterfall[QuestionRequest, str | None]


class Questions:
    """The questions of one session."""

    def __init__(self, session_log: SessionLog, hook: QuestionHook, new_id: Callable[[], str]) -> None:
        self._log = session_log
        self._hook = hook
        self._new_id = new_id

    async def ask(
        self, execution: Execution, text: str, *, options: Sequence[str] = (), free_text: bool = True
    ) -> str:
        """Ask, wait as long as it takes, and log the question and its answer.

        Raises:
            Aborted: the call was cancelled before the answer.
            ToolError: `UNAVAILABLE`, nobody can be asked.
            UsageError: no turn is open; nothing is logged.
        """
        if not self._log.state.turn_open:
            raise UsageError("a question needs an open turn")
        asked = QuestionAsked(
            id=self._new_id(),
            text=text,
            options=tuple(options) or None,
            free_text=free_text if options else None,
        )
        self._log.append(asked)
        answer: str | None = None
        try:
            with execution.signal.guard():
                answer = await self._hook(QuestionRequest(asked=asked, execution=execution), _nobody)
        except Aborted:
            answer = None  # whatever came with the cancel was not what the person meant to say
            raise
        finally:  # a torn wait was cancelled: the pair is logged on every path
            said = answer if isinstance(answer, str) else None
            self._log.append(QuestionAnswered(id=asked.id, answer=said, cancelled=said is None or None))
        if said is None:
            raise ToolError("nobody can be asked", code="UNAVAILABLE")
        return said


async def _nobody(_: QuestionRequest) -> str | None:
    return None
