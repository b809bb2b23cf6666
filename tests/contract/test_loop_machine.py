"""The loop under fire: whatever people, plugins, tools and the model do, in whatever order, its laws hold.

A generated scenario is a script for the model, the verdicts of a pre-step listener, and a list of actions, each
followed by some ticks of the loop. No clock and no thread takes part, so a scenario runs the same way each time and
hypothesis can shrink it. The laws are checked while it runs and when it rests; each is named in `Watch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.loop_scenarios import Scenario, scenarios
from tests.support.loop_stage import run


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Planned failures of tools and plugins need no tracebacks."""
    import logging

    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@settings(
    max_examples=2 * settings.default.max_examples,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(scenarios)
def test_whatever_happens_in_whatever_order_the_laws_of_the_loop_hold(scenario: Scenario) -> None:
    assert asyncio.run(run(scenario)) == []
