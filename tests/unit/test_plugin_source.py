"""Plugin source: entry points, names and paths; a version is whole, and what fails leaves no trace."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from dsh_lsp.errors import ConfigError
from dsh_lsp.plugin_source import Source, bring_in, lies_in, locate, places_of
from tests.unit.plugins.hosted import write

PLUGIN = "name = 'p'\nversion = {}\ndef apply(ctx, settings): ...\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder that imports look into; what they brought in is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def bring(use: str, *, again: bool = False):
    return bring_in(locate(use), again=again)


def test_a_file_is_found_by_its_path_and_by_one_from_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(folder / "my-plugin.py", PLUGIN.format(1))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    assert bring(str(file)).plugin.version == 1
    assert bring("~/my-plugin.py").plugin.version == 1


def test_a_module_is_found_by_its_name_and_an_object_in_it_too(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").touch()
    source = PLUGIN.format(1) + "class inner:\n    name = 'object'\n    def apply(ctx, settings): ...\n"
    write(folder / "pack" / "mod.py", source)
    assert bring("pack.mod").plugin is importlib.import_module("pack.mod")
    assert bring("pack.mod:inner").plugin.name == "object"
    assert locate("pack.mod").file == folder / "pack" / "mod.py"


def test_an_entry_point_comes_before_a_module_of_its_name(folder: Path) -> None:
    write(folder / "real_one.py", PLUGIN.format(1) + "plugin = object()\n")
    write(folder / "handy.py", "raise AssertionError")
    info = folder / "handy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: handy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dsh_lsp.plugins]\nhandy = real_one:plugin\n")
    assert locate("handy") == Source(module="real_one", attribute="plugin", file=folder / "real_one.py")


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("nobody_has_this", "no entry point, module or file"),
        ("nobody_has_this.module", "no entry point, module or file"),
        ("json.nobody_has_this", "no entry point, module or file"),
        (":object", "no entry point, module or file"),
        ("relative/plugin.py", "must be absolute"),
        ("plugin.py", "must be absolute"),
        ("/no/such/plugin.py", "there is no file"),
        ("json:nothing", "json has no nothing"),
    ],
)
def test_what_cannot_be_found_is_told(use: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        bring(use)


def test_a_package_that_lacks_something_else_is_not_called_missing_itself(folder: Path) -> None:
    (folder / "needy").mkdir()
    write(folder / "needy" / "__init__.py", "import nobody_has_this")
    with pytest.raises(ModuleNotFoundError, match="nobody_has_this"):
        locate("needy.module")


@pytest.mark.parametrize("use", ["{folder}/one.py", "one"])
def test_a_new_version_is_another_module_and_the_old_one_stays_whole(folder: Path, use: str) -> None:
    use = use.format(folder=folder)
    file = write(folder / "one.py", PLUGIN.format(1) + "def tell(): return version\n")
    old = bring(use).plugin
    write(file, PLUGIN.format(2) + "def tell(): return version\n")
    new = bring(use, again=True).plugin
    assert (old.tell(), new.tell()) == (1, 2)
    assert sys.modules[new.__name__] is new


def test_a_change_within_the_same_second_and_of_the_same_size_is_seen(folder: Path) -> None:
    file = folder / "quick.py"
    for version in (1, 2):
        file.write_text(PLUGIN.format(version))
        os.utime(file, (1_700_000_000, 1_700_000_000))
        assert bring("quick", again=version == 2).plugin.version == version


def test_another_session_gets_the_file_as_it_is_now_and_else_the_same_module(folder: Path) -> None:
    file = write(folder / "shared.py", PLUGIN.format(1))
    first = bring("shared").plugin
    assert bring("shared").plugin is first
    write(file, PLUGIN.format(2))
    assert bring("shared").plugin.version == 2


def test_a_package_is_brought_in_with_its_modules(folder: Path) -> None:
    pack = folder / "whole"
    pack.mkdir()
    write(pack / "__init__.py", "from whole.part import version\nname = 'p'\n")
    write(pack / "part.py", "version = 1")
    assert bring("whole").plugin.version == 1
    write(pack / "part.py", "version = 22")
    assert bring("whole", again=True).plugin.version == 22
    assert importlib.import_module("whole").part.version == 22


@pytest.mark.parametrize("broken", ["version = 2; raise ValueError('no')", "def (", "import nobody_has_this"])
def test_a_version_that_fails_leaves_the_imports_as_they_were(folder: Path, broken: str) -> None:
    pack = folder / "around"
    pack.mkdir()
    write(pack / "__init__.py", "")
    file = write(pack / "leaf.py", PLUGIN.format(1))
    old = bring("around.leaf").plugin
    write(file, broken)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the code raises
        bring("around.leaf", again=True)
    assert sys.modules["around.leaf"] is old
    assert importlib.import_module("around").leaf is old


def test_a_version_may_be_put_back(folder: Path) -> None:
    file = write(folder / "again.py", PLUGIN.format(1))
    old = bring("again").plugin
    write(file, PLUGIN.format(2))
    bring("again", again=True).put_back()
    assert importlib.import_module("again") is old


def test_an_object_that_the_new_version_lacks_puts_the_old_one_back(folder: Path) -> None:
    file = write(folder / "lacks.py", "thing = 1")
    bring("lacks:thing")
    write(file, "other = 1")
    with pytest.raises(ConfigError):
        bring("lacks:thing", again=True)
    assert importlib.import_module("lacks").thing == 1


def test_a_module_without_source_is_imported_as_ever() -> None:
    assert bring("math", again=True).plugin is importlib.import_module("math")


def test_no_code_of_a_folder_that_is_not_trusted_runs(folder: Path) -> None:
    pack = folder / "sly"
    pack.mkdir()
    write(pack / "__init__.py", "raise AssertionError('it ran')")
    write(pack / "mod.py", "raise AssertionError('it ran')")
    for use in ("sly", "sly.mod", str(pack / "mod.py")):
        with pytest.raises(ConfigError, match="not trusted") as caught:
            locate(use, lambda place: lies_in(places_of(folder), places_of(place)))
        assert caught.value.code == "UNTRUSTED"


def test_a_link_lies_where_it_is_and_where_it_leads(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "out.py").symlink_to(outside / "x.py")
    (outside / "in.py").symlink_to(inside / "x.py")
    assert lies_in(places_of(inside), places_of(inside / "out.py"))
    assert lies_in(places_of(inside), places_of(outside / "in.py"))
    assert not lies_in(places_of(inside), places_of(outside / "x.py"))
