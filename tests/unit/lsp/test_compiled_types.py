"""Compiled types: a second start compiles nothing, and whatever the kept file holds, the classes are the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
import attrs  # which has classes of its own
compiled = []
sys.addaudithook(lambda event, given: event == "compile" and "<attrs" in str(given[1]) and compiled.append(event))
from dsh_lsp.lsp.compiled_types import compiled_once
with compiled_once(Path(sys.argv[1])):
    @attrs.define
    class Place:
        line: int
        character: int = attrs.field(validator=attrs.validators.instance_of(int), default=0)
@attrs.define
class Other:
    text: str
assert (Place(1), Place(1) == Place(1, 0), Place(1) == Place(2)) == (Place(1, 0), True, False)
try:
    Place(1, "2")
except TypeError:
    print(len(compiled), Place(3, 4), Other("o"))
"""
SAID = "Place(line=3, character=4) Other(text='o')"


def start(path: Path, *options: str) -> str:
    command = [sys.executable, *options, "-c", SCRIPT, str(path)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def test_a_second_start_compiles_nothing_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "__pycache__" / "types.attrs"
    assert start(path) == f"2 {SAID}"
    kept = path.read_bytes()
    assert start(path) == f"1 {SAID}", "and outside of the block all is compiled as ever"
    assert path.read_bytes() == kept
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda data: data[:50], lambda data: b"\0" * len(data), lambda _: b"x"]
)
def test_a_file_that_is_damaged_is_made_anew(tmp_path: Path, damage) -> None:
    path = tmp_path / "types.attrs"
    start(path)
    kept = path.read_bytes()
    path.write_bytes(damage(kept))
    assert start(path) == f"2 {SAID}"
    assert path.read_bytes() == kept


def test_where_nothing_can_or_shall_be_written_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert start(tmp_path / "file" / "types.attrs") == f"2 {SAID}"
    assert start(tmp_path / "types.attrs", "-B") == f"2 {SAID}"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_types_of_a_server_are_kept_beside_their_module() -> None:
    code = """
import sys, attrs
compiled = []
sys.addaudithook(lambda event, given: event == "compile" and "<attrs" in str(given[1]) and compiled.append(event))
from dsh_lsp.lsp.compiled_types import import_types
import_types()
from lsprotocol import types
print(len(compiled), types.Position(1, 2) == types.Position(1, 2))
"""
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True)
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "0 True\n"
