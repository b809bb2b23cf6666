"""Errors: the docstring draws the tree, and any error can be told on one line."""

from __future__ import annotations

import re

from dsh_lsp import errors
from dsh_lsp.errors import DshError, LlmError, LlmFailure, SessionError, error_chain, failure_of


def test_the_docstring_draws_every_class_of_the_tree() -> None:
    drawn = set(re.findall(r"\b(\w+Error)\b", errors.__doc__))
    real = {cls.__name__ for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, DshError)}
    assert drawn == real


def test_causes_and_members_are_told_once() -> None:
    outer = RuntimeError("outer")
    outer.__cause__ = ValueError("inner")
    assert error_chain(outer) == "outer: inner"
    outer.__cause__ = ValueError("out")
    assert error_chain(outer) == "outer"
    assert error_chain(KeyError()) == "KeyError"
    assert error_chain(ExceptionGroup("g", [ValueError("a"), ValueError("b")])) == "g (2 sub-exceptions) [a; b]"
    circular = ValueError("x")
    circular.__cause__ = circular
    assert "circular" in error_chain(circular)


def test_a_failure_keeps_its_code() -> None:
    failure = LlmFailure(message="m", code="AUTH")
    assert failure_of(LlmError(failure)) is failure
    assert failure_of(SessionError("m", code="LOG_NOT_WRITABLE")).code == "LOG_NOT_WRITABLE"
    assert failure_of(ValueError("m")) == LlmFailure(message="m", code="UNKNOWN")
