"""Text calls: tool calls that a model wrote into its text, in the forms that models were trained on.

A file that a model quotes may hold such a form too, so nothing here is used unless a setting says so, and such a
call needs the same permission as any other.

Rules: from the first marker on nothing is shown until the text is whole; a block counts only if every part of it
reads as a call of a tool that is there, and only at the top level of the text; what does not count stays text.
Source: https://github.com/vllm-project/vllm/issues/54686, https://github.com/cline/cline/issues/13348.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsh_lsp.llm.open_calls import as_models_write, resolve_name
from dsh_lsp.llm.surrogates import mend_surrogates
from dsh_lsp.messages import ToolSpec
from dsh_lsp.wire import JsonObject, dumps

_BAR = r"[｜|]"
MARKERS = ("<tool_call>", "<tools>", "<function=", "<｜tool▁call", "<｜DSML｜", "<|DSML|")
FENCE = "```"

_REGIONS = re.compile(
    r"<tool_call>.*?(?:</tool_call>|\Z)"
    r"|<tools>.*?(?:</tools>|\Z)"  # small Qwen models take the tag of the list for that of a call
    r"|<function=.*?(?:</function>|\Z)"
    r"|<｜tool▁calls▁begin｜>.*?(?:<｜tool▁calls▁end｜>|\Z)"
    r"|<｜tool▁call▁begin｜>.*?(?:<｜tool▁call▁end｜>|\Z)"
    rf"|<{_BAR}DSML{_BAR}(?:tool|function)_calls>.*?(?:</{_BAR}DSML{_BAR}(?:tool|function)_calls>|\Z)"
    rf"|<{_BAR}DSML{_BAR}invoke .*?(?:</{_BAR}DSML{_BAR}invoke>|\Z)",
    re.DOTALL,
)
_FUNCTION = re.compile(r"<function=([^>\s]+)\s*>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)\s*>\n?(.*?)\n?</parameter>", re.DOTALL)
_INVOKE = re.compile(rf'<{_BAR}DSML{_BAR}invoke name="([^"]+)"\s*>(.*?)(?:</{_BAR}DSML{_BAR}invoke>|\Z)', re.DOTALL)
_DSML_PARAMETER = re.compile(
    rf'<{_BAR}DSML{_BAR}parameter name="([^"]+)"(?: string="(true|false)")?\s*>(.*?)</{_BAR}DSML{_BAR}parameter>',
    re.DOTALL,
)
_NATIVE = re.compile(r"<｜tool▁call▁begin｜>(.*?)<｜tool▁sep｜>(.*?)(?:<｜tool▁call▁end｜>|\Z)", re.DOTALL)
_WHOLE_FENCE = re.compile(r"\s*```[a-z_]*[ \t]*\n(.*?)\n?```\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCall:
    """A call as it was read; `arguments` is JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a text was: words for the reader, and calls; `unread`: something like a call could not be read."""

    text: str
    calls: tuple[TextCall, ...] = ()
    unread: bool = False


class TextCallScanner:
    """Shows a text as it comes, up to the first thing that may be a call."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._shown = ""
        self._held = ""

    def push(self, piece: str) -> str:
        """Take the next piece and give what may be shown."""
        self._held += piece
        at = _first_marker(self._held, at_start=not self._shown.strip())
        shown, self._held = self._held[:at], self._held[at:]
        self._shown += shown
        return shown

    def end(self, *, wanted: bool = True) -> Reading:
        """End the text: what was held back is read if calls are wanted; `text` is the rest to show."""
        held, self._held = self._held, ""
        if not held:
            return Reading(text="")
        if not wanted or self._shown.count(FENCE) % 2:  # inside a fence that was opened before
            return Reading(text=held)
        return read_calls(held, self._tools)


def _first_marker(text: str, *, at_start: bool) -> int:
    """Where the first marker stands, or the first thing that may become one; the end if there is none."""
    if at_start:
        bare = text.lstrip()
        if bare.startswith((FENCE, "{")) or (bare and FENCE.startswith(bare)):
            return 0
    places = [at for marker in MARKERS if (at := text.find(marker)) >= 0]
    for marker in MARKERS:
        for size in range(min(len(marker) - 1, len(text)), 0, -1):
            if text.endswith(marker[:size]):
                places.append(len(text) - size)
                break
    return min(places, default=len(text))


def read_calls(text: str, tools: Mapping[str, ToolSpec]) -> Reading:
    """Read a whole text."""
    bodies = _only_fences(text) or ([text] if text.lstrip().startswith("{") else [])
    if bodies:
        calls = next((calls for body in bodies if (calls := _json_calls(body, tools))), ())
        return Reading(text="", calls=calls) if calls else Reading(text=text)
    found: list[TextCall] = []
    rest: list[str] = []
    end = 0
    for region in _REGIONS.finditer(text):
        rest.append(text[end : region.start()])
        end = region.end()
        if "".join(rest).count(FENCE) % 2:
            return Reading(text=text)
        calls = _region_calls(region[0], tools)
        if not calls:
            return Reading(text=text, unread=any(name in region[0] for name in tools))
        found += calls
    rest.append(text[end:])
    words = "".join(rest)
    return Reading(text=words if words.strip() else "", calls=tuple(found)) if found else Reading(text=text)


def _only_fences(text: str) -> list[str]:
    """What stands in the fence, or the fences, that a text is made of, in the ways in which that may be read."""
    whole = _WHOLE_FENCE.fullmatch(text)
    if whole is None:
        return []
    pieces = [match[1] for match in _WHOLE_FENCE.finditer(text)]
    return [whole[1], "\n".join(pieces)]


def _region_calls(region: str, tools: Mapping[str, ToolSpec]) -> tuple[TextCall, ...]:
    """Read one block; nothing at all if a part of it is no call."""
    readers: tuple[Callable[[str, Mapping[str, ToolSpec]], Iterator[TextCall | None]], ...] = (
        _function_calls,
        _dsml_calls,
        _native_calls,
    )
    for read in readers:
        calls = list(read(region, tools))
        if calls:
            return tuple(call for call in calls if call is not None) if None not in calls else ()
    return _json_calls(re.sub(r"</?(?:tool_call|tools)>", "", region), tools)


def _function_calls(region: str, tools: Mapping[str, ToolSpec]) -> Iterator[TextCall | None]:
    for name, body in _FUNCTION.findall(region):
        given = {key: (value, None) for key, value in _PARAMETER.findall(body)}
        yield _call(name, given, tools)


def _dsml_calls(region: str, tools: Mapping[str, ToolSpec]) -> Iterator[TextCall | None]:
    for name, body in _INVOKE.findall(region):
        given = {key: (value, {"true": True, "false": False}.get(text)) for key, text, value in _parameters(body)}
        yield _call(name, given, tools)


def _parameters(body: str) -> list[tuple[str, str, str]]:
    return _DSML_PARAMETER.findall(body)


def _native_calls(region: str, tools: Mapping[str, ToolSpec]) -> Iterator[TextCall | None]:
    for head, body in _NATIVE.findall(region):
        name, arguments = head.strip(), body.strip()
        if name == "function":  # the older form: a type, then the name, then a fence
            name, _, arguments = arguments.partition("\n")
        fence = _WHOLE_FENCE.fullmatch(arguments)
        yield _known(name, _object(fence[1] if fence is not None else arguments), tools)


def _json_calls(text: str, tools: Mapping[str, ToolSpec]) -> tuple[TextCall, ...]:
    """Read one object after another, each with a name and arguments."""
    calls: list[TextCall] = []
    rest = text.strip()
    while rest:
        try:
            value, end = as_models_write.raw_decode(rest)
        except (ValueError, RecursionError):
            return ()
        call = _json_call(value, tools)
        if call is None:
            return ()
        calls.append(call)
        rest = rest[end:].lstrip(" \t\r\n,")
    return tuple(calls)


def _json_call(value: Any, tools: Mapping[str, ToolSpec]) -> TextCall | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = next((value[key] for key in ("arguments", "parameters") if key in value), None)
    if isinstance(arguments, str):
        arguments = _object(arguments)
    return _known(value["name"], arguments, tools)


def _call(name: str, given: Mapping[str, tuple[str, bool | None]], tools: Mapping[str, ToolSpec]) -> TextCall | None:
    """A call whose parameters are text; one that is not meant as text is read as JSON."""
    known = resolve_name(name, frozenset(tools))
    properties = tools[known].parameters.get("properties", {}) if known in tools else {}

    def value_of(key: str, text: str, is_text: bool | None) -> Any:
        if is_text is None:
            is_text = properties.get(key, {}).get("type", "string") == "string"
        if is_text:
            return text
        try:
            return as_models_write.decode(text)
        except (ValueError, RecursionError):
            return text

    return _known(known, {key: value_of(key, *value) for key, value in given.items()}, tools)


def _known(name: str, arguments: JsonObject | None, tools: Mapping[str, ToolSpec]) -> TextCall | None:
    resolved = resolve_name(name, frozenset(tools))
    if resolved not in tools or not isinstance(arguments, dict):
        return None
    return TextCall(name=resolved, arguments=mend_surrogates(dumps(arguments)))


def _object(text: str) -> JsonObject | None:
    try:
        value = as_models_write.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
