"""A flood of progress does not starve a command; measured against the same command in the same run.

Run alone: both sides of a pipe need a processor each, or the scheduler is what is measured.
"""

from __future__ import annotations

import pytest

from tests.benchmarks import Ratio, flood

TRIES = 8  # other programs take the processor at their own times


@pytest.mark.timeout(180)
def test_a_flood_of_progress_leaves_commands_fast_and_memory_bounded() -> None:
    best: dict[str, Ratio] = {}
    for _ in range(TRIES):
        for ratio in flood.run(rounds=1):
            best[ratio.name] = min(ratio, best.get(ratio.name, ratio), key=lambda each: each.value)
        if all(ratio.holds for ratio in best.values()):
            return
    raise AssertionError([f"{ratio.value:.2f}x {ratio.name}: {ratio.detail}" for ratio in best.values()])
