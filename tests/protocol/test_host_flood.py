"""A flood of progress does not starve a command; measured against the same command in the same run."""

from __future__ import annotations

import time

import pytest

from tests.benchmarks import Ratio, flood

TRIES = 3  # other processes take the processor at their own times


def test_a_flood_of_progress_leaves_commands_fast_and_memory_bounded() -> None:
    best: dict[str, Ratio] = {}
    shares = []
    for _ in range(TRIES):
        shares.append(share_of_a_processor())
        for ratio in flood.run(rounds=1):
            best[ratio.name] = min(ratio, best.get(ratio.name, ratio), key=lambda each: each.value)
        if all(ratio.holds for ratio in best.values()):
            return
    if min(shares) < 0.9:  # both sides of a pipe need one each, or the scheduler is what is measured
        pytest.skip("the processors are taken")
    raise AssertionError([f"{ratio.value:.2f}x {ratio.name}: {ratio.detail}" for ratio in best.values()])


def share_of_a_processor() -> float:
    """How much of a processor this process gets when it wants a whole one."""
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < 0.1:
        pass
    return (time.process_time() - used) / (time.perf_counter() - began)
