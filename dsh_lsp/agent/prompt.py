"""Prompt: the system text, assembled from ordered sections that plugins register.

Rules: byte-stable for a session, since a provider's cache and the log's header depend on it: facts that change go
into messages; a variable `{{name}}` that nobody defines fails the turn instead of reaching the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dsh_lsp.abort import Disposer
from dsh_lsp.errors import UsageError
from dsh_lsp.messages import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the system text; lower `order` comes first."""

    name: str
    order: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What a request says before its messages."""

    sections: tuple[Section, ...]
    tools: tuple[ToolSpec, ...]
    variables: tuple[tuple[str, str], ...] = ()


class SystemPrompt:
    """The registered sections and variables."""

    def __init__(self) -> None:
        self._sections: dict[str, Section] = {}
        self._variables: dict[str, str] = {}

    def register(self, section: Section) -> Disposer:
        """Add a section.

        Raises:
            UsageError: the name is taken.
        """
        if section.name in self._sections:
            raise UsageError(f"a prompt section is called {section.name!r} already")
        self._sections[section.name] = section
        return lambda: self._sections.pop(section.name, None)

    def define(self, name: str, value: str) -> Disposer:
        """Define a variable for all sections."""
        self._variables[name] = value
        return lambda: self._variables.pop(name, None)

    def assemble(self, tools: tuple[ToolSpec, ...]) -> Assembly:
        """Collect what is registered now."""
        sections = sorted(self._sections.values(), key=lambda section: (section.order, section.name))
        return Assembly(sections=tuple(sections), tools=tools, variables=tuple(sorted(self._variables.items())))


_VARIABLE = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")


def render_prompt(assembly: Assembly) -> str | None:
    """Render the system text; None when nothing is left.

    Raises:
        UsageError: a variable that nobody defines.
    """
    variables = dict(assembly.variables)

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name not in variables:
            raise UsageError(f"the system prompt uses {{{{{name}}}}}, which nobody defines")
        return variables[name]

    texts = (_VARIABLE.sub(value_of, section.text).strip() for section in assembly.sections)
    return "\n\n".join(text for text in texts if text) or None
