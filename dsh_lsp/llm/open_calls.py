"""Calls: the tool calls of one answer, put together from the pieces in which servers send them.

Owns: the one rule that says to which call a piece belongs, and what the finished arguments are.
Rules: a call is closed with a JSON object as its arguments, or with the model's text as it came, which the tool
pipeline answers with an error. Ids are unique within the answer. Nothing is repaired that could run half a command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from dsh_lsp.llm.surrogates import SurrogateJoiner, mend_surrogates
from dsh_lsp.messages import BlockEnd, BlockStart, Chunk, ToolCallBlock, ToolCallDelta
from dsh_lsp.wire import JsonObject, dumps

# Names as models write them after training on other harnesses: `functions.bash:0`, `bash:`.
_PREFIX = re.compile(r"(?:functions?|tools?)\.")


@dataclass(slots=True)
class _Call:
    """One call while it grows; `id` is empty until the call has been shown."""

    slot: int | None
    wire_id: str
    index: int = -1
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    size: int = 0
    joiner: SurrogateJoiner = field(default_factory=SurrogateJoiner)

    @property
    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def complete(self) -> bool:
        text = self.text
        return text.rstrip().endswith("}") and isinstance(_read(text), dict)


class OpenCalls:
    """The calls of one answer, in the order in which the model opened them."""

    def __init__(self, *, known: frozenset[str], new_id: Callable[[], str], new_index: Callable[[], int]) -> None:
        self._known = known
        self._new_id = new_id
        self._new_index = new_index
        self._calls: list[_Call] = []
        self._ids: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def complete(self) -> bool:
        """Whether every call has a name and reads as a call."""
        return all(call.name and is_object(split_arguments(call.text)[0]) for call in self._calls)

    def push(self, entry: JsonObject) -> Iterator[Chunk]:
        """Take one entry of `tool_calls` and give its preview."""
        function = entry.get("function")
        function = function if isinstance(function, dict) else entry
        slot, wire_id = _slot_of(entry.get("index")), mend_surrogates(_text(entry.get("id")))
        name, piece = mend_surrogates(_text(function.get("name"))), argument_text(function.get("arguments"))
        call = self._find(slot, wire_id, name)
        if call is None or _begins_another(call, wire_id, name, piece):
            call = _Call(slot=slot, wire_id=wire_id)
            self._calls.append(call)
        call.wire_id = call.wire_id or wire_id
        call.name = _merge_name(call.name, name, self._known)
        yield from self._preview(call, _extend(call, call.joiner.push(piece)))

    def close(self) -> Iterator[Chunk]:
        """End every call, with authoritative blocks; pasted calls are cut apart."""
        for call in self._calls:
            _extend(call, call.joiner.flush())
            yield from self._show(call)
            first, *others = split_arguments(call.text)
            name = resolve_name(call.name, self._known)
            yield BlockEnd(index=call.index, block=ToolCallBlock(id=call.id, name=name, arguments=first))
            for arguments in others:
                index, block_id = self._new_index(), self._claim_id("")
                yield BlockStart(index=index, block_type="tool-call")
                yield BlockEnd(index=index, block=ToolCallBlock(id=block_id, name=name, arguments=arguments))

    def _find(self, slot: int | None, wire_id: str, name: str) -> _Call | None:
        """Find the call a piece belongs to: by index, else by id, else the last one."""
        same_slot = [call for call in self._calls if slot is None or call.slot == slot]
        same_id = [call for call in same_slot if wire_id and call.wire_id == wire_id]
        if same_id:
            return same_id[-1]
        last = same_slot[-1] if same_slot else None
        if slot is None and wire_id and last is not None:
            late = not last.wire_id and not name  # the id of a call that began without one
            return last if late else None
        return last

    def _preview(self, call: _Call, piece: str) -> Iterator[Chunk]:
        if call.id:
            if piece:
                yield ToolCallDelta(index=call.index, id=call.id, arguments_delta=piece)
        elif call.name in self._known or (call.name and call.size):
            # until then the name may still grow, and a late id may still be the real one
            yield from self._show(call)

    def _show(self, call: _Call) -> Iterator[Chunk]:
        if call.id:
            return
        call.index, call.id = self._new_index(), self._claim_id(call.wire_id)
        yield BlockStart(index=call.index, block_type="tool-call")
        name = resolve_name(call.name, self._known)
        yield ToolCallDelta(index=call.index, id=call.id, name=name, arguments_delta=call.text)

    def _claim_id(self, wanted: str) -> str:
        while not wanted or wanted in self._ids:
            wanted = self._new_id()
        self._ids.add(wanted)
        return wanted


def split_arguments(text: str) -> tuple[str, ...]:
    """Give the arguments of the one or more calls that `text` holds: objects, or `text` itself.

    A string that holds JSON is unpacked once (https://github.com/langchain-ai/langchain/issues/35997); objects
    pasted together are several calls (https://github.com/NousResearch/hermes-agent/issues/63015), of which `{}`
    before a real one is a placeholder (https://github.com/open-webui/open-webui/issues/23778).
    """
    if not text.strip():
        return ("{}",)
    value = _read(text)
    if isinstance(value, str):
        value = _read(value)
        return (dumps(_mend(value)),) if isinstance(value, dict) else (text,)
    if isinstance(value, dict):
        return (text,) if is_object(text) else (dumps(_mend(value)),)
    objects = _pasted(text)
    return tuple(dumps(_mend(item)) for item in objects) if objects else (text,)


def resolve_name(name: str, known: frozenset[str]) -> str:
    """Find the tool that a decorated or differently cased name means; else the name as it is."""
    if name in known:
        return name
    bare = _bare(name)
    if bare in known:
        return bare
    alike = [tool for tool in known if tool.casefold() == bare.casefold()]
    return alike[0] if len(alike) == 1 else name


def _bare(name: str) -> str:
    """A name without its decoration, in a time that grows with its length alone."""
    bare = name.strip()
    prefix = _PREFIX.match(bare)
    bare = bare[prefix.end() :] if prefix is not None else bare
    head, colon, number = bare.rpartition(":")
    return head.rstrip() if colon and (not number or number.isdecimal()) else bare


def _begins_another(call: _Call, wire_id: str, name: str, piece: str) -> bool:
    if wire_id and call.wire_id:
        return wire_id != call.wire_id
    if not name or not call.complete:
        return False
    # the same name with all the arguments once more is a server that repeats itself, and not a second call to run
    again = call.text.strip() == "{}" or piece.startswith(call.text.rstrip())
    return name != call.name or (bool(piece.strip()) and not again)


def _extend(call: _Call, piece: str) -> str:
    """Add to the arguments and give what is new of them."""
    grown = call.size >= 2 and len(piece) >= call.size and piece.startswith(call.text)
    placeholder = 2 <= call.size < 8 and call.text.strip() == "{}" and piece.lstrip().startswith("{")
    new = piece[call.size :] if grown else piece
    if grown or placeholder:  # this server repeats all arguments in each delta, or corrects its `{}`
        call.pieces, call.size = [], 0
        call.pieces.append(piece)
    elif piece:
        call.pieces.append(piece)
    call.size += len(piece) if piece else 0
    return new


def _merge_name(have: str, new: str, known: frozenset[str]) -> str:
    """Join a name sent in pieces; keep one sent again and again."""
    if not have or not new or have.endswith(new):
        return have or new
    joined = have + new
    return joined if any(tool.startswith(joined) for tool in known) else have


def _slot_of(index: Any) -> int | None:
    """The number of a call: some servers write it as a text or with a decimal point."""
    match index:
        case bool():
            return None
        case int():
            return index
        case float() if index.is_integer():
            return int(index)
        case str() if index.isascii() and index.isdigit():
            return int(index)
        case _:
            return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def argument_text(value: Any) -> str:
    """Arguments as text; those that hold what is no JSON become text that is none."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return dumps(value)
    except ValueError:
        return json.dumps(value, ensure_ascii=False)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    """Read a number; one beyond all floats would be written as no JSON."""
    value = float(number)
    return value if isfinite(value) else _refuse(number)


# control characters inside strings are what models write; everything else stays strict
as_models_write = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)


def _read(text: str) -> Any:
    try:
        return as_models_write.decode(text)
    except (ValueError, RecursionError):
        return None


def is_object(text: str) -> bool:
    """Whether `text` is, byte for byte, strict JSON of an object and encodes as UTF-8 once decoded."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        dumps(value).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _mend(value: Any) -> Any:
    """Replace lone surrogates anywhere in decoded JSON."""
    return as_models_write.decode(mend_surrogates(dumps(value)))


def _pasted(text: str) -> list[JsonObject]:
    """Read objects written one after another; nothing at all if a single piece is something else."""
    objects: list[JsonObject] = []
    rest = text.strip()
    while rest:
        try:
            value, end = as_models_write.raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        objects.append(value)
        rest = rest[end:].lstrip()
    return [item for item in objects if item] or objects[:1]
