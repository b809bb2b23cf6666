"""Concurrency: fewer calls at a time after a refusal, more again after answers, and nobody is forgotten."""

from __future__ import annotations

import anyio

from dsh_lsp.llm.concurrency import OpenCalls
from tests.support.loop import settled


async def test_a_refusal_halves_and_answers_raise_it_slowly() -> None:
    calls = OpenCalls(most=8)
    for _ in range(4):
        await calls.take()
    calls.refused()
    assert calls.limit == 2
    for _ in range(4):
        calls.give_back()
    calls.answered()
    assert calls.limit == 2
    calls.answered()
    calls.answered()
    assert calls.limit == 3
    for _ in range(100):
        calls.answered()
    assert calls.limit == 8
    calls.refused()
    assert calls.limit == 1


async def test_who_waits_is_served_in_order_and_no_more_than_the_limit_at_a_time() -> None:
    calls, order, gates = OpenCalls(most=2), [], [anyio.Event() for _ in range(6)]
    open_now = most = 0

    async def one(number: int) -> None:
        nonlocal open_now, most
        await calls.take()
        order.append(number)
        open_now += 1
        most = max(most, open_now)
        await gates[number].wait()
        open_now -= 1
        calls.give_back()

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(one, number)
            await settled(3)
        assert order == [0, 1]
        for gate in gates:
            gate.set()
            await settled(3)
    assert order == [0, 1, 2, 3, 4, 5]
    assert most == 2


async def test_who_is_cancelled_while_waiting_leaves_no_hole() -> None:
    calls = OpenCalls(most=1)
    await calls.take()
    with anyio.move_on_after(0.01) as scope:
        await calls.take()
    assert scope.cancelled_caught
    calls.give_back()
    with anyio.fail_after(1):
        await calls.take()
