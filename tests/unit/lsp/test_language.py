"""Language: what the editor's language servers say, asked in the editor's own positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsh_lsp.errors import EditorError, ToolError
from dsh_lsp.lsp.arguments import ClientOffers
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.lsp.editor import ClientProfile, Editor
from dsh_lsp.lsp.language import EditorLanguages
from dsh_lsp.lsp.workspace import EditorWorkspace
from dsh_lsp.workspace.language import Diagnosis, Place, Problem, Spot, Symbol

TEXT = 'x = "😀"; name = 1\nother = name\n'


@pytest.fixture(autouse=True)
def loop_is_never_blocked():
    """Links are followed in the loop: where a URI really leads must be known before anything else happens."""


class RecordingClient:
    """Answers requests from a table, and notes them."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}

    async def request(self, method: str, params: Any, *, timeout_s: float | None) -> Any:
        assert timeout_s is not None, "only people have no time limit"
        self.sent.append((method, params))
        answer = self.answers.get(params.get("kind", method), EditorError("no", code="EDITOR_REFUSED"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def notify(self, method: str, params: Any = None) -> None:
        raise AssertionError(method)


class Here:
    def __init__(self, root: Path, *, offers: bool = True) -> None:
        self.root = root
        self.client = RecordingClient()
        self.documents = Documents("utf-16")
        dsh = ClientOffers(diagnostics=offers, navigate=offers)
        editor = Editor(self.client, ClientProfile(dsh=dsh))
        reviews: Any = type("Reviews", (), {"is_unconfirmed": lambda self, key: False})()
        self.languages = EditorLanguages(EditorWorkspace(root, self.documents, reviews), self.documents, editor)

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()


@pytest.fixture
def here(tmp_path: Path) -> Here:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.py").write_text(TEXT)
    (tmp_path / "out.py").write_text("secret = 1\n")
    return Here(tmp_path / "w")


def place(uri: str, line: int, character: int = 0) -> dict[str, Any]:
    where = {"line": line, "character": character}
    return {"uri": uri, "range": {"start": where, "end": where}}


SPOT = Spot(path="a.py", symbol="name")


async def test_a_name_is_asked_for_at_its_position_in_the_editors_encoding(here: Here) -> None:
    here.client.answers["definition"] = [place(here.uri("a.py"), 0, 10)]
    found = await here.languages.find("definition", SPOT)
    method, params = here.client.sent[0]
    assert method == "dsh/navigate"
    assert params == {"kind": "definition", "uri": here.uri("a.py"), "position": {"line": 0, "character": 10}}
    assert found == [Place(path="a.py", line=1, column=10, text='x = "😀"; name = 1')]


async def test_the_unsaved_text_is_what_is_asked_about(here: Here) -> None:
    here.documents.open(here.uri("a.py"), 7, "\n\nname\n")
    here.client.answers["references"] = []
    assert await here.languages.find("references", SPOT) == []
    assert here.client.sent[0][1]["position"] == {"line": 2, "character": 0}


@pytest.mark.parametrize(
    ("spot", "code"),
    [
        (Spot(path="a.py", symbol="nam"), "NO_SYMBOL"),
        (Spot(path="a.py", symbol="x", line=2), "NO_SYMBOL"),
        (Spot(path="a.py", symbol="x", line=99), "PAST_END"),
        (Spot(path="b.py", symbol="x"), "NOT_FOUND"),
        (Spot(path="../out.py", symbol="secret"), "OUTSIDE"),
    ],
)
async def test_a_name_that_is_not_there_is_an_error_before_anybody_is_asked(
    here: Here, spot: Spot, code: str
) -> None:
    with pytest.raises(ToolError) as refused:
        await here.languages.hover(spot)
    assert refused.value.code == code
    assert here.client.sent == []


async def test_a_place_outside_is_named_and_its_text_is_not_shown(here: Here) -> None:
    outside = here.root.parent / "out.py"
    here.client.answers["definition"] = place(outside.as_uri(), 0, 0)
    (found,) = await here.languages.find("definition", SPOT) or []
    assert (found.path, found.line, found.text) == (str(outside), 1, "")
    (other,) = await here.languages.find("definition", SPOT, frozenset({f"outside:read:{outside}.old"})) or []
    assert other.text == "", "another file was allowed"
    (allowed,) = await here.languages.find("definition", SPOT, frozenset({f"outside:read:{outside}"})) or []
    assert allowed.text == "secret = 1"


@pytest.mark.parametrize("answer", [None, EditorError("no", code="EDITOR_TIMEOUT"), 7, {"items": [{"no": 1}]}])
async def test_a_refusal_silence_and_nonsense_are_not_an_answer(here: Here, answer: Any) -> None:
    here.client.answers = dict.fromkeys(("dsh/diagnostics", "rename"), answer)
    assert await here.languages.diagnose("a.py") is None
    if answer is None or isinstance(answer, Exception):
        assert await here.languages.rename(SPOT, "n") is None
    here.client.answers["hover"] = None
    assert await here.languages.hover(SPOT) is None
    here.client.answers["definition"] = 7
    assert await here.languages.find("definition", SPOT) is None


async def test_a_client_that_does_not_offer_it_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TEXT)
    here = Here(tmp_path, offers=False)
    assert await here.languages.diagnose("a.py") is None
    assert await here.languages.find("definition", SPOT) is None
    assert await here.languages.outline("a.py") is None
    assert await here.languages.lookup("x") is None
    assert await here.languages.rename(SPOT, "y") is None
    assert here.client.sent == []


async def test_news_is_wanted_of_the_version_that_the_document_has(here: Here) -> None:
    item = {"range": place("", 1)["range"], "message": "no"}
    here.client.answers["dsh/diagnostics"] = {"items": [item], "fresh": True}
    found = await here.languages.diagnose("a.py", after_edit=True)
    assert found == Diagnosis(problems=(Problem(line=2, severity="error", message="no"),), fresh=True)
    here.documents.open(here.uri("a.py"), 7, TEXT)
    await here.languages.diagnose("a.py", after_edit=True)
    await here.languages.diagnose("a.py")
    assert [params for _, params in here.client.sent] == [
        {"uri": here.uri("a.py")},
        {"uri": here.uri("a.py"), "after": 7},
        {"uri": here.uri("a.py")},
    ]


async def test_symbols_are_named_by_their_files(here: Here) -> None:
    here.client.answers["workspaceSymbols"] = [{"name": "f", "kind": 12, "location": place(here.uri("b.py"), 2)}]
    assert await here.languages.lookup("f") == [Symbol(name="f", kind="function", path="b.py", line=3)]


def rename(here: Here, *edits: tuple[int, int, int, str], version: int | None = None, name: str = "a.py") -> Any:
    return {
        "documentChanges": [
            {
                "textDocument": {"uri": here.uri(name), "version": version},
                "edits": [
                    {
                        "range": {
                            "start": {"line": line, "character": start},
                            "end": {"line": line, "character": end},
                        },
                        "newText": text,
                    }
                    for line, start, end, text in edits
                ],
            }
        ]
    }


async def test_a_rename_is_only_edits_on_the_text_as_it_is(here: Here) -> None:
    here.client.answers["rename"] = rename(here, (1, 8, 12, "n"), (0, 10, 14, "n"))
    (edit,) = await here.languages.rename(SPOT, "n") or []
    assert str(edit.new) == 'x = "😀"; n = 1\nother = n\n'
    assert (here.root / "a.py").read_text() == TEXT


async def test_a_rename_of_an_older_text_or_outside_is_refused(here: Here) -> None:
    here.documents.open(here.uri("a.py"), 7, TEXT)
    here.client.answers["rename"] = rename(here, (0, 10, 14, "n"), version=6)
    with pytest.raises(ToolError, match="has changed"):
        await here.languages.rename(SPOT, "n")
    here.client.answers["rename"] = rename(here, (0, 0, 1, "n"), name="../out.py")
    for approved in ((), {f"outside:edit:{here.root.parent}/lib.py"}):
        with pytest.raises(ToolError, match="outside the workspace"):
            await here.languages.rename(SPOT, "n", frozenset(approved))
    here.client.answers["rename"] = rename(here, (0, 0, 4, "n"), (0, 2, 3, "n"))
    with pytest.raises(ToolError, match="overlap"):
        await here.languages.rename(SPOT, "n")
