"""Editor: a client's words are read whatever their shape, and its silence is no answer."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.errors import EditorError
from dsh_lsp.lsp.arguments import ClientOffers
from dsh_lsp.lsp.editor import ClientProfile, Editor

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["capabilities", "workspace", "workspaceEdit", "experimental", "dsh", "window", "clientInfo"]
            ),
            inner,
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["capabilities", "clientInfo"]), json))
def test_any_capabilities_give_a_profile(params) -> None:
    profile = ClientProfile.from_initialize(params)
    assert profile.may_be_edited


def test_a_preview_needs_annotations_and_a_transaction() -> None:
    def profile(**edit: Any) -> ClientProfile:
        return ClientProfile.from_initialize({"capabilities": {"workspace": {"workspaceEdit": edit}}})

    annotations = {"changeAnnotationSupport": {}}
    assert profile(**annotations, failureHandling="textOnlyTransactional").previews_edits
    assert not profile(**annotations, failureHandling="abort").previews_edits
    assert not profile(failureHandling="transactional").previews_edits


def test_an_editor_that_applies_stale_edits_is_sent_none() -> None:
    assert not ClientProfile.from_initialize({"clientInfo": {"name": "Kate"}}).may_be_edited


class Scripted:
    """A connection that gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def request(self, method: str, params: Any, *, timeout_s: float | None) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def notify(self, method: str, params: Any = None) -> None: ...


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ({"applied": True}, "applied"),
        ({"applied": False}, "refused"),
        ({"applied": "yes"}, "refused"),
        (None, "refused"),
        ([], "refused"),
        (EditorError("no", code="EDITOR_REFUSED"), "refused"),
        (EditorError("Edits on ‘a.py’ require version 0, you have 17", code="EDITOR_REFUSED"), "stale"),
        (EditorError("late", code="EDITOR_TIMEOUT"), "applied"),
    ],
    ids=["yes", "no", "a word", "null", "a list", "refused", "its text is newer", "silence: look at the document"],
)
async def test_what_an_editor_says_of_an_edit(answer, reply) -> None:
    editor = Editor(Scripted(answer), ClientProfile())
    assert await editor.apply_edit("label", {}) == reply


class Slow(Scripted):
    """A connection that answers only when it has been told something."""

    def __init__(self) -> None:
        super().__init__({"applied": True})
        self.told: list[tuple[str, Any]] = []
        self._heard = anyio.Event()

    async def request(self, method: str, params: Any, *, timeout_s: float | None) -> Any:
        await self._heard.wait()
        return self.answer

    def notify(self, method: str, params: Any = None) -> None:
        self.told.append((method, params["type"]))
        self._heard.set()


async def test_an_editor_that_has_not_looked_at_an_edit_is_told_something_harmless() -> None:
    wire = Slow()
    assert await Editor(wire, ClientProfile()).apply_edit("label", {}) == "applied"
    assert wire.told == [("window/logMessage", 4)]


async def test_an_editor_that_answers_at_once_is_told_nothing() -> None:
    wire = Slow()
    wire.notify("before", {"type": 0})
    await Editor(wire, ClientProfile()).apply_edit("label", {})
    await anyio.sleep(0.15)
    assert wire.told == [("before", 0)]


@pytest.mark.parametrize(
    ("offers", "answer", "saved"),
    [
        (None, {"saved": ["u"]}, None),
        (ClientOffers(), {"saved": ["u"]}, None),
        (ClientOffers(save=True), {"saved": ["u"]}, True),
        (ClientOffers(save=True), {"saved": []}, False),
        (ClientOffers(save=True), None, False),
        (ClientOffers(save=True), EditorError("no", code="EDITOR_REFUSED"), False),
    ],
)
async def test_saving_is_asked_for_only_where_it_is_offered(offers, answer, saved) -> None:
    assert await Editor(Scripted(answer), ClientProfile(dsh=offers)).save("u") is saved
