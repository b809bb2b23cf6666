"""Hooks: order, containment and the onion."""

from __future__ import annotations

import pytest

from dsh_lsp.hooks import Emit, HookSet, Serial, Waterfall


class Hooks(HookSet):
    def __init__(self) -> None:
        self.told: Emit[str] = Emit("told")
        self.asked: Serial[str] = Serial("asked")
        self.wrapped: Waterfall[str, str] = Waterfall("wrapped")


async def default(text: str) -> str:
    return f"<{text}>"


def around(name: str):
    async def listener(text, call_next):
        return f"{name}({await call_next(text + name)})"

    return listener


def test_an_emit_reaches_all_in_order_whoever_fails() -> None:
    hooks, heard = Hooks(), []
    hooks.told.listen(lambda text: heard.append(text + "1"))
    hooks.told.listen(lambda _: 1 / 0)
    hooks.told.listen(lambda text: heard.append(text + "2"))
    hooks.told.listen(lambda text: heard.append(text + "0"), prepend=True)
    hooks.told("x")
    assert heard == ["x0", "x1", "x2"]


async def test_a_serial_stops_at_the_first_answer() -> None:
    hooks, heard = Hooks(), []

    def answers(value):
        async def listener(text):
            heard.append(value)
            return value

        return listener

    for value in (None, False, "yes", "no"):
        hooks.asked.listen(answers(value))
    assert await hooks.asked("?") == "yes"
    assert heard == [None, False, "yes"]


async def test_a_waterfall_wraps_from_the_first_registered_inwards() -> None:
    hooks = Hooks()
    hooks.wrapped.listen(around("a"))
    hooks.wrapped.listen(around("b"))
    assert await hooks.wrapped("x", default) == "a(b(<xab>))"


async def test_a_listener_that_does_not_call_next_decides_alone() -> None:
    hooks = Hooks()

    async def alone(text, call_next):
        return "mine"

    hooks.wrapped.listen(alone)
    hooks.wrapped.listen(around("b"))
    assert await hooks.wrapped("x", default) == "mine"


async def test_the_parents_listeners_stand_around_those_of_the_child_and_hear_all_children() -> None:
    parent = Hooks()
    child, sibling = parent.child(), parent.child()
    child.wrapped.listen(around("child"))
    parent.wrapped.listen(around("parent"))
    assert await child.wrapped("x", default) == "parent(child(<xparentchild>))"
    assert await sibling.wrapped("x", default) == "parent(<xparent>)"


def test_a_disposed_listener_hears_no_more_and_may_be_disposed_again() -> None:
    hooks, heard = Hooks(), []
    dispose = hooks.told.listen(heard.append)
    hooks.told("1")
    dispose()
    dispose()
    hooks.told("2")
    assert heard == ["1"]


async def test_an_error_in_a_waterfall_passes_to_the_caller() -> None:
    hooks = Hooks()

    async def breaks(text, call_next):
        raise ValueError("broken")

    hooks.wrapped.listen(breaks)
    with pytest.raises(ValueError, match="broken"):
        await hooks.wrapped("x", default)
