"""Modules: each says what it is in its first line, stays short, and speaks of this project alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "dsh_lsp").rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts)
MAX_LINES = 400
FOUND_BY_SCANNING = {
    str(path.relative_to(ROOT / "dsh_lsp")) for path in MODULES if "plugins/tools" in path.as_posix()
}
CLIENTS = ROOT / "editor-clients"


def test_a_module_begins_with_a_noun_and_a_sentence() -> None:
    docstrings = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in MODULES}
    assert [path for path, text in docstrings.items() if not re.match(r"[A-Za-z_ ]+: \S", text)] == []


def test_a_module_has_one_job_and_so_few_lines() -> None:
    assert [path for path in (*MODULES, *TESTS) if len(path.read_text().splitlines()) > MAX_LINES] == []


def test_the_picture_names_every_module_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", page))
    real = {str(path.relative_to(ROOT / "dsh_lsp")) for path in MODULES if path.name != "__init__.py"}
    assert named - FOUND_BY_SCANNING == real - FOUND_BY_SCANNING


@pytest.mark.parametrize(
    ("folder", "prefix", "end"),
    [(CLIENTS / "nvim" / "lua" / "dsh", "", ".lua"), (CLIENTS / "vscode" / "src", "src/", ".ts")],
)
def test_the_picture_names_every_module_of_a_client_and_no_other(folder: Path, prefix: str, end: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(rf"`{prefix}(\w+{re.escape(end)})`", page))
    assert named == {path.name for path in folder.glob(f"*{end}")}
