"""Validation: a path that the user wrote, and no word of Python's."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dsh_lsp.validation import problems_in
from dsh_lsp.wire import to_camel


class Position(BaseModel):
    model_config = ConfigDict(extra="forbid")
    line: int = Field(ge=0)


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)
    hunks: tuple[str, ...] | Literal["all"] = "all"
    uri: str | None = None
    max_tokens: int | None = None
    edited: dict[str, str] = {}
    at: Position | None = None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"hunks": 3}, ["hunks: must be a list or 'all'"]),
        ({"hunks": ["a", 3]}, ["hunks.1: must be a string"]),
        ({"uris": "x"}, ["uris: there is no such argument; did you mean uri?"]),
        ({"zzz": 1, "uri": 2}, ["uri: must be a string", "zzz: there is no such argument"]),
        ({"edited": {"h1": 2}}, ["edited.h1: must be a string"]),
        ({"edited": []}, ["edited: must be an object"]),
        ({"at": {"line": -1}}, ["at.line: must be greater than or equal to 0"]),
        ({"at": {}}, ["at.line: is missing"]),
        ({"maxTokens": "x"}, ["maxTokens: must be an integer"]),
        ({"max_tokens": 1.5}, ["max_tokens: must be an integer"]),
        ([], ["must be an object"]),
    ],
)
def test_what_is_wrong_is_told_once_and_plainly(value: Any, told: list[str]) -> None:
    with pytest.raises(ValidationError) as refused:
        Arguments.model_validate(value)
    assert [str(problem) for problem in problems_in(refused.value, Arguments, value, noun="argument")] == told


def test_a_value_within_another_is_told_with_the_whole_path() -> None:
    with pytest.raises(ValidationError) as refused:
        Position.model_validate({})
    assert str(*problems_in(refused.value, Position, {}, under="settings")) == "settings.line: is missing"
