"""Wire: frozen values ⇄ JSON objects in camelCase.

Owns: the one conversion between Python's snake_case and the camelCase of disk and wire.
Rules: a value that encodes decodes to an equal value; absent optional fields are left out; JSON has no NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

JsonObject = dict[str, Any]


def to_camel(name: str) -> str:
    """Turn `snake_case` into `camelCase`."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


class Wire:
    """Base of frozen dataclasses that are stored or sent; names their fields in camelCase there."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {
        "alias_generator": to_camel,
        "populate_by_name": True,
        "extra": "ignore",  # a newer writer may know more fields
        "ser_json_inf_nan": "null",
    }


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def encode(value: Any, cls: Any = None) -> JsonObject:
    """Encode a `Wire` value as a JSON object; `cls` names the type where it is a union."""
    encoded: JsonObject = _adapter(cast("Hashable", cls or type(value))).dump_python(
        value, mode="json", by_alias=True, exclude_none=True
    )
    return encoded


def decode(cls: type[T], data: Any) -> T:
    """Decode JSON data as `cls`.

    Raises:
        pydantic.ValidationError: the data has another shape.
    """
    value: T = _adapter(cast("Hashable", cls)).validate_python(data)
    return value


_encoder = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), check_circular=False)


def dumps(data: Any) -> str:
    """Write JSON on one line.

    Raises:
        ValueError: a number is not finite.
    """
    return _encoder.encode(data)


def dump_bytes(data: Any) -> bytes:
    """Write JSON on one line, as UTF-8; half of a surrogate pair becomes an escape that reads back equal."""
    text = _encoder.encode(data)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()


def json_copy(value: Any) -> Any:
    """An own copy of a JSON value.

    Raises:
        ValueError: it is not JSON: another type, a cycle, a number that is not finite.
    """
    try:
        return loads(dump_bytes(value))
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large a number")
    return number


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def loads(text: str | bytes) -> Any:
    """Read strict JSON.

    Raises:
        ValueError: not JSON, or a number that JSON does not have.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogatepass")
    return _decoder.decode(text)
