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
    """A part of the system text; lower `order` comes first, and a `complete` one is the whole text."""

    name: str
    order: int
    text: str
    complete: bool = False


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

    def assemble(self, tools: tuple[ToolSpec, ...], *, order: tuple[str, ...] | None = None) -> Assembly:
        """Collect what is registered now; tools sorted by name, or as `order` says.

        Raises:
            UsageError: `order` names a tool that is not there.
        """
        sections = sorted(self._sections.values(), key=lambda section: (section.order, section.name))
        complete = [section for section in sections if section.complete]
        sections = complete[:1] or sections
        tools = order_tools(tools, order)
        return Assembly(sections=tuple(sections), tools=tools, variables=tuple(sorted(self._variables.items())))


UNLISTED = "<unlisted-tools>"

_VARIABLE = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")


def order_tools(tools: tuple[ToolSpec, ...], order: tuple[str, ...] | None) -> tuple[ToolSpec, ...]:
    """Sort tools by name, or by a list of names in which `<unlisted-tools>` stands for all others.

    Raises:
        UsageError: the list names a tool that is not there.
    """
    by_name = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
    if order is None:
        return tuple(by_name.values())
    order = tuple(dict.fromkeys(order))
    unknown = [name for name in order if name != UNLISTED and name not in by_name]
    if unknown:
        raise UsageError(f"the tool order names {unknown[0]!r}, which is no tool")
    rest = [tool for name, tool in by_name.items() if name not in order]
    listed = [
        rest if name == UNLISTED else [by_name[name]]
        for name in (*order, *(() if UNLISTED in order else (UNLISTED,)))
    ]
    return tuple(tool for group in listed for tool in group)


def render_prompt(assembly: Assembly, **variables_of_the_call: str) -> str | None:
    """Render the system text; None when nothing is left.

    Raises:
        UsageError: a variable that nobody defines.
    """
    variables = {**variables_of_the_call, **dict(assembly.variables)}

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name not in variables:
            raise UsageError(f"the system prompt uses {{{{{name}}}}}, which nobody defines")
        return variables[name]

    texts = (_VARIABLE.sub(value_of, section.text).strip() for section in assembly.sections)
    return "\n\n".join(text for text in texts if text) or None
