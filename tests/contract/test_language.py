"""Language servers: the tool that asks them, and the problems that an edit brings, over fakes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from dsh_lsp.abort import USER
from dsh_lsp.errors import EditorError
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugins import diagnostics
from dsh_lsp.plugins.diagnostics import new_problems
from dsh_lsp.plugins.tools.edit_file import EditFile
from dsh_lsp.plugins.tools.language import NOT_OFFERED, Language
from dsh_lsp.plugins.tools.write_file import WriteFile
from dsh_lsp.workspace.edits import FileEdit, Snapshot
from dsh_lsp.workspace.language import Diagnosis, LanguageServers, Place, Spot, Symbol
from dsh_lsp.workspace.rope import Rope
from tests.support.fake_languages import FakeLanguageServers, problem
from tests.support.fake_workspace import FakeWorkspace
from tests.support.headless_tools import answers, codes, errors, with_plugins
from tests.support.loop import until

FILES = {"a.py": "x = 1\n", "b.py": "y = x\n"}


async def ask(languages, *arguments, workspace=None):
    """The texts and codes of calls of the tool."""
    workspace = workspace or FakeWorkspace(FILES)
    script = [*(call("language", **each) for each in arguments), say("ok")]
    async with with_plugins(script, tools=[Language(workspace, languages)]) as w:
        await w.h.ask("go")
        return answers(w.h), codes(w.h)


async def test_every_operation_says_what_was_answered() -> None:
    languages = FakeLanguageServers(before=[problem(3, "x is\n  not defined", source="pyright", code="E1")])
    languages.places = [Place(path="a.py", line=1, column=2, text="  x = 1")]
    languages.symbols = [Symbol(name="f", kind="method", path="a.py", line=4, depth=1)]
    languages.text = "x: int"
    texts, _ = await ask(
        languages,
        {"operation": "diagnostics", "path": "a.py"},
        {"operation": "references", "path": "a.py", "symbol": "x", "line": 1},
        {"operation": "symbols", "path": "a.py"},
        {"operation": "symbols", "query": "f"},
        {"operation": "hover", "path": "a.py", "symbol": "x"},
    )
    assert texts == [
        "line 3: error: x is not defined (pyright E1)",
        "a.py:1:2: x = 1",
        "  method f (line 4)",
        "  method f (a.py:4)",
        "x: int",
    ]
    assert languages.asked[1] == ("references", Spot(path="a.py", symbol="x", line=1))


async def test_nothing_found_and_nobody_asked_are_told_apart() -> None:
    offered = FakeLanguageServers(before=[])
    offered.places, offered.symbols, offered.text = [], [], ""
    spot = {"path": "a.py", "symbol": "x"}
    calls = [
        {"operation": "diagnostics", "path": "a.py"},
        {"operation": "definition", **spot},
        {"operation": "symbols", "query": "f"},
        {"operation": "hover", **spot},
        {"operation": "rename", **spot, "new_name": "n"},
    ]
    nobody, _ = await ask(FakeLanguageServers(), *calls)
    found, _ = await ask(offered, *calls)
    assert nobody == ["No diagnostics are available for a.py.", *[NOT_OFFERED] * 4]
    assert found[:4] == [
        "a.py has no problems.",
        "No definition of x is known.",
        "There are no such symbols.",
        "Nothing is known of x.",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        {"operation": "hover", "path": "a.py"},
        {"operation": "definition", "symbol": "x"},
        {"operation": "symbols"},
        {"operation": "diagnostics"},
        {"operation": "rename", "path": "a.py", "symbol": "x"},
    ],
)
async def test_what_an_operation_needs_is_named(arguments) -> None:
    texts, found = await ask(FakeLanguageServers(before=[]), arguments)
    assert found == ["INVALID_ARGS"]
    assert "needs" in texts[0]


async def test_many_answers_are_bounded() -> None:
    languages = FakeLanguageServers()
    languages.places = [Place(path="a.py", line=n, column=1, text="y" * 5_000) for n in range(1, 151)]
    texts, _ = await ask(languages, {"operation": "references", "path": "a.py", "symbol": "x"})
    assert texts[0].endswith("[50 more]")
    assert len(texts[0]) < 40_000


async def test_a_rename_is_one_review_of_all_its_files() -> None:
    workspace, languages = FakeWorkspace(FILES), FakeLanguageServers()
    languages.edits = [
        FileEdit(
            path=name,
            base=Snapshot(uri=f"file:///w/{name}", path=name, rope=Rope.of(text)),
            new=Rope.of(text.replace("x", "n")),
        )
        for name, text in FILES.items()
    ]
    texts, _ = await ask(
        languages, {"operation": "rename", "path": "a.py", "symbol": "x", "new_name": "n"}, workspace=workspace
    )
    assert workspace.files == {"a.py": "n = 1\n", "b.py": "y = n\n"}
    assert texts[0].count("is in the document") == 2


async def test_a_rename_is_refused_where_edits_are() -> None:
    from dsh_lsp.plugins import approval

    workspace, languages = FakeWorkspace(FILES), FakeLanguageServers()
    script = [call("language", operation="rename", path="a.py", symbol="x", new_name="n"), say("ok")]
    async with with_plugins(script, approval, mode="read-only", tools=[Language(workspace, languages)]) as w:
        await w.h.ask("go")
        assert "read-only" in answers(w.h)[0]
        assert languages.asked == []


# -- after an edit -----------------------------------------------------------------------------------------------

BREAK = call("edit_file", path="a.py", old_text="1", new_text="nope")


async def edited(languages, *script, workspace=None):
    workspace = workspace or FakeWorkspace(FILES)
    provider = type("Provider", (), {"name": "ports", "apply": staticmethod(provide(languages))})()
    tools = [EditFile(workspace), WriteFile(workspace)]
    async with with_plugins([*(script or [BREAK]), say("ok")], provider, diagnostics, tools=tools) as w:
        await w.h.ask("go")
        return answers(w.h), errors(w.h)


def provide(languages):
    return lambda ctx, settings: ctx.provide(LanguageServers, languages)


async def test_the_problems_that_an_edit_brings_come_with_its_result_and_the_old_ones_do_not() -> None:
    old = problem(5, "unused import")
    languages = FakeLanguageServers(
        before=[old], after=[problem(1, "nope is not defined"), problem(6, "unused import")]
    )
    texts, failed = await edited(languages)
    assert texts[0].splitlines()[-2:] == [
        "a.py: new problems after this edit:",
        "line 1: error: nope is not defined",
    ]
    assert failed == [False]
    assert languages.asked == [("a.py", False), ("a.py", True)]


async def test_a_clean_edit_an_unconfirmed_one_and_one_that_nobody_looks_at_are_told_apart() -> None:
    clean, _ = await edited(FakeLanguageServers(before=[], after=[]))
    stale, _ = await edited(FakeLanguageServers(before=[], after=[], fresh=False))
    nobody, _ = await edited(FakeLanguageServers())
    assert clean[0].endswith("a.py: no new problems after this edit.")
    assert "not confirmed" in stale[0]
    assert nobody[0].splitlines() == ["a.py: the edit was accepted and is in the document, line 1."]


async def test_an_edit_that_did_not_land_asks_for_no_news() -> None:
    languages = FakeLanguageServers(before=[], after=[problem(1, "x")])
    texts, _ = await edited(languages, workspace=FakeWorkspace(FILES, accepts=False))
    assert languages.asked == [("a.py", False)]
    assert "problem" not in texts[0]


class SlowToAnswer(FakeLanguageServers):
    """One server has to think about a file."""

    async def diagnose(self, path: str, *arguments: Any, **more: Any) -> Diagnosis | None:
        await anyio.sleep(0.2 if path == "a.py" else 0)
        return await super().diagnose(path, *arguments, **more)


async def test_no_body_waits_for_the_problems_that_were_there_before_it() -> None:
    workspace = FakeWorkspace(FILES, accepts=False)
    script = BREAK + call("edit_file", path="b.py", old_text="x", new_text="1")
    await edited(SlowToAnswer(before=[]), script, workspace=workspace)
    proposed = [what for what in workspace.touched if what.startswith("propose")]
    assert proposed == ["propose a.py", "propose b.py"]


class Failing(FakeLanguageServers):
    """Servers that cannot be asked."""

    async def diagnose(self, path: str, *_arguments: Any, **_more: Any) -> Diagnosis | None:
        raise EditorError("it is gone", code="EDITOR_GONE")


async def test_an_edit_stands_though_nobody_can_be_asked_about_problems() -> None:
    texts, failed = await edited(Failing())
    assert texts == ["a.py: the edit was accepted and is in the document, line 1."]
    assert failed == [False]


async def test_a_new_file_has_all_its_problems_told() -> None:
    languages = FakeLanguageServers(after=[problem(1, "bad")])
    texts, _ = await edited(languages, call("write_file", path="c.py", content="bad\n"))
    assert texts[0].endswith("c.py: problems now:\nline 1: error: bad")


async def test_a_cancel_while_news_is_awaited_keeps_what_the_edit_did() -> None:
    languages = FakeLanguageServers(before=[], after=[])
    workspace = FakeWorkspace(FILES)
    provider = type("Provider", (), {"name": "ports", "apply": staticmethod(provide(languages))})()
    async with with_plugins([BREAK], provider, diagnostics, tools=[EditFile(workspace)]) as w:
        propose = workspace.propose

        async def then_silent(*args, **kwargs):
            languages.silent = True
            return await propose(*args, **kwargs)

        workspace.propose = then_silent  # type: ignore[method-assign]
        w.h.agent.followup(w.h.say("go"))
        await until(lambda: ("a.py", True) in languages.asked)
        w.h.agent.cancel(USER)
        await w.h.idle()
        assert "the edit was accepted and is in the document" in answers(w.h)[0]


def test_problems_are_compared_as_a_bag_wherever_they_stand() -> None:
    a1, a2, b = problem(1, "a"), problem(9, "a"), problem(2, "b")
    assert new_problems([a1], [a2]) == []
    assert new_problems([a1], [a1, a2]) == [a2]
    assert new_problems([b], [a1]) == [a1]


# -- several replacements ----------------------------------------------------------------------------------------


async def test_several_replacements_in_several_files_are_one_review_in_order() -> None:
    workspace = FakeWorkspace(FILES)
    more = [
        {"old_text": "2", "new_text": "3"},
        {"path": "b.py", "old_text": "x", "new_text": "z"},
        {"old_text": "y", "new_text": "w"},
    ]
    script = [call("edit_file", path="a.py", old_text="1", new_text="2", more=more), say("ok")]
    known = [("a.py", "x = 1\n", "x = 3\n"), ("b.py", "y = x\n", "w = z\n")]
    async with with_plugins(script, tools=[EditFile(workspace)]) as w:
        await w.h.ask("go")
        assert workspace.files == {"a.py": "x = 3\n", "b.py": "w = z\n"}
        assert errors(w.h) == [False]
        meta = w.h.of("tool/result")[0].data.meta
        digests = [(path, *(Rope.of(text).digest for text in texts)) for path, *texts in known]
        assert meta == {
            "files": [{"path": path, "before": before, "after": after} for path, before, after in digests]
        }


async def test_if_one_replacement_is_not_found_nothing_is_proposed_and_it_is_named() -> None:
    workspace = FakeWorkspace(FILES)
    more = [{"path": "b.py", "old_text": "nowhere", "new_text": "z"}]
    script = [call("edit_file", path="a.py", old_text="1", new_text="2", more=more), say("ok")]
    async with with_plugins(script, tools=[EditFile(workspace)]) as w:
        await w.h.ask("go")
        assert codes(w.h) == ["NO_MATCH"]
        assert "replacement 2 (b.py)" in answers(w.h)[0]
        assert workspace.files == FILES


async def test_every_occurrence_gives_way_on_wish_with_the_documents_line_ends() -> None:
    workspace = FakeWorkspace({"a.py": "x\r\ny\r\nx\r\ny\r\n"})
    wanted = {"path": "a.py", "old_text": "x\ny\n", "new_text": "z\n"}
    script = [call("edit_file", **wanted), call("edit_file", **wanted, replace_all=True), say("ok")]
    async with with_plugins(script, tools=[EditFile(workspace)]) as w:
        await w.h.ask("go")
        assert codes(w.h) == ["AMBIGUOUS", None]
        assert workspace.files == {"a.py": "z\r\nz\r\n"}
