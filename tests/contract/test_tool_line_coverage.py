"""Coverage: every line of `docs/tools.md` has a test and every test a line; its examples and tables hold."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from dsh_lsp.abort import AbortSignal
from dsh_lsp.decisions import EffectKind
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugins import limits, repeat, spill
from dsh_lsp.plugins.approval import TABLE
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Card, Execution, Tool
from dsh_lsp.workspace.port import Workspace
from tests.support.fake_workspace import FakeWorkspace
from tests.support.headless import headless
from tests.support.headless_tools import answers, codes, with_plugins

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tools.md").read_text()
BLOCKS = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
FILES = sorted((ROOT / "tests" / "contract").glob("test_tool_lines_*.py"))
EXPECTED = {*range(75, 116), 159}


def in_the_page() -> list[int]:
    return [int(number) for number in re.findall(r"^- \*\*L(\d{3})\*\* ", PAGE, re.MULTILINE)]


def in_tests() -> set[int]:
    return {
        int(number)
        for file in FILES
        for number in re.findall(r"^(?:async )?def test_l(\d{3})_", file.read_text(), re.MULTILINE)
    }


def test_the_lines_are_numbered_once_and_complete() -> None:
    assert [number for number, times in Counter(in_the_page()).items() if times > 1] == []
    assert set(in_the_page()) == EXPECTED


def test_no_line_is_without_a_test_and_no_test_without_a_line() -> None:
    assert in_tests() == set(in_the_page())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_test_of_a_line_says_which_and_none_is_skipped(file: Path) -> None:
    source = file.read_text()
    nameless = [name for name in re.findall(r"def (test_\w+)", source) if not re.match(r"test_l\d{3}_", name)]
    assert not nameless
    assert not re.search(r"\bskip|xfail", source)


# -- the examples and tables -----------------------------------------------------------------------------------


def block(name: str) -> ModuleType:
    module = ModuleType(name.removesuffix(".py"))
    exec(compile(BLOCKS[name], name, "exec", dont_inherit=True), vars(module))
    return module


def test_every_block_is_short_and_run_by_a_test_below() -> None:
    assert PAGE.count("```python") == len(BLOCKS)
    tested = Path(__file__).read_text()
    for name, source in BLOCKS.items():
        assert f'block("{name}")' in tested
        assert len(source.splitlines()) <= 40


async def test_the_class_on_the_page_is_a_tool() -> None:
    module = block("count_lines.py")
    assert module.CountLines.__init__.__annotations__["workspace"] is Workspace
    made = module.CountLines(FakeWorkspace({"a.py": "1\n2\n3", "empty": ""}))
    script = [call("count_lines", path="a.py"), call("count_lines", path="empty"), say("ok")]
    async with headless(script, tools=[made]) as h:
        await h.ask("go")
        assert answers(h) == ["3 lines", "Error: empty is empty"]
        assert codes(h) == [None, "EMPTY"]
        assert h.of("tool/result")[0].data.meta == {"lines": 3}
    args = module.CountLinesArgs(path="a.py")
    assert made.present_call(args) == Card(kind="read", title="Count the lines of a.py", path="a.py")


async def test_the_function_on_the_page_is_a_tool() -> None:
    module = block("reverse.py")
    assert isinstance(module.reverse, Tool)
    async with with_plugins([call("reverse", text="abc"), say("ok")], module) as w:
        await w.h.ask("go")
        assert answers(w.h) == ["cba"]


def test_a_function_without_its_arguments_annotated_is_refused() -> None:
    from dsh_lsp.errors import UsageError
    from dsh_lsp.tools.tool import tool

    async def body(args, execution):
        return ""

    with pytest.raises(UsageError, match="annotate"):
        tool("bare", "Nothing.")(body)


def table(first_column: str) -> dict[str, list[str]]:
    """A table of the page by the head of its first column: its other cells, by the words in code of the first one."""
    rows = re.search(rf"^\| {re.escape(first_column)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert rows is not None
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows.group(1).splitlines()]
    return {name: rest for first, *rest in cells for name in re.findall(r"`([^`]+)`", first)}


def test_the_table_of_modes_is_that_of_the_plugin() -> None:
    head = re.search(r"^\| mode \| (.*) \|$", PAGE, re.MULTILINE)
    assert head is not None
    kinds = head.group(1).split(" | ")
    assert sorted(kinds) == sorted(EffectKind.__args__)  # type: ignore[attr-defined]
    rows = {mode: [cell.strip(" |") for cell in cells] for mode, cells in table("mode").items()}
    assert rows == {mode: [rules[kind] for kind in kinds] for mode, rules in TABLE.items()}


def test_the_numbers_of_the_policies_are_their_defaults() -> None:
    rows = {name: cells[0] for name, cells in table("plugin").items()}
    assert repeat.Settings().remind_at == (3, 5)
    assert "after 3 and 5" in rows["repeat"]
    assert f"at {repeat.Settings().stop_at}" in rows["repeat"]
    assert f"({limits.Settings().steps})" in rows["limits"]
    assert limits.Settings().seconds is None
    assert f"{spill.Settings().max_chars:,}".replace(",", " ") in rows["spill"]


CODE = re.compile(r'code="([A-Z_]+)"')


def test_the_table_of_codes_has_those_that_the_tool_layer_gives() -> None:
    files = [*(ROOT / "dsh_lsp" / "tools").glob("*.py"), ROOT / "dsh_lsp" / "plugins" / "timeout.py"]
    files.append(ROOT / "dsh_lsp" / "abort.py")  # a stray cancel
    given = {code for file in files for code in CODE.findall(file.read_text())}
    not_results = {"INVALID_TOOL", "DUPLICATE_TOOL", "NOT_FOUND"}  # of whoever registers; of `read_output`
    listed = set(table("code"))
    assert given - not_results == listed


def test_what_the_page_says_of_a_body_is_what_it_has() -> None:
    signal = AbortSignal()
    execution = Execution(call_id="c", name="n", arguments={}, turn=1, step=1, signal=signal)
    for name in ("signal", "progress", "defer_context", "conclude_turn", "approved"):
        assert hasattr(execution, name)
        assert f"`{name}" in PAGE or f"`execution.{name}" in PAGE
    for name in ("mode_of", "effects", "execute", "finalize", "present_call", "present_result", "timeout_s"):
        assert hasattr(Tool, name)
        assert f"`{name}" in PAGE
    assert hasattr(ToolRegistry, "guard")
