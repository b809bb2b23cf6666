"""Toolbox: finds the tools of `plugins/tools` by scanning the package, and registers them.

A tool's constructor names the services that it needs by type: `def __init__(self, workspace: Workspace)`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any, get_type_hints

import dsh_lsp.plugins.tools as package
from dsh_lsp.plugin import Context
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.tool import Tool

name = "toolbox"
inject = (ToolRegistry,)


def apply(ctx: Context, _settings: Any) -> None:
    """Register an instance of every tool class that the package's modules define."""
    for cls in find_tools():
        parameters = [hint for key, hint in get_type_hints(cls.__init__).items() if key != "return"]
        ctx.register(ToolRegistry, cls(*(ctx.get(kind) for kind in parameters)))


def find_tools() -> list[type[Tool[Any]]]:
    """The tool classes, by module name."""
    found: list[type[Tool[Any]]] = []
    for module_info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{package.__name__}.{module_info.name}")
        found += [
            cls
            for _, cls in inspect.getmembers(module, inspect.isclass)
            if issubclass(cls, Tool) and not inspect.isabstract(cls) and cls.__module__ == module.__name__
        ]
    return found
