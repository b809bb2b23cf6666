"""Abort: the first cause wins, callbacks run at once, a guard tears and tells why."""

from __future__ import annotations

import anyio
import pytest

from dsh_lsp.abort import Aborted, AbortSignal, Cause

USER, HOOK = Cause(kind="user"), Cause(kind="hook", reason="limit")


def test_the_first_cause_wins_and_listeners_run_inside_abort() -> None:
    signal, heard = AbortSignal(), []
    signal.listen(lambda: heard.append(signal.cause))
    signal.listen(lambda: 1 / 0)
    signal.listen(lambda: heard.append("second"))
    signal.abort(USER)
    signal.abort(HOOK)
    assert heard == [USER, "second"]
    signal.listen(lambda: heard.append("late"))
    assert heard[-1] == "late"


def test_a_disposed_listener_is_not_called() -> None:
    signal, heard = AbortSignal(), []
    signal.listen(lambda: heard.append(1))()
    signal.abort(USER)
    assert heard == []


async def test_a_guard_tears_its_body_and_raises_the_cause() -> None:
    signal = AbortSignal()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.sleep, 0)
        anyio.get_current_task()

        async def fire() -> None:
            signal.abort(HOOK)

        tasks.start_soon(fire)
        with pytest.raises(Aborted, match="limit"), signal.guard():
            await anyio.sleep_forever()


async def test_a_guard_lets_through_what_its_body_raises_and_what_it_returns() -> None:
    signal = AbortSignal()
    with signal.guard():
        pass
    with pytest.raises(ValueError, match="mine"), signal.guard():
        raise ValueError("mine")


async def test_a_guard_of_a_fired_signal_does_not_begin() -> None:
    signal = AbortSignal()
    signal.abort(USER)
    with pytest.raises(Aborted), signal.guard():
        pytest.fail("it began")
