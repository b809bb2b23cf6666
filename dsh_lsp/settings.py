"""Settings: reads what a client configured into a model, and says what is wrong with it in the user's words.

Rules: each settings model stands beside its owner, and this module knows none; a bad value keeps the default of
its key alone; an unknown key changes nothing; both are told with the key's path.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dsh_lsp.wire import JsonObject, to_camel


class SettingsModel(BaseModel):
    """Base of settings: camelCase outside, nothing coerced, nothing unknown."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One key that is not as it should be; `path` is dotted, as the user wrote it."""

    path: str
    message: str
    unknown: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


S = TypeVar("S", bound=BaseModel)


def read_settings(model: type[S], raw: Any) -> tuple[S, list[Problem]]:
    """Read settings; what is wrong is left out, one key at a time, and told.

    The model must have a default for every field.
    """
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        return model(), [Problem(path="(all)", message="the settings must be an object")]
    data = _copy(raw)
    problems: list[Problem] = []
    while True:
        try:
            return model.model_validate(data), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
            problems += [_problem(model, detail) for detail in details]
            removed = [_remove(data, detail["loc"]) for detail in details]
            if not any(removed):  # no single key is to blame
                return model(), problems


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _problem(model: type[BaseModel], detail: Any) -> Problem:
    location = tuple(detail["loc"])
    path = ".".join(str(part) for part in location)
    if detail["type"] != "extra_forbidden":
        message = "must be an object" if detail["type"] == "model_type" else detail["msg"]
        return Problem(path=path, message=message)
    near = get_close_matches(str(location[-1]), _keys_at(model, location[:-1]), n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return Problem(path=path, message=f"there is no such setting{hint}", unknown=True)


def _keys_at(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    for part in location:
        field = next((f for f in model.model_fields.values() if f.alias == part), None)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return []
        model = field.annotation
    return [field.alias for field in model.model_fields.values() if field.alias]


def _remove(data: JsonObject, location: tuple[Any, ...]) -> bool:
    """Drop the key that a problem names, or the nearest key above it that is there; False if none is."""
    holder: JsonObject | None = None
    key: Any = None
    node: Any = data
    for part in location:
        if not isinstance(node, dict) or part not in node:
            break
        holder, key, node = node, part, node[part]
    if holder is None:
        return False
    del holder[key]
    return True
