"""Docs: links lead somewhere, every page is linked, what pages name exists, and short pages stay short."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

import pytest

from dsh_lsp.__main__ import build_parser
from dsh_lsp.lsp.protocol import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "editor-clients").glob("*/README.md")],
)
LINK = re.compile(r"(?:\]\(|\bsrc(?:set)?=\")(?!https?:|mailto:)([^)\s\"]+)[)\"]")
MAX_LINES = {"CONTRIBUTING.md": 80, "docs/architecture.md": 150}
NO_COMMANDS = {"dsh.sublime", "dsh.client", "dsh.nvim"}  # a file, settings, an archive
NO_POLICIES = {"__init__", "persona", "shortening", "summary", "toolbox", "tracer"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose_of(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose_of(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors_of(target), link


def test_every_file_of_the_docs_is_linked() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in LINK.findall(page.read_text())
    }
    files = {path for path in (ROOT / "docs").rglob("*") if path.is_file()}
    assert {name_of(path) for path in files - linked} == set()


@pytest.mark.parametrize("name", MAX_LINES)
def test_a_short_page_stays_short(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= MAX_LINES[name]


def test_every_promise_of_security_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    promises = page[page.index("## What is promised") : page.index("## Known limits")]
    rows = [row for row in promises.splitlines() if row.startswith("| ") and not row.startswith("| promise")]
    assert rows
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for path, test in named:
            tree = ast.parse((ROOT / path).read_text())
            names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
            assert test in names, f"{path}::{test}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_name_commands_that_exist(page: Path) -> None:
    assert set(re.findall(r"`(dsh(?:\.[a-z]+)+)(?=[` ])", prose_of(page))) - NO_COMMANDS - settings_of(page) <= set(
        COMMANDS
    )
    parser = build_parser()
    [commands] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    assert set(re.findall(r"\bdsh-lsp ([a-z]+)\b(?= [-`\".]|`)", page.read_text())) <= set(commands.choices)


def settings_of(page: Path) -> set[str]:
    """In VS Code a setting has the prefix of our commands."""
    return {"dsh.mode"} if "vscode" in name_of(page) else set()


def test_the_page_of_tools_names_every_policy_and_no_other() -> None:
    page = (ROOT / "docs" / "tools.md").read_text()
    section = page[page.index("## The policies") : page.index("| mode | read")]
    modules = {path.stem for path in (ROOT / "dsh_lsp" / "plugins").glob("*.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == modules - NO_POLICIES
