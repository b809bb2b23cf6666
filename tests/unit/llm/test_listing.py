"""Listing: every provider that is set up is asked, and none keeps the others from answering."""

from __future__ import annotations

from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.llm.adapter import Llm, ModelInfo
from dsh_lsp.llm.listing import list_models
from dsh_lsp.llm.scripted import ScriptedAdapter


class FakeLister(ScriptedAdapter):
    """Offers these models, or fails."""

    def __init__(self, provider: str, answer: tuple[str, ...] | Exception) -> None:
        super().__init__(provider=provider)
        self.answer = answer

    async def models(self) -> tuple[ModelInfo, ...]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return tuple(ModelInfo(provider=self.provider, name=name) for name in self.answer)


def failure(code: str) -> LlmError:
    return LlmError(LlmFailure(message="why", code=code))


async def test_those_that_answer_are_listed_and_those_that_fail_are_named() -> None:
    llm = Llm()
    for lister in (
        FakeLister("b", ("b1", "b2")),
        FakeLister("a", ("a1",)),
        FakeLister("down", failure("TRANSPORT")),
        FakeLister("bug", RuntimeError("oops")),
        FakeLister("unused", failure("MISSING_CREDENTIAL")),
        FakeLister("mine", failure("MISSING_CREDENTIAL")),
        ScriptedAdapter(provider="script"),
    ):
        llm.register(lister)
    listing = await list_models(llm, in_use="mine")
    assert [(model.provider, model.name) for model in listing.models] == [("a", "a1"), ("b", "b1"), ("b", "b2")]
    assert [(one.provider, one.code) for one in listing.failed] == [
        ("bug", "UNKNOWN"),
        ("down", "TRANSPORT"),
        ("mine", "MISSING_CREDENTIAL"),
    ]
