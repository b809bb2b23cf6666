"""Validation: what does not fit a model, told with its path and in the words of who wrote the value.

Rules: a path leads through the value as it was written, never through the types of the model; what could have been
one thing or another is told once; no word of Python or pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_OBJECT, _LIST, _INTEGER = "must be an object", "must be a list", "must be an integer"
_WORDS: Final[Mapping[str, str]] = {
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": _INTEGER,
    "int_from_float": _INTEGER,
    "int_parsing": _INTEGER,
    "float_type": "must be a number",
    "missing": "is missing",
}
_UNKNOWN: Final = "extra_forbidden"
_MUST: Final = "must be "


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One key that is not as it should be; `path` is dotted, as the user wrote it."""

    path: str
    message: str
    unknown: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def problems_in(
    error: ValidationError, model: type[BaseModel], value: Any, *, noun: str = "setting", under: str = ""
) -> list[Problem]:
    """Tell what is wrong with a value that does not fit a model.

    Args:
        error: What the model said of it.
        model: The model; its keys are offered in the place of one that it does not know.
        value: The value as it was given.
        noun: What the value's keys are called.
        under: Where the value stands in a larger one, as a dotted path.
    """
    details = error.errors(include_url=False)
    paths = [_path(value, detail) for detail in details]
    told: dict[tuple[Any, ...], list[str]] = {}
    unknown = set()
    for path, detail in zip(paths, details, strict=True):
        if any(other[: len(path)] == path != other for other in paths):
            continue  # the other kinds of a value whose kind is clear
        if detail["type"] == _UNKNOWN:
            unknown.add(path)
            message = f"there is no such {noun}{_hint(model, path)}"
        else:
            message = _words(detail)
        if message not in told.setdefault(path, []):
            told[path].append(message)
    start = (under,) if under else ()
    return [
        Problem(path=".".join(map(str, (*start, *path))), message=_either(messages), unknown=path in unknown)
        for path, messages in told.items()
    ]


def _path(value: Any, detail: ErrorDetails) -> tuple[int | str, ...]:
    """Where a detail stands in the value; the names of types that pydantic puts between are left out."""
    *_, last = location = detail["loc"] or ("",)
    path: list[int | str] = []
    for part in location:
        inside = (isinstance(value, dict) and part in value) or (
            isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
        )
        if inside:
            value = value[part]
        if inside or (part == last and detail["type"] == "missing"):
            path.append(part)
    return tuple(path)


def _words(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "value_error":
        return str(context["error"])
    if detail["type"] == "string_too_short" and context["min_length"] == 1:
        return "must not be empty"
    return _WORDS.get(detail["type"]) or detail["msg"].replace("Input should be ", _MUST, 1)


def _either(messages: list[str]) -> str:
    first, *others = messages
    return " or ".join([first, *(message.removeprefix(_MUST) for message in others)])


def _hint(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    near = get_close_matches(str(path[-1]), _keys_at(model, path[:-1]), n=2)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        field = next((f for f in model.model_fields.values() if f.alias == part), None)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return []
        model = field.annotation
    return [field.alias for field in model.model_fields.values() if field.alias]
