"""Order: reviews open as the calls began, whatever each of them takes; and nobody is held up for ever."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.workspace.order import Order
from tests.support.review_bench import run_virtually

WHAT = st.sampled_from(["propose", "fail", "cancel", "never"])


@given(st.lists(st.tuples(st.integers(0, 5), WHAT), min_size=1, max_size=6))
def test_what_proposes_does_so_in_order_and_what_fails_or_is_cancelled_holds_up_nobody(
    calls: list[tuple[int, str]],
) -> None:
    opened: list[int] = []

    async def call(order: Order, number: int, delay: int, what: str) -> None:
        signal = AbortSignal()
        with order.ticket(signal) as ticket:
            await anyio.sleep(delay)
            if what == "fail":
                return
            if what != "propose":
                signal.abort(USER)
            if what == "never":  # a body that does not hear its cancel
                await anyio.sleep_forever()
            await ticket.wait()
            opened.append(number)

    async def story(tasks: TaskGroup) -> None:
        order = Order()
        for number, (delay, what) in enumerate(calls):
            tasks.start_soon(call, order, number, delay, what)
        await anyio.sleep(6)

    run_virtually(story)
    proposed = [number for number, (_, what) in enumerate(calls) if what == "propose"]
    assert [number for number in opened if number in proposed] == proposed
    assert sorted(opened) == [number for number, (_, what) in enumerate(calls) if what in ("propose", "cancel")]
