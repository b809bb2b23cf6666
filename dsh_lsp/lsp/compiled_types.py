"""Compiled types: the methods that attrs writes for lsprotocol's classes, compiled once and not at each start.

Python keeps the code of a module in `__pycache__`, but attrs writes texts while the module runs and compiles those
again each time, which is half of what importing `lsprotocol.types` takes. Here their code is kept in the same place.

Rules: a text is found whole or not at all, so what other releases of attrs or lsprotocol write is compiled; a file
that cannot be read or written costs time alone; nothing is written where Python shall write no code of its own.
"""

from __future__ import annotations

import importlib
import marshal
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from types import CodeType


def import_types() -> None:
    """Import `lsprotocol.types`, with the code of its methods where that was kept."""
    spec = find_spec("lsprotocol.types")
    place = spec.cached if spec is not None else None
    if place is None:  # in an archive, say
        return
    with compiled_once(Path(place).with_suffix(".attrs")):
        importlib.import_module("lsprotocol.types")


@contextmanager
def compiled_once(path: Path) -> Iterator[None]:
    """Compile nothing that attrs writes meanwhile and whose code is in this file; and keep the rest there."""
    kept, used = _read(path), dict[str, CodeType]()
    names: dict[str, object] = {}
    with suppress(ImportError):  # attrs keeps it to itself: where another release has none, nothing is gained
        names = vars(importlib.import_module("attr._make"))

    def compile_once(text: str, name: str, mode: str) -> CodeType:
        key = f"{mode} {name}\n{text}"
        code = kept.get(key)
        if code is None:
            code = compile(text, name, mode)
        used[key] = code
        return code

    names["compile"] = compile_once
    try:
        yield
    finally:
        del names["compile"]
    if used.keys() - kept.keys() and not sys.dont_write_bytecode:
        _write(path, used)


def _read(path: Path) -> dict[str, CodeType]:
    """What a file keeps; nothing if it is of another Python, or damaged."""
    with suppress(OSError, EOFError, ValueError, TypeError):
        data = path.read_bytes()
        if data.startswith(MAGIC_NUMBER):
            kept = marshal.loads(data[len(MAGIC_NUMBER) :])  # noqa: S302 - as trusted as the code beside it
            if isinstance(kept, dict):
                return kept
    return {}


def _write(path: Path, kept: dict[str, CodeType]) -> None:
    """Replace a file as a whole, since other servers read it meanwhile."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        new.write_bytes(MAGIC_NUMBER + marshal.dumps(kept))
        new.replace(path)
