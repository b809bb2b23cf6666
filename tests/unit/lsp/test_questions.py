"""Questions: the buttons of a prompt."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from dsh_lsp.decisions import QuestionAsked
from dsh_lsp.hooks import Waterfall
from dsh_lsp.lsp.arguments import ClientOffers
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import ClientProfile
from dsh_lsp.lsp.questions import QuestionDesk
from tests.support.loop import settled


class RecordingEditor:
    """A modal one, whose user chooses the button of a number."""

    profile = ClientProfile(dsh=ClientOffers(), name="Neovim")

    def __init__(self, number: int) -> None:
        self.number = number
        self.buttons: list[str] = []

    def tell(self, _text: str) -> None:
        pass

    async def choose(self, _text: str, buttons: list[str]) -> str:
        self.buttons = buttons
        return buttons[self.number]


@pytest.mark.parametrize(
    ("options", "button"),
    [
        (("this", "that"), "Later"),
        (("Later", "Now"), "Answer later"),
        ((" later", "Answer Later"), "Answer answer later"),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
async def test_the_button_that_puts_a_question_off_is_no_answer(options, button: str, number: int) -> None:
    editor: Any = RecordingEditor(number)
    answered: list[str | None] = []
    async with anyio.create_task_group() as tasks:
        desk = QuestionDesk(hook=Waterfall("question"), documents=Documents("utf-16"), editor=editor, tasks=tasks)

        async def ask() -> None:
            answered.append(await desk.wait_for(QuestionAsked(id="q", text="When?", options=options)))

        tasks.start_soon(ask)
        await settled()
        desk.prompt("q")
        await settled()
        tasks.cancel_scope.cancel()
    assert editor.buttons == [button, *options]
    assert answered == ([options[number - 1]] if number else []), "the first button is harmless"
