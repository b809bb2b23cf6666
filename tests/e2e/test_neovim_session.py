"""The Neovim client's fold of the event stream: the same view as the reference, wherever one looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from dsh_lsp.session.view import SessionView
from dsh_lsp.wire import JsonObject
from tests.contract.test_transcripts import FOLDER, NAMES, values_of
from tests.e2e.neovim import CLIENT_FOLDER, Neovim
from tests.transcripts.views import shown
from tests.unit.session.test_view import values

FOLD = """
local session, views = require('dsh.session'), require('dsh.view')
local values, stops = vim.json.decode((...), { luanil = { object = true } }), select(2, ...)
local view, found = views.new(), {}
for number, value in ipairs(values) do
  session.add(view, value)
  if vim.list_contains(stops, number) then
    table.insert(found, { state = views.state(view), waitingFor = views.waiting_for(view), view = view })
    found[#found] = vim.json.encode(found[#found])
  end
end
return found
"""


@pytest.fixture(scope="module")
def neovim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neovim]:
    folder = tmp_path_factory.mktemp("fold")
    editor = Neovim(["--headless", "--clean", "--cmd", f"set rtp^={CLIENT_FOLDER}"], env={}, folder=folder)
    yield editor
    editor.stop()


def folded(neovim: Neovim, found: list[Any], stops: list[int]) -> list[Any]:
    return [json.loads(view) for view in neovim.lua(FOLD, json.dumps(found), stops)]


def listed(value: Any) -> Any:
    """The same value with empty lists and empty objects alike: Lua has one empty table for both."""
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()} or []
    return [listed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", NAMES)
def test_a_transcript_comes_to_the_views_of_the_reference(neovim: Neovim, name: str) -> None:
    expected = json.loads((Path(FOLDER) / f"{name}.views.json").read_text())
    views = folded(neovim, values_of(name), [view["after"] for view in expected])
    for found, wanted in zip(views, expected, strict=True):
        after = wanted.pop("after")
        assert listed(found) == listed(wanted), f"after {after} values"


@settings(max_examples=60, deadline=None)
@given(found=values)
def test_any_values_in_any_order_come_to_the_view_of_the_reference(neovim: Neovim, found: list[JsonObject]) -> None:
    view = SessionView()
    for value in found:
        view.add_value(value)
    if found:
        assert listed(folded(neovim, found, [len(found)])) == listed([shown(view)])
