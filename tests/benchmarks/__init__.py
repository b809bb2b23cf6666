"""Benchmarks: work measured against a baseline in the same run, never against a clock alone.

    python -m tests.benchmarks [name ...]        # prints ratios; exit code 1 if one is above its limit

One file a benchmark, `tests/benchmarks/<name>.py`, with

    def run() -> list[Ratio]: ...

Rules: what is compared runs in interleaved rounds, for the speed of a machine drifts unseen; a ratio is the median
of the rounds' ratios; a `limit` is a promise of ours, None is a figure to be seen beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One measured ratio; `value` is how many times the baseline, `detail` the absolute figures for people."""

    name: str
    value: float
    limit: float | None = None
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is within the limit, if it has one."""
        return self.limit is None or self.value <= self.limit


def interleave(rounds: int, work: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Run each piece of work once a round and collect what it returns, in seconds or any other unit.

    The order turns round from round to round, so that nobody always comes first.
    """
    names = list(work)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            samples[name].append(work[name]())
    return samples


def ratio(
    name: str,
    measured: list[float],
    baseline: list[float],
    *,
    limit: float | None = None,
    scale: float = 1e3,
    unit: str = "ms",
) -> Ratio:
    """The median of the rounds' ratios; `scale` and `unit` are for the detail."""
    value = statistics.median(ours / theirs for ours, theirs in zip(measured, baseline, strict=True))

    def words(samples: list[float]) -> str:
        low, middle, high = (scale * number for number in (min(samples), statistics.median(samples), max(samples)))
        return f"{middle:.4g} {unit} ({low:.4g}–{high:.4g})"

    return Ratio(name=name, value=value, limit=limit, detail=f"{words(measured)} to {words(baseline)}")


def seconds(function: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began
