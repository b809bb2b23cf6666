"""Policies: how much of a result a model reads at once: the plugin `spill`; and all policies together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.events import ToolFailure
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugins import approval, limits, repeat, spill, timeout
from dsh_lsp.plugins.spill import shortened
from dsh_lsp.plugins.tools.read_output import ReadOutput
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.pipeline import Accept, Block
from dsh_lsp.tools.spills import Spills
from dsh_lsp.tools.tool import ToolOutput
from tests.support.headless_tools import Does, answers, calls, codes, errors, with_plugins
from tests.support.loop import notice, texts


def says(answer):
    async def listener(payload, call_next):
        return answer

    return listener


# -- spill -----------------------------------------------------------------------------------------------------

SMALL = spill.Settings(max_chars=1_000)


def kept_in(folder: Path) -> dict[str, int]:
    """The files in a folder and what their modes are."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_a_large_result_is_its_head_its_tail_and_where_the_rest_is(tmp_path: Path) -> None:
    text = "".join(f"line {number}\r\n" for number in range(1_000))
    tool = Does(body=lambda execution: ToolOutput(text=text, meta={"a": 1}, is_error=True))
    async with with_plugins([calls("does", "a"), say("ok")], (spill, SMALL), outputs=tmp_path, tools=[tool]) as w:
        await w.h.ask("go")
        (shown,) = answers(w.h)
        assert len(shown) <= 1_000
        assert shown.startswith("line 0\r\nline 1\r\n")
        assert shown.endswith("line 999\r\n")
        assert f"{len(text)} characters" in shown
        assert "read_output" in shown
        assert "'output-1'" in shown
        assert (errors(w.h), w.h.of("tool/result")[0].data.meta) == ([True], {"a": 1})
        assert await Spills(tmp_path).read("output-1") == text


@pytest.mark.parametrize("size", [999, 1_000, 1_001])
async def test_a_result_within_the_limit_stays_as_it_is(tmp_path: Path, size) -> None:
    tool = Does(body=lambda execution: "x" * size)
    async with with_plugins([calls("does", "a"), say("ok")], (spill, SMALL), outputs=tmp_path, tools=[tool]) as w:
        await w.h.ask("go")
        assert (answers(w.h) == ["x" * size]) is (size <= 1_000)
        assert len(answers(w.h)[0]) <= 1_000


async def test_the_rest_is_read_in_pages_that_are_never_put_aside_themselves(tmp_path: Path) -> None:
    text = "".join(chr(0x100 + number % 5_000) for number in range(5_000))
    pages = [call("read_output", name="output-1", offset=offset, limit=2_000) for offset in range(0, 6_000, 2_000)]
    beyond = call("read_output", name="output-1", offset=5_000)
    wrong = call("read_output", name="../output-1")
    script = [calls("does", "a"), *pages, beyond, wrong, say("ok")]
    tools = [Does(body=lambda execution: text), ReadOutput(Spills(tmp_path))]
    async with with_plugins(script, (spill, SMALL), outputs=tmp_path, tools=tools) as w:
        await w.h.ask("go")
        read = [page.split("\n[")[0] for page in answers(w.h)[1:4]]
        assert "".join(read) == text
        assert "go on with offset 2000" in answers(w.h)[1]
        assert codes(w.h)[-2:] == ["PAST_END", "NOT_FOUND"]


@given(
    st.text(st.characters(), max_size=300).map(lambda text: text * 5),
    st.integers(1, 400),
)
def test_pages_together_are_the_text_whatever_it_holds(text, size) -> None:
    async def check() -> None:
        async with anyio.TemporaryDirectory() as folder:
            spills = Spills(Path(folder))
            name = await spills.keep(text)
            kept = await Spills(Path(folder)).read(name)
            assert kept == text
            assert "".join(kept[start : start + size] for start in range(0, len(kept), size)) == text

    anyio.run(check)


@given(st.integers(1_000, 3_000), st.text(st.characters(), min_size=1, max_size=50), st.integers(1, 100_000))
def test_head_notice_and_tail_fit_the_limit_exactly(limit, pattern, length) -> None:
    text = (pattern * (length // len(pattern) + 1))[: limit + length]
    if len(text) <= limit:
        return
    short = shortened(text, "output-123456", limit)
    assert len(short) == limit
    head, tail = short.split("\n[... ", 1)[0], short.split(" ...]\n", 1)[1]
    assert text.startswith(head) or "\n[... " in pattern
    assert text.endswith(tail) or " ...]\n" in pattern


LONG = [Accept(text="y" * 2_000), Accept(output=ToolOutput(text="y" * 2_000, meta={"b": 2}))]


@pytest.mark.parametrize("answer", LONG, ids=["text", "output"])
async def test_what_a_later_listener_made_of_a_result_is_measured(tmp_path: Path, answer) -> None:
    own = replace(answer, contexts=(notice("why", "m1"),))
    async with with_plugins([calls("does", "a"), say("ok")], (spill, SMALL), outputs=tmp_path, tools=[Does()]) as w:
        w.h.agent.hooks.tools.post_execute.listen(says(own))
        await w.h.ask("go")
        assert len(answers(w.h)[0]) <= 1_000
        assert w.h.of("tool/result")[0].data.meta == ({"b": 2} if answer.output else None)
        assert texts(w.h.model.requests[1].messages)[-1] == "why"


async def test_a_store_that_fails_leaves_the_result_whole(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file where the folder should be")
    tool = Does(body=lambda execution: "x" * 5_000)
    outputs = tmp_path / "outputs"
    async with with_plugins([calls("does", "a"), say("ok")], (spill, SMALL), outputs=outputs, tools=[tool]) as w:
        await w.h.ask("go")
        assert answers(w.h) == ["x" * 5_000]
        assert errors(w.h) == [False]


async def test_a_new_life_of_a_session_overwrites_nothing_that_its_history_names(tmp_path: Path) -> None:
    first = await Spills(tmp_path).keep("first")
    second = await Spills(tmp_path).keep("second")
    assert first != second
    assert [await Spills(tmp_path).read(name) for name in (first, second)] == ["first", "second"]
    assert [oct(mode) for mode in kept_in(tmp_path).values()] == ["0o600", "0o600"]


async def test_a_blocked_result_is_not_kept(tmp_path: Path) -> None:
    tool = Does(body=lambda execution: "secret" * 1_000)
    async with with_plugins([calls("does", "a"), say("ok")], (spill, SMALL), outputs=tmp_path, tools=[tool]) as w:
        w.h.agent.hooks.tools.post_execute.listen(says(Block("blocked")))
        await w.h.ask("go")
        assert answers(w.h) == ["blocked"]
        assert not kept_in(tmp_path)


# -- together --------------------------------------------------------------------------------------------------


async def test_the_policies_together_keep_a_call_that_a_wrapper_answered_with_a_failure(tmp_path: Path) -> None:
    failure = Outcome(text="x" * 3_000, is_error=True, error=ToolFailure(name="E", code="E"))
    plugins = (approval, timeout, repeat, (limits, limits.Settings()), (spill, SMALL))
    async with with_plugins([calls("does", "a"), say("ok")], *plugins, outputs=tmp_path, tools=[Does()]) as w:
        w.h.agent.hooks.tools.execute.listen(says(failure))
        await w.h.ask("go")
        assert codes(w.h) == ["E"]
        assert errors(w.h) == [True]
        assert len(answers(w.h)[0]) <= 1_000
        assert json.dumps(answers(w.h))
