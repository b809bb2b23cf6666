"""Settings: reads what a client configured into a model, and says what is wrong with it in the user's words.

Rules: each settings model stands beside its owner, and this module knows none; a bad value keeps the last good value
of its key alone, or the default; one that could raise rights falls to the strictest; an unknown key changes nothing;
each is told with the key's path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from dsh_lsp.errors import ConfigError
from dsh_lsp.validation import Problem, problems_in
from dsh_lsp.wire import JsonObject, json_copy, loads, to_camel

_STRICTEST: Final = "strictest"


def raises_rights(strictest: Any) -> dict[str, Any]:
    """Mark a field that could raise rights, as its `json_schema_extra`; a wrong value counts as `strictest`."""
    return {_STRICTEST: strictest}


def _absolute(text: str) -> str:
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:  # there is no such user
        raise ValueError(str(error)) from error
    if not path.is_absolute():
        raise ValueError("must be an absolute path; ~ stands for your home")
    return str(path)


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
"""A path that means the same wherever a server starts; `~` is already replaced."""


class SettingsModel(BaseModel):
    """Base of settings: camelCase outside, nothing coerced, nothing unknown."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True
    )


S = TypeVar("S", bound=BaseModel)


class Live(Generic[S]):
    """Settings that may change while they are in use: read `value` when it is needed."""

    def __init__(self, value: S) -> None:
        self.value = value


def rights_of(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """The dotted paths of the keys that could raise rights, each with its strictest value."""
    found: dict[str, Any] = {}
    for field in model.model_fields.values():
        path = f"{prefix}{field.alias}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= rights_of(field.annotation, f"{path}.")
        elif isinstance(field.json_schema_extra, dict) and _STRICTEST in field.json_schema_extra:
            found[path] = field.json_schema_extra[_STRICTEST]
    return found


def settings_under(path: Path | None, chosen: Mapping[str, Any]) -> JsonObject:
    """The settings of a file, if there is one, under what a command line chose.

    Args:
        path: A file that holds what an editor would give.
        chosen: Values by their dotted keys; None chooses nothing.

    Returns:
        Settings that `read_settings` has not looked at yet; a section that is none stays, to be told of there.

    Raises:
        ConfigError: `BAD_SETTING`, there is no such file, or it holds no JSON object.
    """
    data = _settings_in(path) if path is not None else {}
    for key, value in chosen.items():
        if value is not None:
            _choose(data, key.split("."), value)
    return data


def _choose(data: JsonObject, path: Sequence[str], value: Any) -> None:
    """Put a value where it belongs, unless something stands in its way that is no section."""
    *sections, name = path
    node: Any = data
    for section in sections:
        if node.get(section, []) == []:  # as Lua writes an empty one
            node[section] = {}
        node = node[section]
        if not isinstance(node, dict):
            return
    node[name] = value


def _settings_in(path: Path) -> JsonObject:
    try:
        data = loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"the settings in {path} cannot be read: {reason}", code="BAD_SETTING") from error
    if not isinstance(data, dict):
        raise ConfigError(f"the settings in {path} must be an object: {{...}}", code="BAD_SETTING")
    return data


def read_settings(model: type[S], raw: Any) -> tuple[S, list[Problem]]:
    """Read settings; what is wrong is left out, one key at a time, and told.

    The model must have a default for every field.
    """
    data, problems = clean_settings(model, raw)
    return accepted(model, data), problems


def accepted(model: type[S], data: JsonObject) -> S:
    """Read what `clean_settings` returned; a key has one spelling, so that no other passes a check of keys."""
    return model.model_validate(data, by_alias=True, by_name=False)


def clean_settings(model: type[S], raw: Any, *, last: S | None = None) -> tuple[JsonObject, list[Problem]]:
    """What of some settings can be used; `last` are the last good ones."""
    strictest = rights_of(model)
    data = _copy(model, {} if raw is None else raw)
    if not isinstance(data, dict):
        return _nested(strictest), [Problem(path="(all)", message="the settings must be an object")]
    before = last.model_dump(mode="json", by_alias=True) if last is not None else {}
    problems: list[Problem] = []
    while True:
        try:
            accepted(model, data)
        except ValidationError as error:
            problems += problems_in(error, model, data)
            locations = [detail["loc"] for detail in error.errors(include_url=False)]
            removed = [path for location in locations if (path := _remove(data, location)) is not None]
            if not removed:  # no single key is to blame
                return _nested(strictest), problems
            for path in removed:
                _fall_back(data, path, before, strictest)
        else:
            return data, problems


def _fall_back(data: JsonObject, path: tuple[str, ...], before: JsonObject, strictest: dict[str, Any]) -> None:
    """Put what counts in the place of a bad key: its last good value, or the strictest of what could raise rights."""
    known = value_at(before, path)
    if known is not None:
        _put(data, path, known)
    dotted = ".".join(path)
    for other, value in strictest.items():
        if other == dotted or other.startswith(f"{dotted}."):
            _put(data, tuple(other.split(".")), value)


def value_at(data: Any, path: Sequence[str]) -> Any:
    """What stands at a path; None where nothing does."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _put(data: JsonObject, path: Sequence[str], value: Any) -> None:
    for key in path[:-1]:
        data = data.setdefault(key, {})
    data[path[-1]] = value


def _nested(values: dict[str, Any]) -> JsonObject:
    data: JsonObject = {}
    for path, value in values.items():
        _put(data, path.split("."), value)
    return data


def _copy(model: type[BaseModel], value: Any) -> Any:
    """A copy of what a section holds; an empty list stands for an empty section, as Lua writes one."""
    if value == []:
        return {}
    if not isinstance(value, dict):
        return value
    fields = {field.alias: field.annotation for field in model.model_fields.values()}
    return {
        key: _copy(inner, item)
        if isinstance(inner := fields.get(key), type) and issubclass(inner, BaseModel)
        else json_copy(item)
        for key, item in value.items()
    }


def _remove(data: JsonObject, location: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Drop the key that a problem names, or the nearest key above it that is there; its path, or None if none is."""
    holder: JsonObject | None = None
    path: list[Any] = []
    node: Any = data
    for part in location:
        if not isinstance(node, dict) or part not in node:
            break
        holder, node = node, node[part]
        path.append(part)
    if holder is None:
        return None
    del holder[path[-1]]
    return tuple(path)
