"""Editor: a client's words are read whatever their shape, and its silence is no answer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from dsh_lsp.errors import EditorError
from dsh_lsp.lsp.arguments import ClientOffers
from dsh_lsp.lsp.editor import ClientProfile, Editor
from dsh_lsp.lsp.progress import TurnProgress

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
    assert not profile.may_be_edited, "it did not say that it applies edits"


def test_a_preview_needs_annotations_and_a_transaction() -> None:
    def profile(**edit: Any) -> ClientProfile:
        return ClientProfile.from_initialize({"capabilities": {"workspace": {"workspaceEdit": edit}}})

    annotations = {"changeAnnotationSupport": {}}
    assert profile(**annotations, failureHandling="textOnlyTransactional").previews_edits
    assert not profile(**annotations, failureHandling="abort").previews_edits
    assert not profile(failureHandling="transactional").previews_edits


def test_an_editor_that_applies_stale_edits_is_sent_none() -> None:
    capabilities = {"workspace": {"applyEdit": True}}
    assert ClientProfile.from_initialize({"capabilities": capabilities}).may_be_edited
    kate = {"clientInfo": {"name": "Kate"}, "capabilities": capabilities}
    assert not ClientProfile.from_initialize(kate).may_be_edited


@pytest.mark.parametrize(
    ("name", "modal", "prompts", "stale", "looks"),
    [
        ("Visual Studio Code", False, False, False, False),
        ("Visual Studio Code - Insiders", False, False, False, False),
        ("VSCodium", False, False, False, False),
        ("Neovim", True, True, False, False),
        ("emacs", True, False, False, True),
        ("Kate", True, False, True, False),
        ("", True, False, False, False),
        ("Kate's friend", True, False, False, False),
    ],
)
def test_a_client_is_known_by_its_name_and_an_unknown_one_may_be_modal(name, modal, prompts, stale, looks) -> None:
    profile = ClientProfile(name=name)
    assert profile.is_modal is modal
    assert profile.may_be_told is not prompts
    assert profile.may_be_edited is not stale
    assert profile.looks_for_actions is looks


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
        (None, "applied"),
        ([], "applied"),
        (EditorError("no", code="EDITOR_REFUSED"), "refused"),
        (EditorError("Edits on ‘a.py’ require version 0, you have 17", code="EDITOR_REFUSED"), "stale"),
        (EditorError("late", code="EDITOR_TIMEOUT"), "applied"),
    ],
    ids=[
        "yes",
        "no",
        "a word",
        "null: no answer",
        "a list: no answer",
        "refused",
        "its text is newer",
        "silence: look at the document",
    ],
)
async def test_what_an_editor_says_of_an_edit(answer, reply) -> None:
    editor = Editor(Scripted(answer), ClientProfile())
    assert (await editor.apply_edit("label", {})).kind == reply


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"applied": False, "failureReason": "a.py is\nnot modifiable"}, "a.py is not modifiable"),
        ({"applied": False, "failureReason": "x" * 5_000}, "x" * 300),
        ({"applied": False, "failureReason": 7}, ""),
        (EditorError("it is read-only", code="EDITOR_REFUSED"), "it is read-only"),
        ({"applied": True}, ""),
    ],
    ids=["its words", "many words", "no words", "an error", "a yes"],
)
async def test_the_reason_that_an_editor_gives_is_kept_on_one_line(answer, reason) -> None:
    reply = await Editor(Scripted(answer), ClientProfile()).apply_edit("label", {})
    assert reply.reason[:300] == reason
    assert len(reply.reason) <= 2_000


class Recording(Scripted):
    """A connection that keeps what is shown to a person."""

    def __init__(self) -> None:
        super().__init__(None)
        self.shown: list[str] = []

    async def request(self, method: str, params: Any, *, timeout_s: float | None) -> Any:
        self.notify(method, params)

    def notify(self, method: str, params: Any = None) -> None:
        message = params.get("value", params).get("message")
        self.shown += [message] if message is not None else []


async def test_words_of_a_model_are_no_link_in_what_a_person_is_told() -> None:
    client, words = Recording(), "[yes](command:workbench.action.quit) or [(no)]"
    editor, progress = Editor(client, ClientProfile()), TurnProgress(client)
    editor.tell(words)
    editor.warn(words)
    await editor.choose(words, ["Later"])
    progress.report(words)
    await progress.begin()
    progress.report(words)
    progress.end(words)
    assert client.shown == ["[yes] (command:workbench.action.quit) or [(no)]"] * 6


class Losing(Scripted):
    """A connection whose client loses the first requests."""

    def __init__(self, losses: int) -> None:
        super().__init__([])
        self.losses = losses
        self.requests: list[str] = []

    async def request(self, method: str, params: Any, *, timeout_s: float | None) -> Any:
        self.requests.append(method)
        if len(self.requests) <= self.losses:
            raise EditorError("late", code="EDITOR_TIMEOUT")
        return self.answer


@pytest.mark.parametrize(("losses", "asked"), [(0, 1), (2, 3), (99, 8)])
async def test_a_client_is_asked_until_it_shows_that_it_has_caught_up_but_not_for_ever(losses, asked) -> None:
    wire = Losing(losses)
    await Editor(wire, ClientProfile(configures=True)).caught_up()
    assert wire.requests == ["workspace/configuration"] * asked


@pytest.mark.parametrize("profile", [ClientProfile(), ClientProfile(configures=True, dsh=ClientOffers())])
async def test_a_client_that_could_not_answer_or_is_ours_is_not_asked_whether_it_has_caught_up(profile) -> None:
    wire = Losing(0)
    await Editor(wire, profile).caught_up()
    assert wire.requests == []


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


@pytest.mark.parametrize("spell", [str, types.ResourceOperationKind], ids=["texts", "members of an enumeration"])
def test_the_file_operations_of_a_client_are_those_that_it_announces(spell: Any) -> None:
    edit = {"resourceOperations": [spell("rename"), spell("create")]}
    profile = ClientProfile.from_initialize({"capabilities": {"workspace": {"workspaceEdit": edit}}})
    assert profile.resource_operations == {"rename"}


@pytest.mark.parametrize(("losses", "asked"), [(0, 1), (2, 3), (99, 3)])
async def test_an_editor_that_is_busy_as_it_starts_is_asked_for_its_settings_again_but_not_for_ever(
    losses, asked
) -> None:
    wire = Losing(losses)
    wire.answer = [{"mode": "plan"}]
    with nullcontext() if losses < asked else pytest.raises(EditorError):
        assert await Editor(wire, ClientProfile()).configuration("dsh") == {"mode": "plan"}
    assert wire.requests == ["workspace/configuration"] * asked


@pytest.mark.parametrize("answer", [None, [], [1, 2], EditorError("no", code="EDITOR_REFUSED")])
async def test_an_editor_that_answers_something_else_has_not_told_its_settings(answer) -> None:
    with pytest.raises(EditorError):
        await Editor(Scripted(answer), ClientProfile()).configuration("dsh")
