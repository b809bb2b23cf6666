"""Questions: the agent asks a person, waits for them alone, and every question has its end."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.decisions import QuestionAnswered, QuestionAsked
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugins.tools.ask import Ask
from dsh_lsp.tools.pipeline import ToolHooks
from dsh_lsp.tools.questions import Questions
from tests.support.headless import headless
from tests.support.headless_tools import answers, codes
from tests.support.loop import until

ASKS = call("ask", id="c1", question="Which one?", options=["a", "a", "b"], free_text=False)


class Desk:
    """Answers when the test says so; `asked` is what a person would see."""

    def __init__(self, h, answer=None) -> None:
        self.asked: list[QuestionAsked] = []
        self.news = anyio.Event()
        self.answer = answer
        h.registry.register(Ask(Questions(h.log, h.agent.hooks.tools.question, lambda: f"q{len(self.asked)}")))
        h.agent.hooks.tools.question.listen(self.listen)

    async def listen(self, request, call_next):
        self.asked.append(request.asked)
        if self.answer is None:
            await self.news.wait()
        return self.answer


def pairs(h) -> list[object]:
    return [event.data for event in h.log if isinstance(event.data, QuestionAsked | QuestionAnswered)]


async def test_the_answer_of_a_person_is_the_result_and_both_are_in_the_log() -> None:
    async with headless([ASKS, say("ok")]) as h:
        desk = Desk(h)
        h.agent.followup(h.say("go"))
        await until(lambda: desk.asked)
        assert not h.of("tool/result"), "only a person answers"
        desk.answer = "b"
        desk.news.set()
        await h.idle()
        assert answers(h) == ["The user answered: b"]
        assert pairs(h) == [
            QuestionAsked(id="q0", text="Which one?", options=("a", "b"), free_text=False),
            QuestionAnswered(id="q0", answer="b"),
        ]


async def test_a_question_without_options_takes_any_words() -> None:
    async with headless([call("ask", question="Why?"), say("ok")]) as h:
        Desk(h, "Because.")
        await h.ask("go")
        assert pairs(h)[0] == QuestionAsked(id="q0", text="Why?")


@pytest.mark.parametrize("late", [False, True])
async def test_a_cancel_ends_the_question_and_what_comes_later_is_no_answer(late: bool) -> None:
    async with headless([ASKS]) as h:
        desk = Desk(h)
        h.agent.followup(h.say("go"))
        await until(lambda: desk.asked)
        if late:
            desk.answer = "a"
            desk.news.set()  # the answer arrives in the same tick as the cancel
        h.agent.cancel(USER)
        await h.idle()
        assert pairs(h)[-1] == QuestionAnswered(id="q0", cancelled=True)
        assert "The user answered" not in answers(h)[0]


async def test_where_nobody_can_be_asked_the_model_reads_it_and_the_pair_is_complete() -> None:
    async with headless([ASKS, say("ok")]) as h:
        h.registry.register(Ask(Questions(h.log, ToolHooks().question, lambda: "q0")))
        await h.ask("go")
        assert codes(h) == ["UNAVAILABLE"]
        assert pairs(h)[-1] == QuestionAnswered(id="q0", cancelled=True)


async def test_an_asker_that_fails_leaves_no_open_question() -> None:
    async def fails(request, call_next):
        raise RuntimeError("no screen")

    async with headless([ASKS, say("ok")]) as h:
        h.registry.register(Ask(Questions(h.log, h.agent.hooks.tools.question, lambda: "q0")))
        h.agent.hooks.tools.question.listen(fails)
        await h.ask("go")
        assert "no screen" in answers(h)[0]
        assert pairs(h)[-1] == QuestionAnswered(id="q0", cancelled=True)
