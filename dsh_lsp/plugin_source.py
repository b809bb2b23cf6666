"""Plugin source: where a plugin comes from, and how its code is brought in, again if need be.

A plugin is named by an entry point of the group `dsh_lsp.plugins`, by a dotted name (`package.module` or
`package.module:object`), or by the path of a Python file (absolute, or from `~`).

Rules: a version that runs stays whole, since a newer one is another module object; what fails leaves `sys.modules`
as it was; no code from a folder that is not trusted runs, not even a package's `__init__`.
Knows nothing of: what plugins register.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from dsh_lsp.errors import ConfigError

GROUP = "dsh_lsp.plugins"

Stamp = tuple[int, int]
"""A file's time of change in nanoseconds and its size in bytes."""

_STAMP = "__dsh_stamp__"  # on a module that was imported by its name: which file it was made from


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A plugin's module, the object in it ("": the module itself), and its file where that is Python source."""

    module: str
    attribute: str = ""
    file: Path | None = None
    package: bool = False
    named: bool = True  # importable by `module`; else that name stands for `file` alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """A plugin whose code has run; `put_back` makes imports see what they saw before."""

    plugin: Any
    stamp: Stamp | None
    put_back: Callable[[], None]


def locate(use: str, refuses: Callable[[Path], bool] = lambda _: False) -> Source:
    """Find a plugin without running its code; the packages around it do run. Blocks on files.

    Args:
        use: what the user wrote.
        refuses: whether code below a place may not run.

    Raises:
        ConfigError: `NO_PLUGIN` or `UNTRUSTED`.
        Exception: what a package around it raises.
    """
    if is_path(use):
        file = Path(use).expanduser()
        if not file.is_absolute():
            raise ConfigError("a plugin's path must be absolute or begin with ~", code="NO_PLUGIN")
        _check_trust([file], refuses)
        stem = re.sub(r"\W", "_", file.stem)
        return Source(module=f"dsh_plugin_{stem}_{zlib.crc32(os.fsencode(file)):08x}", file=file, named=False)
    module, _, attribute = use.partition(":")
    for entry_point in entry_points(group=GROUP, name=use):
        module, attribute = entry_point.module, entry_point.attr
    importlib.invalidate_caches()
    _check_trust(_places(_find_spec(module.partition(".")[0])), refuses)
    spec = _find_spec(module)
    if spec is None:
        raise ConfigError("no entry point, module or file is called so", code="NO_PLUGIN")
    _check_trust(_places(spec), refuses)
    source = spec.origin if spec.has_location and (spec.origin or "").endswith(".py") else None
    return Source(
        module=module,
        attribute=attribute,
        file=Path(source) if source else None,
        package=spec.submodule_search_locations is not None,
    )


def bring_in(source: Source, *, again: bool) -> Brought:
    """Run a plugin's code, unless an earlier import of the very same file did and `again` is false. Blocks on files.

    Raises:
        ConfigError: `NO_PLUGIN`, there is no such file or object.
        Exception: what the code raises.
    """
    # Looked at before the code is read: what is written meanwhile is a newer version.
    stamp = stamp_of(source.file)
    if not source.named and stamp is None:
        raise ConfigError(f"there is no file {source.file}", code="NO_PLUGIN")
    known = sys.modules.get(source.module)
    outdated = known is not None and vars(known).get(_STAMP, stamp) != stamp
    if source.file is not None and (again or outdated or not source.named):
        module, put_back = _run_afresh(source, source.file)
    else:
        module, put_back = importlib.import_module(source.module), _nothing
    vars(module)[_STAMP] = stamp
    plugin: Any = module
    for part in source.attribute.split(".") if source.attribute else ():
        if not hasattr(plugin, part):
            put_back()
            raise ConfigError(f"{source.module} has no {source.attribute}", code="NO_PLUGIN")
        plugin = getattr(plugin, part)
    return Brought(plugin=plugin, stamp=stamp, put_back=put_back)


def _nothing() -> None:
    """What there is to put back after an import that changed nothing."""


def stamp_of(file: Path | None) -> Stamp | None:
    """What tells a file's version; None where there is none. Blocks on files."""
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def is_path(use: str) -> bool:
    """Whether the user wrote a file's path rather than a name."""
    return "/" in use or "\\" in use or use.endswith(".py")


def places_of(path: Path) -> tuple[Path, ...]:
    """A path as it is named, and where links lead. Blocks."""
    return path.absolute(), Path(os.path.realpath(path))


def lies_in(folders: Iterable[Path], places: Iterable[Path]) -> bool:
    """Whether a file, by any of its places, lies in one of the folders."""
    known = tuple(folders)
    return any(place.is_relative_to(folder) for place in places for folder in known)


def _check_trust(places: list[Path], refuses: Callable[[Path], bool]) -> None:
    for place in places:
        if refuses(place):
            raise ConfigError(f"{place} lies in a workspace that is not trusted", code="UNTRUSTED")


def _places(spec: ModuleSpec | None) -> list[Path]:
    if spec is None:
        return []
    origin = [spec.origin] if spec.has_location and spec.origin else []
    return [Path(place) for place in (*origin, *(spec.submodule_search_locations or ()))]


def _find_spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise
    except ValueError:  # an empty name, or a module without a spec, such as __main__
        return None


class _SourceLoader(SourceFileLoader):
    """Always compiles the source: a cached compilation is told apart by whole seconds and size alone."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _run_afresh(source: Source, file: Path) -> tuple[ModuleType, Callable[[], None]]:
    """Make a new module, without its old submodules, that imports by its name find from now on."""
    name = source.module
    taken = _family(name)

    def put_back() -> None:
        for key in _family(name):
            del sys.modules[key]
        sys.modules.update(taken)
        if name in taken:
            _bind(name, taken[name])

    loader = _SourceLoader(name, str(file))
    folders = [str(file.parent)] if source.package else None
    spec = importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)
    if spec is None:
        raise ConfigError(f"{file} cannot be loaded", code="NO_PLUGIN")
    module = importlib.util.module_from_spec(spec)
    for key in taken:
        del sys.modules[key]
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        put_back()
        raise
    _bind(name, module)
    return module, put_back


def _family(name: str) -> dict[str, ModuleType]:
    return {key: module for key, module in sys.modules.items() if key == name or key.startswith(f"{name}.")}


def _bind(name: str, module: ModuleType) -> None:
    """Let the package around a module know it, as an import does."""
    package, _, leaf = name.rpartition(".")
    if package in sys.modules:
        setattr(sys.modules[package], leaf, module)
